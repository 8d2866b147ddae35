#!/usr/bin/env python3
"""A compiled step against eager PyTorch on the CPU: time to capture and compile, time of a step, memory.

    PYTHONPATH=build/release/python build/venv/bin/python bench/torch_step.py resnet50 transformer

Eager and compiled steps take turns, each on a copy of the model of its own; medians are compared, and
the losses must be equal to the bit. One JSON object a model.
"""

from __future__ import annotations

import argparse
import copy
import json
import pathlib
import statistics
import sys
import time

import torch
import torch.nn.functional as F
import torchvision

import ebb.torch
from ebb.torch._step_function import step_function

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests" / "torch"))
from small_models import Transformer, UNet3d, images, sentences, word_loss  # noqa: E402


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)


def adamw(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-4)


def gpt2_medium():
    return Transformer(words=50257, width=1024, heads=16, blocks=24, length=1024)


def small_transformer():
    return Transformer(words=5000, width=256, heads=8, blocks=4, length=128)


# name: model, loss, optimizer, batch
MODELS = {
    "resnet18": (torchvision.models.resnet18, F.cross_entropy, sgd, lambda: images(8, 224)),
    "resnet50": (torchvision.models.resnet50, F.cross_entropy, sgd, lambda: images(8, 224)),
    "resnet50-32": (torchvision.models.resnet50, F.cross_entropy, sgd, lambda: images(8, 32)),
    "transformer": (small_transformer, word_loss, adamw, lambda: sentences(4, 128, 5000)),
    "unet3d": (
        lambda: UNet3d((8, 16, 32)),
        F.cross_entropy,
        adamw,
        lambda: (torch.randn(1, 1, 64, 64, 64), torch.randint(0, 3, (1, 64, 64, 64))),
    ),
    "gpt2-medium": (gpt2_medium, word_loss, adamw, lambda: sentences(1, 1024, 50257)),
}


def seconds(function, *args):
    begin = time.perf_counter()
    result = function(*args)
    return time.perf_counter() - begin, result


def measure(name: str, rounds: int) -> dict:
    torch.manual_seed(0)
    make_model, loss_fn, make_optimizer, make_batch = MODELS[name]
    model, batch = make_model(), make_batch()
    capture_seconds, captured = seconds(
        ebb.torch.capture, model, loss_fn, make_optimizer(model), batch
    )
    result = {
        "model": name,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "capture_seconds": round(capture_seconds, 2),
        "nodes": ebb.parse(captured.text).node_count,
    }
    if rounds == 0:
        return result
    other = copy.deepcopy(model)
    eager = step_function(model, loss_fn, make_optimizer(model))
    compile_seconds, step = seconds(
        ebb.torch.compile, other, loss_fn, make_optimizer(other), batch
    )
    eager_times, ebb_times = [], []
    for i in range(rounds + 1):
        torch.manual_seed(i)
        eager_time, expected = seconds(eager, *batch)
        torch.manual_seed(i)
        ebb_time, loss = seconds(step, *batch)
        if not torch.equal(loss, expected):
            raise SystemExit(f"{name}: step {i}: {loss.item()} instead of {expected.item()}")
        if i > 0:  # the first is to warm up
            eager_times.append(eager_time)
            ebb_times.append(ebb_time)
    memory = step.memory()
    eager_median, ebb_median = statistics.median(eager_times), statistics.median(ebb_times)
    return result | {
        "compile_seconds": round(compile_seconds, 2),
        "rounds": rounds,
        "eager_seconds": round(eager_median, 4),
        "ebb_seconds": round(ebb_median, 4),
        "ratio": round(ebb_median / eager_median, 4),
        "arena_bytes": memory.peak_bytes,
        "bound_bytes": memory.bound_bytes,
        "arena_over_bound": round(memory.peak_bytes / memory.bound_bytes, 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", choices=MODELS, metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--rounds", type=int, default=7, help="steps of each; 0: capture only")
    arguments = parser.parse_args()
    for name in arguments.models:
        print(json.dumps(measure(name, arguments.rounds)), flush=True)


if __name__ == "__main__":
    main()
