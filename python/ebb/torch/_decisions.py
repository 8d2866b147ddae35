"""Decisions of a step that depend on its batch alone: whether a mask hides anything, how long the longest sentence is.

A captured step does the same operations every time. Where Python looks at a value to choose among them, and that value
follows from the batch without parameters or random numbers, it is computed from the real batch. What came out is part
of what the capture holds for: before each step the same few operations run on the new batch, and where something else
comes out, the step is another one, as for a batch of another shape.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from ebb import Error

from . import _operators
from ._batch import is_same_value
from ._memory import is_shortage
from ._places import user_line


@dataclasses.dataclass(frozen=True)
class _Slot:
    """Stands where a tensor goes."""

    number: int


@dataclasses.dataclass(eq=False)
class _Call:
    func: Callable[..., Any]
    args: tuple  # slots in place of tensors
    kwargs: dict[str, Any]
    makes: list[int]  # the slots of its results, in the order in which they are flattened

    @property
    def takes(self) -> list[int]:
        return [leaf.number for leaf in pytree.tree_leaves((self.args, self.kwargs)) if isinstance(leaf, _Slot)]

    def run(self, values: dict[int, torch.Tensor]) -> Any:
        args, kwargs = pytree.tree_map_only(_Slot, lambda slot: values[slot.number], (self.args, self.kwargs))
        return self.func(*args, **kwargs)


@dataclasses.dataclass(eq=False)
class Decision(_Call):
    """A call that reads what is no tensor."""

    what: str
    place: str
    outcome: Any = None

    def __str__(self) -> str:
        return f"{self.what}, at {self.place}"


class Decisions:
    """What a step reads of its batch, and what came out."""

    def __init__(self, given: dict[int, int], constants: dict[int, torch.Tensor], calls: list[_Call]) -> None:
        self.given = given  # slots of tensors of the batch, and which these are
        self._constants = constants
        self._calls = calls  # in the order in which they were made
        self._dropped: list[list[int]] = [[] for _ in calls]  # by call: what nobody needs after it
        for slot, i in {slot: i for i, call in enumerate(calls) for slot in (*call.makes, *call.takes)}.items():
            self._dropped[i].append(slot)

    def __iter__(self) -> Iterator[Decision]:
        return (call for call in self._calls if isinstance(call, Decision))

    def parts(self) -> Iterator[tuple[str, Any]]:
        """What is computed to decide: in words, and values that are the same for the same decisions."""
        for call in self._calls:
            given = [leaf for leaf in pytree.tree_leaves((call.args, call.kwargs)) if not isinstance(leaf, _Slot)]
            yield f"{call.func} with {given}", (call.func, call.args, *call.kwargs.items())
        for tensor in self._constants.values():
            yield "a constant that it decides by", tensor

    def otherwise(self, batch: Sequence[torch.Tensor]) -> Decision | None:
        """The first that has another outcome for this batch."""
        return next((each for each, read in self.read(batch) if not is_same_value(read, each.outcome)), None)

    def read(self, batch: Sequence[torch.Tensor]) -> Iterator[tuple[Decision, Any]]:
        """As in an eager step, and beside whatever watches the caller."""
        values = {slot: batch[index] for slot, index in self.given.items()} | self._constants
        device = next((value.device.type for value in values.values()), "cpu")
        for i, call in enumerate(self._calls):
            try:
                with _disable_current_modes(), torch.no_grad(), torch.autocast(device, enabled=False):
                    made = call.run(values)
            except Exception as error:
                if is_shortage(error):
                    raise
                decision = next(each for each in self._calls[i:] if isinstance(each, Decision))
                raise Error(f"{error}, where the step {decision}") from error
            if isinstance(call, Decision):
                yield call, made
            else:
                values.update(zip(call.makes, pytree.tree_leaves(made), strict=True))
            made = None
            for slot in self._dropped[i]:
                del values[slot]


class BatchValues:
    """Knows of the fakes of one capture which follow from the batch alone, and how."""

    def __init__(self) -> None:
        self._batch: list[torch.Tensor] = []
        self._given: dict[int, int] = {}
        self._constants: dict[int, torch.Tensor] = {}
        self._calls: list[_Call] = []
        self._decisions: list[Decision] = []  # those of the calls that are
        self._made_by: dict[int, _Call] = {}  # by slot
        self._slots: dict[int, int] = {}  # by id of the fake
        self._fakes: list[torch.Tensor] = []  # by slot; kept, so that ids stay theirs
        self._written: set[int] = set()  # storages that have other bytes by now

    @property
    def decisions(self) -> Decisions:
        return self._slice(self._decisions)

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
            call = _Call(func, *self._in_slots(args, kwargs), [self._add(each) for each in made])
            self._made_by.update(dict.fromkeys(call.makes, call))
            self._calls.append(call)

    def forget(self, written: Iterable[torch.Tensor]) -> None:
        self._written.update(tensor.untyped_storage()._cdata for tensor in written)

    def read(self, what: str, reader: Callable[..., Any], *args: Any) -> Decision | None:
        """What the reader makes of these arguments, from now on a condition of the step; None where that does not
        follow from the batch alone. `what` says what the step does."""
        if not self._knows(args):
            return None
        decision = Decision(reader, *self._in_slots(args, {}), [], what, user_line())
        self._calls.append(decision)
        alone = self._slice([decision])
        ((_, decision.outcome),) = alone.read(self._batch)
        if alone.given:
            self._decisions.append(decision)
        return decision

    def _add(self, fake: torch.Tensor) -> int:
        if id(fake) not in self._slots:
            self._slots[id(fake)] = len(self._fakes)
            self._fakes.append(fake)
        return self._slots[id(fake)]

    def _knows(self, arguments: Any) -> bool:
        tensors = [leaf for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, torch.Tensor)]
        return all(id(t) in self._slots and t.untyped_storage()._cdata not in self._written for t in tensors)

    def _in_slots(self, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        return pytree.tree_map_only(torch.Tensor, lambda t: _Slot(self._slots[id(t)]), (args, kwargs))

    def _slice(self, decisions: list[Decision]) -> Decisions:
        """With the calls that lead to them."""
        given, constants, chosen, pending = {}, {}, set(decisions), list(decisions)
        while pending:
            for slot in pending.pop().takes:
                if slot in self._given:
                    given[slot] = self._given[slot]
                elif slot in self._constants:
                    constants[slot] = self._constants[slot]
                elif self._made_by[slot] not in chosen:
                    chosen.add(self._made_by[slot])
                    pending.append(self._made_by[slot])
        return Decisions(given, constants, [call for call in self._calls if call in chosen])
