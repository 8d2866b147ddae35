#!/usr/bin/env python3
"""The matrix of bench/paper/run.py by simulation: what Ebb predicts for the H200, by parameters and by a byte budget.

    PYTHONPATH=build/release/python build/venv/bin/python bench/paper/predicted.py build/release/tools/ebb/ebb

The graphs are as tf_keras builds them, before TensorFlow's optimizers. By parameters they are rewritten by `ebb rewrite`
with `--sync 2`, as there, and simulated; by a budget they are planned, for either way in which TensorFlow can swap. One
JSON object a case. Nothing is trained, and no GPU is needed.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

RESNET_PARAMETERS: list[tuple[str, list[str]]] = [
    ("all, lb 1", []),
    ("all, lb 5", ["--lb", "5"]),
    ("200, lb 1", ["--n-tensors", "200"]),
    ("100, lb 1", ["--n-tensors", "100"]),
    ("all, lb 1, direct order", ["--ctrld-strategy", "direct_order"]),
    ("all, lb 1, fused", ["--fuse-swapins"]),
]
UNET_PARAMETERS = [("all, lb 1, branches", ["--swap-branches", "--branch-threshold", "20"])]
STEPS = {
    ("resnet50", 224, 256): RESNET_PARAMETERS,
    ("resnet50", 224, 384): RESNET_PARAMETERS,
    ("resnet50", 224, 832): RESNET_PARAMETERS,
    ("unet3d", 128, 2): UNET_PARAMETERS,
    ("unet3d", 128, 3): UNET_PARAMETERS,
    ("unet3d", 192, 1): UNET_PARAMETERS,
}


def cases(tool: str, model: str, budget: str, original: pathlib.Path, parameters: Any) -> Iterator[dict[str, Any]]:
    from p100 import PLACES, ebb

    rewritten = original.with_suffix(".rewritten.pb")
    for name, options in parameters:
        chosen = ["--optimizer-scopes", "optimizer", "--sync", "2", *options]
        done = ebb(tool, "rewrite", original, "-o", rewritten, *chosen, *PLACES)
        said = ebb(tool, "simulate", rewritten, "--model", model, "--accelerator", "/device:GPU:*")
        yield {"by": name, "tensors_swapped": done["tensors_swapped"]} | said
    for nodes in ("identity", "copy_kernels"):
        chosen = ["--model", model, "--budget", budget, "--swap-nodes", nodes]
        planned = ebb(tool, "rewrite", original, "-o", rewritten, *chosen, *PLACES)
        kept = ("step_seconds", "unconstrained_seconds", "peak_bytes")
        swaps = sum(str(each).startswith("swap") for each in planned["decisions"])
        yield {"by": f"{budget}, {nodes}", "tensors_swapped": swaps} | {key: planned[key] for key in kept}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", help="the program ebb")
    parser.add_argument("--model", default="h200", help="%(default)s")
    parser.add_argument("--budget", default="14GiB", help="%(default)s")
    arguments = parser.parse_args()
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from p100 import write_graph

    with tempfile.TemporaryDirectory() as folder:
        original = pathlib.Path(folder, "step.pb")
        for (network, side, batch), parameters in STEPS.items():
            write_graph(network, side, batch, original)
            for said in cases(arguments.tool, arguments.model, arguments.budget, original, parameters):
                step = {"network": network, "side": side, "batch": batch}
                print(json.dumps(step | said | {"images_per_second": batch / said["step_seconds"]}), flush=True)


if __name__ == "__main__":
    main()
