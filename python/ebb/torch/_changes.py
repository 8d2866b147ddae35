"""Whether modules are still what they were when a step was captured.

A captured step does not run the modules' Python any more. So a dropout's new `p`, another head or a
new hook would be without effect where eager PyTorch would obey: it is refused instead. What forward
itself counts up or keeps is no such change.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import torch

from ebb import Error

_NOTHING = object()
_PLAIN = (bool, int, float, str, type(None))
_OF_EVERY_MODULE = frozenset(vars(torch.nn.Module()))  # `training` has words of its own
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")

# What some forward has changed while it was captured, by module.
_moving: weakref.WeakKeyDictionary[torch.nn.Module, set[str]] = weakref.WeakKeyDictionary()


def _is_plain(value: Any) -> bool:
    return isinstance(value, _PLAIN) or (isinstance(value, tuple) and all(map(_is_plain, value)))


def _attributes(part: torch.nn.Module) -> dict[str, Any]:
    members = vars(part)
    plain = {key: value for key, value in members.items() if key not in _OF_EVERY_MODULE and _is_plain(value)}
    return plain | {"forward": members.get("forward", _NOTHING)}


class Changes:
    """To be made before the capture; `settle` when it is over."""

    def __init__(self, modules: list[torch.nn.Module]) -> None:
        self._parts = {part: name for module in modules for name, part in module.named_modules()}
        self._before = {part: _attributes(part) for part in self._parts}
        self._attributes: list[tuple[torch.nn.Module, dict[str, Any], str, Any]] = []
        self._children: list[tuple[torch.nn.Module, dict[str, Any], dict[str, Any]]] = []
        self._hooks: list[tuple[torch.nn.Module, dict[int, Any], list[int]]] = []

    def settle(self) -> None:
        for part, before in self._before.items():
            now = _attributes(part)
            moved = {key for key in before.keys() | now.keys() if now.get(key, _NOTHING) != before.get(key, _NOTHING)}
            if moved:
                _moving.setdefault(part, set()).update(moved)
            self._attributes += [(part, vars(part), key, value) for key, value in now.items()]
            self._children.append((part, part._modules, dict(part._modules)))
            self._hooks += [(part, table, list(table)) for table in _hooks_of(part)]
        self._before = {}

    def check(self) -> None:
        """Raises ebb.Error where something is not as it was."""
        for part, table, before in self._children:
            if table != before:
                names = [key for key in {**before, **table} if table.get(key) is not before.get(key)]
                self._refuse(part, f"has another '{names[0]}'")
        for part, table, key, value in self._attributes:
            now = table.get(key, _NOTHING)
            if now is not value and now != value and key not in _moving.get(part, ()):
                self._refuse(part, f"had {key} = {_said(value)} and now has {_said(now)}")
        for part, table, before in self._hooks:
            if len(table) != len(before) or list(table) != before:
                self._refuse(part, "has other hooks")

    def _refuse(self, part: torch.nn.Module, what: str) -> None:
        name = self._parts[part]
        who = f"{type(part).__name__} '{name}'" if name else type(part).__name__
        raise Error(f"since the step was captured, {who} {what}: another computation. Compile the step again")


def _said(value: Any) -> str:
    return "none" if value is _NOTHING else f"{value}"


def _hooks_of(part: torch.nn.Module) -> Iterator[dict[int, Any]]:
    for key in _HOOKS:
        table = vars(part).get(key)
        if isinstance(table, dict):
            yield table
