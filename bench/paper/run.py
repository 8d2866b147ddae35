#!/usr/bin/env python3
"""The experiments of the paper's section 6 on today's hardware: a matrix of cells, and the same by a byte budget.

    scripts/device tensorflow python3 bench/paper/run.py --out paper.json          # where the GPU is
    PYTHONPATH=build/release/python build/venv/bin/python bench/paper/run.py --small --out small.json

Each cell is a process of its own (bench/paper/cell.py) with a time limit, or, with --together, shares one with its
neighbours, which saves the minutes in which TensorFlow takes host memory. A file that is there already is added to: cells
that it has by the same settings are not run again, unless a batch was cut off or failed. One line a batch is printed. The
status is 0 when all cells are done.

For a GPU that is lent for some minutes, what is missing comes first: cells with a batch that was not tried, then those with
one that was cut off or failed, then those that ran by other settings, each in the order of CELLS. ``--limit`` ends in time,
and the file has what was done. TensorFlow pins a GiB of host memory in a second, so the 65 GiB of ``resnet50-all-direct``
at batch 832 need ``--cell-limit 200``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import pathlib
import subprocess
import sys
import time
from typing import Any

from cell import OF_THE_PROCESS

CELL_PROGRAM = pathlib.Path(__file__).with_name("cell.py")

LIMIT = {"limit": "16GiB"}
ASYNC = {"limit": "16GiB", "allocator": "cuda_malloc_async"}
# What is swapped waits in pinned host memory, of which TensorFlow takes 64 GiB unless told otherwise.
HOST = {"environment": {"TF_GPU_HOST_MEM_LIMIT_IN_MB": "110000"}}
# Of convolutions by cuDNN, which may take 4 GiB otherwise; for as large a batch as can be.
LITTLE_WORKSPACE = {"environment": HOST["environment"] | {"TF_CUDNN_WORKSPACE_LIMIT_IN_MB": "1024"}, "steps": 2}
# cuDNN's own choice: trying its kernels for volumes takes minutes in the first step where there is little memory left.
NO_TRIALS = {"environment": HOST["environment"] | {"TF_CUDNN_USE_AUTOTUNE": "0"}}
RESNET = {"network": "resnet50", "side": 224}
UNET_128 = {"network": "unet3d", "side": 128}
UNET_192 = {"network": "unet3d", "side": 192}
BRANCHES = {"swap_branches": True, "branch_threshold": 20}


def by_parameters(batches: list[int], **parameters: Any) -> dict[str, Any]:
    """TensorFlow's executor runs ahead of the copies of a GPU as fast as this: ``sync`` lets it wait."""
    few = {"warm_up": 1, "steps": 3}  # they are slow
    return ASYNC | HOST | few | {"batches": batches, "parameters": {"lb": 1, "sync": 2} | parameters, "way": "plugin"}


def by_budget(batches: list[int], budget: str | list[str] = "14GiB", **more: Any) -> dict[str, Any]:
    return ASYNC | {"batches": batches, "budget": budget} | more


CELLS = {
    "resnet50-budget": RESNET | by_budget([384, 832]),
    "unet3d-budget": UNET_128 | by_budget([2, 3, 4]),
    "unet3d-192-budget": UNET_192 | by_budget([1]),
    "keras3-resnet50-budget": RESNET | by_budget([832], ["12GiB", "11GiB"], front="keras") | NO_TRIALS,
    "resnet50-copy-kernels-budget": RESNET | by_budget([832], ["13GiB", "12GiB"], options={"swap_nodes": "copy_kernels"}),
    "resnet50-plain": RESNET | LIMIT | {"batches": [192, 256]},
    "unet3d-plain": UNET_128 | LIMIT | {"batches": [1, 2]},
    "resnet50-no-limit": RESNET | {"batches": [832]},
    "unet3d-all": UNET_128 | by_parameters([2, 3, 4]) | NO_TRIALS,
    "unet3d-all-lb5": UNET_128 | by_parameters([2, 3, 4], lb=5) | NO_TRIALS,
    "unet3d-all-branches": UNET_128 | by_parameters([2, 3, 4], **BRANCHES) | NO_TRIALS,
    "unet3d-192-all-branches": UNET_192 | by_parameters([1], **BRANCHES) | {"steps": 2},
    "resnet50-all-lb1": RESNET | by_parameters([256, 384, 832]),
    "resnet50-all-lb5": RESNET | by_parameters([256, 384], lb=5),
    "resnet50-200-lb1": RESNET | by_parameters([256, 384], n_tensors=200),
    "resnet50-100-lb1": RESNET | by_parameters([256, 384], n_tensors=100),
    "resnet50-all-direct": RESNET | by_parameters([832], ctrld_strategy="direct_order", sync=1) | LITTLE_WORKSPACE,
    "resnet50-all-fused": RESNET | by_parameters([384], fuse_swapins=True),
}


UNKNOWN = ("cut off", "failed")  # what such a batch would have done


def run_together(cells: dict[str, dict[str, Any]], seconds: float) -> dict[str, Any]:
    """What one process says of each batch of these cells, and how it ended."""
    command = [sys.executable, CELL_PROGRAM, json.dumps(list(cells.items()))]
    problem = {"state": "failed", "error": "nothing was said"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
        said = done.stdout
        problem |= {"status": done.returncode, "error": done.stderr[-2000:]}
    except subprocess.TimeoutExpired as expired:
        said = (expired.stdout or b"").decode(errors="replace")
        problem = {"state": "cut off", "error": f"not done after {seconds:.0f} s"}
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    results = {}
    for name, settings in cells.items():
        batches = [line for line in lines if line["name"] == name]
        is_ended = batches and batches[-1]["state"] != "trained"
        if not is_ended and len(batches) < len(settings["batches"]):
            batches.append({"batch": settings["batches"][len(batches)]} | problem)
            results[name] = {"cell": settings, "batches": batches}
            break  # it ended here: the others were not begun
        results[name] = {"cell": settings, "batches": batches}
    return results


def known_batches(cell: dict[str, Any], result: dict[str, Any]) -> list[dict[str, Any]]:
    """What became of batches of that cell by these settings, in their order, as far as it is known."""
    if (result.get("cell") or {}) | {"batches": None} != cell | {"batches": None}:
        return []
    seen = {each["batch"]: each for each in result["batches"] if each["state"] not in UNKNOWN}
    return [seen[batch] for batch in cell["batches"] if batch in seen]


def missing_batches(cell: dict[str, Any], result: dict[str, Any]) -> list[int]:
    """Those to be tried still: none after one that did not train."""
    states = {each["batch"]: each["state"] for each in known_batches(cell, result)}
    wanted = list(itertools.takewhile(lambda batch: states.get(batch, "trained") == "trained", cell["batches"]))
    return [batch for batch in wanted if batch not in states]


def is_done(cell: dict[str, Any], result: dict[str, Any]) -> bool:
    return not missing_batches(cell, result)


def count_known(result: dict[str, Any]) -> int:
    return sum(seen["state"] not in UNKNOWN for seen in result.get("batches", []))


def joined(cell: dict[str, Any], before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """What was known of a cell, and what its missing batches came to."""
    batches = known_batches(cell, before) + now["batches"]
    return {"cell": cell, "batches": sorted(batches, key=lambda each: cell["batches"].index(each["batch"]))}


def by_need(names: list[str], cells: dict[str, dict[str, Any]], results: dict[str, Any]) -> list[str]:
    """Those first of which least is known."""

    def known(name: str) -> int:
        batches = results.get(name, {}).get("batches", [])
        if batches and batches[-1]["state"] != "trained":
            return 1 if batches[-1]["state"] in UNKNOWN else 2
        return 2 if set(cells[name]["batches"]) <= {seen["batch"] for seen in batches} else 0

    return sorted(names, key=known)


def groups(names: list[str], cells: dict[str, dict[str, Any]], together: bool) -> list[list[str]]:
    """Neighbours of the same kind of process."""
    out: list[list[str]] = []
    for name in names:
        kinds = [[cells[each].get(key) for key in OF_THE_PROCESS] for each in [name, *(out[-1][:1] if out else [])]]
        if together and out and kinds[0] == kinds[1]:
            out[-1].append(name)
        else:
            out.append([name])
    return out


def say(name: str, seen: dict[str, Any]) -> None:
    parts = [seen["state"]]
    if seen["state"] == "failed":
        parts += seen.get("error", "").strip().splitlines()[-1:]
    if "images_per_second" in seen:
        parts.append(f"{seen['images_per_second']:.4g} images/s")
    if seen.get("peak_bytes"):
        parts.append(f"peak {seen['peak_bytes'] / 2**30:.2f} GiB")
    if planned := (seen.get("ebb") or {}).get("peak_bytes"):
        parts.append(f"planned {planned / 2**30:.2f} GiB")
    if "seconds" in seen:
        parts.append(f"{seen['seconds']:.0f} s")
    print(f"{name}, batch {seen['batch']}: {', '.join(parts)}", flush=True)


def small(settings: dict[str, Any]) -> dict[str, Any]:
    """The same on two logical devices of the CPU, to try this program."""
    side, batches = (32, [2, 4]) if settings["network"] == "resnet50" else (16, [1])
    little = {"side": side, "batches": batches, "device": "cpu", "limit": None, "allocator": "bfc"}
    little["environment"] = {"TF_ENABLE_ONEDNN_OPTS": "0"}  # or there is no budget on a CPU
    little |= {"options": {}} if "options" in settings else {}  # copy kernels are for GPUs alone
    return settings | little | ({"budget": "98%"} if settings.get("budget") else {}) | {"warm_up": 1, "steps": 1}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", default=",".join(CELLS), help=f"some of {', '.join(CELLS)}; all")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/paper.json"), help="%(default)s")
    parser.add_argument("--small", action="store_true", help="small sizes on the CPU, to try this program")
    parser.add_argument("--together", action="store_true", help="neighbours of one kind in one process")
    parser.add_argument("--cell-limit", type=float, default=90, help="seconds for each (%(default)s)")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds for all; no cell is begun after")
    arguments = parser.parse_args()
    names = arguments.cells.split(",")
    if unknown := [name for name in names if name not in CELLS]:
        parser.error(f"there is no cell {', '.join(unknown)}")

    if arguments.cell_limit <= 0 or math.isnan(arguments.limit):
        parser.error("--cell-limit and --limit are seconds")
    try:
        results = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
        if not all(isinstance(each["batches"], list) for each in results.values()):
            raise TypeError
    except (OSError, ValueError, AttributeError, KeyError, TypeError):
        parser.error(f"{arguments.out} is none of this program's files; name another one")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)  # before anything is measured for it
    cells = {name: small(CELLS[name]) if arguments.small else CELLS[name] for name in names}
    begin = time.monotonic()
    todo = [name for name in names if not is_done(cells[name], results.get(name, {}))]
    for group in groups(by_need(todo, cells, results), cells, arguments.together):
        left = arguments.limit - (time.monotonic() - begin)
        if left < 0:
            break
        seconds = min(arguments.cell_limit * len(group), left + 1)
        missing = {name: missing_batches(cells[name], results.get(name, {})) for name in group}
        for name, now in run_together({name: cells[name] | {"batches": missing[name]} for name in group}, seconds).items():
            for seen in now["batches"]:
                say(name, seen)
            before = results.get(name, {})
            result = joined(cells[name], before, now)
            if is_done(cells[name], result) or count_known(result) >= count_known(before):
                results[name] = result  # one that was stopped sooner than the one before says less
        fresh = arguments.out.with_suffix(".new")
        fresh.write_text(json.dumps(results, indent=1) + "\n")
        os.replace(fresh, arguments.out)
    missing = [name for name in names if not is_done(cells[name], results.get(name, {}))]
    print(f"{len(names) - len(missing)} of {len(names)} cells; {arguments.out}" +
          (f"; not done: {', '.join(missing)}" if missing else ""))
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
