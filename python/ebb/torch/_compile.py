"""A compiled step: a captured one, running in an arena of its own."""

from __future__ import annotations

import dataclasses
import re
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import FakeTensor

import ebb
from ebb import Error

from ._capture import batch_arguments, capture_step
from ._captured import TENSOR, Captured
from ._load import _runtime
from ._state import State
from ._step_function import step_function
from ._text import dtype_of


@dataclasses.dataclass(frozen=True)
class Memory:
    """What a compiled step holds, in bytes: one arena, and one block on the host for what is
    swapped out. Both are allocated once."""

    budget_bytes: int
    """What it may use."""
    peak_bytes: int
    """What it uses: the arena."""
    state_bytes: int
    """Of these, what lives from step to step: parameters, buffers, optimizer state, constants."""
    bound_bytes: int
    """What is alive at once at the worst moment; no placement in memory can be smaller."""
    host_bytes: int
    """What is swapped out at once at most: the block on the host, which does not count in the budget."""


class Step:
    """A training step inside a byte budget. Made by `compile` and `compile_step`."""

    def __init__(
        self,
        captured: Captured,
        eager: Callable[..., Any],
        budget: str | int,
        spread: bool = False,
    ) -> None:
        if captured.device.type != "cpu":
            raise Error(f"steps run on the CPU today, and this one is on {captured.device}")
        self._lock = threading.Lock()
        self._captured = captured
        self._eager = eager
        self._spread = spread  # a batch may be given whole
        self._is_random = " random\n" in captured.text
        self._runtime = _runtime.Step(captured.text, _Progress())
        self._program = self._runtime.program()
        self._memory = Memory(
            budget_bytes=_check_budget(budget, self._runtime.arena_bytes),
            peak_bytes=self._runtime.arena_bytes,
            state_bytes=self._runtime.state_bytes,
            bound_bytes=self._runtime.bound_bytes,
            host_bytes=self._runtime.host_bytes,
        )
        self._inputs = [_view(self._runtime, name) for name in captured.inputs]
        self._outputs = [_view(self._runtime, name) for name in self._runtime.outputs]
        for name, constant in captured.constants.items():
            _view(self._runtime, name).copy_(constant)
        self._state = State(captured, lambda name: _view(self._runtime, name))
        self._finalizer = weakref.finalize(self, State.give_back, self._state)
        self._finalizer.atexit = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """One training step; returns what the step function returns: the loss.

        What is returned has memory of its own. A batch of another structure, shape, type or memory
        layout (the last one of an epoch) is trained eagerly, on the same parameters.
        """
        with self._lock:
            if self._runtime is None:
                raise Error("the step is closed")
            if self._spread:
                args, kwargs = batch_arguments(args, kwargs)
            leaves, tree = pytree.tree_flatten((args, kwargs))
            if any(isinstance(leaf, FakeTensor) for leaf in leaves):
                raise Error("a compiled step cannot be captured again as part of another one")
            if not self._fits(leaves, tree):
                return self._eager(*args, **kwargs)
            self._state.adopt()
            scalars = self._captured.scalar_values()
            tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
            with torch.no_grad():
                for place, tensor in zip(self._inputs, tensors, strict=True):
                    place.copy_(tensor)
                self._state.drop_gradients()
                self._run(scalars)
                results = iter([output.clone() for output in self._outputs])
            values = [
                next(results) if leaf is TENSOR else leaf for leaf in self._captured.output_leaves
            ]
            return pytree.tree_unflatten(values, self._captured.output_tree)

    def _run(self, scalars: dict[str, float]) -> None:
        generator = torch.get_rng_state() if self._is_random else None
        try:
            self._runtime.run(scalars)
        except BaseException:
            if self._runtime.state_is_whole:
                if generator is not None:
                    torch.set_rng_state(generator)  # so that the step can be done again
                raise
            self._state.note_update()
            raise
        self._state.note_update()

    def _fits(self, leaves: list[Any], tree: pytree.TreeSpec) -> bool:
        if tree != self._captured.batch_tree:
            return False
        places = iter(self._inputs)
        for leaf, expected in zip(leaves, self._captured.batch_leaves, strict=True):
            if expected is not TENSOR or not isinstance(leaf, torch.Tensor):
                if type(leaf) is not type(expected) or leaf != expected:
                    return False
                continue
            place = next(places)
            if (
                leaf.dtype != place.dtype
                or leaf.device != place.device
                or leaf.size() != place.size()
                or leaf.stride() != place.stride()  # which decides about kernels, and so about bits
            ):
                return False
        return True

    def memory(self) -> Memory:
        """What the step holds, in bytes."""
        return self._memory

    @property
    def graph(self) -> ebb.Graph:
        """The captured graph."""
        return ebb.parse(self._captured.text)

    @property
    def captured(self) -> Captured:
        """What was captured: text, state, inputs."""
        return self._captured

    def program(self) -> str:
        """The instructions, and where in the arena everything lies, as text."""
        return self._program

    def __repr__(self) -> str:
        state = "closed" if self._runtime is None else f"{self._memory.peak_bytes} bytes"
        return f"<ebb.torch.Step, {state}>"

    def close(self) -> None:
        """Gives everything back: parameters and optimizer state get memory of their own again.

        Going out of scope does the same.
        """
        with self._lock:
            self._finalizer()
            self._inputs, self._outputs, self._runtime = [], [], None

    def __enter__(self) -> Step:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def compile(  # noqa: A001: the name that PyTorch's users expect
    model: torch.nn.Module,
    loss_fn: Callable[..., torch.Tensor] | None,
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
    batch: Any,
    *,
    budget: str | int = "100%",
    clip_grad_norm: float | None = None,
    autocast: torch.dtype | None = None,
    accumulate: int = 1,
) -> Step:
    """Captures a training step (see `capture`) and makes it ready to run.

    From then on the parameters, buffers and optimizer state live in the step's arena; they are the
    same objects as before, so that saving, loading and evaluating work as always. Learning rates
    and other hyperparameters are read from the optimizer at every step: schedulers work as always.

    >>> import torch
    >>> model = torch.nn.Linear(4, 2)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> batch = (torch.randn(8, 4), torch.randint(0, 2, (8,)))
    >>> step = compile(model, torch.nn.functional.cross_entropy, optimizer, batch)
    >>> loss = step(*batch)
    >>> step.memory().peak_bytes <= step.memory().budget_bytes
    True
    """
    function = step_function(
        model,
        loss_fn,
        optimizer,
        clip_grad_norm=clip_grad_norm,
        autocast=autocast,
        accumulate=accumulate,
    )
    args, kwargs = batch_arguments((batch,), {})
    captured = capture_step(function, args, kwargs, modules=model, optimizers=optimizer)
    return Step(captured, function, budget, spread=True)


def compile_step(
    function: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: dict[str, Any] | None = None,
    *,
    budget: str | int = "100%",
    modules: torch.nn.Module | Sequence[torch.nn.Module] | None = None,
    optimizers: torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | None = None,
) -> Step:
    """The same for any function that does a training step (see `capture_step`)."""
    captured = capture_step(function, args, kwargs, modules=modules, optimizers=optimizers)
    return Step(captured, function, budget)


def _view(runtime: Any, name: str) -> torch.Tensor:
    """A tensor of the arena. It has a storage of its own, so that saving it saves nothing else."""
    dtype, size, stride, offset = runtime.layout(name)
    raw = torch.from_dlpack(runtime.memory(name))
    typed = raw.view(dtype_of(dtype)) if raw.numel() else raw.new_empty(0, dtype=dtype_of(dtype))
    return typed.as_strided(size, stride, offset // typed.element_size())


_BUDGET = re.compile(r"(?:(?P<percent>[0-9]+(?:[.][0-9]+)?)\s*%|(?P<bytes>[0-9]+(?:[.][0-9]+)?)\s*(?P<unit>[KMGT]?i?B))")
_UNITS = {"B": 1} | {
    f"{prefix}{infix}B": base ** (power + 1)
    for infix, base in (("", 1000), ("i", 1024))
    for power, prefix in enumerate("KMGT")
}


def _check_budget(budget: str | int, needed: int) -> int:
    """The budget in bytes; raises where the step does not fit."""
    if isinstance(budget, int) and not isinstance(budget, bool):
        limit = budget
    else:
        match = _BUDGET.fullmatch(budget.strip()) if isinstance(budget, str) else None
        if match is None:
            raise Error(f"a budget is written '16GiB' or '60%', and this is {budget!r}")
        if match["percent"]:
            limit = int(needed * float(match["percent"]) / 100)
        else:
            limit = int(float(match["bytes"]) * _UNITS[match["unit"]])
    if limit < needed:
        raise Error(
            f"the step needs {needed} bytes ({needed / 2**20:.1f} MiB) and the budget is {limit}; "
            "this version keeps everything in memory",
            kind="infeasible",
        )
    return limit


class _Progress:
    """Says on a terminal how far compilation is, if it takes longer than two seconds."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._shown = False

    def __call__(self, done: int, total: int) -> None:
        if not sys.stderr.isatty() or time.monotonic() - self._begin < 2.0:
            return
        if done < total:
            sys.stderr.write(f"\rebb: measuring operations, {done} of {total}")
            self._shown = True
        elif self._shown:
            sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
