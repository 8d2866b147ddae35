#!/usr/bin/env python3
"""What run.py measured, as Markdown: the paper's largest batches and ours; each cell by parameters; each by budget.

    bench/paper/tables.py paper.json

What was not run leaves its places empty. A batch that was not tried in a cell: "-".
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterable
from typing import Any

from results import STEPS, Cell, batches_of, describe, describe_options, machines, read, size, why_not

NOT_TRIED = "-"
# What the paper says, the cell without Ebb, the cells by budget.
LARGEST = {
    "ResNet-50 224²": ("176 → 832", "resnet50-plain", ["resnet50-budget", "resnet50-copy-kernels-budget"]),
    "3D U-Net 128³": ("2 → 4", "unet3d-plain", ["unet3d-budget"]),
    "3D U-Net 192³": ("out of memory → 1, 0.17 images/s", None, ["unet3d-192-budget"]),
}
UNLIMITED = "resnet50-no-limit"
BY_BUDGET = ("cell", "batch", "images/s", f"of `{UNLIMITED}`", "predicted peak", "measured peak", "difference",
             "predicted step", "measured step")


def print_row(columns: Iterable[object]) -> None:
    print("|", " | ".join(map(str, columns)), "|")


def print_head(columns: Iterable[object]) -> None:
    names = list(columns)
    print_row(names)
    print("|" + "---|" * len(names))


def speed(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def outcome(cell: Cell, batch: int) -> str:
    """Images a second, or what happened instead; nothing where the cell was not run."""
    seen = cell.at(batch)
    if seen is None:
        return NOT_TRIED if cell.batches else ""
    return speed(seen["images_per_second"]) if seen["state"] == "trained" else why_not(seen)


def best(cells: list[Cell]) -> str:
    """The largest batch that trained in one of the cells, and the speed of the fastest such cell."""
    trained = [(seen["batch"], seen["images_per_second"], cell) for cell in cells for seen in cell.trained]
    if not trained:
        return "; ".join(dict.fromkeys(cell.end for cell in cells if cell.end))
    batch, images, cell = max(trained, key=lambda each: each[:2])
    remarks = [describe(cell.parameters)] if cell.parameters is not None else []
    remarks += [options] if (options := describe_options(cell.settings)) else []
    remarks += [cell.end] if cell.end else []
    return f"{batch}, {speed(images)} images/s" + (f" ({'; '.join(remarks)})" if remarks else "")


def print_largest(cells: dict[str, Cell]) -> None:
    print("### Largest batch\n")
    print_head(("largest batch that trained¹", "paper²", "plain", "Ebb by parameters³", "Ebb by budget"))
    tried, missing = [], 0
    for step, (paper, plain, names) in LARGEST.items():
        by_budget = [cells[name] for name in names]
        by_parameters = [cell for cell in cells.values() if cell.step == step and cell.parameters is not None]
        missing += sum(not cell.batches for cell in by_parameters)
        without = best([cells[plain]]) if plain else NOT_TRIED
        print_row((step, paper, without, best(by_parameters), best(by_budget)))
        lists = {"plain": [cells[plain]] if plain else [], "by parameters": by_parameters, "by budget": by_budget}
        said = [f"{way} {', '.join(map(str, batches_of(of)))}" for way, of in lists.items() if of]
        tried.append(f"{step} {'; '.join(said)}")
    print(f"\n¹ Of those tried, in each cell up to the first that did not train: {'. '.join(tried)}. "
          "A volume of the 3D U-Net is an image.")
    print("² Without and with large-model support, on a P100 of 16 GB.")
    print("³ The best of the cells of the next table" + (f", of which {missing} {'was' if missing == 1 else 'were'} not run." if missing else "."))


def print_by_parameters(cells: dict[str, Cell]) -> None:
    print("\n### By parameters")
    if any("(" in swapped(cell) for cell in cells.values()):
        print("\nIn brackets: the operations that were added, swap-outs and swap-ins.")
    for step in STEPS.values():
        rows = [cell for cell in cells.values() if cell.step == step and cell.parameters is not None]
        batches = batches_of(rows)
        print(f"\n{step}:\n")
        print_head(("n_tensors", "lb", "strategy", "fused", "branches", "sync", "tensors swapped",
                    *(f"images/s at {batch}" for batch in batches)))
        for cell in rows:
            print_row((*parameter_columns(cell.parameters or {}), swapped(cell),
                       *(outcome(cell, batch) for batch in batches)))


def parameter_columns(parameters: dict[str, Any]) -> list[object]:
    count = parameters.get("n_tensors", -1)
    branches = f"over {parameters.get('branch_threshold', 0)} levels" if parameters.get("swap_branches") else ""
    return ["all" if count == -1 else count, parameters.get("lb", 1), parameters.get("ctrld_strategy", "chain_rule"),
            "yes" if parameters.get("fuse_swapins") else "", branches, parameters.get("sync", 0)]


def swapped(cell: Cell) -> str:
    """Tensors, and the operations that do it where they were counted; once, unless batches differ."""
    counts = []
    for ebb in [seen["ebb"] for seen in cell.batches if seen.get("ebb")]:
        added = [ebb.get("swap_outs"), ebb.get("swap_ins")]
        counts.append(f"{ebb['tensors_swapped']}" + (f" ({added[0]} + {added[1]})" if None not in added else ""))
    said = [count for count in counts if not any(other.startswith(f"{count} (") for other in counts)]
    return ", ".join(dict.fromkeys(said))


def print_by_budget(cells: dict[str, Cell]) -> None:
    print("\n### By budget\n")
    print_head(BY_BUDGET)
    for cell in cells.values():
        if cell.settings.get("budget"):
            for batch in cell.settings["batches"]:
                unlimited = cells[UNLIMITED].at(batch) if cell.step == cells[UNLIMITED].step else None
                seen = cell.at(batch) or {}
                budget = size(seen.get("budget") or cell.settings["budget"])
                head = (f"`{cell.name}`, {budget}", batch, outcome(cell, batch))
                print_row((*head, *budget_columns(seen, unlimited or {})))
    print("\nMeasured steps are medians.")


def budget_columns(seen: dict[str, Any], unlimited: dict[str, Any]) -> list[str]:
    """What follows the speed. Nothing is measured where the batch did not train; a prediction there may be."""
    trained = seen.get("state") == "trained"
    planned = seen.get("ebb") or {}
    share = predicted = measured = difference = planned_step = step = ""
    if trained and unlimited.get("state") == "trained":
        share = f"{100 * seen['images_per_second'] / unlimited['images_per_second']:.0f} %"
    if planned.get("peak_bytes"):
        predicted = f"{planned['peak_bytes'] / 2**30:.2f} GiB"
    # The plug-in watches the first steps alone; the other count begins after the warm-up.
    peak = max(planned.get("measured_bytes") or 0, seen.get("peak_bytes") or 0) if trained else 0
    if peak:
        measured = f"{peak / 2**30:.2f} GiB"
    if peak and predicted:
        difference = f"{100 * (peak / planned['peak_bytes'] - 1):+.1f} %"
    if planned.get("step_seconds"):
        planned_step = f"{planned['step_seconds']:.3g} s"
    if trained:
        step = f"{statistics.median(seen['step_seconds']):.3g} s"
    return [share, predicted, measured, difference, planned_step, step]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", help="the file that run.py wrote")
    cells = read(parser.parse_args().results)
    if where := machines(cells):
        print(f"{where}.\n")
    print_largest(cells)
    print_by_parameters(cells)
    print_by_budget(cells)


if __name__ == "__main__":
    main()
