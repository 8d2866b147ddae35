"""What a compiled step has to say about itself."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from ebb import Error

from ._files import replaced


class Report(Mapping):
    """Figures of a compiled step by name: `step.report()["peak_bytes"]`; printed, some lines for people."""

    def __init__(self, figures: dict[str, Any]) -> None:
        self._figures = figures

    def __getitem__(self, key: str) -> Any:
        return self._figures[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._figures)

    def __len__(self) -> int:
        return len(self._figures)

    def to_json(self) -> str:
        return json.dumps(self._figures, indent=2)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the text (`report.txt`), or the figures (`report.json`)."""
        suffix = pathlib.PurePath(path).suffix.lower()
        if suffix not in ("", ".txt", ".json"):
            raise Error(f"a report is written as text (.txt) or as figures (.json), and not as {suffix}: {path}")
        text = self.to_json() + "\n" if suffix == ".json" else str(self)
        with replaced(path) as file:
            file.write_text(text, encoding="utf-8")

    def __str__(self) -> str:
        figures = self._figures
        lines = [
            f"{_size(figures['peak_bytes'])} of {_size(figures['budget_bytes'])} on "
            f"{figures['device']}; as it is the step needs {_size(figures['unconstrained_bytes'])}"
        ]
        plan = figures.get("plan")
        if plan is None:
            lines.append("nothing is swapped or computed again")
        else:
            lines.append(
                f"{plan['tensors_swapped']} tensors swapped ({_size(plan['bytes_swapped'])}; "
                f"{_size(figures['host_bytes'])} on the host), {plan['tensors_recomputed']} computed again "
                f"({_size(plan['bytes_recomputed'])})"
            )
            lines.append(
                f"predicted {_time(plan['step_seconds'])} a step, "
                f"{plan['step_seconds'] / plan['unconstrained_seconds']:.2f} of the "
                f"{_time(plan['unconstrained_seconds'])} it takes as it is"
            )
        lines += self._measured()
        return "\n".join(lines) + "\n"

    def _measured(self) -> list[str]:
        measured = self._figures.get("measured", {})
        if "step_seconds" not in measured:
            return []
        line = f"measured {_time(measured['step_seconds'])} a step"
        plan = self._figures.get("plan")
        if plan is not None:
            line += f", {measured['step_seconds'] / plan['step_seconds']:.2f} of what was predicted"
        if "samples_per_second" in measured:
            line += f"; {measured['samples_per_second']:.4g} samples/s"
        return [f"{line}; {measured['steps_done']} steps done"]


def _size(count: int) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} GiB"


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
