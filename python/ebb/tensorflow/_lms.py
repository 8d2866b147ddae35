"""The paper's LMS class, on graphs of tf.compat.v1."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from .. import _core
from ..error import Error
from . import _edit
from ._log import logger

Names = str | Iterable[str] | None
"""One name, several in any collection, or none."""


class LMS:
    """Rewrites a training graph so that tensors wait in host memory until they are needed.

    ::

        with tf.compat.v1.name_scope("adam_optimizer"):
            train_step = tf.compat.v1.train.AdamOptimizer(1e-4).minimize(loss)

        LMS({"adam_optimizer"}).run(graph=tf.compat.v1.get_default_graph())

        with tf.compat.v1.Session() as session:
            ...

    The parameters up to ``branch_threshold`` are the paper's (Table 2), by its names and with its
    defaults; a scope is one or more whole components of a name's path, a type is an operator's
    name. Wrong ones raise ebb.Error when the graph is known, in ``run``.

    Args:
      optimizer_scopes: where the backward phase is; none: components ``gradients`` of names.
      graph: the graph to rewrite, where ``run`` is given none.
      starting_scope, starting_op_names: where to begin; none: at the graph's inputs.
      excl_scopes, excl_types: what these operations make is not swapped.
      incl_scopes, incl_types: when given, nothing else is swapped than what these make.
      n_tensors: how many tensors to swap; -1: all.
      lb, ub: how far from its use (``direct_order``) or from where it is made (``chain_rule``) the
        operation is looked for that makes it come back.
      ctrld_strategy: who makes it come back: found by ``chain_rule`` or ``direct_order``.
      fuse_swapins: one copy for uses that are close to each other.
      swap_branches: also tensors that wait within the forward phase, over more than
      branch_threshold: so many levels.
      fuse_distance: how many levels apart uses are close.
      whole_graph: also all other tensors that wait over at least
      alpha: so many levels.
      min_bytes: smaller tensors stay: a number, or a text as ``"1MiB"``.
      sync: whoever makes the so-many-th tensor after another waits until that one is in host
        memory, so that the executor does not run ahead of the copies; 0: nobody waits. The forward
        phase alone then copies tensors to the host as well.
      recompute_types: what operations of these types make is computed again instead of swapped.
      accelerator: the devices whose memory is short; ``*`` stands for any number.
      host: the device where tensors wait.
      swap_nodes: what copies: ``identity``, or ``copy_kernels`` of TensorFlow for GPUs.
    """

    report: dict[str, Any] | None
    """What the last ``run`` did: how many tensors, bytes and copies, and which uses were refused, for
    what reason. None before."""

    def __init__(
        self,
        optimizer_scopes: Names = None,
        graph: tf.Graph | None = None,
        starting_scope: str | None = None,
        starting_op_names: Names = None,
        excl_scopes: Names = None,
        incl_scopes: Names = None,
        excl_types: Names = None,
        incl_types: Names = None,
        n_tensors: int = -1,
        lb: int = 1,
        ub: int = 10000,
        ctrld_strategy: str = "chain_rule",
        fuse_swapins: bool = False,
        swap_branches: bool = False,
        branch_threshold: int = 0,
        *,
        fuse_distance: int = 10000,
        whole_graph: bool = False,
        alpha: int = 2,
        min_bytes: int | str = 0,
        sync: int = 0,
        recompute_types: Names = None,
        accelerator: str = "/device:GPU:*",
        host: str = "/device:CPU:0",
        swap_nodes: str = "identity",
    ) -> None:
        self.report = None
        self._graph = graph
        for name, value in {"accelerator": accelerator, "host": host, "swap_nodes": swap_nodes}.items():
            if not isinstance(value, str):
                raise Error(f"{name} cannot be {value!r}")
        self._places = {"accelerator": accelerator, "host": host, "swap_nodes": swap_nodes}
        self._options = _core.LmsOptions()
        given = {
            "optimizer_scopes": _scopes("optimizer_scopes", optimizer_scopes),
            "starting_scope": _scope(starting_scope or ""),
            "starting_op_names": _names("starting_op_names", starting_op_names),
            "excl_scopes": _scopes("excl_scopes", excl_scopes),
            "incl_scopes": _scopes("incl_scopes", incl_scopes),
            "excl_types": _names("excl_types", excl_types),
            "incl_types": _names("incl_types", incl_types),
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
            "recompute_types": _names("recompute_types", recompute_types),
        }
        for name, value in given.items():
            try:
                setattr(self._options, name, value)
            except (TypeError, RuntimeError):
                raise Error(f"{name} cannot be {value!r}") from None

    def run(self, graph: tf.Graph | None = None) -> dict[str, Any]:
        """Rewrites the graph in place, before a session runs it, and says so in one line.

        Raises ebb.Error, with the graph as it was, where that is not possible. A graph that was
        rewritten before stays as it is.

        Args:
          graph: the graph; none: the one given to the constructor, or else the default graph.

        Returns:
          The report, which is also kept in ``report``.
        """
        graph = _choose(graph if graph is not None else self._graph)
        before = _graphdef(graph)
        if any("_ebb" in node.attr for node in before.node):
            self.report = {"was_rewritten_before": True, "tensors_swapped": 0, "swap_ins": 0}
            logger.info("LMS: this graph was rewritten before; nothing was changed")
            return self.report
        done = _core.rewrite_graphdef(
            before.SerializeToString(deterministic=True),
            self._options,
            op_def=_op_def,
            **self._places,
        )
        if done.graphdef is not None:
            after = tf.compat.v1.GraphDef.FromString(done.graphdef)
            edit = _edit.find_edit(before, after)
            _edit.check(edit, graph)
            _edit.apply(edit, graph)
        self.report = {"was_rewritten_before": False, **json.loads(done.report)}
        logger.info(_in_one_line(self.report))
        return self.report


def _choose(graph: tf.Graph | None) -> tf.Graph:
    if graph is None:
        graph = tf.compat.v1.get_default_graph()
    if not isinstance(graph, tf.Graph):
        raise Error(f"LMS rewrites a tf.Graph, not {type(graph).__name__}")
    if graph.building_function:
        raise Error(
            "LMS rewrites graphs of tf.compat.v1, and this one belongs to a tf.function; there, "
            "ebb.tensorflow.enable() does it",
            kind="refused",
        )
    if not graph.get_operations():
        hint = "build the model under tf.Graph().as_default() and pass that graph"
        if tf.executing_eagerly():
            hint += "; for Keras and tf.function of TensorFlow 2 call ebb.tensorflow.enable()"
        raise Error(f"the graph has no operations: {hint}", kind="refused")
    if graph.finalized:
        raise Error(
            "the graph is finalized and cannot be changed; call LMS.run before that, or give "
            "LMSSessionRunHook to the monitored session",
            kind="refused",
        )
    return graph


def _graphdef(graph: tf.Graph) -> tf.compat.v1.GraphDef:
    try:
        return graph.as_graph_def(add_shapes=True)
    except ValueError as error:  # more than 2 GB, for which a constant is to blame
        raise Error(
            f"{error}; large values belong into variables or feeds, not into constants",
            kind="bad_input",
        ) from error


def _op_def(name: str) -> bytes | None:
    found = op_def_registry.get(name)
    return None if found is None else found.SerializeToString()


def _in_one_line(report: dict[str, Any]) -> str:
    refused = len(report["refused"])
    left = f"; left alone: {_counted(refused, 'use')} (see LMS.report)" if refused else ""
    again = report["tensors_recomputed"]
    left = (f"; {_counted(again, 'tensor')} computed again" if again else "") + left
    if not report["tensors_swapped"]:
        return f"LMS: nothing to swap in this graph{left}"
    mebibytes = report["bytes_swapped"] / 2**20
    # Where a batch may have any size, so may its tensors.
    size = f"{mebibytes:.3g} MiB" if mebibytes else "of unknown size"
    if mebibytes and report["unknown_sizes"]:
        size += f" without {report['unknown_sizes']} of unknown size"
    return (
        f"LMS: swapping {_counted(report['tensors_swapped'], 'tensor')} ({size}) to host memory, "
        f"with {_counted(report['swap_ins'], 'swap-in')}{left}"
    )


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _names(parameter: str, given: Names) -> list[str]:
    if given is None:
        return []
    if isinstance(given, str):
        return [given]
    if not isinstance(given, Iterable) or isinstance(given, (bytes, tf.Graph)):
        hint = "; the graph is given as graph=" if isinstance(given, tf.Graph) else ""
        raise Error(f"{parameter} is a name or a set of names, not {type(given).__name__}{hint}")
    names = list(given)
    for name in names:
        if not isinstance(name, str):
            raise Error(f"{parameter} is a set of names, and {name!r} is none")
    # Sets have no order, and equal input is to give equal output.
    return sorted(names) if isinstance(given, (set, frozenset)) else names


def _scopes(parameter: str, given: Names) -> list[str]:
    return [_scope(name) for name in _names(parameter, given)]


def _scope(name: str) -> str:
    """Without the slash that ``with tf.name_scope(...) as scope`` gives."""
    return name.removesuffix("/") if isinstance(name, str) else name
