"""Lets signals wait while the user's objects, or PyTorch's, are half way from one state to another."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """What handlers of signals do, Ctrl-C's as well, they do at the end. For what is done soon."""
    if threading.current_thread() is not threading.main_thread():
        yield  # no handler runs here
        return
    handlers = {number: handler for number in signal.valid_signals() if callable(handler := signal.getsignal(number))}
    came: dict[int, FrameType | None] = {}
    is_over = False

    def wait(number: int, frame: FrameType | None) -> None:
        if is_over:
            handlers[number](number, frame)
        else:
            came.setdefault(number, frame)

    try:
        for number in handlers:
            signal.signal(number, wait)
        yield
    finally:
        try:
            _put_back(list(handlers.items()), wait)
        finally:
            is_over = True
            _answer(came, handlers)


def _put_back(left: list[tuple[int, Callable]], waiting: Callable) -> None:
    """All, though one raises that is back already. Those stay that were installed meanwhile."""
    try:
        while left:
            number, handler = left[-1]
            if signal.getsignal(number) is waiting:
                signal.signal(number, handler)
            left.pop()
    except BaseException:
        _put_back(left, waiting)
        raise


def _answer(came: dict[int, FrameType | None], handlers: dict[int, Callable]) -> None:
    """In the order in which they came, and all, though one raises."""
    try:
        while came:
            number = next(iter(came))
            handlers[number](number, came.pop(number))
    except BaseException:
        _answer(came, handlers)
        raise
