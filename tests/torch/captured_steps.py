"""The steps whose graphs are checked in under tests/torch/captured."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from small_models import Transformer, convolutional, perceptron, word_loss

import ebb.torch


def perceptron_sgd() -> ebb.torch.Captured:
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
    batch = (torch.zeros(5, 6), torch.zeros(5, dtype=torch.int64))
    return ebb.torch.capture(model, F.cross_entropy, optimizer, batch, clip_grad_norm=1.0)


def convolutional_adam() -> ebb.torch.Captured:
    model = convolutional().to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(model.parameters(), foreach=True)
    image = torch.zeros(2, 3, 8, 8).to(memory_format=torch.channels_last)
    batch = (image, torch.zeros(2, dtype=torch.int64))
    return ebb.torch.capture(model, F.cross_entropy, optimizer, batch)


def transformer_adamw() -> ebb.torch.Captured:
    model = Transformer(words=20, width=8, heads=2, blocks=1, length=4)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    tokens = torch.zeros(2, 4, dtype=torch.int64)
    return ebb.torch.capture(
        model, word_loss, optimizer, (tokens, tokens), autocast=torch.bfloat16
    )


STEPS: dict[str, Callable[[], ebb.torch.Captured]] = {
    "perceptron-sgd": perceptron_sgd,
    "convolutional-adam": convolutional_adam,
    "transformer-adamw": transformer_adamw,
}
