#!/usr/bin/env python3
"""Training steps of the size that people train, as graphs: what bench/plan_table.py and docs/pictures/draw_plans.py plan for.

    PYTHONPATH=build/bench/python build/venv/bin/python bench/capture_steps.py FOLDER [STEP...]

resnet50   torchvision's, 256 images of 224 x 224, SGD with momentum
unet3d     four levels from 32 channels on, one volume of 128 x 128 x 128, AdamW
gpt2       24 blocks of width 1024 (GPT-2 medium), 4 sequences of 1024 words, AdamW

Writes FOLDER/STEP.ebb, the graph alone: the state would be gigabytes. Capturing computes nothing, so it takes seconds and
the memory of the model.
"""

from __future__ import annotations

import argparse
import pathlib
import sys

import torch
import torch.nn.functional as F
import torchvision

import ebb.torch

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests" / "torch"))
from small_models import Transformer, UNet3d, word_loss  # noqa: E402


def resnet50() -> ebb.torch.Captured:
    model = torchvision.models.resnet50()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    batch = (torch.empty(256, 3, 224, 224), torch.zeros(256, dtype=torch.long))
    return ebb.torch.capture(model, F.cross_entropy, optimizer, batch)


def unet3d() -> ebb.torch.Captured:
    model = UNet3d((32, 64, 128, 256))
    optimizer = torch.optim.AdamW(model.parameters())
    batch = (torch.empty(1, 1, 128, 128, 128), torch.zeros(1, 128, 128, 128, dtype=torch.long))
    return ebb.torch.capture(model, F.cross_entropy, optimizer, batch)


def gpt2() -> ebb.torch.Captured:
    model = Transformer(words=50257, width=1024, heads=16, blocks=24, length=1024)
    optimizer = torch.optim.AdamW(model.parameters())
    words = torch.zeros(4, 1024, dtype=torch.long)
    return ebb.torch.capture(model, word_loss, optimizer, (words, words.clone()))


STEPS = {"resnet50": resnet50, "unet3d": unet3d, "gpt2": gpt2}


def main() -> None:
    parser = argparse.ArgumentParser(description="Captures training steps and writes their graphs.")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("steps", nargs="*", metavar="STEP", help=f"of {', '.join(STEPS)}; all by default")
    arguments = parser.parse_args()
    unknown = set(arguments.steps) - set(STEPS)
    if unknown:
        parser.error(f"no such step: {', '.join(sorted(unknown))}")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.steps or STEPS:
        path = arguments.folder / f"{name}.ebb"
        path.write_text(STEPS[name]().text)
        print(path)


if __name__ == "__main__":
    main()
