"""Profiles: what TensorFlow took for the operations of a step, for planning with measured numbers.

Times come from TensorFlow's profiler: of kernels where there is a GPU, else of operations. Workspaces come from traces of
sessions, or from what the profiler saw of TensorFlow's own allocator (BFC); where neither was, as for functions beside
``cuda_malloc_async``, the plan goes on counting them by formula.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.client import session as sessions

from ..error import Error
from ._library import loaded

_traces: list[Any] | None = None  # of session steps, while something measures


def _traced(run: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(run)
    def call(
        self: Any, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None
    ) -> Any:
        if _traces is None or options is not None or run_metadata is not None:
            return run(self, fetches, feed_dict, options, run_metadata)
        run_options, trace = tf.compat.v1.RunOptions, tf.compat.v1.RunMetadata()
        _traces.append(trace)
        return run(self, fetches, feed_dict, run_options(trace_level=run_options.SOFTWARE_TRACE), trace)

    return call


@functools.cache
def _hook() -> None:
    sessions.BaseSession.run = _traced(sessions.BaseSession.run)


def _is_of_device(allocator: str) -> bool:
    return "host" not in allocator.lower()


def _workspaces_of_traces(traces: list[Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    for trace in traces:
        for device in trace.step_stats.dev_stats:
            for node in device.node_stats:
                used = [each for each in node.memory if _is_of_device(each.allocator_name)]
                taken = sum(max(0, each.peak_bytes - each.live_bytes) for each in used)
                found[node.node_name] = max(found.get(node.node_name, 0), taken)
    return found


class _Plane:
    """Events with their names and those of their statistics."""

    def __init__(self, plane: Any) -> None:
        self._plane = plane

    def _statistics(self, event: Any) -> dict[str, Any]:
        names = self._plane.stat_metadata
        out = {}
        for each in event.stats:
            kind = each.WhichOneof("value")
            value = getattr(each, kind)
            out[names[each.metadata_id].name] = names[value].name if kind == "ref_value" else value
        return out

    def events(self) -> Iterator[tuple[str, int, dict[str, Any]]]:
        """Name, picoseconds, statistics; those of one thread or stream in their order."""
        for line in self._plane.lines:
            for event in sorted(line.events, key=lambda each: each.offset_ps):
                name = self._plane.event_metadata[event.metadata_id].name
                yield name, event.duration_ps, self._statistics(event)


def _workspaces_of_allocations(plane: _Plane) -> dict[str, int]:
    """The most that an operation held beside what it left, by operation."""
    held: dict[tuple[str, Any], dict[int, int]] = defaultdict(dict)  # bytes by address, of one run
    peaks: Counter[tuple[str, Any]] = Counter()
    for name, _, said in plane.events():
        if name not in ("MemoryAllocation", "MemoryDeallocation") or not said.get("tf_op"):
            continue
        if not _is_of_device(str(said.get("allocator_name", ""))):
            continue
        run = (str(said["tf_op"]), said.get("id"))
        if name == "MemoryDeallocation":
            held[run].pop(said["addr"], None)
            continue
        held[run][said["addr"]] = int(said["requested_bytes"])
        peaks[run] = max(peaks[run], sum(held[run].values()))
    found: dict[str, int] = {}
    for run, peak in peaks.items():
        found[run[0]] = max(found.get(run[0], 0), peak - sum(held[run].values()))
    return found


def _times(planes: list[tuple[str, _Plane]]) -> dict[str, float]:
    """Seconds of one run, by operation. An operation is written ``name:Type``."""
    on_host, runs = Counter[str](), Counter[str]()
    on_device: Counter[str] = Counter()
    for where, plane in planes:
        for name, picoseconds, said in plane.events():
            if where.startswith("/device:GPU"):
                if operation := said.get("tf_op"):
                    on_device[str(operation)] += picoseconds
            elif ":" in name and "::" not in name:
                on_host[name] += picoseconds
                runs[name] += 1
    counted = on_device or on_host
    return {key.rpartition(":")[0]: counted[key] / max(1, runs[key]) * 1e-12 for key in counted}


def _read(folder: str, traces: list[Any]) -> list[dict[str, Any]]:
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    planes: list[tuple[str, _Plane]] = []
    for path in sorted(pathlib.Path(folder).rglob("*.xplane.pb")):
        space = xplane_pb2.XSpace()
        space.ParseFromString(path.read_bytes())
        planes += [(plane.name, _Plane(plane)) for plane in space.planes]
    workspaces = _workspaces_of_traces(traces)
    for where, plane in planes:
        if where.startswith("/host:"):
            workspaces = _workspaces_of_allocations(plane) | workspaces
    return [
        {"name": name, "seconds": seconds, "workspace": workspaces.get(name)}
        for name, seconds in _times(planes).items()
    ]


@contextlib.contextmanager
def measure(path: str | os.PathLike[str]) -> Iterator[None]:
    """Writes a profile of the steps that run inside, for ``enable(profile=...)``.

    The steps must be planned by a budget (``"100%"`` plans and moves nothing), and have run before: the first one is
    slower. One is enough. Nothing is written where something goes wrong.

    >>> with ebb.tensorflow.measure("step.json"):  # doctest: +SKIP
    ...     model.train_on_batch(images, labels)
    """
    global _traces
    if _traces is not None:
        raise Error("a profile is being measured already")
    target = pathlib.Path(path)
    if not target.parent.is_dir():
        raise Error(f"there is no folder '{target.parent}' for the profile")
    library = loaded()
    _hook()
    with tempfile.TemporaryDirectory(prefix="ebb-profile-") as folder:
        options = tf.profiler.experimental.ProfilerOptions(
            host_tracer_level=2, python_tracer_level=0, device_tracer_level=1
        )
        try:
            tf.profiler.experimental.start(folder, options)
        except tf.errors.AlreadyExistsError:
            raise Error("TensorFlow's profiler is running already, and there is but one") from None
        _traces = traces = []
        try:
            yield
        except BaseException:
            tf.profiler.experimental.stop(save=False)
            raise
        finally:
            _traces = None
        tf.profiler.experimental.stop()
        text = library.profile(_read(folder, traces))
    fresh = target.with_name(target.name + ".new")
    fresh.write_text(text)
    os.replace(fresh, target)
