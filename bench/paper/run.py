#!/usr/bin/env python3
"""The experiments of the paper's section 6 on today's hardware: a matrix of cells, and the same by a byte budget.

    scripts/device tensorflow python3 bench/paper/run.py --out paper.json          # where the GPU is
    PYTHONPATH=build/release/python build/venv/bin/python bench/paper/run.py --small --out small.json

Each cell is a process of its own (bench/paper/cell.py) with a time limit. A file that is there already is added to:
cells that it has are not run again, so that the matrix can be run in parts. One line a cell is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time
from typing import Any

CELL_PROGRAM = pathlib.Path(__file__).with_name("cell.py")

LIMIT = {"limit": "16GiB"}
ASYNC = {"limit": "16GiB", "allocator": "cuda_malloc_async"}
# What is swapped waits in pinned host memory, of which TensorFlow takes 64 GiB unless told otherwise.
HOST = {"environment": {"TF_GPU_HOST_MEM_LIMIT_IN_MB": "110000"}}
RESNET = {"network": "resnet50", "side": 224}
UNET_128 = {"network": "unet3d", "side": 128}
UNET_192 = {"network": "unet3d", "side": 192}


def by_parameters(**parameters: Any) -> dict[str, Any]:
    return ASYNC | HOST | {"parameters": parameters, "way": "plugin"}


def by_budget(budget: str) -> dict[str, Any]:
    return ASYNC | {"budget": budget}


# The table of largest batches, and what the budget makes of them.
LARGEST = {
    "resnet50-192": RESNET | LIMIT | {"batch": 192},
    "resnet50-832-no-limit": RESNET | {"batch": 832},
    "resnet50-832-all": RESNET | by_parameters(lb=1) | {"batch": 832},
    "resnet50-832-budget": RESNET | by_budget("15GiB") | {"batch": 832},
    "unet3d-128-1": UNET_128 | LIMIT | {"batch": 1},
    "unet3d-128-2": UNET_128 | LIMIT | {"batch": 2},
    "unet3d-128-2-all": UNET_128 | by_parameters(lb=1, swap_branches=True, branch_threshold=20) | {"batch": 2},
    "unet3d-128-3-budget": UNET_128 | by_budget("15GiB") | {"batch": 3},
    "unet3d-192-1-all": UNET_192 | by_parameters(lb=1, swap_branches=True, branch_threshold=20) | {"batch": 1},
    "unet3d-192-1-budget": UNET_192 | by_budget("15GiB") | {"batch": 1},
}
# Images per second by n_tensors and lb, strategy and fusing, all at one batch.
SPEED = {
    f"resnet50-384-{'all' if count < 0 else count}-lb{lb}": RESNET
    | by_parameters(n_tensors=count, lb=lb)
    | {"batch": 384}
    for count in (-1, 200, 100)
    for lb in (1, 5)
} | {
    "resnet50-384-all-direct": RESNET | by_parameters(lb=1, ctrld_strategy="direct_order") | {"batch": 384},
    "resnet50-384-all-fused": RESNET | by_parameters(lb=1, fuse_swapins=True) | {"batch": 384},
}
CELLS = LARGEST | SPEED
# Not the paper's: today's Keras.
MORE = {
    "keras3-resnet50-192": RESNET | LIMIT | {"batch": 192, "front": "keras"},
    "keras3-resnet50-512-budget": RESNET | by_budget("14GiB") | {"batch": 512, "front": "keras"},
}


def run_cell(settings: dict[str, Any], seconds: float) -> dict[str, Any]:
    """What the cell's process says, or how it ended."""
    command = [sys.executable, CELL_PROGRAM, json.dumps(settings)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return {"state": "cut off", "error": f"not done after {seconds:.0f} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        return {"state": "failed", "status": done.returncode, "error": done.stderr[-2000:]}
    return json.loads(lines[-1])


def say(name: str, seen: dict[str, Any], seconds: float) -> None:
    parts = [seen["state"]]
    if "images_per_second" in seen:
        parts.append(f"{seen['images_per_second']:.4g} images/s")
    if seen.get("peak_bytes"):
        parts.append(f"peak {seen['peak_bytes'] / 2**30:.2f} GiB")
    if planned := (seen.get("ebb") or {}).get("peak_bytes"):
        parts.append(f"planned {planned / 2**30:.2f} GiB")
    print(f"{name}: {', '.join(parts)} ({seconds:.0f} s)", flush=True)


def small(settings: dict[str, Any]) -> dict[str, Any]:
    """The same on two logical devices of the CPU, to try this program."""
    side, batch = (32, 4) if settings["network"] == "resnet50" else (16, 1)
    little = {"side": side, "batch": batch, "device": "cpu", "limit": None, "allocator": "bfc", "environment": {}}
    return settings | little | ({"budget": "98%"} if settings.get("budget") else {}) | {"warm_up": 1, "steps": 1}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", default=",".join(CELLS), help=f"some of {', '.join(CELLS | MORE)}; all but Keras 3")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/paper.json"), help="%(default)s")
    parser.add_argument("--small", action="store_true", help="small sizes on the CPU, to try this program")
    parser.add_argument("--cell-limit", type=float, default=90, help="seconds for each (%(default)s)")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds for all; no cell is begun after")
    arguments = parser.parse_args()
    names = arguments.cells.split(",")
    if unknown := [name for name in names if name not in CELLS | MORE]:
        parser.error(f"there is no cell {', '.join(unknown)}")

    results = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    begin = time.monotonic()
    for name in names:
        if name in results or time.monotonic() - begin > arguments.limit:
            continue
        since = time.monotonic()
        settings = (CELLS | MORE)[name]
        results[name] = run_cell(small(settings) if arguments.small else settings, arguments.cell_limit)
        say(name, results[name], time.monotonic() - since)
        fresh = arguments.out.with_suffix(".new")
        fresh.write_text(json.dumps(results, indent=1) + "\n")
        os.replace(fresh, arguments.out)
    missing = [name for name in names if name not in results]
    print(f"{len(names) - len(missing)} of {len(names)} cells; {arguments.out}")
    return 1 if missing or any(results[name]["state"] == "failed" for name in names) else 0


if __name__ == "__main__":
    sys.exit(main())
