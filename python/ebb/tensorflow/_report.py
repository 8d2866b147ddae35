"""What Ebb did to each graph that TensorFlow optimised."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

from . import _peak
from ._library import loaded
from ._text import human


def _counted(tensors: int) -> str:
    return "1 tensor" if tensors == 1 else f"{tensors} tensors"


@dataclasses.dataclass(frozen=True)
class GraphReport:
    """One function's graph."""

    name: str
    """The function's, as far as TensorFlow's graph says it."""
    nodes: int
    tensors_swapped: int
    bytes_swapped: int
    """As far as sizes are known before the graph runs."""
    refused: collections.Counter[str]
    """How many edges were left alone, by reason."""
    tensors_recomputed: int
    problem: str | None
    """Why the graph runs as it was."""
    seconds: float
    """How long Ebb took."""
    shape_seconds: float
    """How much of that was TensorFlow's inference of shapes."""
    budget_bytes: int | None
    """What the step may hold on the accelerator; None where there is no budget."""
    peak_bytes: int | None
    """What it will, as predicted."""
    step_seconds: float | None
    """How long it will take, as predicted by the device's numbers or a profile."""
    measured_bytes: int | None
    """What the accelerator's allocator had given out at most, after some steps; None where it was not watched."""
    details: dict[str, Any]
    """All that the rewrite reported, as ``ebb rewrite --json`` prints it."""

    def __str__(self) -> str:
        lines = [f"{self.name} ({self.nodes} operations, {self.seconds:.3f} s)"]
        if self.problem is not None:
            lines.append(f"  runs as it was: {self.problem}")
        else:
            lines.append(f"  {self._swapped()}")
            if self.tensors_recomputed:
                lines.append(f"  {_counted(self.tensors_recomputed)} computed again")
            if self.budget_bytes and self.peak_bytes and self.step_seconds:
                lines.append(
                    f"  predicted: {human(self.peak_bytes)} of {human(self.budget_bytes)}, "
                    f"{1000 * self.step_seconds:.1f} ms a step"
                )
            if self.measured_bytes is not None:
                lines.append(f"  measured: {human(self.measured_bytes)}")
        lines.extend(f"  {count} left alone: {why}" for why, count in self.refused.most_common())
        return "\n".join(lines)


    def _swapped(self) -> str:
        said = f"{_counted(self.tensors_swapped)} swapped"
        if not self.tensors_swapped:
            return said
        # Where a batch may have any size, so may its tensors.
        if not self.bytes_swapped:
            return f"{said}, of unknown size"
        unknown = self.details.get("unknown_sizes", 0)
        return f"{said}, {human(self.bytes_swapped)}" + (f" without {unknown} of unknown size" if unknown else "")


@dataclasses.dataclass(frozen=True)
class Report:
    """Whether Ebb is on, with which parameters, and what it did."""

    parameters: dict[str, Any] | None
    """None when Ebb is off."""
    graphs: tuple[GraphReport, ...]
    """The latest ones, oldest first."""
    calls: int
    """How often TensorFlow's optimizer called, twice for most graphs."""
    calls_without_backward: int
    """How many of these were about graphs without a backward phase, which are left alone."""
    raw: dict[str, Any] = dataclasses.field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """All of it, of plain types that JSON can hold."""
        return self.raw

    def __str__(self) -> str:
        state = "off" if self.parameters is None else "on"
        lines = [
            f"Ebb is {state}; TensorFlow's optimizer called it {self.calls} times, "
            f"{self.calls_without_backward} of them with a graph that has no backward phase"
        ]
        lines.extend(str(graph) for graph in self.graphs)
        return "\n".join(lines)


def _graph(raw: dict[str, Any]) -> GraphReport:
    rewrite = raw["rewrite"] or {}
    return GraphReport(
        name=raw["name"],
        nodes=raw["nodes"],
        tensors_swapped=rewrite.get("tensors_swapped", 0),
        bytes_swapped=rewrite.get("bytes_swapped", 0),
        tensors_recomputed=rewrite.get("tensors_recomputed", 0),
        refused=collections.Counter(refused["reason"] for refused in rewrite.get("refused", [])),
        problem=raw["problem"],
        seconds=raw["seconds"],
        shape_seconds=raw["shape_seconds"],
        budget_bytes=rewrite.get("budget_bytes"),
        peak_bytes=rewrite.get("peak_bytes"),
        measured_bytes=_peak.measured.get(raw["number"]),
        step_seconds=rewrite.get("step_seconds"),
        details=rewrite,
    )


def last_report() -> Report:
    """What Ebb did since it was first turned on in this process; ``print`` it."""
    raw = loaded().report()
    return Report(
        parameters=raw["configuration"],
        graphs=tuple(_graph(graph) for graph in raw["graphs"]),
        calls=raw["calls"],
        calls_without_backward=raw["calls_without_backward"],
        raw=raw,
    )
