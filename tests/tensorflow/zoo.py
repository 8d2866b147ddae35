#!/usr/bin/env python3
"""Trains models of keras.applications: by TensorFlow alone, and by Ebb in a part of the memory that a step needs. Says
of each whether the bits are the same. By hand; takes minutes.

    PYTHONPATH=build/ci/python build/venv/bin/python tests/tensorflow/zoo.py [--only REGEX] [--budget 60%] [--json FILE]

Two logical devices of the CPU play accelerator and host. Status 1 where bits differ or something fails.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pathlib
import re
import subprocess
import sys

MODELS = {
    "MobileNet": 64,
    "MobileNetV2": 64,
    "MobileNetV3Small": 64,
    "EfficientNetB0": 64,
    "EfficientNetV2B0": 64,
    "DenseNet121": 64,
    "ResNet50": 64,
    "ResNet50V2": 64,
    "NASNetMobile": 64,
    "InceptionV3": 96,
    "InceptionResNetV2": 96,
    "Xception": 80,
    "ConvNeXtTiny": 64,
    "VGG16": 64,
}


def train_both(name: str, generation: str, budget: str) -> dict:
    """In this process: TensorFlow is set up for it."""
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
    import models
    import same_training

    keras = importlib.import_module(generation)
    pixels = MODELS[name]

    def build(keras):
        return getattr(keras.applications, name)(weights=None, input_shape=(pixels, pixels, 3), classes=10)

    models.CASES[name] = models.Case(build, lambda: models.images(16, pixels), batch=8, optimizer="SGD")
    plain = same_training.plain(keras, name)
    if same_training.differences(plain, models.train(keras, models.CASES[name])):
        return {"outcome": "undecided", "why": "TensorFlow alone has other bits each time"}
    trained, graphs = same_training.with_ebb(keras, name, budget=budget, batch_size=8)
    problems = [graph.problem for graph in graphs if graph.problem]
    least = re.search(r"least budget found is (\w+)", problems[0]) if problems else None
    if least:
        trained, graphs = same_training.with_ebb(keras, name, budget=least[1], batch_size=8)
        problems = [graph.problem for graph in graphs if graph.problem]
    wrong = same_training.differences(plain, trained)
    outcome = "OTHER BITS" if wrong else "refused" if problems or not graphs else "same bits"
    return {
        "outcome": outcome,
        "why": "; ".join(wrong[:3] + problems),
        "graphs": [
            {"budget_bytes": graph.budget_bytes, "peak_bytes": graph.peak_bytes, "swapped": graph.tensors_swapped, "recomputed": graph.tensors_recomputed}
            for graph in graphs
        ],
    }  # fmt: skip


def in_a_process(name: str, generation: str, budget: str) -> dict:
    command = [sys.executable, __file__, "--one", name, generation, "--budget", budget]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    except subprocess.TimeoutExpired:
        return {"outcome": "FAILED", "why": "not done in 900 s"}
    if done.returncode != 0:
        return {"outcome": "FAILED", "why": f"status {done.returncode}: {done.stderr[-1000:]}"}
    return json.loads(done.stdout.splitlines()[-1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="REGEX", help="models whose name has this in it")
    parser.add_argument("--budget", default="60%", help="of each; where that is too little, the least that is found")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write all of it here")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(train_both(*options.one, options.budget)))
        return 0
    results = {}
    for name in MODELS:
        for generation in ("keras", "tf_keras"):
            if not re.search(options.only, f"{generation} {name}"):
                continue
            done = results[f"{generation} {name}"] = in_a_process(name, generation, options.budget)
            moved = [f"{each['swapped']} swapped, {each['recomputed']} recomputed" for each in done.get("graphs", [])]
            print(f"{generation + ' ' + name:30} {done['outcome']:10} {'; '.join(moved)} {done['why']}", flush=True)
    counts = {outcome: sum(each["outcome"] == outcome for each in results.values()) for outcome in ("same bits", "undecided", "refused", "OTHER BITS", "FAILED")}
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 1 if counts["OTHER BITS"] or counts["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main())
