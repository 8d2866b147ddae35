"""Turning Ebb on and off for everything that TensorFlow optimises in this process."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable
from typing import Any, Literal

from ..error import Error
from . import _keras, _peak
from ._devices import check_host, check_no_late_fusing, watch_host
from ._library import Library, loaded
from ._traced import traced_training_functions


def _texts(name: str, given: Iterable[str]) -> list[str]:
    """A list that is the same in every run: sets have no order of their own."""
    if isinstance(given, str):
        raise Error(f"{name} is the text '{given}'; it must be a list of texts, as ['{given}']")
    try:
        texts = list(given)
    except TypeError:
        raise Error(f"{name} is {given!r}; it must be a list of texts, as ['name']") from None
    return sorted(texts) if isinstance(given, (set, frozenset)) else texts


def enable(
    optimizer_scopes: Iterable[str] = (),
    *,
    starting_scope: str | None = None,
    starting_op_names: Iterable[str] = (),
    excl_scopes: Iterable[str] = (),
    incl_scopes: Iterable[str] = (),
    excl_types: Iterable[str] = (),
    incl_types: Iterable[str] = (),
    n_tensors: int = -1,
    lb: int = 1,
    ub: int = 10000,
    ctrld_strategy: Literal["chain_rule", "direct_order"] = "chain_rule",
    fuse_swapins: bool = False,
    swap_branches: bool = False,
    branch_threshold: int = 0,
    fuse_distance: int = 10000,
    whole_graph: bool = False,
    alpha: int = 2,
    min_bytes: int | str = 0,
    sync: int = 0,
    recompute_types: Iterable[str] = (),
    accelerator: str = "/device:GPU:*",
    host: str = "/device:CPU:0",
    swap_nodes: Literal["identity", "copy_kernels"] = "identity",
    budget: int | str | None = None,
    batch_size: int | None = None,
    device: str = "h200",
    profile: str | os.PathLike[str] | None = None,
    host_budget: int | str | None = None,
    strict: bool = False,
    **unknown: Any,
) -> None:
    """Lets Ebb rewrite the training steps that TensorFlow optimises from now on.

    Either for a ``budget``, and Ebb chooses what is swapped and what is computed again, or by the
    paper's parameters, and you choose. The parameters up to ``branch_threshold`` are the paper's. Functions that TensorFlow has already
    run keep the graph they have, so call this before the first step. Called again, it replaces the
    parameters.

    With a budget, the first steps of every planned graph are watched, and TensorFlow's memory statistics
    of the accelerator are reset for that (``tf.config.experimental.reset_memory_stats``).

    Args:
        optimizer_scopes: Where the backward phase is; by default, wherever TensorFlow computed
            gradients.
        starting_scope, starting_op_names: Where the search for tensors begins; by default, at the
            inputs.
        excl_scopes, excl_types: What such operations make is not swapped.
        incl_scopes, incl_types: Nothing else is swapped.
        n_tensors: How many tensors to swap; -1: all, 0: none.
        lb, ub: How far from its reader (``direct_order``) or its producer (``chain_rule``) the
            operation stands that triggers the way back.
        ctrld_strategy: How that operation is found.
        fuse_swapins: One copy back for readers that are within ``fuse_distance`` levels.
        swap_branches: Also between forward operations more than ``branch_threshold`` levels apart.
        whole_graph: Along every edge that spans ``alpha`` levels or more.
        min_bytes: Smaller tensors stay, as ``"4MiB"``.
        sync: An operation that makes a swapped tensor waits until the one so many before it is on
            the host; 0: nobody waits.
        recompute_types: What such operations make is computed again instead of swapped.
        accelerator, host: From where to where; ``*`` stands for any number.
        swap_nodes: What a swap is in TensorFlow's graph: ``identity``, or the GPU's own
            ``copy_kernels``.
        budget: What a step may hold in the accelerator's memory, variables included: ``"14GiB"``,
            or ``"60%"`` of what it holds as it is.
        batch_size: Of the batches that will come, where the model leaves it open.
        device: Whose times the plan is made with: one that Ebb knows, or a device file.
        profile: A file with measured times, for some or all operations (``measure`` writes one).
        host_budget: What host memory may hold at a time; as much as it takes by default.
        strict: Raise ebb.Error where no plan fits some model's step, or where its first steps took more than the
            budget and another plan did not help; otherwise a line says so and training goes on.

    Raises:
        ebb.Error: a parameter is wrong or unknown, or TensorFlow could not load the plug-in.
    """
    if budget == "":
        raise Error("the budget is empty; write '14GiB' or '60%', or leave it out")
    for name, value in {"host_budget": host_budget, "profile": profile}.items():
        if isinstance(value, (str, bytes)) and not value:
            raise Error(f"{name} is empty; leave it out where there is none")
    if batch_size == 0:
        raise Error("batch_size is how many samples a batch has, from 1 on, and not 0")
    parameters = {
        "optimizer_scopes": _texts("optimizer_scopes", optimizer_scopes),
        "starting_scope": starting_scope or "",
        "starting_op_names": _texts("starting_op_names", starting_op_names),
        "excl_scopes": _texts("excl_scopes", excl_scopes),
        "incl_scopes": _texts("incl_scopes", incl_scopes),
        "excl_types": _texts("excl_types", excl_types),
        "incl_types": _texts("incl_types", incl_types),
        "n_tensors": n_tensors,
        "lb": lb,
        "ub": ub,
        "ctrld_strategy": ctrld_strategy,
        "fuse_swapins": fuse_swapins,
        "swap_branches": swap_branches,
        "branch_threshold": branch_threshold,
        "fuse_distance": fuse_distance,
        "whole_graph": whole_graph,
        "alpha": alpha,
        "min_bytes": min_bytes,
        "sync": sync,
        "recompute_types": _texts("recompute_types", recompute_types),
        "accelerator": accelerator,
        "host": host,
        "swap_nodes": swap_nodes,
        "budget": "" if budget is None else budget,
        "batch_size": 0 if batch_size is None else batch_size,
        "device": device,
        "profile": "" if profile is None else os.fspath(profile),
        "host_budget": "" if host_budget is None else host_budget,
        "strict": strict,
        **unknown,
    }
    check_host(host)
    check_no_late_fusing(str(accelerator), parameters["budget"])
    library = loaded()
    library.configure(parameters)
    _turned_on(library, stacklevel=3)


def disable() -> None:
    """Leaves alone what TensorFlow optimises from now on; rewritten functions stay as they are."""
    loaded().disable()
    _peak.stop()
    _keras.unhook()


def obey_environment() -> None:
    """Turns Ebb on as ``EBB_*`` says; the plug-in says what is wrong there, and stays off."""
    if not any(name.startswith("EBB_") and name != "EBB_CACHE" for name in os.environ):
        return
    try:
        library: Library = loaded()
    except Exception as problem:
        _say_off(problem)
        return
    configuration = library.report()["configuration"]
    if configuration is None:
        return
    try:
        check_host(configuration["host"], may_be_configured_later=True)
        check_no_late_fusing(configuration["accelerator"], configuration["budget"])
    except Error as problem:
        library.disable()
        _say_off(problem)
        return
    _turned_on(library, stacklevel=4)


def _say_off(problem: Exception) -> None:
    print(f"ebb: {problem}; Ebb stays off", file=sys.stderr)


def _turn_off(problem: Error) -> None:
    if loaded().report()["configuration"] is not None:
        disable()
        _say_off(problem)


def _turned_on(library: Library, stacklevel: int) -> None:
    configuration = library.report()["configuration"]
    watch_host(configuration["host"], _turn_off)
    _keras.hook()
    if configuration["budget"]:
        _peak.watch(library, configuration)
    else:
        _peak.stop()
    if early := traced_training_functions():
        warnings.warn(
            f"Ebb was turned on after TensorFlow traced {early[0]}"
            + (f" and {len(early) - 1} more training functions" if len(early) > 1 else "")
            + ": what has run already keeps the graph it has. Turn Ebb on before the first step.",
            stacklevel=stacklevel,
        )
