"""What run.py wrote, for tables.py and docs/pictures/draw_throughput.py. Cells that it has not run are there, empty."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
from typing import Any

from run import CELLS

STEPS = {("resnet50", 224): "ResNet-50 224²", ("unet3d", 128): "3D U-Net 128³", ("unet3d", 192): "3D U-Net 192³"}


@dataclasses.dataclass(frozen=True)
class Cell:
    name: str
    settings: dict[str, Any]
    batches: list[dict[str, Any]]  # up to the first that did not train; none where the cell was not run

    @property
    def step(self) -> str:
        return STEPS[self.settings["network"], self.settings["side"]]

    @property
    def parameters(self) -> dict[str, Any] | None:
        return self.settings.get("parameters")

    @property
    def trained(self) -> list[dict[str, Any]]:
        return [seen for seen in self.batches if seen["state"] == "trained"]

    @property
    def end(self) -> str | None:
        """The batch that did not train, and why; None where all did, or nothing was run."""
        if not self.batches or self.batches[-1]["state"] == "trained":
            return None
        return f"{self.batches[-1]['batch']}: {why_not(self.batches[-1])}"

    def at(self, batch: int) -> dict[str, Any] | None:
        return next((seen for seen in self.batches if seen["batch"] == batch), None)


def why_not(seen: dict[str, Any]) -> str:
    """What became of a batch that did not train."""
    no_plan = re.search(r"no plan fits.* the least budget found is (\d+)B", (seen.get("ebb") or {}).get("problem") or "")
    return f"no plan fits; least {int(no_plan[1]) / 2**30:.1f} GiB" if no_plan else seen["state"]


def read(path: str) -> dict[str, Cell]:
    """The cells of run.py in its order, then others that the file has."""
    seen = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    cells = {}
    for name in CELLS | seen:
        settings = seen[name]["cell"] if name in seen else CELLS[name]
        if (settings["network"], settings["side"]) not in STEPS:
            # Small sizes try run.py. They say nothing about the paper's steps.
            raise SystemExit(f"{path}: {name} is of side {settings['side']}, which is none of the paper's sizes")
        cells[name] = Cell(name, settings, seen[name]["batches"] if name in seen else [])
    return cells


def batches_of(cells: list[Cell]) -> list[int]:
    """All that were to be tried."""
    return sorted({batch for cell in cells for batch in cell.settings["batches"]})


def describe(parameters: dict[str, Any]) -> str:
    count = parameters.get("n_tensors", -1)
    words = ["all" if count == -1 else str(count), f"lb {parameters.get('lb', 1)}"]
    if parameters.get("ctrld_strategy", "chain_rule") != "chain_rule":
        words.append(parameters["ctrld_strategy"])
    words += ["fused"] if parameters.get("fuse_swapins") else []
    words += ["branches"] if parameters.get("swap_branches") else []
    words += [f"sync {parameters['sync']}"] if parameters.get("sync", 2) != 2 else []
    return ", ".join(words)


def describe_options(settings: dict[str, Any]) -> str:
    """Of a cell by budget, what is not as usual."""
    return str((settings.get("options") or {}).get("swap_nodes", "")).replace("_", " ")


def size(setting: str | list[str]) -> str:
    """16GiB with a space, as it is printed elsewhere."""
    return " or ".join([setting] if isinstance(setting, str) else setting).replace("GiB", " GiB")


def machines(cells: dict[str, Cell]) -> str:
    """Where all this was measured."""
    all_seen = [seen for cell in cells.values() for seen in cell.batches if "machine" in seen]
    return "; ".join(sorted({f"{seen['machine']}, TensorFlow {seen['tensorflow']}" for seen in all_seen}))
