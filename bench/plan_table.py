#!/usr/bin/env python3
"""What plans cost in time, as a Markdown table: budgets across; both means together, swaps alone, recomputing alone.

    bench/plan_table.py build/bench/tools/ebb/ebb examples/*.ebb steps/*.ebb

A number is the predicted time of the step against that without a plan. Where nothing fits, the least budget that was found
stands there. Budgets are per cents of what the step needs as it is.
"""

from __future__ import annotations

import argparse
import json
import math
import pathlib
import subprocess
from typing import Any

BUDGETS = (80, 60, 40, 30)
MEANS = {"both": [], "swaps alone": ["--no-recompute"], "recomputing alone": ["--no-swap"]}
NOTHING_FITS = 4  # the status of `ebb plan` then


def plan(arguments: argparse.Namespace, step: pathlib.Path, budget: int, options: list[str]) -> dict[str, Any]:
    command = [arguments.ebb, "plan", step, "--model", arguments.model, "--budget", f"{budget}%", "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, NOTHING_FITS):
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def cell(planned: dict[str, Any]) -> str:
    if planned["feasible"]:
        return f"{planned['step_seconds'] / planned['unconstrained_seconds']:.3f}"
    return f"least {math.ceil(100 * planned['least_budget_bytes'] / planned['unconstrained_bytes'])} %"


def size(planned: dict[str, Any]) -> str:
    mib = planned["unconstrained_bytes"] / (1 << 20)
    memory = f"{mib / 1024:.1f} GiB" if mib >= 1024 else f"{mib:.2g} MiB" if mib < 10 else f"{mib:.0f} MiB"
    return f"{memory}, {1e3 * planned['unconstrained_seconds']:.3g} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description="Prints what plans cost in time, as a Markdown table.")
    parser.add_argument("ebb", type=pathlib.Path, help="the tool")
    parser.add_argument("steps", type=pathlib.Path, nargs="+")
    parser.add_argument("--model", default="h200", help="the device (%(default)s)")
    arguments = parser.parse_args()
    print("| step | needs, takes | by |", *(f"{budget} % |" for budget in BUDGETS))
    print("|---|---|---|" + "---|" * len(BUDGETS))
    for step in arguments.steps:
        for means, options in MEANS.items():
            plans = [plan(arguments, step, budget, options) for budget in BUDGETS]
            head = (step.stem, size(plans[0])) if means == "both" else ("", "")
            print("|", " | ".join((*head, means, *map(cell, plans))), "|")


if __name__ == "__main__":
    main()
