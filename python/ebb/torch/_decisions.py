"""Decisions of a step that depend on its batch alone: whether a mask hides anything, how long the longest sentence is.

A captured step does the same operations every time. Where Python looks at a value to choose among them, and that value
follows from the batch without parameters or random numbers, it is computed from the real batch. What came out is part
of what the capture holds for: before each step the same few operations run on the new batch, and where something else
comes out, the step is another one, as for a batch of another shape.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from . import _operators
from ._batch import is_same_value


@dataclasses.dataclass(frozen=True)
class _Slot:
    """Stands where a tensor goes."""

    number: int


@dataclasses.dataclass(frozen=True)
class _Call:
    func: Callable[..., Any]
    args: tuple  # slots in place of tensors
    kwargs: dict[str, Any]
    makes: list[int]  # the slots of its results, in the order in which they are flattened

    def run(self, values: dict[int, torch.Tensor]) -> Any:
        args, kwargs = pytree.tree_map_only(_Slot, lambda slot: values[slot.number], (self.args, self.kwargs))
        return self.func(*args, **kwargs)


class Decision:
    """What was read of a batch, and what came out."""

    def __init__(self, given: dict[int, int], constants: dict[int, torch.Tensor], calls: list[_Call]) -> None:
        self._given = given  # slots of tensors of the batch, and which these are
        self._constants = constants
        self._calls = calls  # the last one reads
        self.outcome: Any = None

    def read(self, batch: Sequence[torch.Tensor]) -> Any:
        """As in an eager step, and beside whatever watches the caller."""
        values = {slot: batch[index] for slot, index in self._given.items()} | self._constants
        device = next((value.device.type for value in values.values()), "cpu")
        with _disable_current_modes(), torch.no_grad(), torch.autocast(device, enabled=False):
            for call in self._calls[:-1]:
                made = pytree.tree_leaves(call.run(values))
                values.update(zip(call.makes, made, strict=True))
            return self._calls[-1].run(values)

    def holds(self, batch: Sequence[torch.Tensor]) -> bool:
        return is_same_value(self.read(batch), self.outcome)


class BatchValues:
    """Knows of the fakes of one capture which follow from the batch alone, and how."""

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self._batch: list[torch.Tensor] = []
        self._given: dict[int, int] = {}
        self._constants: dict[int, torch.Tensor] = {}
        self._calls: list[_Call] = []
        self._made_by: dict[int, int] = {}  # slot to call
        self._slots: dict[int, int] = {}  # by id of the fake
        self._fakes: list[torch.Tensor] = []  # by slot; kept, so that ids stay theirs
        self._written: set[int] = set()  # storages that have other bytes by now

    def add_input(self, fake: FakeTensor, real: torch.Tensor) -> None:
        self._given[self._add(fake)] = len(self._batch)
        self._batch.append(real)

    def note(self, func: torch._ops.OpOverload, args: tuple, kwargs: dict, out: Any, constant: Any = None) -> None:
        """An operation that wrote nothing. `constant`: the real tensor that it makes part of the step."""
        if isinstance(constant, torch.Tensor) and not isinstance(constant, FakeTensor):
            self._constants[self._add(out)] = constant
            return
        made = pytree.tree_leaves(out)
        if _operators.is_random(func) or not all(isinstance(each, FakeTensor) for each in made):
            return
        if self._knows((args, kwargs)):
            call = self._call(func, args, kwargs, [self._add(each) for each in made])
            self._made_by.update(dict.fromkeys(call.makes, len(self._calls)))
            self._calls.append(call)

    def forget(self, written: Iterable[torch.Tensor]) -> None:
        self._written.update(tensor.untyped_storage()._cdata for tensor in written)

    def read(self, reader: Callable[..., Any], *args: Any) -> Decision | None:
        """What the reader makes of these arguments, from now on a condition of the step; None where that does not
        follow from the batch alone."""
        if not self._knows(args):
            return None
        decision = self._slice(self._call(reader, args, {}, []))
        decision.outcome = decision.read(self._batch)
        self.decisions.append(decision)
        return decision

    def _add(self, fake: torch.Tensor) -> int:
        if id(fake) not in self._slots:
            self._slots[id(fake)] = len(self._fakes)
            self._fakes.append(fake)
        return self._slots[id(fake)]

    def _knows(self, arguments: Any) -> bool:
        tensors = [leaf for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, torch.Tensor)]
        return all(id(t) in self._slots and t.untyped_storage()._cdata not in self._written for t in tensors)

    def _call(self, func: Callable[..., Any], args: tuple, kwargs: dict, makes: list[int]) -> _Call:
        args, kwargs = pytree.tree_map_only(torch.Tensor, lambda t: _Slot(self._slots[id(t)]), (args, kwargs))
        return _Call(func, args, kwargs, makes)

    def _slice(self, last: _Call) -> Decision:
        """The calls that lead to it."""
        given, constants, calls, pending = {}, {}, set(), [last]
        while pending:
            call = pending.pop()
            for leaf in pytree.tree_leaves((call.args, call.kwargs)):
                if not isinstance(leaf, _Slot):
                    continue
                if leaf.number in self._given:
                    given[leaf.number] = self._given[leaf.number]
                elif leaf.number in self._constants:
                    constants[leaf.number] = self._constants[leaf.number]
                elif self._made_by[leaf.number] not in calls:
                    calls.add(self._made_by[leaf.number])
                    pending.append(self._calls[self._made_by[leaf.number]])
        return Decision(given, constants, [*(self._calls[i] for i in sorted(calls)), last])
