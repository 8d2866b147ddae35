"""From a model and its optimizer to a compiled step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ._batch import batch_arguments
from ._capture import capture_with
from ._captured import Captured
from ._memory import shortage_is_named
from ._results import Layouts
from ._step import OtherBatches, Step
from ._step_function import Task


def compile(  # noqa: A001: the name that PyTorch's users expect
    model: torch.nn.Module,
    loss_fn: Callable[..., torch.Tensor] | None,
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
    batch: Any,
    *,
    budget: str | int = "100%",
    host_budget: str | int | None = None,
    clip_grad_norm: float | None = None,
    autocast: torch.dtype | None = None,
    accumulate: int = 1,
    scaler: torch.amp.GradScaler | None = None,
    other_batches: OtherBatches = "compile",
) -> Step:
    """Captures a training step (see `capture`) and makes it ready to run inside a budget.

    `budget` is what the step may use on its device, parameters and optimizer state included:
    "16GiB", "53%" of what it needs as it is, or "auto", what is free. Tensors are swapped to the
    host and computed again until it fits; the bits stay the same. `host_budget` is what may be on
    the host at a time; by default as much as it takes, which is refused where it is not available.

    From then on the parameters, buffers and optimizer state live in the step's arena; they are the
    same objects as before, so that saving, loading and evaluating work as always; `step.evaluate` and
    `step.predict` evaluate inside the budget. Learning rates and other hyperparameters are read from
    the optimizer at every step: schedulers work as always.

    With a `scaler` the loss is scaled, gradients are unscaled, the step is skipped where they are not
    finite, and the scale is updated, as by `scaler.scale`, `step` and `update`; the optimizer must be
    fused (`fused=True`).

    Batches of another shape are captured when they first come, and run in the same arena; with
    `other_batches="eager"` they are trained eagerly, outside of the budget.

    >>> import torch
    >>> model = torch.nn.Linear(4, 2)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> batch = (torch.randn(8, 4), torch.randint(0, 2, (8,)))
    >>> step = compile(model, torch.nn.functional.cross_entropy, optimizer, batch)
    >>> loss = step(*batch)
    >>> step.memory().peak_bytes <= step.memory().budget_bytes
    True
    """
    task = Task(
        model,
        loss_fn,
        optimizer,
        clip_grad_norm=clip_grad_norm,
        autocast=autocast,
        accumulate=accumulate,
        scaler=scaler,
    )
    args, kwargs = batch_arguments((batch,), {})

    def capture(layouts: Layouts) -> Captured:
        return capture_with(layouts, task.step, args, kwargs, model, optimizer)

    with shortage_is_named():
        return Step(capture, task.step, budget, host_budget, other_batches, task)


def compile_step(
    function: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: dict[str, Any] | None = None,
    *,
    budget: str | int = "100%",
    host_budget: str | int | None = None,
    modules: torch.nn.Module | Sequence[torch.nn.Module] | None = None,
    optimizers: torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | None = None,
    other_batches: OtherBatches = "compile",
) -> Step:
    """The same for any function that does a training step (see `capture_step`)."""

    def capture(layouts: Layouts) -> Captured:
        return capture_with(layouts, function, args, kwargs, modules, optimizers)

    with shortage_is_named():
        return Step(capture, function, budget, host_budget, other_batches)
