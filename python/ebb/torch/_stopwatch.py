"""How long the last steps took. Nobody waits for a step to end because of it."""

from __future__ import annotations

import collections
import contextlib
import statistics
import time
from collections.abc import Iterator

import torch


class Stopwatch:
    LAST = 50
    """Of so many steps the median is taken."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._seconds: collections.deque[float] = collections.deque(maxlen=self.LAST)
        self._events: collections.deque[tuple] = collections.deque()  # begin and end of steps on a GPU

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """Times what is done, or put into the current stream of a GPU; not what fails."""
        if self._device.type == "cpu":
            begin = time.perf_counter()
            yield
            self._seconds.append(time.perf_counter() - begin)
            return
        # The oldest pair is used again, so that there are never more than so many.
        if len(self._events) == self.LAST:
            events = self._events.popleft()
        else:
            events = tuple(torch.cuda.Event(enable_timing=True) for _ in range(2))
        stream = torch.cuda.current_stream(self._device)
        events[0].record(stream)
        yield
        events[1].record(stream)
        self._events.append(events)

    def seconds(self) -> list[float]:
        """Of the last steps, those that are done by now."""
        if self._device.type == "cpu":
            return list(self._seconds)
        done = [(begin, end) for begin, end in self._events if end.query()]
        return [begin.elapsed_time(end) / 1e3 for begin, end in done]

    def median(self) -> float | None:
        seconds = self.seconds()
        return statistics.median(seconds) if seconds else None
