#!/usr/bin/env python3
"""Training steps inside a byte budget against eager PyTorch with all the memory it wants.

    scripts/device run python3 bench/torch_budget.py --out budget.json                # where the GPU is: every case
    scripts/device run python3 bench/torch_budget.py --case resnet50-tf32 --deterministic
    PYTHONPATH=build/release/python build/venv/bin/python bench/torch_budget.py --device cpu --small

Each case is a process of its own with a time limit (bench/torch_budget_case.py): eager first, then its memory is
given back, then Ebb on the same data from the same beginning. What is known of a case is in the file as soon as it is
known, so that a run that is cut off keeps what it had; a file that is there already is added to. One line a case is
printed.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

CASE_PROGRAM = pathlib.Path(__file__).with_name("torch_budget_case.py")
LEAST_SECONDS = 20  # a case that has less is not begun: loading PyTorch alone takes half of that


@dataclasses.dataclass(frozen=True)
class Case:
    workload: str
    """A name in WORKLOADS of torch_budget_workloads.py."""
    batch: int
    extent: int
    """Pixels or voxels a side, words a sequence."""
    small: tuple[int, int]
    """The same two for --small."""
    budget: str = "16GiB"
    autocast: str | None = None
    kind: str = "speed"
    """speed: against eager; largest_batch: what fits, and its speed; growth: memory after many steps."""
    limit_seconds: float = 240


CASES = {
    "resnet50-tf32": Case("resnet50", 832, 224, (4, 64)),
    "resnet50-bf16": Case("resnet50", 832, 224, (4, 64), autocast="bfloat16"),
    "resnet50-all-memory": Case("resnet50", 128, 224, (4, 64), budget="100%"),
    "resnet50-largest": Case("resnet50", 832, 224, (4, 64), kind="largest_batch", limit_seconds=420),
    "resnet50-growth": Case("resnet50", 256, 224, (2, 32), budget="8GiB", kind="growth"),
    "unet3d-128-3": Case("unet3d", 3, 128, (1, 16)),
    "unet3d-128-4": Case("unet3d", 4, 128, (2, 16)),
    "unet3d-192-1": Case("unet3d", 1, 192, (1, 24)),
    "gpt2-medium": Case("gpt2", 16, 1024, (2, 32), autocast="bfloat16"),
}


PASSED_ON = (
    "device",
    "small",
    "deterministic",
    "cudnn_benchmark",
    "dropout",
    "warm_up",
    "steps",
    "growth_steps",
    "eager",
    "profile_run",
    "reports",
)


def settings_of(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """What a case's process is told."""
    case = CASES[name]
    settings = dataclasses.asdict(case) | {"case": name}
    if arguments.small:
        settings["batch"], settings["extent"] = case.small
        settings["budget"] = "100%"
    del settings["small"], settings["limit_seconds"]
    settings |= {key: getattr(arguments, key) for key in ("batch", "budget") if getattr(arguments, key)}
    return settings | {key: getattr(arguments, key) for key in PASSED_ON}


def run_case(settings: dict[str, Any], limit: float, tell: Callable[[dict[str, Any]], None]) -> None:
    """Tells what the case's process says, as it says it; at last how it ended."""
    begin = time.monotonic()
    environment = os.environ | {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"} if settings["deterministic"] else None
    process = subprocess.Popen(
        [sys.executable, CASE_PROGRAM, json.dumps(settings)], stdout=subprocess.PIPE, text=True, env=environment
    )
    cut_off = threading.Event()

    def cut() -> None:
        cut_off.set()
        process.kill()

    timer = threading.Timer(limit, cut)
    timer.start()
    for line in process.stdout:
        try:
            tell(json.loads(line))
        except ValueError:
            sys.stderr.write(line)  # somebody else's
    status = process.wait()
    timer.cancel()
    end: dict[str, Any] = {"seconds": round(time.monotonic() - begin, 1), "state": "done" if status == 0 else "failed"}
    if cut_off.is_set():
        end |= {"state": "cut off", "error": f"not done after {limit:.0f} s"}
    elif status < 0:
        end["error"] = f"ended by signal {-status}"
    tell(end)


class Results:
    """The file: a list of objects, one a case, written anew whenever something is learnt."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._all: list[dict[str, Any]] = []
        with contextlib.suppress(FileNotFoundError):
            self._all = json.loads(path.read_text())
        path.parent.mkdir(parents=True, exist_ok=True)

    def begin(self, settings: dict[str, Any]) -> dict[str, Any]:
        recorded = {key: value for key, value in settings.items() if key != "reports"}  # somebody's folder
        self._all.append(recorded | {"state": "running"})
        self.write()
        return self._all[-1]

    def write(self) -> None:
        half_done = self._path.with_suffix(".part")
        half_done.write_text(json.dumps(self._all, indent=1) + "\n")
        half_done.replace(self._path)


def gib(count: float) -> str:
    return f"{count / 2**30:.2f} GiB" if count >= 2**30 / 10 else f"{count / 2**20:.1f} MiB"


def line_of(result: dict[str, Any]) -> str:
    """A case in one line, with what is known of it."""
    parts = []
    if "eager_per_second" in result:
        peak = f", {gib(result['eager_peak_bytes'])}" if "eager_peak_bytes" in result else ""
        parts.append(f"eager {result['eager_per_second']:.4g} {result['unit']}/s{peak}")
    if "eager_error" in result:
        parts.append(f"eager: {result['eager_error']}")
    if "largest_batch" in result:
        parts.append(f"largest batch {result['largest_batch']}")
    if "ebb_per_second" in result:
        ratio = f" ({100 * result['ratio']:.1f} %)" if "ratio" in result else ""
        parts.append(f"Ebb {result['ebb_per_second']:.4g} {result['unit']}/s{ratio}")
    if "predicted_step_seconds" in result and "ebb_step_seconds" in result:
        parts.append(f"step {result['ebb_step_seconds']:.4g} s, predicted {result['predicted_step_seconds']:.4g} s")
    if "arena_bytes" in result:
        parts.append(f"arena {gib(result['arena_bytes'])} of {gib(result['budget_bytes'])}")
        parts.append(f"host {gib(result['host_bytes'])}")
    if "outside_bytes" in result:
        parts.append(f"outside {gib(result['outside_bytes'])}")
    if "growth_bytes" in result:
        parts.append("growth " + ", ".join(f"{key} {count}" for key, count in result["growth_bytes"].items()))
    if "compile_seconds" in result:
        parts.append(f"compiled in {result['compile_seconds']:.3g} s")
    if "losses_equal" in result:
        losses, state = result["losses_equal"], result["state_equal"]
        parts.append("same bits" if all(losses) and state else f"OTHER BITS: losses {losses}, state {state}")
    if result["state"] != "done":
        parts.append(f"{result['state']}: {result.get('error', '')}")
    return f"{result['case']}: " + "; ".join(parts)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", default=",".join(CASES), help="%(default)s")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/torch_budget.json"), help="%(default)s")
    parser.add_argument("--reports", help="a folder for what step.report() says of each case, in full; its graph; timelines")
    parser.add_argument("--device", default="cuda", help="cpu: for trying this program (%(default)s)")
    parser.add_argument("--small", action="store_true", help="small sizes, all the memory it takes as the budget")
    parser.add_argument("--deterministic", action="store_true", help="PyTorch's deterministic kernels; an error without")
    parser.add_argument("--cudnn-benchmark", action="store_true", help="let cuDNN choose by trying")
    parser.add_argument("--dropout", type=float, default=0.0, help="of gpt2 (%(default)s)")
    parser.add_argument("--batch", type=int, help="instead of the cases' own")
    parser.add_argument("--budget", help="instead of the cases' own")
    parser.add_argument("--warm-up", type=int, default=3, help="steps that are not timed (%(default)s)")
    parser.add_argument("--steps", type=int, default=12, help="that are timed; medians are compared (%(default)s)")
    parser.add_argument("--growth-steps", default="50,500", help="when memory is looked at (%(default)s)")
    parser.add_argument("--no-eager", dest="eager", action="store_false", help="leave out eager and the comparison")
    parser.add_argument("--profile-run", action="store_true", help="Ebb alone, the time of every step; a profiler that "
                        "waits for cudaProfilerStart sees the timed steps only")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds for all cases together")
    parser.add_argument("--case-limit", type=float, help="seconds for each, instead of its own")
    arguments = parser.parse_args()
    arguments.case = arguments.case.split(",")
    if unknown := [name for name in arguments.case if name not in CASES]:
        parser.error(f"no such case: {', '.join(unknown)} (there are {', '.join(CASES)})")
    arguments.growth_steps = [int(count) for count in arguments.growth_steps.split(",")]
    if arguments.reports:
        pathlib.Path(arguments.reports).mkdir(parents=True, exist_ok=True)
    return arguments


def main() -> int:
    arguments = parse_arguments()
    results = Results(arguments.out)
    end = time.monotonic() + arguments.limit
    failed = 0
    for name in arguments.case:
        settings = settings_of(name, arguments)
        result = results.begin(settings)

        def tell(figures: dict[str, Any], result: dict[str, Any] = result) -> None:
            result.update(figures)
            results.write()

        limit = min(arguments.case_limit or CASES[name].limit_seconds, end - time.monotonic())
        if limit < LEAST_SECONDS:
            tell({"state": "not begun", "error": "no time left"})
        else:
            run_case(settings, limit, tell)
        failed += result["state"] != "done"
        print(line_of(result), flush=True)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
