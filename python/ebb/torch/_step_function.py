"""What everybody does with a model, a loss and an optimizer, as functions of the batch."""

from __future__ import annotations

import contextlib
import math
import numbers
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree

from ebb import Error


class Task:
    """What a model is trained for.

    Its functions are what an eager loop does, and running them eagerly gives the same bits as Ebb does.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        loss_fn: Callable[..., torch.Tensor] | None,
        optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
        *,
        clip_grad_norm: float | None = None,
        autocast: torch.dtype | None = None,
        accumulate: int = 1,
        scaler: torch.amp.GradScaler | None = None,
    ) -> None:
        self.model = model
        self.loss_fn = loss_fn
        self.optimizers = list(optimizer) if isinstance(optimizer, (list, tuple)) else [optimizer]
        self._clip_grad_norm = None if clip_grad_norm is None else _norm(clip_grad_norm)
        self._autocast = autocast
        self._accumulate = count("accumulate is in how many parts a batch is cut", accumulate)
        self._scaler = scaler or torch.amp.GradScaler(enabled=False)  # which does nothing
        if not isinstance(model, torch.nn.Module):
            raise Error(f"the model must be a torch.nn.Module, and is a {type(model).__name__}")
        for one in self.optimizers:
            if not isinstance(one, torch.optim.Optimizer):
                raise Error(
                    f"the optimizer must be a torch.optim.Optimizer, and is a {type(one).__name__}"
                )
        if not isinstance(self._scaler, torch.amp.GradScaler):
            raise Error(f"the scaler must be a torch.amp.GradScaler, and is a {type(scaler).__name__}")
        if isinstance(loss_fn, type) and issubclass(loss_fn, torch.nn.Module):
            raise Error(f"loss_fn is the class {loss_fn.__name__}; give an object of it: {loss_fn.__name__}()")
        if loss_fn is not None and not callable(loss_fn):
            raise Error(
                "loss_fn is a function of the model's output and the target, such as "
                f"torch.nn.functional.cross_entropy, and not {loss_fn!r}"
            )
        if autocast not in (None, torch.bfloat16, torch.float16):
            raise Error(
                "autocast is the type to compute in, torch.bfloat16 or torch.float16, and not "
                f"{autocast!r}"
            )

    def step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Loss, backward, optimizer step; returns the loss."""
        for one in self.optimizers:
            one.zero_grad(set_to_none=True)
        if self._accumulate == 1:
            loss = self._loss_of(args, kwargs)
            self._scaler.scale(loss).backward()
        else:
            loss = None
            for part_args, part_kwargs in _parts((args, kwargs), self._accumulate):
                part = self._loss_of(part_args, part_kwargs) / self._accumulate
                self._scaler.scale(part).backward()
                loss = part.detach() if loss is None else loss + part.detach()
        if self._clip_grad_norm is not None:
            for one in self.optimizers:
                self._scaler.unscale_(one)
            torch.nn.utils.clip_grad_norm_(self._clipped(), self._clip_grad_norm)
        for one in self.optimizers:
            self._scaler.step(one)
        self._scaler.update()
        return loss.detach()

    def evaluate(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """The loss, without gradients."""
        with torch.no_grad():
            return self._loss_of(args, kwargs)

    def predict(self, *args: Any, **kwargs: Any) -> Any:
        """The model's output, without gradients."""
        with torch.no_grad(), self._precision():
            if len(args) == 1 and not kwargs:
                return self._output_of(args[0])
            return self.model(*args, **kwargs)

    def _clipped(self) -> list[torch.nn.Parameter]:
        """What the optimizers train, in the order of `model.parameters()` where it has them all: norms are added up in
        order, and that is the one of an eager loop."""
        trained = [p for one in self.optimizers for group in one.param_groups for p in group["params"]]
        wanted = {id(parameter) for parameter in trained}
        in_order = [parameter for parameter in self.model.parameters() if id(parameter) in wanted]
        return in_order if len(in_order) == len(trained) else trained

    def _loss_of(self, args: tuple, kwargs: dict[str, Any]) -> torch.Tensor:
        with self._precision():
            if kwargs:
                return _loss(self.loss_fn, self.model(*args, **kwargs), (kwargs,))
            inputs, targets = (args[:-1], args[-1:]) if len(args) > 1 else (args, ())
            if len(inputs) == 1 and isinstance(inputs[0], (dict, tuple, list)):
                return _loss(self.loss_fn, self._output_of(inputs[0]), targets)
            if self.loss_fn is None:
                return _loss(None, self.model(*args), ())
            return _loss(self.loss_fn, self.model(*inputs), targets)

    def _output_of(self, inputs: Any) -> Any:
        """Inputs that are a tuple or a dict are spread over the model's arguments."""
        if isinstance(inputs, dict):
            return self.model(**inputs)
        if isinstance(inputs, (tuple, list)):
            return self.model(*inputs)
        return self.model(inputs)

    def _precision(self) -> contextlib.AbstractContextManager:
        if not self._autocast:
            return contextlib.nullcontext()
        device = next((p.device.type for p in self.model.parameters()), "cpu")
        return torch.autocast(device, dtype=self._autocast)


def step_function(
    model: torch.nn.Module,
    loss_fn: Callable[..., torch.Tensor] | None,
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
    **options: Any,
) -> Callable[..., torch.Tensor]:
    """`step(*batch)` or `step(**batch)`: loss, backward, optimizer step; returns the loss."""
    return Task(model, loss_fn, optimizer, **options).step


def _norm(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or math.isnan(value) or value < 0:
        raise Error(f"clip_grad_norm is the largest norm of the gradients, a number from 0 on, and not {value!r}")
    return float(value)


def count(what: str, value: Any) -> int:
    """`what` says what there would be so many of."""
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if number < 1 or isinstance(value, bool):
        raise Error(f"{what}, a whole number from 1 on, and not {value!r}")
    return number


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
        raise _no_loss(loss)
    return loss


def _no_loss(value: Any) -> Error:
    if isinstance(value, torch.Tensor):
        what, remedy = f"a tensor of shape {list(value.shape)}", "reduce it with .mean() or .sum()"
    elif isinstance(value, numbers.Number):
        what, remedy = "a number of Python", "return the tensor: do not call .item() or float() on it"
    elif value is None:
        what, remedy = "None", "loss_fn must return it"
    else:
        what, remedy = f"a {type(value).__name__}", "return only the loss"
    return Error(f"the loss must be one number in a tensor, and is {what}; {remedy}")


def _parts(batch: Any, count: int) -> list:
    """The batch cut into `count` equal parts along the first dimension of every tensor."""
    leaves, tree = pytree.tree_flatten(batch)
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor) and (leaf.dim() == 0 or leaf.size(0) % count != 0):
            raise Error(
                f"a tensor of shape {list(leaf.shape)} in the batch cannot be cut into {count} equal "
                "parts (accumulate); drop the last batch (drop_last=True), or pad it"
            )
    pieces = [
        leaf.chunk(count) if isinstance(leaf, torch.Tensor) else [leaf] * count for leaf in leaves
    ]
    return [pytree.tree_unflatten(list(part), tree) for part in zip(*pieces, strict=True)]
