#!/usr/bin/env python3
"""The paper's experiments on the paper's machine, by simulation: a P100 of 16 GB with NVLink.

    PYTHONPATH=build/release/python build/venv/bin/python bench/paper/p100.py build/release/tools/ebb/ebb

The training graphs are built by tf_keras, rewritten by `ebb rewrite` with the paper's parameters, and simulated by
`ebb simulate`. TensorFlow 1.8's executor ran ahead until its allocator made it wait; `--sync 2` stands for that. One JSON
object a case: what was swapped, how many operations were added, and what is predicted. Nothing is trained, and no GPU is
needed.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

BRANCHES = ["--swap-branches", "--branch-threshold", "20"]
CASES: dict[str, tuple[tuple[str, int, int], list[str] | None]] = {
    "ResNet-50, batch 176, as it is": (("resnet50", 224, 176), None),
    "ResNet-50, batch 176, all, lb 1": (("resnet50", 224, 176), []),
    "ResNet-50, batch 832, all, lb 1": (("resnet50", 224, 832), []),
    "ResNet-50, batch 832, all, lb 5": (("resnet50", 224, 832), ["--lb", "5"]),
    "ResNet-50, batch 832, all, lb 1, fused": (("resnet50", 224, 832), ["--fuse-swapins"]),
    "ResNet-50, batch 832, all, lb 1, direct order": (("resnet50", 224, 832), ["--ctrld-strategy", "direct_order"]),
    "ResNet-50, batch 832, 200 tensors, lb 1": (("resnet50", 224, 832), ["--n-tensors", "200"]),
    "3D U-Net 128³, batch 2, as it is": (("unet3d", 128, 2), None),
    "3D U-Net 128³, batch 4, all, lb 1": (("unet3d", 128, 4), []),
    "3D U-Net 128³, batch 4, all, lb 1, branches": (("unet3d", 128, 4), BRANCHES),
    "3D U-Net 192³, batch 1, all, lb 1, branches": (("unet3d", 192, 1), BRANCHES),
}
PLACES = ["--accelerator", "/device:GPU:*", "--host", "/device:CPU:0"]


def write_graph(network: str, side: int, batch: int, path: pathlib.Path) -> None:
    from networks import training_graph

    graph, *_ = training_graph(network, side, batch, "/device:GPU:0")
    path.write_bytes(graph.as_graph_def(add_shapes=True).SerializeToString())


def ebb(tool: str, *arguments: object) -> dict[str, Any]:
    done = subprocess.run([tool, *map(str, arguments), "--json"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", help="the program ebb")
    parser.add_argument("--model", default="p100-nvlink", help="%(default)s")
    arguments = parser.parse_args()
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    with tempfile.TemporaryDirectory() as folder:
        for name, (network, parameters) in CASES.items():
            original = pathlib.Path(folder, "-".join(map(str, network)) + ".pb")
            if not original.exists():
                write_graph(*network, original)
            said: dict[str, Any] = {"case": name}
            step = original
            if parameters is not None:
                step = original.with_suffix(".rewritten.pb")
                options = ["--optimizer-scopes", "optimizer", "--sync", "2", *PLACES, *parameters]
                done = ebb(arguments.tool, "rewrite", original, "-o", step, *options)
                said |= {key: done[key] for key in ("tensors_swapped", "bytes_swapped", "swap_outs", "swap_ins")}
            said |= ebb(arguments.tool, "simulate", step, "--model", arguments.model)
            said["images_per_second"] = network[2] / said["step_seconds"]
            print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
