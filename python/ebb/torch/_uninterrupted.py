"""Lets signals wait while the user's objects, or PyTorch's, are half way from one state to another."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
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
        if is_over:  # where a handler that raises comes before all have been put back
            handlers[number](number, frame)
        else:
            came[number] = frame

    try:
        for number in handlers:
            signal.signal(number, wait)
        yield
    finally:
        is_over = True
        for number, handler in handlers.items():
            signal.signal(number, handler)
        with contextlib.ExitStack() as stack:  # all are run, though one raises
            for number, frame in came.items():
                stack.callback(handlers[number], number, frame)
