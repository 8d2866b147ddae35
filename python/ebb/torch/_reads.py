"""Which attributes of modules a step reads and writes, while it is captured."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ._members import NOTHING
from ._places import is_of_torch

Note = Callable[[torch.nn.Module, str], None]


@contextlib.contextmanager
def noted(on_read: Note, on_write: Note) -> Iterator[None]:
    """Around the user's code: calls `on_read` before an attribute of any module is read, and `on_write` before one is
    assigned to. Reading `__dict__` is reading everything; PyTorch's own code does so for a single name."""
    kind = torch.nn.Module
    before = {name: vars(kind).get(name, NOTHING) for name in ("__getattribute__", "__setattr__")}
    reads = before["__getattribute__"]

    def read(module: torch.nn.Module, name: str) -> Any:
        if name != "__dict__" or not is_of_torch(sys._getframe(1)):
            on_read(module, name)
        # PyTorch has no such method of its own, and a class that stands behind Module among the bases may have one.
        return super(kind, module).__getattribute__(name) if reads is NOTHING else reads(module, name)

    def write(module: torch.nn.Module, name: str, value: Any) -> None:
        on_write(module, name)
        before["__setattr__"](module, name, value)

    kind.__getattribute__, kind.__setattr__ = read, write
    try:
        yield
    finally:
        for name, method in before.items():
            if method is NOTHING:
                delattr(kind, name)
            else:
                setattr(kind, name, method)
