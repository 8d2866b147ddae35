"""Whether steps stay inside their budget, by what TensorFlow's allocator of the accelerator says.

A plan holds what it knows of; gaps between tensors and workspaces of kernels are TensorFlow's. So
the first steps of every graph that was planned are watched. One that took more is said, and planned
once more with so much less; its function is traced again then. In a session nothing can be planned
again. ``strict`` raises instead of going on over the budget.

A graph belongs to the call that TensorFlow optimised it in: of a function as it was traced for some
types of arguments, or of what a session fetches. Other calls are not looked at, beyond whether they
bring a new graph. Calls of several threads that begin at once may be taken for each other.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import sys
import threading
import weakref
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.client import session as sessions
from tensorflow.python.eager import context
from tensorflow.python.eager.polymorphic_function.concrete_function import ConcreteFunction
from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function

from ..error import Error
from ._library import Library
from ._text import human

# After the step in which kernels are chosen by trying, which takes memory that no other step does.
_STEPS = 2

measured: dict[int, int] = {}
"""The peak in bytes, by the number of the graph in the plug-in's report."""


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
    peaks = []
    for name in _accelerators(pattern):
        with contextlib.suppress(ValueError):  # not every allocator counts
            peaks.append(tf.config.experimental.get_memory_info(name)["peak"])
    return max(peaks, default=None)


def forget_peak(pattern: str) -> None:
    """Lets the accelerators count their peaks anew, from what they hold now."""
    for name in _accelerators(pattern):
        with contextlib.suppress(ValueError):
            tf.config.experimental.reset_memory_stats(name)


@dataclasses.dataclass
class _Step:
    """A step that runs by a plan, and what is known of its peak."""

    number: int
    name: str
    predicted: int
    budget: int
    """The user's; a second plan was made for less."""
    is_second_plan: bool
    watched: int = 0
    peak: int = 0


@dataclasses.dataclass
class _Missed:
    """What a second plan is made for, after the first one took more than its budget."""

    budget: int
    lower: int


@dataclasses.dataclass(frozen=True)
class _Call:
    """Who runs, and what: with these a graph is the same one in every call."""

    runner: ConcreteFunction | sessions.BaseSession
    function: Function | None = None
    """Whose trace the runner is, if the user called that."""
    fetched: str = ""
    """From a session."""

    @property
    def types(self) -> Hashable:
        """Of the arguments: a function has a trace for each."""
        return tuple(self.runner.function_type.parameters.items())

    def trace_again(self) -> bool:
        """Lets the next call trace the function again, for these types only. Whether that is possible."""
        if self.function is None:
            return False
        cache = self.function._function_cache
        keys = [key for key, traced in cache._primary.items() if traced is self.runner]
        for surroundings, types in keys:
            cache.delete(types, surroundings)
        return bool(keys)


class Watch:
    """Follows every training graph that is planned, from its first step until its peak is known."""

    def __init__(self, library: Library, parameters: dict[str, Any]) -> None:
        self._library = library
        self._parameters = parameters
        self._seen = library.last_number()
        # By runner, which may end while others are watched; then by what is fetched.
        self._steps: weakref.WeakKeyDictionary[Any, dict[str, _Step]] = weakref.WeakKeyDictionary()
        # By function; then by types.
        self._missed: weakref.WeakKeyDictionary[Function, dict[Hashable, _Missed]] = weakref.WeakKeyDictionary()

    def follow(self, call: _Call, run: Callable[[], Any]) -> Any:
        """What ``run`` returns."""
        before = self._library.last_number()
        step = self._steps.get(call.runner, {}).get(call.fetched)
        is_watched = step is not None and step.watched < _STEPS
        missed = None
        if step is None and call.function in self._missed:
            missed = self._missed[call.function].get(call.types)
        if is_watched:
            forget_peak(self._parameters["accelerator"])
        try:
            with self._planning_for(missed):
                result = run()
        except tf.errors.OpError as error:
            if _is_of_memory(error):
                with _lock:
                    if failed := self._begin(call, before, missed) or step:
                        _say_out_of_memory(failed, is_first=step is None)
            raise
        with _lock:
            if _watch is self and self._begin(call, before, missed) is None and is_watched:
                self._count(step, call)
        return result

    @contextlib.contextmanager
    def _planning_for(self, missed: _Missed | None) -> Iterator[None]:
        """With the lower budget, which is for this call alone."""
        if missed is None:
            yield
            return
        self._library.configure(self._parameters | {"budget": missed.lower})
        try:
            yield
        finally:
            if _watch is self:
                self._library.configure(self._parameters)

    def _begin(self, call: _Call, before: int, missed: _Missed | None) -> _Step | None:
        """The step that a call begins, if its graph is newer than number ``before``; the largest of several."""
        if self._library.last_number() == self._seen:
            return None
        new = [graph for graph in self._library.report()["graphs"] if graph["number"] > self._seen]
        self._seen = max((graph["number"] for graph in new), default=self._seen)
        for graph in new:
            if graph["problem"] and self._parameters["strict"]:
                raise Error(f"strict: {graph['name']} has no plan: {graph['problem']}")
        own = [graph for graph in new if graph["number"] > before]
        planned = [graph for graph in own if not graph["problem"] and (graph["rewrite"] or {}).get("budget_bytes")]
        if not planned:
            if own and missed is not None and missed.lower < missed.budget and call.trace_again():
                # Rather a bit too much than as much as without a plan.
                missed.lower = missed.budget
                _say(f"{own[-1]['name']} is planned for {human(missed.budget)} again")
            return None
        graph = max(planned, key=lambda graph: graph["nodes"])
        step = _Step(
            number=graph["number"],
            name=graph["name"],
            predicted=graph["rewrite"]["peak_bytes"],
            budget=graph["rewrite"]["budget_bytes"] if missed is None else missed.budget,
            is_second_plan=missed is not None,
        )
        self._steps.setdefault(call.runner, {})[call.fetched] = step
        return step

    def _count(self, step: _Step, call: _Call) -> None:
        peak = read_peak(self._parameters["accelerator"])
        if peak is None:
            step.watched = _STEPS
            return
        step.watched += 1
        step.peak = max(step.peak, peak)
        if step.watched == _STEPS:
            measured[step.number] = step.peak
            if step.peak > step.budget:
                self._miss(step, call)

    def _miss(self, step: _Step, call: _Call) -> None:
        said = f"{step.name} took {human(step.peak)} of {human(step.budget)}; {human(step.predicted)} were planned"
        lower = step.budget - (step.peak - step.budget)
        if step.is_second_plan or lower <= 0 or not call.trace_again():
            if self._parameters["strict"]:
                raise Error(f"strict: {said}; give a smaller budget")
            _say(f"{said}. Over its budget it goes on; give a smaller one")
            return
        _say(f"{said}. It is planned again, for {human(lower)}")
        self._missed.setdefault(call.function, {})[call.types] = _Missed(step.budget, lower)


def _is_of_memory(error: tf.errors.OpError) -> bool:
    """cuDNN's workspace is no tensor; a convolution without it fails in another way."""
    return isinstance(error, tf.errors.ResourceExhaustedError) or "failed to allocate the scratch space" in str(error.message)


def _say_out_of_memory(step: _Step, *, is_first: bool) -> None:
    if os.environ.get("TF_GPU_ALLOCATOR") != "cuda_malloc_async":
        hint = (
            "the allocator may have no gap that is large enough. TF_GPU_ALLOCATOR=cuda_malloc_async in the "
            "environment, or a smaller budget, helps"
        )
    elif is_first and os.environ.get("TF_CUDNN_USE_AUTOTUNE", "1").lower() not in ("0", "false"):
        hint = (
            "in a first step TensorFlow tries the kernels of convolutions, which takes memory besides. "
            "TF_CUDNN_USE_AUTOTUNE=0 in the environment, or a smaller budget, helps"
        )
    else:
        hint = "a smaller budget helps"
    _say(f"{step.name} ran out of memory, though {human(step.predicted)} were planned: {hint}")


def _say(line: str) -> None:
    print(f"ebb: {line}", file=sys.stderr)


class _Called(threading.local):
    function: Function | None = None
    """What the user called, while what was traced of it runs."""


_lock = threading.Lock()
_watch: Watch | None = None
_called = _Called()


def _noted(call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def noting(self: Function, *args: Any, **named: Any) -> Any:
        outer, _called.function = _called.function, self
        try:
            return call(self, *args, **named)
        finally:
            _called.function = outer

    return noting


def _watched_function(run: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(run)
    def watched(self: ConcreteFunction, *args: Any, **named: Any) -> Any:
        if (watch := _watch) is None or not context.executing_eagerly():
            return run(self, *args, **named)
        return watch.follow(_Call(self, function=_called.function), lambda: run(self, *args, **named))

    return watched


def _watched_session(run: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(run)
    def watched(self: sessions.BaseSession, fetches: Any, *args: Any, **named: Any) -> Any:
        if (watch := _watch) is None:
            return run(self, fetches, *args, **named)
        return watch.follow(_Call(self, fetched=repr(fetches)), lambda: run(self, fetches, *args, **named))

    return watched


@functools.cache
def _hook() -> None:
    Function.__call__ = _noted(Function.__call__)
    ConcreteFunction._call_flat = _watched_function(ConcreteFunction._call_flat)
    sessions.BaseSession.run = _watched_session(sessions.BaseSession.run)


def watch(library: Library, parameters: dict[str, Any]) -> None:
    """From the next step that is planned on; instead of whatever was watched before."""
    global _watch
    _hook()
    with _lock:
        _watch = Watch(library, parameters)


def stop() -> None:
    global _watch
    with _lock:
        _watch = None
