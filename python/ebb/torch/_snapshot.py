"""The Python values that an object holds, as a value to compare with later.

Plain values are themselves. Lists, tuples, sets and dicts are copied, and objects (a configuration) become
their attributes, so that a later write into them shows. How deep that goes, and how many values
it takes in, is bounded: it is done again in every step. What is beyond that, and whatever else Python has, counts as
the same for ever. Of a tensor within a list or an object it is known which one it is.
"""

from __future__ import annotations

import argparse
import dataclasses
import enum
import functools
import sys
import types
from collections.abc import Iterator
from typing import Any

import torch

NOTHING = object()
"""Where there is no value."""
OTHER = object()
"""Some value, which is not looked at."""

_DEPTH = 3
_LARGEST = 1000  # so many values in all
_PLAIN = (
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type(None),
    enum.Enum,
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    torch.dtype,
    torch.device,
)
_NAMESPACES = (types.SimpleNamespace, argparse.Namespace)


class _Members(dict):
    """The attributes of an object, by name."""


@dataclasses.dataclass(frozen=True)
class TensorThere:
    """A tensor within a list or an object."""

    id: int


def is_plain(value: Any) -> bool:
    """Whether it can be compared as it is: a plain value, or a container of nothing else."""
    return _is_plain(value, _DEPTH)


def _is_plain(value: Any, depth: int) -> bool:
    if isinstance(value, _PLAIN):
        return True
    if type(value) not in (list, tuple, dict, set, frozenset) or depth == 0 or len(value) > _LARGEST:
        return False
    return all(_is_plain(part, depth - 1) for part in (value.values() if type(value) is dict else value))


def snapshot(value: Any, memo: dict[int, Any] | None = None) -> Any:
    """`memo` has the objects that were looked at before, by id."""
    return _Snapshot({} if memo is None else memo).of(value, _DEPTH)


class _Snapshot:
    def __init__(self, memo: dict[int, Any]) -> None:
        self._memo = memo
        self._left = _LARGEST

    def of(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if value is NOTHING or isinstance(value, _PLAIN):
            return value
        if isinstance(value, torch.Tensor):
            return TensorThere(id(value))
        if depth == 0 or self._left < 0:
            return OTHER
        if isinstance(value, (list, tuple, dict, set, frozenset)):
            return self._of_container(value, depth)
        return self._of_object(value, depth)

    def _of_container(self, value: Any, depth: int) -> Any:
        if len(value) > self._left:
            return OTHER
        if isinstance(value, dict):
            return {key: self.of(part, depth - 1) for key, part in value.items() if isinstance(key, _PLAIN)}
        if isinstance(value, (set, frozenset)):
            return {part for part in value if isinstance(part, _PLAIN)}
        parts = [self.of(part, depth - 1) for part in value]
        return parts if isinstance(value, list) else tuple(parts)

    def _of_object(self, value: Any, depth: int) -> Any:
        if not _is_looked_into(type(value)) or not hasattr(value, "__dict__"):
            return OTHER
        known = self._memo.get(id(value))
        if known is None:
            self._memo[id(value)] = OTHER  # its members may lead back to it
            known = _Members(_class_values(type(value)))
            for name, part in list(vars(value).items()):
                if not name.startswith("_") or is_plain(part):
                    known[name] = self.of(part, depth - 1)
            self._memo[id(value)] = known
        return known


@functools.cache
def _is_looked_into(kind: type) -> bool:
    """Not what belongs to Python or PyTorch: loggers, locks and generators change by being used."""
    if issubclass(kind, _NAMESPACES):
        return True
    if issubclass(kind, torch.nn.Module):
        return False
    root = kind.__module__.partition(".")[0]
    return root != "torch" and root not in sys.stdlib_module_names


def _class_values(kind: type) -> dict[str, Any]:
    """Public values that the class has for its objects."""
    return {
        name: value
        for base in reversed(kind.__mro__)
        for name, value in vars(base).items()
        if not name.startswith("_") and isinstance(value, (bool, int, float, complex, str, type(None)))
    }


@functools.cache
def class_value_names(kind: type[torch.nn.Module]) -> list[str]:
    """Of the values that a class of modules has for its objects."""
    return list(_class_values(kind).keys() - _class_values(torch.nn.Module).keys())


Path = tuple[str, ...]
"""The way to a value: `("config", ".scale")`, `("weights", "[0]")`."""


def differences(before: Any, now: Any, path: Path) -> Iterator[tuple[Path, Any, Any]]:
    """Where two snapshots differ, and in what."""
    if before is now:
        return
    if isinstance(before, dict) and isinstance(now, dict):
        for key in {**before, **now}:
            step = f".{key}" if isinstance(before, _Members) else f"[{key!r}]"
            yield from differences(before.get(key, NOTHING), now.get(key, NOTHING), (*path, step))
    elif isinstance(before, (list, tuple)) and type(before) is type(now) and len(before) == len(now):
        for i, (old, new) in enumerate(zip(before, now, strict=True)):
            yield from differences(old, new, (*path, f"[{i}]"))
    elif type(before) is not type(now) or before != now:
        yield path, before, now


def said(value: Any) -> str:
    if value is OTHER or isinstance(value, (TensorThere, _Members)):
        return "an object"
    return "none" if value is NOTHING else f"{value}"
