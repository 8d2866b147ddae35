"""The programs of a compiled step that take turns in its arena.

The first is the one that was compiled. Batches of another structure, shape, type or memory layout, or by
which the step decides otherwise, and evaluation, each get one of their own when they first come. All declare the
same state in the same order, so that it lies in the same places, and lay out the rest of the arena as they like.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.utils._pytree as pytree

from ebb import Error

from ._capture import capture_beside
from ._captured import Captured, captured_as_it_lies
from ._load import _runtime
from ._places import levels_to_user
from ._program import Program, view
from ._progress import Progress
from ._results import Layouts
from ._state import State


class Programs:
    KEPT = 8
    """So many are kept besides the first; each has its instructions and kernels in memory."""

    def __init__(self, first: Program, state: State, host_budget: str, known: Any, layouts: Layouts) -> None:
        self.first = first
        self._layouts = layouts
        self._known = known  # what was measured of operations; optimizers' are the same in all
        self._state = state
        self._host_budget = host_budget
        self._others: list[tuple[str, Program]] = []  # what it does; most recently used last
        self._said = False

    def find(self, what: str, leaves: list[Any], tree: pytree.TreeSpec) -> Program | None:
        """The program that does this with such a batch."""
        if what == "step" and self.first.takes(leaves, tree):
            return self.first
        for i, (kind, program) in reversed(list(enumerate(self._others))):
            if kind == what and program.takes(leaves, tree):
                self._others.append(self._others.pop(i))
                return program
        return None

    def make(self, what: str, function: Callable[..., Any], args: tuple, kwargs: dict) -> Program:
        """Captures a function for such a batch, and makes it ready in the arena."""
        first = self.first.captured
        optimizers = first.optimizers if what == "step" else []

        def capture(layouts: Layouts) -> Captured:
            return capture_beside(self._state.shared(), layouts, function, args, kwargs, first.modules, optimizers)

        def make(captured: Captured, capture_anew: Callable) -> Any:
            with Progress() as progress:
                return _runtime.Step(
                    captured.text,
                    device=str(captured.device),
                    host_budget=self._host_budget,
                    shares_arena_of=self.first.runtime,
                    known=self._known,
                    capture_anew=capture_anew,
                    progress=progress,
                )

        with captured_as_it_lies(capture, make, self._layouts) as (captured, runtime):
            self._state.join(captured, lambda name: view(runtime, name))
            program = Program(captured, runtime)
        if len(self._others) == self.KEPT:
            self._others.pop(0)
            if not self._said:
                self._said = True
                places = {decision.place for _, other in self._others for decision in other.captured.decisions}
                warnings.warn(
                    f"ebb: batches of more than {self.KEPT} other kinds, by shape or by what the step decides by: the "
                    "programs for those least recently used are thrown away, and made again when they are needed. Pad "
                    "batches to a few shapes" + "".join(f"; it decides at {place}" for place in sorted(places)[:3]),
                    stacklevel=levels_to_user(),
                )
        self._others.append((what, program))
        return program


def describe(leaves: list[Any], compiled: Iterable[torch.Tensor] = ()) -> str:
    """The shapes of a batch, for messages; and the types that are not those of the batch compiled for."""
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    words = []
    for tensor, other in itertools.zip_longest(tensors, list(compiled)[: len(tensors)]):
        is_other_type = other is not None and tensor.dtype != other.dtype
        dtype = f" {str(tensor.dtype).removeprefix('torch.')}" if is_other_type else ""
        words.append(f"{list(tensor.shape)}{dtype}")
    return f"a batch of {', '.join(words)}" if words else "a batch without tensors"


def refused(what: str, error: Error, remedy: str) -> Error:
    """The error of making a program ready, with the words around it. The remedy is one for what needs
    too much memory."""
    is_short = error.kind == "infeasible"
    message = (
        f"{what} cannot run in the memory of the compiled step: {error}\n{remedy}"
        if is_short
        else f"{what} cannot run in the compiled step: {error}"
    )
    return Error(
        message,
        kind=error.kind,
        code=error.code,
        dump=error.dump,
    )
