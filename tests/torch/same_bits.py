"""Trains a model twice, eagerly and by Ebb, and compares everything bit for bit."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch

import ebb.torch
from ebb.torch._step_function import step_function


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def differences(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    other_model: torch.nn.Module,
    other_optimizer: torch.optim.Optimizer,
) -> list[str]:
    """The names of parameters, buffers and optimizer state that differ in any bit."""
    wrong = []
    ours, theirs = other_model.state_dict(), model.state_dict()
    assert list(ours) == list(theirs)
    wrong += [name for name in ours if bits(ours[name]) != bits(theirs[name])]
    ours, theirs = other_optimizer.state_dict()["state"], optimizer.state_dict()["state"]
    assert list(ours) == list(theirs)
    for index in ours:
        assert sorted(ours[index]) == sorted(theirs[index])
        for key, value in theirs[index].items():
            if isinstance(value, torch.Tensor) and bits(value) != bits(ours[index][key]):
                wrong.append(f"state {index}.{key}")
            elif not isinstance(value, torch.Tensor) and value != ours[index][key]:
                wrong.append(f"state {index}.{key}")
    return wrong


def train_both(
    make_model: Callable[[], torch.nn.Module],
    loss_fn: Callable[..., torch.Tensor] | None,
    make_optimizer: Callable[[torch.nn.Module], torch.optim.Optimizer],
    batches: list[Any],
    *,
    steps: int = 5,
    scheduler: Callable[[torch.optim.Optimizer], Any] | None = None,
    **options: Any,
) -> ebb.torch.Step:
    """Asserts that both give the same losses and end in the same state; returns the step."""
    torch.manual_seed(0)
    model = make_model()
    other = copy.deepcopy(model)
    optimizer, other_optimizer = make_optimizer(model), make_optimizer(other)
    eager = step_function(model, loss_fn, optimizer, **options)
    compiled = ebb.torch.compile(other, loss_fn, other_optimizer, batches[0], **options)

    def train(step: Callable[..., torch.Tensor], optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
        schedule = scheduler(optimizer) if scheduler else None
        torch.manual_seed(1)
        losses = []
        for i in range(steps):
            batch = batches[i % len(batches)]
            loss = step(**batch) if isinstance(batch, dict) else step(*batch)
            losses.append(loss)
            if schedule:
                schedule.step()
        return losses

    eager_losses = train(eager, optimizer)
    losses = train(compiled, other_optimizer)
    assert [bits(loss) for loss in losses] == [bits(loss) for loss in eager_losses]
    assert all(torch.isfinite(loss) for loss in losses)
    assert differences(model, optimizer, other, other_optimizer) == []
    return compiled
