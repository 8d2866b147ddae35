"""What modules keep from one call of forward to the next, while a step is captured.

A tensor that the step makes has no bytes then: it must not stay with the user's model. One that takes the place of a
buffer, or of another attribute of a module, is written into the tensor that was there, in every step. Others, in lists,
dicts and objects too, are refused, for a captured step would not find them there the next time. So is a tensor from
before that takes the place of one that the step has read, as where two change places.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import operator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ebb import Error

from ._lines import Meta
from ._members import NOTHING, is_looked_into, own_members
from ._recorder import Recorder

_OF_EVERY_MODULE = frozenset(vars(torch.nn.Module()))
_DEPTH = 4
_MOST = 100_000  # values that are looked at in all; what holds more is left out, as a data set


@dataclasses.dataclass(frozen=True)
class _Place:
    """Something that holds values, and those it held before."""

    name: str
    holder: Any
    before: dict[Any, Any]
    is_table: bool  # of a module's buffers or attributes, each of which is the user's

    def name_of(self, key: Any) -> str:
        return self.name + (f".{key}" if self.is_table else _step(self.holder, key))

    def changed(self) -> list[tuple[Any, Any, Any]]:
        """What it holds by now where it held something else: (key, before, now)."""
        return [
            (key, self.before.get(key, NOTHING), now)
            for key, now in _contents(self.holder).items()
            if now is not self.before.get(key, NOTHING)
        ]


@dataclasses.dataclass(frozen=True)
class _Shared:
    """A tensor of a module whose memory somebody else has, too."""

    table: dict[str, torch.Tensor]
    key: str
    tensor: torch.Tensor
    name: str
    other: str


class Together(Error):
    """The step makes new tensors for some whose memory others have, too: as `spectral_norm` does for a weight that is the
    parameter's until the model is called. To be captured once more when they are apart, as they are after an eager step."""

    def __init__(self, shared: list[_Shared]) -> None:
        super().__init__(
            f"the step makes a new tensor for {shared[0].name}, which is written into the old one's memory, and {shared[0].other} "
            "has that memory, too; give each its own with .clone(), and compile the step again"
        )
        self._shared = shared

    def separate(self) -> None:
        for each in self._shared:
            each.table[each.key] = each.tensor.detach().clone()

    def join(self) -> None:
        """They are together again."""
        for each in self._shared:
            each.table[each.key] = each.tensor


class Kept:
    """To be made before the capture. Afterwards no fake tensor is left there, and what a refused step has changed is as
    it was."""

    def __init__(self, modules: list[torch.nn.Module]) -> None:
        self._places: list[_Place] = []
        self._seen: dict[int, int] = {}  # by id, how deep it was looked into
        self._left = _MOST
        for module in modules:
            self._note_modules(module)

    def _note_modules(self, module: torch.nn.Module) -> None:
        for part in module.modules():
            if id(part) in self._seen:
                continue
            self._seen[id(part)] = _DEPTH
            name = type(part).__name__
            for table in (part._buffers, vars(part)):
                self._places.append(_Place(name, table, dict(table), True))
            for key, value in [*vars(part).items(), *_class_containers(type(part))]:
                if key not in _OF_EVERY_MODULE:
                    self._note(f"{name}.{key}", value, _DEPTH)

    def _note(self, name: str, value: Any, depth: int) -> None:
        if self._seen.get(id(value), 0) >= depth:
            return
        if _is_a(value, torch.nn.Module):  # nobody's child
            self._note_modules(value)
        elif _holds_values(type(value)):
            contents = _contents(value)
            if len(contents) > self._left:
                return
            self._left -= len(contents)
            if id(value) not in self._seen:
                self._places.append(_Place(name, value, contents, False))
            self._seen[id(value)] = depth
            for key, part in contents.items():
                self._note(name + _step(value, key), part, depth - 1)

    def settle(self, recorder: Recorder) -> None:
        """What took the place of a tensor of a module is written into that one."""
        together: list[_Shared] = []
        for place in self._places:
            for key, old, now in place.changed():
                was_tensor = _is_a(old, torch.Tensor)
                name = place.name_of(key)
                if place.is_table and was_tensor and _is_a(now, FakeTensor) and _are_alike(old, now):
                    if recorder.is_same(old, now):
                        continue
                    other = self._who_else_has(old, now, recorder)
                    if other is not None:
                        together.append(_Shared(place.holder, key, old, name, other))
                    recorder.overwrite(old, now)
                    continue
                within = _path_to_fake(now, _DEPTH)
                if within is not None:
                    raise _refusal(name + within, was_tensor)
                if was_tensor and _is_a(now, torch.Tensor) and recorder.has_read(old):
                    raise Error(
                        f"the step reads {name} and puts another tensor in its place for later, which a captured step "
                        "does not do again; write into it with copy_"
                    )
        if together:
            raise Together(together)

    def _who_else_has(self, old: torch.Tensor, now: FakeTensor, recorder: Recorder) -> str | None:
        """The name of what would see the new values if they were written into the old tensor, as it would not in an eager step."""
        other = recorder.outside.shares_memory(old)
        for place, key in self._holders[id(old)]:
            if _contents(place.holder).get(key, NOTHING) is not now:
                other = place.name_of(key)
        return other

    @functools.cached_property
    def _holders(self) -> dict[int, list[tuple[_Place, Any]]]:
        """Where each tensor was before, by its id."""
        holders: dict[int, list[tuple[_Place, Any]]] = {}
        for place in self._places:
            for key, value in place.before.items():
                if _is_a(value, torch.Tensor):
                    holders.setdefault(id(value), []).append((place, key))
        return holders

    def undo(self) -> None:
        for place in self._places:
            _put_back(place.holder, place.before)

    def __enter__(self) -> Kept:
        return self

    def __exit__(self, refused: type[BaseException] | None, *_) -> None:
        if refused is not None:
            self.undo()
        for place in self._places:
            for key, _, now in place.changed():
                if _is_a(now, FakeTensor):
                    place.holder[key] = place.before[key]


def _refusal(name: str, was_tensor: bool) -> Error:
    remedy = "make it a buffer of that shape and type before, or return it"
    if not was_tensor:
        remedy += (
            ", or drop it at the end of the step. Where it is a cache, call the model once before, with such a batch, "
            "so that it is there already"
        )
    return Error(f"the step keeps a tensor as {name} for later; {remedy}")


def _are_alike(old: torch.Tensor, now: torch.Tensor) -> bool:
    return Meta.of(now)[:2] == Meta.of(old)[:2]


def _class_containers(kind: type) -> list[tuple[str, Any]]:
    """Those that all modules of a class share."""
    return [
        (key, value)
        for base in kind.__mro__
        if base not in torch.nn.Module.__mro__
        for key, value in list(vars(base).items())
        if _is_a(value, _CONTAINERS) and not key.startswith("__")
    ]


# By type(), not isinstance: a weakref.proxy says that it is what it stands for, and fails when that is gone.

_SEQUENCES = (list, tuple, collections.deque)
_SETS = (set, frozenset)
_CONTAINERS = (dict, *_SEQUENCES, *_SETS)


def _is_a(value: Any, kinds: type | tuple[type, ...]) -> bool:
    return issubclass(type(value), kinds)


def _holds_values(kind: type) -> bool:
    return issubclass(kind, _CONTAINERS) or is_looked_into(kind)


def _contents(value: Any) -> dict[Any, Any]:
    """What a container or an object holds."""
    if _is_a(value, dict):
        return dict(value)
    if _is_a(value, _SEQUENCES):
        return dict(enumerate(list(value)))
    if _is_a(value, _SETS):
        return {id(part): part for part in list(value)}
    return own_members(value)


def _step(holder: Any, key: Any) -> str:
    """From a container or an object to one of its contents, in words."""
    if _is_a(holder, _SETS):
        return "[]"
    return f"[{key!r}]" if _is_a(holder, _CONTAINERS) else f".{key}"


def _path_to_fake(value: Any, depth: int) -> str | None:
    """The way to a fake tensor within a value; none where there is no such tensor."""
    if _is_a(value, FakeTensor):
        return ""
    if depth == 0 or not _holds_values(type(value)):
        return None
    for key, part in _contents(value).items():
        within = _path_to_fake(part, depth - 1)
        if within is not None:
            return _step(value, key) + within
    return None


def _put_back(holder: Any, before: dict[Any, Any]) -> None:
    now = _contents(holder)
    if len(now) == len(before) and all(now.get(key, NOTHING) is part for key, part in before.items()):
        return
    if _is_a(holder, list):
        holder[:] = before.values()
    elif _is_a(holder, collections.deque):
        holder.clear()
        holder.extend(before.values())
    elif _is_a(holder, set):
        holder.clear()
        holder.update(before.values())
    else:
        is_dict = _is_a(holder, dict)
        remove, put = (operator.delitem, operator.setitem) if is_dict else (object.__delattr__, object.__setattr__)
        for key in now.keys() - before.keys():
            remove(holder, key)
        for key, part in before.items():
            if now.get(key, NOTHING) is not part:
                put(holder, key, part)
