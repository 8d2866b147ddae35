"""Whether steps stay inside their budget, by what TensorFlow's allocator of the accelerator says.

A plan holds what it knows of; gaps between tensors and workspaces of kernels are TensorFlow's. So
the first steps that were planned are watched. One that took more is said, and planned once more
with so much less; the function is traced again then. In a session nothing can be planned again.
``strict`` raises instead of going on over the budget.

Nothing is watched any more as soon as it is known.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.client import session as sessions
from tensorflow.python.eager import context
from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function

from ..error import Error
from ._library import Library
from ._text import human

# After the step in which kernels are chosen by trying, which takes memory that no other step does.
_STEPS = 2


def _accelerators(pattern: str) -> Iterator[str]:
    """The short names of the GPUs that are meant, where TensorFlow has started them."""
    current = context.context_safe()
    if current is None or not current._initialized:
        return
    wanted = pattern.upper().rpartition("GPU")[2].lstrip(":")
    for device in current.list_logical_devices("GPU"):
        number = device.name.rpartition(":")[2]
        if wanted in ("", "*", number):
            yield f"GPU:{number}"


def read_peak(pattern: str) -> int | None:
    """The most bytes that one of the accelerators has given out; None where nobody counts them."""
    peaks = [tf.config.experimental.get_memory_info(name)["peak"] for name in _accelerators(pattern)]
    return max(peaks, default=None)


def forget_peak(pattern: str) -> None:
    for name in _accelerators(pattern):
        tf.config.experimental.reset_memory_stats(name)


class Watch:
    """Follows the first training graph that is planned, from its first step until its peak is known."""

    def __init__(self, library: Library, parameters: dict[str, Any]) -> None:
        self._library = library
        self._parameters = parameters
        self._graph: dict[str, Any] | None = None
        self._budget = 0  # what the user asked for; a second plan gets less
        self._steps = 0
        self._is_peak_clean = False
        self._was_planned_again = False
        self._graphs_before = self._planned()
        self.measured: dict[str, int] = {}
        """The peak in bytes, by the function's name."""

    def _planned(self) -> list[dict[str, Any]]:
        """What the plug-in says of graphs that it planned or could not plan."""
        graphs = self._library.report()["graphs"]
        return [each for each in graphs if each["problem"] or (each["rewrite"] or {}).get("budget_bytes")]

    def after_step(self, plan_again: Callable[[], None] | None) -> bool:
        """To be called after every step. Whether there is nothing to watch any more."""
        if self._graph is None:
            return self._begin()
        self._steps += 1
        peak = read_peak(self._parameters["accelerator"])
        if peak is None:
            return True
        if self._steps < _STEPS:
            return False
        if peak <= self._budget:
            self.measured[self._graph["name"]] = peak
            return True
        if not self._is_peak_clean:  # of the first step perhaps
            forget_peak(self._parameters["accelerator"])
            self._is_peak_clean, self._steps = True, 0
            return False
        self.measured[self._graph["name"]] = peak
        return self._miss(peak, plan_again)

    def _begin(self) -> bool:
        new = [graph for graph in self._planned() if graph not in self._graphs_before]
        if not new:
            return False
        self._graph = max(new, key=lambda graph: graph["nodes"])
        if self._graph["problem"]:
            if self._parameters["strict"]:
                raise Error(f"strict: {self._graph['name']} has no plan: {self._graph['problem']}")
            return True
        self._budget = self._budget or self._graph["rewrite"]["budget_bytes"]
        return False

    def _miss(self, peak: int, plan_again: Callable[[], None] | None) -> bool:
        predicted = self._graph["rewrite"]["peak_bytes"]
        said = (
            f"{self._graph['name']} took {human(peak)} of {human(self._budget)}; "
            f"{human(predicted)} were planned"
        )
        lower = self._graph["rewrite"]["budget_bytes"] - (peak - self._budget)
        if plan_again is None or self._was_planned_again or lower <= 0:
            if self._parameters["strict"]:
                raise Error(f"strict: {said}; give a smaller budget")
            _say(f"{said}. Over its budget it goes on; give a smaller one")
            return True
        _say(f"{said}. It is planned again, for {human(lower)}")
        self._library.configure(self._parameters | {"budget": lower})
        plan_again()
        self._graphs_before = self._planned()
        self._graph, self._steps, self._is_peak_clean = None, 0, False
        self._was_planned_again = True
        return False

    def out_of_memory(self) -> None:
        if self._graph is None:
            self._begin()
        if self._graph is not None and not self._graph["problem"]:
            planned = human(self._graph["rewrite"]["peak_bytes"])
            _say(
                f"{self._graph['name']} ran out of memory, though {planned} were planned: the allocator may "
                "have no gap that is large enough. TF_GPU_ALLOCATOR=cuda_malloc_async in the environment, "
                "or a smaller budget, helps"
            )


def _say(line: str) -> None:
    print(f"ebb: {line}", file=sys.stderr)


_lock = threading.Lock()
_watch: Watch | None = None
_last: Watch | None = None


def measured_of(name: str) -> int | None:
    """The peak that was seen while the function of that name ran."""
    return _last.measured.get(name) if _last is not None else None


def _after(plan_again: Callable[[], None] | None) -> None:
    global _watch
    with _lock:
        if _watch is None:
            return
        is_done = True
        try:
            is_done = _watch.after_step(plan_again)
        finally:
            if is_done:
                _watch = None


def _watched(step: Callable[..., Any], plan_again: Callable[[Any], None] | None) -> Callable[..., Any]:
    @functools.wraps(step)
    def call(self: Any, *args: Any, **named: Any) -> Any:
        if _watch is None or (plan_again is not None and not context.executing_eagerly()):
            return step(self, *args, **named)
        try:
            result = step(self, *args, **named)
        except tf.errors.ResourceExhaustedError:
            if (watch := _watch) is not None:
                watch.out_of_memory()
            raise
        _after(functools.partial(plan_again, self) if plan_again is not None else None)
        return result

    return call


def _trace_again(function: Any) -> None:
    function._function_cache.clear()


@functools.cache
def _hook() -> None:
    Function.__call__ = _watched(Function.__call__, _trace_again)
    sessions.BaseSession.run = _watched(sessions.BaseSession.run, None)


def watch(library: Library, parameters: dict[str, Any]) -> None:
    """From the next step that is planned on; instead of whatever was watched before."""
    global _watch, _last
    _hook()
    with _lock:
        _watch = _last = Watch(library, parameters)


def stop() -> None:
    global _watch
    with _lock:
        _watch = None
