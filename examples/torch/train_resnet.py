#!/usr/bin/env python3
"""Trains a ResNet twice, eagerly and by Ebb in a part of the memory, and shows that both compute the same bits.

    examples/torch/train_resnet.py --model resnet50 --batch 32 --size 128 --budget 40% --steps 5
"""

from __future__ import annotations

import argparse
import copy
import time

import torch
import torch.nn.functional as F
import torchvision

import ebb.torch


def make_optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)


def make_scheduler(optimizer):
    return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)


def train_eagerly(model, batches):
    """What everybody writes."""
    optimizer = make_optimizer(model)
    scheduler = make_scheduler(optimizer)
    for x, y in batches:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        scheduler.step()
        yield loss.detach()


def train_with_ebb(model, batches, budget, save):
    """The same: one call before the loop, one line in it."""
    optimizer = make_optimizer(model)
    scheduler = make_scheduler(optimizer)
    if save:
        ebb.torch.capture(model, F.cross_entropy, optimizer, batches[0]).save(save)
    step = ebb.torch.compile(model, F.cross_entropy, optimizer, batches[0], budget=budget)
    yield step
    for x, y in batches:
        loss = step(x, y)
        scheduler.step()
        yield loss


def timed(losses):
    """Each loss with the seconds it took."""
    begin = time.perf_counter()
    for loss in losses:
        yield loss, time.perf_counter() - begin
        begin = time.perf_counter()


def same_bits(model, other):
    ours, theirs = model.state_dict(), other.state_dict()
    return all(
        ours[name].numpy().tobytes() == theirs[name].numpy().tobytes() for name in ours
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="resnet18", choices=["resnet18", "resnet34", "resnet50"])
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--size", type=int, default=96, help="pixels of an image's side")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--budget", default="100%", help="what the step may use: 40%%, 500MiB, auto")
    parser.add_argument("--save", metavar="STEP.ebb", help="write the captured step, for 'ebb run'")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    model = getattr(torchvision.models, arguments.model)()
    twin = copy.deepcopy(model)
    image = (arguments.batch, 3, arguments.size, arguments.size)
    batches = [
        (torch.randn(image), torch.randint(0, 1000, (arguments.batch,)))
        for _ in range(arguments.steps)
    ]

    print(f"{arguments.model}, batch {arguments.batch}, {arguments.size}x{arguments.size} pixels, "
          f"{torch.get_num_threads()} threads")
    training = train_with_ebb(model, batches, arguments.budget, arguments.save)
    begin = time.perf_counter()
    step = next(training)
    print(f"captured and compiled in {time.perf_counter() - begin:.1f} s: "
          f"{step.graph.node_count} nodes\n")

    print("step  eager loss   Ebb's loss   bits       eager     Ebb")
    both = zip(timed(train_eagerly(twin, batches)), timed(training), strict=True)
    equal = True
    for i, ((expected, eager_seconds), (loss, ebb_seconds)) in enumerate(both, start=1):
        same = torch.equal(loss, expected)
        equal = equal and same
        print(f"{i:4}  {expected.item():<11.8g}  {loss.item():<11.8g}  "
              f"{'equal' if same else 'DIFFERENT':9}  {eager_seconds:5.2f} s  {ebb_seconds:5.2f} s")
    equal = equal and same_bits(model, twin)
    print(f"parameters and buffers after {arguments.steps} steps: "
          f"{'equal, bit for bit' if equal else 'DIFFERENT'}\n")

    print(step.report())
    if not equal:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
