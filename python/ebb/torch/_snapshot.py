"""The Python values that an object holds, to compare with later.

Plain values are themselves. Lists, tuples, sets and dicts become what they hold, and objects (a configuration) their
attributes, so that a later write into them shows. How deep that goes, and how many values it takes in, is bounded: they
are compared in every step. What is beyond that, and whatever else Python has, counts as the same for ever. Of a tensor
within a list or an object it is known which one it is.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import numbers
import types
from collections.abc import Iterator
from typing import Any

import torch

from ._batch import PLAIN, is_same_value
from ._members import NOTHING, is_looked_into, look_up, own_members

_DEPTH = 3
_LARGEST = 1000  # so many values in all
_SEQUENCES = (list, tuple, collections.deque)
_SETS = (set, frozenset)

Path = tuple[str, ...]
"""The way to a value: `("config", ".scale")`, `("weights", "[0]")`."""


@dataclasses.dataclass(frozen=True)
class Difference:
    path: Path
    """To what is another by now."""
    place: str
    """Where that shows first, in words."""
    old: Snapshot
    new: Any


class Snapshot:
    """What some value was. This one stands for values that are not looked at."""

    def differences(self, now: Any, path: Path, same: set[tuple[int, int]]) -> Iterator[Difference]:
        """Where a value is another than this was. `same` has what was found to be the same, by ids: modules share
        their configuration, which is compared once."""
        return iter(())


ANYTHING = Snapshot()


@dataclasses.dataclass(frozen=True)
class Plain(Snapshot):
    value: Any

    def differences(self, now: Any, path: Path, same: set[tuple[int, int]]) -> Iterator[Difference]:
        if not is_same_value(self.value, now):
            yield Difference(path, "".join(path), self, now)


@dataclasses.dataclass(frozen=True)
class TensorThere(Snapshot):
    id: int

    def differences(self, now: Any, path: Path, same: set[tuple[int, int]]) -> Iterator[Difference]:
        if id(now) != self.id:
            yield Difference(path, "".join(path), self, now)


@dataclasses.dataclass(frozen=True)
class Array(Snapshot):
    """A NumPy array, with all that is in it."""

    content: tuple
    text: str

    def differences(self, now: Any, path: Path, same: set[tuple[int, int]]) -> Iterator[Difference]:
        if not _is_array(now) or _content(now) != self.content:
            yield Difference(path, "".join(path), self, now)


@dataclasses.dataclass(frozen=True)
class ArrayOfObjects(Snapshot):
    """A NumPy array whose bytes are pointers."""

    shape: tuple
    parts: Snapshot

    def differences(self, now: Any, path: Path, same: set[tuple[int, int]]) -> Iterator[Difference]:
        if _is_array(now) and now.dtype.hasobject and now.shape == self.shape:
            yield from self.parts.differences(now.tolist(), path, set())  # lists made for this alone have ids of others
        else:
            yield Difference(path, "".join(path), self, now)


def _is_array(value: Any) -> bool:
    kind = type(value)
    return kind.__name__ == "ndarray" and kind.__module__ == "numpy"  # which need not be installed


def _content(array: Any) -> tuple:
    return array.dtype.str, array.shape, array.tobytes()


@dataclasses.dataclass(frozen=True)
class _Whole(Snapshot):
    """A container or an object: of which class, and what is in it."""

    kind: type
    parts: Any

    def differences(self, now: Any, path: Path, same: set[tuple[int, int]]) -> Iterator[Difference]:
        if (id(self), id(now)) in same:
            return
        if type(now) is not self.kind:
            yield Difference(path, "".join(path), self, now)
            return
        is_same = True
        for difference in self._within(now, path, same):
            is_same = False
            yield difference
        if is_same:
            same.add((id(self), id(now)))

    def _within(self, now: Any, path: Path, same: set[tuple[int, int]]) -> Iterator[Difference]:
        raise NotImplementedError


class Sequence(_Whole):
    def _within(self, now: Any, path: Path, same: set[tuple[int, int]]) -> Iterator[Difference]:
        now = list(now)
        if len(now) == len(self.parts):
            for i, (old, new) in enumerate(zip(self.parts, now, strict=True)):
                yield from old.differences(new, (*path, f"[{i}]"), same)
            return
        pairs = itertools.zip_longest(self.parts, now, fillvalue=NOTHING)
        for i, (old, new) in enumerate(pairs):
            old = Plain(NOTHING) if old is NOTHING else old
            if next(old.differences(new, (), same), None) is not None:
                yield Difference(path, f"{''.join(path)}[{i}]", old, new)
                return


class Mapping(_Whole):
    def _within(self, now: Any, path: Path, same: set[tuple[int, int]]) -> Iterator[Difference]:
        now = dict(now)
        for key, old in self.parts.items():
            yield from old.differences(now.get(key, NOTHING), (*path, f"[{key!r}]"), same)
        for key in now.keys() - self.parts.keys():
            if _is_key(key) and not _has_tensor(now[key], _DEPTH):  # a cache has one for each shape
                path_to = (*path, f"[{key!r}]")
                yield Difference(path_to, "".join(path_to), Plain(NOTHING), now[key])


class Set(_Whole):
    def _within(self, now: Any, path: Path, same: set[tuple[int, int]]) -> Iterator[Difference]:
        if _told_apart(now) != self.parts:
            yield Difference(path, "".join(path), self, now)


class Members(_Whole):
    """Names that are new are none of its business: they may be caches, too."""

    def _within(self, now: Any, path: Path, same: set[tuple[int, int]]) -> Iterator[Difference]:
        for name, old in self.parts.items():
            yield from old.differences(look_up(now, name), (*path, f".{name}"), same)


def _is_plain(value: Any) -> bool:
    return value is NOTHING or issubclass(type(value), PLAIN)  # a weakref.proxy is none, whatever it stands for


def _is_key(key: Any) -> bool:
    return all(map(_is_key, key)) if type(key) is tuple else _is_plain(key)


def _told_apart(values: Any) -> frozenset:
    """The plain values of a set; for a set 1, True and 1.0 are the same."""
    keys = [value for value in list(values) if _is_key(value)]
    return frozenset((type(key), repr(key) if isinstance(key, numbers.Number) else key) for key in keys)


def _has_tensor(value: Any, depth: int) -> bool:
    kind = type(value)
    if issubclass(kind, torch.Tensor):
        return True
    if depth == 0 or not issubclass(kind, (dict, *_SEQUENCES)):
        return False
    return any(_has_tensor(part, depth - 1) for part in list(value.values() if issubclass(kind, dict) else value))


class Snapshots:
    """Takes snapshots, of what several of them share once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, int, Snapshot]] = {}  # objects by id, and how deep they were looked into
        self._left = 0

    def take(self, value: Any, name: str = "") -> Snapshot:
        """Objects behind names that begin with `_` are not looked into: what trains the model hangs itself there."""
        self._left = _LARGEST
        return self._of(value, _DEPTH, not name.startswith("_"))

    def _of(self, value: Any, depth: int, with_objects: bool) -> Snapshot:
        kind = type(value)
        if _is_plain(value):
            return Plain(value)
        if issubclass(kind, torch.Tensor):
            return TensorThere(id(value))
        if _is_array(value) and not value.dtype.hasobject:
            return Array(_content(value), f"array({value.tolist()})") if self._takes_in(value.size) else ANYTHING
        if depth == 0:
            return ANYTHING
        if _is_array(value):
            return ArrayOfObjects(value.shape, self._of(value.tolist(), depth, with_objects))
        if issubclass(kind, (dict, *_SEQUENCES, *_SETS)):
            return self._of_container(value, depth, with_objects)
        if kind is functools.partial or (with_objects and is_looked_into(kind)):
            return self._of_object(value, depth)
        return ANYTHING

    def _of_container(self, value: Any, depth: int, with_objects: bool) -> Snapshot:
        kind = type(value)
        if not self._takes_in(len(value)):
            return ANYTHING
        if issubclass(kind, dict):
            parts = {key: self._of(part, depth - 1, with_objects) for key, part in list(value.items()) if _is_key(key)}
            return Mapping(kind, parts)
        if issubclass(kind, _SETS):
            return Set(kind, _told_apart(value))
        return Sequence(kind, [self._of(part, depth - 1, with_objects) for part in list(value)])

    def _of_object(self, value: Any, depth: int) -> Snapshot:
        _, known_depth, known = self._known.get(id(value), (None, 0, ANYTHING))
        if known_depth >= depth:
            return known
        members = {**_class_values(type(value)), **own_members(value)}
        if not self._takes_in(len(members)):
            return ANYTHING
        self._known[id(value)] = (value, depth, ANYTHING)  # its members may lead back to it
        parts = {name: self._of(part, depth - 1, not name.startswith("_")) for name, part in members.items()}
        self._known[id(value)] = (value, depth, Members(type(value), parts))
        return self._known[id(value)][2]

    def _takes_in(self, count: int) -> bool:
        if count > self._left:
            return False
        self._left -= count
        return True


def _class_values(kind: type) -> dict[str, Any]:
    """Public values that the class has for its objects."""
    return {
        name: value
        for base in reversed(kind.__mro__)
        for name, value in list(vars(base).items())
        if not name.startswith("_") and issubclass(type(value), (int, float, complex, str, type(None)))
    }


def said(value: Any) -> str:
    """A value, or the snapshot of one, in a few words."""
    text = _text(value if isinstance(value, Snapshot) else Snapshots().take(value))
    return text if len(text) <= 80 else f"{text[:77]}..."


def _text(of: Snapshot) -> str:
    if isinstance(of, TensorThere):
        return "a tensor"
    if isinstance(of, Array):
        return of.text
    if isinstance(of, ArrayOfObjects):
        return f"array({_text(of.parts)})"
    if isinstance(of, Sequence):
        left, right = "()" if issubclass(of.kind, tuple) else "[]"
        return f"{left}{', '.join(map(_text, of.parts[:50]))}{right}"
    if isinstance(of, Mapping):
        return f"{{{', '.join(f'{key!r}: {_text(part)}' for key, part in list(of.parts.items())[:50])}}}"
    if isinstance(of, Set):
        return f"{{{', '.join(sorted(str(value) for _, value in of.parts)[:50])}}}"
    if not isinstance(of, Plain):
        return "an object"
    if isinstance(of.value, (type, types.FunctionType, types.BuiltinFunctionType, types.MethodType)):
        return of.value.__name__
    return "none" if of.value is NOTHING else f"{of.value}"
