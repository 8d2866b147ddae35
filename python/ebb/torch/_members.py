"""What Python objects hold by name, read without running any code of theirs."""

from __future__ import annotations

import abc
import argparse
import collections
import functools
import sys
import types
import typing
from typing import Any

NOTHING = object()
"""Where there is no value."""

# Classes of Python that shape objects and do nothing by themselves.
_SHAPES = {
    abc.ABC,
    typing.Generic,
    typing.Protocol,
    functools.partial,
    types.SimpleNamespace,
    *argparse.Namespace.__mro__,
    *collections.UserDict.__mro__,
    *collections.UserList.__mro__,
}


def is_looked_into(kind: type) -> bool:
    """Whether objects of this class are what its user made of them, as configurations are. Those of Python and PyTorch,
    and of classes derived from theirs, are not: modules, optimizers, loggers, locks change by being used."""
    return all(base in _SHAPES or _is_users(base) for base in kind.__mro__)


def _is_users(kind: type) -> bool:
    root = str(kind.__module__).partition(".")[0]
    return root != "torch" and root not in sys.stdlib_module_names


def own_members(value: Any) -> dict[str, Any]:
    """What the object itself has, in its dictionary and in slots."""
    members = dict(_dictionary(value))
    for base in type(value).__mro__:
        for name, slot in list(vars(base).items()):
            if isinstance(slot, types.MemberDescriptorType) and name not in members and name != "__dict__":
                part = _in_slot(slot, value)
                if part is not NOTHING:
                    members[name] = part
    return members


def look_up(value: Any, name: str) -> Any:
    """What the object has by that name, or its class has for it: a function or a property as such."""
    part = _dictionary(value).get(name, NOTHING)
    return class_member(value, name) if part is NOTHING else part


def class_member(value: Any, name: str) -> Any:
    """What stands in a slot or in the class of the object."""
    for base in type(value).__mro__:
        part = vars(base).get(name, NOTHING)
        if part is not NOTHING:
            return _in_slot(part, value) if isinstance(part, types.MemberDescriptorType) else part
    return NOTHING


def _dictionary(value: Any) -> dict[str, Any]:
    try:
        members = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return members if isinstance(members, dict) else {}


def _in_slot(slot: types.MemberDescriptorType, value: Any) -> Any:
    try:
        return slot.__get__(value)
    except AttributeError:  # nothing was put there
        return NOTHING
