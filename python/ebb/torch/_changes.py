"""Whether models and optimizers are still what they were when a step was captured.

A captured step does not run their Python any more. So a dropout's new `p`, another head, a number in a
configuration or a new hook would be without effect where eager PyTorch would obey: it is refused instead. Of the
attributes of modules those are watched that were read while the step was captured: what nobody read then (trainers,
schedulers, counters of the loop) decides nothing. Nor are those watched that forward itself writes.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from ebb import Error

from ._batch import is_same_value
from ._decisions import Decision
from ._members import NOTHING, class_member, look_up
from ._reads import noted
from ._snapshot import ANYTHING, Difference, Path, Plain, Snapshot, Snapshots, TensorThere, said

_OF_EVERY_MODULE = frozenset(dir(torch.nn.Module()))  # methods, tables, and `training`, which has words of its own
_MODULE_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_OPTIMIZER_HOOKS = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")

# What some forward has changed while it was captured, by module.
_moving: weakref.WeakKeyDictionary[torch.nn.Module, set[Path]] = weakref.WeakKeyDictionary()


class Changes:
    """To be made before the capture; `noting` around it, and `settle` when it is over."""

    def __init__(self, modules: list[torch.nn.Module]) -> None:
        self._parts = {part: name for module in modules for name, part in module.named_modules()}
        self._read: dict[int, dict[str, Snapshot]] = {id(part): {} for part in self._parts}
        self._written: dict[int, set[str]] = {id(part): set() for part in self._parts}
        self._snapshots = Snapshots()
        self._made: set[int] = set()  # modules that the step has made for itself
        self._thread = threading.get_ident()
        self._watched: list[tuple[torch.nn.Module, dict[str, Any], str, Snapshot]] = []
        self._absent: list[tuple[torch.nn.Module, dict[str, Any], str]] = []  # parameters and buffers that are None
        self._forwards: list[tuple[torch.nn.Module, dict[str, Any], Any]] = []
        self._children: list[tuple[torch.nn.Module, dict[str, Any], dict[str, Any]]] = []
        self._module_hooks: list[tuple[torch.nn.Module, dict[int, Any], list[int]]] = []
        self._optimizer_hooks: list[tuple[torch.optim.Optimizer, dict[int, Any], list[int]]] = []
        self._parameter_hooks: list[tuple[torch.Tensor, str, list[int], list[int]]] = []
        self.moving: list[str] = []  # what forward reads and leaves as another value, in words; known when it is settled
        self._used: set[int] = set()
        self._homes: dict[int, tuple[dict[str, Any], str]] = {}  # of tensors by id: table of a module, and name

    # While the step is captured.

    @contextlib.contextmanager
    def noting(self) -> Iterator[None]:
        """Around the user's code, and nothing else: what is read in it is watched later."""
        with noted(self._note_read, self._note_write):
            for part in self._parts:
                if type(part).__getattribute__ is not torch.nn.Module.__getattribute__:  # reads in its own way
                    self._note_read(part, "__dict__")
            yield

    def _note_read(self, part: torch.nn.Module, name: str) -> None:
        """Takes the value as it is before forward can have changed it."""
        if name == "__dict__":
            for each in list(object.__getattribute__(part, "__dict__")):
                self._note_read(part, each)
            return
        if name in _OF_EVERY_MODULE or (id(part) not in self._read and not self._takes_in(part)):
            return
        read = self._read[id(part)]
        if name not in read and name not in self._written[id(part)]:
            value = look_up(part, name)
            is_elsewhere = issubclass(type(value), torch.Tensor) or (value is NOTHING and _is_in_a_table(part, name))
            read[name] = ANYTHING if is_elsewhere else self._snapshots.take(value, name)

    def _note_write(self, part: torch.nn.Module, name: str) -> None:
        if id(part) in self._written:
            self._written[id(part)].add(name)
        else:
            self._made.add(id(part))  # constructors write first

    def _takes_in(self, part: torch.nn.Module) -> bool:
        """A module that is nobody's child, as one in a list; not one that the step has made, or that is another
        thread's."""
        if id(part) in self._made or threading.get_ident() != self._thread:
            return False
        self._parts[part] = ""
        self._read[id(part)], self._written[id(part)] = {}, set()
        return True

    def refuse_remembered(self, decision: Decision) -> None:
        """Numbers that forward reads and makes others of, as the longest batch it has seen: each outcome of a decision
        has a program of its own, which would not know what others have left. Flags and counting by one are let through."""
        for part in self._parts:
            for name in self._read[id(part)]:
                if name not in self._written[id(part)]:
                    continue
                before, now = self._read[id(part)][name], look_up(part, name)
                if type(before) is not Plain or type(before.value) not in (int, float):
                    continue
                if is_same_value(before.value, now) or is_same_value(before.value + 1, now):
                    continue
                raise Error(
                    f"{self._named(part)} has {name} = {said(before)} and makes it {said(now)} in forward, and the "
                    f"step {decision}. What it remembers would depend on what was decided before; keep it in a buffer, or "
                    "outside of the step"
                )

    def settle(
        self,
        used: Iterable[torch.Tensor],
        parameters: Iterable[tuple[torch.Tensor, str]],
        optimizers: Iterable[torch.optim.Optimizer],
    ) -> None:
        """`used` are all tensors that the step reads from outside; `parameters` those whose gradients it computes."""
        self._used = {id(tensor) for tensor in used}
        same: set[tuple[int, int]] = set()
        for part in self._parts:
            members = vars(part)
            moving = {(name,) for name in self._written[id(part)]}
            for name, value in self._read[id(part)].items():
                found = list(value.differences(look_up(part, name), (name,), same))
                moving.update(each.path for each in found)
                self.moving += [
                    f"{self._named(part)}.{each.place} from {said(each.old)} to {said(each.new)}" for each in found
                ]
                if value is not ANYTHING and (name,) not in moving:
                    self._watched.append((part, members, name, value))
            if moving:
                _moving.setdefault(part, set()).update(moving)
            for table in (part._parameters, part._buffers):
                absent = [name for name, tensor in table.items() if tensor is None and name in self._read[id(part)]]
                self._absent += [(part, table, name) for name in absent]
            for table in (part._parameters, part._buffers, members):
                self._homes.update((id(tensor), (table, key)) for key, tensor in table.items())
            self._forwards.append((part, members, members.get("forward")))
            self._children.append((part, part._modules, dict(part._modules)))
            self._module_hooks += [(part, table, list(table)) for table in _tables(part, _MODULE_HOOKS)]
        for optimizer in optimizers:
            self._optimizer_hooks += [(optimizer, table, list(table)) for table in _tables(optimizer, _OPTIMIZER_HOOKS)]
        self._parameter_hooks = [
            (tensor, name, list(tensor._backward_hooks or ()), list(tensor._post_accumulate_grad_hooks or ()))
            for tensor, name in parameters
        ]
        self._read, self._written, self._snapshots = {}, {}, Snapshots()

    def put(self, instead: dict[int, torch.Tensor]) -> None:
        """Other parameters are in the stead of those with these ids."""
        self._parameter_hooks = [(instead.get(id(tensor), tensor), *rest) for tensor, *rest in self._parameter_hooks]

    # In every step.

    def check(self) -> None:
        """Raises ebb.Error where something is not as it was."""
        for part, table, before in self._children:
            if table != before:
                for key in {**before, **table}:
                    if table.get(key) is not before.get(key):
                        raise _changed(f"{self._named(part)} has another '{key}'")
        self._check_values()
        for part, table, name in self._absent:
            if table.get(name) is not None:
                raise _changed(f"{self._named(part)} had {name} = None and now has a tensor")
        for part, table, forward in self._forwards:
            if table.get("forward") != forward:
                raise _changed(f"{self._named(part)} has another forward")
        for part, table, before in self._module_hooks:
            if len(table) != len(before) or list(table) != before:
                raise _changed(f"{self._named(part)} has other hooks")
        for optimizer, table, before in self._optimizer_hooks:
            if list(table) != before:
                raise _changed(f"{type(optimizer).__name__} has other hooks")
        for tensor, name, before, after in self._parameter_hooks:
            if list(tensor._backward_hooks or ()) != before or list(tensor._post_accumulate_grad_hooks or ()) != after:
                raise _changed(f"the parameter {name} has other hooks")

    def _check_values(self) -> None:
        same: set[tuple[int, int]] = set()
        of_classes: dict[tuple[type, str], Any] = {}
        for part, members, name, before in self._watched:
            now = members.get(name, NOTHING)
            if now is NOTHING:
                key = (type(part), name)
                if key not in of_classes:
                    of_classes[key] = class_member(part, name)
                now = of_classes[key]
            if type(before) is Plain and before.value is now:  # nearly always: no need to look closer
                continue
            for found in before.differences(now, (name,), same):
                self._judge(part, found)

    def _judge(self, part: torch.nn.Module, found: Difference) -> None:
        moving = _moving.get(part, ())
        if any(found.path[:length] in moving for length in range(1, len(found.path) + 1)):
            return
        if not isinstance(found.old, TensorThere):
            raise _changed(
                f"{self._named(part)} had {found.place} = {said(found.old)} and now has {said(found.new)}",
                "Compile the step again, or keep what the loop counts outside of the model",
            )
        if found.old.id in self._used and not self._has_moved_in(found):
            raise _changed(
                f"{self._named(part)} has another {found.place}",
                "Write into the tensor with copy_, or compile the step again",
            )

    def _has_moved_in(self, found: Difference) -> bool:
        """Whether it is a new parameter in the place of the old one: recurrent layers list theirs, too."""
        table, name = self._homes.get(found.old.id, ({}, ""))
        return name in table and table[name] is found.new

    def _named(self, part: torch.nn.Module) -> str:
        return named(part, self._parts[part])


def named(part: torch.nn.Module, path: str) -> str:
    """A module in words."""
    return f"{type(part).__name__} '{path}'" if path else type(part).__name__


def _changed(what: str, remedy: str = "Compile the step again") -> Error:
    return Error(f"since the step was captured, {what}: another computation. {remedy}")


def _is_in_a_table(part: torch.nn.Module, name: str) -> bool:
    """Parameters and buffers may be replaced, and children are compared by themselves."""
    members = object.__getattribute__(part, "__dict__")
    return any(name in members[table] for table in ("_parameters", "_buffers", "_modules"))


def _tables(owner: Any, names: Iterable[str]) -> Iterator[dict[int, Any]]:
    for name in names:
        table = vars(owner).get(name)
        if isinstance(table, dict):
            yield table
