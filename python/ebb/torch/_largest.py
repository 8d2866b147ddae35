"""The largest batch that fits into a budget."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ebb import Error

from ._batch import batch_arguments
from ._budget import as_budget, as_host_budget
from ._capture import capture_with
from ._captured import Captured, captured_as_it_lies
from ._load import _runtime
from ._memory import is_shortage
from ._progress import Progress
from ._results import Layouts
from ._step_function import Task, count


def largest_batch(
    make_batch: Callable[[int], Any],
    model: torch.nn.Module,
    loss_fn: Callable[..., torch.Tensor] | None,
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
    *,
    budget: str | int = "auto",
    host_budget: str | int | None = None,
    clip_grad_norm: float | None = None,
    autocast: torch.dtype | None = None,
    scaler: torch.amp.GradScaler | None = None,
    lowest: int = 1,
    highest: int | None = None,
) -> int:
    """The largest n for which `compile(model, loss_fn, optimizer, make_batch(n), budget=...)` finds a
    plan, from `lowest` to `highest`; an `ebb.Error` of kind infeasible where not even the lowest fits.

    Steps are captured, measured and planned for n doubled and doubled again, then for halves of the
    way between the last that fits and the first that does not. Nothing is trained, and model and
    optimizer stay as they are. Without `host_budget`, what is swapped out must fit into the host
    memory that is available now. A plan for the largest batch moves all it can: somewhat smaller
    batches may train faster.

    >>> import torch, ebb.torch
    >>> model = torch.nn.Linear(4, 2)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> def make_batch(n):
    ...     return torch.randn(n, 4), torch.randint(0, 2, (n,))
    >>> loss_fn = torch.nn.functional.cross_entropy
    >>> n = ebb.torch.largest_batch(make_batch, model, loss_fn, optimizer, budget="64KiB")
    >>> step = ebb.torch.compile(model, loss_fn, optimizer, make_batch(n), budget="64KiB")
    """
    budget = as_budget(budget)
    if budget.endswith("%"):
        raise Error("the largest batch for a budget in per cent of what it needs is any; give bytes: '16GiB'")
    lowest = count("lowest is the smallest batch to try", lowest)
    highest = None if highest is None else count("highest is the largest batch to try", highest)
    if highest is not None and highest < lowest:
        raise Error(f"there is no batch from lowest={lowest} to highest={highest}")
    if host_budget is None:
        host_budget = _runtime.available_host_bytes() // 10 * 9  # some for everything else
    task = Task(
        model, loss_fn, optimizer, clip_grad_norm=clip_grad_norm, autocast=autocast, scaler=scaler
    )
    with Progress() as progress:
        attempt = _Attempts(make_batch, task, budget, as_host_budget(host_budget), progress)
        return _search(attempt, lowest, highest)


def _search(attempt: _Attempts, lowest: int, highest: int | None) -> int:
    """Whatever fits, fits with less in the batch too."""
    if not attempt(lowest):
        raise attempt.why
    fits, over = lowest, None
    while over is None and fits != highest:
        n = fits * 2 if highest is None else min(fits * 2, highest)
        if attempt(n):
            fits = n
        else:
            over = n
    while over is not None and over - fits > 1:
        n = (fits + over) // 2
        if attempt(n):
            fits = n
        else:
            over = n
    return fits


def _without_frames(error: Error) -> Error:
    """So that it does not hold what the functions had that it went through: the batch."""
    chain: list[BaseException | None] = [error]
    while chain:
        one = chain.pop()
        if one is not None and one.__traceback__ is not None:
            one.__traceback__ = None
            chain += [one.__cause__, one.__context__]
    return error


class _Attempts:
    """Asks whether batches fit, and says on a terminal how far that is."""

    def __init__(self, make_batch, task: Task, budget: str, host_budget: str, progress: Progress) -> None:
        self._make_batch = make_batch
        self._task = task
        self._budget = budget
        self._host_budget = host_budget
        self._progress = progress
        self._known = _runtime.Measurements()  # operations of the optimizer are the same for all batches
        self._layouts = Layouts()
        self._texts: set[str] = set()  # of the steps captured
        self.why: Error | None = None  # the last one did not fit

    def __call__(self, n: int) -> bool:
        """Whether there is a plan for a batch of n."""
        self._progress(f"a batch of {n}: capturing", 0, 0)
        try:
            self._plan(n)
            return True
        except Error as error:
            if error.kind != "infeasible":
                raise
            self.why = _without_frames(error)
        except (RuntimeError, MemoryError) as error:
            if not is_shortage(error):
                raise
            why = str(error) or "no memory is left"
            self.why = Error(f"a batch of {n} cannot even be made: {why}", kind="infeasible")
        finally:
            gc.collect()  # fakes know each other
            if torch.cuda.is_initialized():
                torch.cuda.empty_cache()
        return False

    def _plan(self, n: int) -> None:
        args, kwargs = batch_arguments((self._make_batch(n),), {})
        task = self._task

        def capture(layouts: Layouts) -> Captured:
            try:
                return capture_with(layouts, task.step, args, kwargs, task.model, task.optimizers)
            except Exception as error:
                error.add_note(f"ebb: in the step on make_batch({n}); `lowest` is the smallest batch that is tried")
                raise

        def progress(what: str, done: int, total: int) -> None:
            self._progress(f"a batch of {n}: {what}", done, total)

        def plan(captured: Captured, capture_anew: Callable) -> str:
            if captured.text in self._texts:
                raise Error(f"make_batch({n}) gives a batch like one of another size")
            self._texts.add(captured.text)
            return _runtime.plan(
                captured.text,
                device=str(captured.device),
                budget=self._budget,
                host_budget=self._host_budget,
                known=self._known,
                capture_anew=capture_anew,
                progress=progress,
            )

        with captured_as_it_lies(capture, plan, self._layouts, is_trial=True) as (captured, _):
            self._texts.add(captured.text)  # so the next one is captured from the start
