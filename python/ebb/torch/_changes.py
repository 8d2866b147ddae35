"""Whether models and optimizers are still what they were when a step was captured.

A captured step does not run their Python any more. So a dropout's new `p`, another head, a number in a
configuration or a new hook would be without effect where eager PyTorch would obey: it is refused instead. What
forward itself counts up or keeps is no such change.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

import torch

from ebb import Error

from ._snapshot import NOTHING, OTHER, Path, TensorThere, class_value_names, differences, is_plain, said, snapshot

_OF_EVERY_MODULE = frozenset(vars(torch.nn.Module()))  # `training` has words of its own
_MODULE_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_OPTIMIZER_HOOKS = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")

# What some forward has changed while it was captured, by module.
_moving: weakref.WeakKeyDictionary[torch.nn.Module, set[Path]] = weakref.WeakKeyDictionary()


def _attributes(part: torch.nn.Module, memo: dict[int, Any]) -> dict[str, Any]:
    """What is compared of a module's own attributes. Objects behind private ones are not looked into: trainers hang
    themselves there."""
    members = vars(part)
    watched = {key: NOTHING for key in class_value_names(type(part)) if key not in members}  # may be set later
    for key, value in members.items():
        if key in _OF_EVERY_MODULE or key == "forward" or isinstance(value, torch.Tensor):
            continue
        if not key.startswith("_") or is_plain(value):
            watched[key] = snapshot(value, memo)
    return {key: value for key, value in watched.items() if value is not OTHER}


class Changes:
    """To be made before the capture; `settle` when it is over."""

    def __init__(self, modules: list[torch.nn.Module]) -> None:
        self._parts = {part: name for module in modules for name, part in module.named_modules()}
        memo: dict[int, Any] = {}
        self._before = {part: _attributes(part, memo) for part in self._parts}
        self._plain: list[tuple[torch.nn.Module, dict[str, Any], str, Any]] = []
        self._mixed: list[tuple[torch.nn.Module, dict[str, Any], str, Any]] = []  # with objects in them
        self._forwards: list[tuple[torch.nn.Module, dict[str, Any], Any]] = []
        self._children: list[tuple[torch.nn.Module, dict[str, Any], dict[str, Any]]] = []
        self._module_hooks: list[tuple[torch.nn.Module, dict[int, Any], list[int]]] = []
        self._optimizer_hooks: list[tuple[torch.optim.Optimizer, dict[int, Any], list[int]]] = []
        self._parameter_hooks: list[tuple[torch.Tensor, str, list[int], list[int]]] = []
        self._used: set[int] = set()

    def settle(
        self,
        used: Iterable[torch.Tensor],
        parameters: Iterable[tuple[torch.Tensor, str]],
        optimizers: Iterable[torch.optim.Optimizer],
    ) -> None:
        """`used` are all tensors that the step reads from outside; `parameters` those whose gradients it computes."""
        self._used = {id(tensor) for tensor in used}
        memo: dict[int, Any] = {}
        for part, before in self._before.items():
            now = _attributes(part, memo)
            for key in before.keys() | now.keys():
                for path, _, _ in differences(before.get(key, NOTHING), now.get(key, NOTHING), (key,)):
                    _moving.setdefault(part, set()).add(path)
            members = vars(part)
            for key, value in now.items():
                watched = self._plain if is_plain(members.get(key)) else self._mixed
                watched.append((part, members, key, value))
            self._forwards.append((part, members, members.get("forward")))
            self._children.append((part, part._modules, dict(part._modules)))
            self._module_hooks += [(part, table, list(table)) for table in _tables(part, _MODULE_HOOKS)]
        for optimizer in optimizers:
            self._optimizer_hooks += [(optimizer, table, list(table)) for table in _tables(optimizer, _OPTIMIZER_HOOKS)]
        self._parameter_hooks = [
            (tensor, name, list(tensor._backward_hooks or ()), list(tensor._post_accumulate_grad_hooks or ()))
            for tensor, name in parameters
        ]
        self._before = {}

    def check(self) -> None:
        """Raises ebb.Error where something is not as it was."""
        for part, table, before in self._children:
            if table != before:
                names = [key for key in {**before, **table} if table.get(key) is not before.get(key)]
                self._refuse(part, f"has another '{names[0]}'")
        memo: dict[int, Any] = {}
        for part, table, key, value in self._plain:
            now = table.get(key, NOTHING)
            if now is not value and not _equal(now, value):
                self._compare(part, key, value, snapshot(now, memo))
        for part, table, key, value in self._mixed:
            self._compare(part, key, value, snapshot(table.get(key, NOTHING), memo))
        for part, table, forward in self._forwards:
            if table.get("forward") != forward:
                self._refuse(part, "has another forward")
        for part, table, before in self._module_hooks:
            if len(table) != len(before) or list(table) != before:
                self._refuse(part, "has other hooks")
        for optimizer, table, before in self._optimizer_hooks:
            if list(table) != before:
                raise _changed(f"{type(optimizer).__name__} has other hooks")
        for tensor, name, before, after in self._parameter_hooks:
            if list(tensor._backward_hooks or ()) != before or list(tensor._post_accumulate_grad_hooks or ()) != after:
                raise _changed(f"the parameter {name} has other hooks")

    def _compare(self, part: torch.nn.Module, key: str, before: Any, now: Any) -> None:
        for path, old, new in differences(before, now, (key,)):
            if isinstance(old, TensorThere) and old.id not in self._used:
                continue
            if old is NOTHING and isinstance(new, TensorThere):  # in a cache, for a batch of another shape
                continue
            moving = _moving.get(part, ())
            if any(path[:length] in moving for length in range(1, len(path) + 1)):
                continue
            name = "".join(path)
            if isinstance(old, TensorThere):
                self._refuse(part, f"has another {name}")
            self._refuse(part, f"had {name} = {said(old)} and now has {said(new)}")

    def _refuse(self, part: torch.nn.Module, what: str) -> NoReturn:
        name = self._parts[part]
        who = f"{type(part).__name__} '{name}'" if name else type(part).__name__
        raise _changed(f"{who} {what}")


def _changed(what: str) -> Error:
    return Error(f"since the step was captured, {what}: another computation. Compile the step again")


def _equal(now: Any, before: Any) -> bool:
    try:
        return type(now) is type(before) and bool(now == before)
    except Exception:  # noqa: BLE001: of a class that has no such comparison, or an odd one
        return False


def _tables(owner: Any, names: Iterable[str]) -> Iterator[dict[int, Any]]:
    for name in names:
        table = vars(owner).get(name)
        if isinstance(table, dict):
            yield table
