"""Says on a terminal how far compilation is, if it takes longer than two seconds."""

from __future__ import annotations

import sys
import time


class Progress:
    PATIENCE = 2.0  # seconds
    PAUSE = 0.1

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._last = self._begin
        self._shown = False

    def __call__(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if not sys.stderr.isatty() or now - self._begin < self.PATIENCE:
            return
        if now - self._last < self.PAUSE:
            return
        self._last = now
        far = f", {done} of {total}" if total else ""
        sys.stderr.write(f"\r\x1b[Kebb: {what}{far}")
        sys.stderr.flush()
        self._shown = True

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
