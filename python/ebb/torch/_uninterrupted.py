"""Lets Ctrl-C wait while the user's objects, or PyTorch's, are half way from one state to another."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """What Ctrl-C does, it does at the end. For what is done soon."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield  # nothing is raised here
        return
    noted: list[tuple] = []
    signal.signal(signal.SIGINT, lambda *args: noted.append(args))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if noted:
            handler(*noted[0])
