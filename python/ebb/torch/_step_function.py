"""The training step everybody writes, as a function of the batch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree

from ebb import Error


def step_function(
    model: torch.nn.Module,
    loss_fn: Callable[..., torch.Tensor] | None,
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
    *,
    clip_grad_norm: float | None = None,
    autocast: torch.dtype | None = None,
    accumulate: int = 1,
) -> Callable[..., torch.Tensor]:
    """`step(*batch)` or `step(**batch)`: loss, backward, optimizer step; returns the loss.

    This is what an eager loop does, and running it eagerly gives the same bits as Ebb does.
    """
    optimizers = list(optimizer) if isinstance(optimizer, (list, tuple)) else [optimizer]
    if not isinstance(model, torch.nn.Module):
        raise Error(f"the model must be a torch.nn.Module, and is a {type(model).__name__}")
    for one in optimizers:
        if not isinstance(one, torch.optim.Optimizer):
            raise Error(f"the optimizer must be a torch.optim.Optimizer, and is a {type(one).__name__}")
    if accumulate < 1:
        raise Error(f"accumulate must be at least 1, and is {accumulate}")

    def loss_of(args: tuple, kwargs: dict[str, Any]) -> torch.Tensor:
        device = next((p.device.type for p in model.parameters()), "cpu")
        context = torch.autocast(device, dtype=autocast) if autocast else contextlib.nullcontext()
        with context:
            if kwargs:
                return _loss(loss_fn, model(*args, **kwargs), (kwargs,))
            inputs, targets = (args[:-1], args[-1:]) if len(args) > 1 else (args, ())
            if len(inputs) == 1 and isinstance(inputs[0], dict):
                return _loss(loss_fn, model(**inputs[0]), targets)
            if len(inputs) == 1 and isinstance(inputs[0], (tuple, list)):
                return _loss(loss_fn, model(*inputs[0]), targets)
            if loss_fn is None:
                return _loss(None, model(*args), ())
            return _loss(loss_fn, model(*inputs), targets)

    def step(*args: Any, **kwargs: Any) -> torch.Tensor:
        for one in optimizers:
            one.zero_grad(set_to_none=True)
        if accumulate == 1:
            loss = loss_of(args, kwargs)
            loss.backward()
        else:
            loss = None
            for part_args, part_kwargs in _parts((args, kwargs), accumulate):
                part = loss_of(part_args, part_kwargs) / accumulate
                part.backward()
                loss = part.detach() if loss is None else loss + part.detach()
        if clip_grad_norm is not None:
            parameters = [p for one in optimizers for g in one.param_groups for p in g["params"]]
            torch.nn.utils.clip_grad_norm_(parameters, clip_grad_norm)
        for one in optimizers:
            one.step()
        return loss.detach()

    return step


def _loss(loss_fn, output: Any, targets: tuple) -> torch.Tensor:
    if loss_fn is not None:
        loss = loss_fn(output, *targets)
    elif isinstance(output, torch.Tensor):
        loss = output
    elif isinstance(output, dict) and "loss" in output:
        loss = output["loss"]
    elif hasattr(output, "loss"):
        loss = output.loss
    else:
        raise Error("there is no loss_fn, and the model's output has no loss")
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        what = f"a tensor of shape {list(loss.shape)}" if isinstance(loss, torch.Tensor) else repr(loss)
        raise Error(f"the loss must be one number, and is {what}; reduce it with .mean() or .sum()")
    return loss


def _parts(batch: Any, count: int) -> list:
    """The batch cut into `count` equal parts along the first dimension of every tensor."""
    leaves, tree = pytree.tree_flatten(batch)
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor) and (leaf.dim() == 0 or leaf.size(0) % count != 0):
            raise Error(
                f"a tensor of shape {list(leaf.shape)} in the batch cannot be cut into {count} equal "
                "parts (accumulate)"
            )
    pieces = [
        leaf.chunk(count) if isinstance(leaf, torch.Tensor) else [leaf] * count for leaf in leaves
    ]
    return [pytree.tree_unflatten(list(part), tree) for part in zip(*pieces, strict=True)]
