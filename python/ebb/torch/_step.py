"""A compiled step: a captured one, running in an arena of its own."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Literal

import torch
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import FakeTensor

import ebb
from ebb import Error

from ._batch import batch_arguments
from ._budget import as_budget, as_host_budget
from ._captured import Captured, captured_as_it_lies
from ._files import replaced
from ._fill import fill
from ._load import _runtime
from ._memory import Memory, OutsideMeter
from ._program import Program, view
from ._programs import Programs, describe, refused
from ._progress import Progress
from ._report import Report
from ._results import Layouts
from ._state import State
from ._step_function import Task
from ._stopwatch import Stopwatch
from ._uninterrupted import uninterrupted

OtherBatches = Literal["compile", "eager"]


_thread = threading.local()  # is_busy: whether it runs a step, or compiles one


def _refuse_within_a_step() -> None:
    if getattr(_thread, "is_busy", False):
        raise Error(
            "a step is running on this very thread, or compiled, and was interrupted for this call (by a handler of signals, "
            "say); do it after the step"
        )


def _one_at_a_time(call: Callable[..., Any]) -> Callable[..., Any]:
    """Calls of one step wait for each other. But who interrupts a step, as handlers of signals do, must neither wait for it
    nor move what it trains into the arena of another step, and is refused."""

    @functools.wraps(call)
    def one(self: Step, *args: Any, **kwargs: Any) -> Any:
        _refuse_within_a_step()
        with self._lock:
            try:
                _thread.is_busy = True
                return call(self, *args, **kwargs)
            finally:
                _thread.is_busy = False

    return one


class Step:
    """A training step inside a byte budget. Made by `compile` and `compile_step`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._lock = threading.RLock()
        self._compile(*args, **kwargs)  # a call like the others

    @_one_at_a_time
    def _compile(
        self,
        capture: Callable[[Layouts], Captured],
        function: Callable[..., Any],
        budget: str | int,
        host_budget: str | int | None = None,
        other_batches: OtherBatches = "compile",
        task: Task | None = None,
    ) -> None:
        if other_batches not in ("compile", "eager"):
            raise Error(f"other_batches is 'compile' or 'eager', and not {other_batches!r}")
        self._function = function
        self._other_batches = other_batches
        self._task = task  # whose step the function is; none where it is the user's own
        device_budget = as_budget(budget)
        host = "" if host_budget is None else as_host_budget(host_budget)
        known, layouts = _runtime.Measurements(), Layouts()
        outside: OutsideMeter | None = None

        def make(captured: Captured, capture_anew: Callable) -> Any:
            nonlocal outside
            if captured.device.type not in ("cpu", "cuda"):
                raise Error(f"steps run on the CPU and on CUDA, and this one is on {captured.device}")
            outside = OutsideMeter(captured.device)
            with Progress() as progress:
                return _runtime.Step(
                    captured.text,
                    device=str(captured.device),
                    budget=device_budget,
                    host_budget=host,
                    known=known,
                    capture_anew=capture_anew,
                    progress=progress,
                )

        with captured_as_it_lies(capture, make, layouts) as (captured, runtime):
            self._captured = captured
            self._stopwatch = Stopwatch(captured.device)
            self._steps_done = 0
            first = Program(captured, runtime)
            for name, constant in captured.constants.items():
                fill(view(runtime, name), constant)
            self._outside_bytes = 0
            self._look_at(first)  # what may fail for want of memory does so before anything of the user's moves
            with uninterrupted():
                self._state = State(captured, functools.partial(view, runtime))
                self._finalizer = weakref.finalize(self, State.give_back, self._state)
                self._finalizer.atexit = False
        self._programs: Programs | None = Programs(first, self._state, host, known, layouts)
        # A step that was planned has the whole budget.
        arena = self._figures["budget_bytes"] if self._plan else self._memory.peak_bytes
        self._outside_bytes = outside.bytes(arena)
        self._memory = dataclasses.replace(self._memory, outside_bytes=self._outside_bytes)

    def _look_at(self, first: Program) -> None:
        """What is told about the compiled step; it may be planned again."""
        runtime = first.runtime
        self._generation = first.generation
        self._program = runtime.program()
        self._figures = json.loads(runtime.report())
        self._plan = runtime.plan()
        self._memory = Memory(
            budget_bytes=self._figures["budget_bytes"],
            peak_bytes=runtime.arena_bytes,
            state_bytes=runtime.state_bytes,
            bound_bytes=runtime.bound_bytes,
            host_bytes=runtime.host_bytes,
            outside_bytes=self._outside_bytes,
        )

    @_one_at_a_time
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """One training step; returns what the step function returns: the loss.

        What is returned has memory of its own. For a batch of another structure, shape, type or
        memory layout (the last one of an epoch), or by which the step decides otherwise, it is captured
        once more when the first such batch comes, and runs in the same memory; see `other_batches` of
        `compile`.
        """
        return self._train(*self._find_training(args, kwargs))

    def _find_training(self, args: tuple, kwargs: dict) -> tuple[tuple, dict, list[Any], Program | None]:
        if self._task is not None:
            args, kwargs = batch_arguments(args, kwargs)
        return args, kwargs, *self._find("step", args, kwargs)

    def _train(self, args: tuple, kwargs: dict, leaves: list[Any], program: Program | None) -> Any:
        if program is None and self._other_batches == "eager":
            result = self._function(*args, **kwargs)
            self._steps_done += 1
            return result
        self._state.adopt()
        if program is None:
            self._captured.check_unchanged()
            program = self._make(
                "step",
                self._function,
                args,
                kwargs,
                lambda: self._described(args, kwargs),
                "Compile with the largest batch or more budget, drop the last batch "
                "(drop_last=True), or train such batches eagerly, outside of the budget: "
                "other_batches='eager'",
            )
        is_first = program is self._programs.first
        done_before = program.runtime.runs_done
        try:
            with self._stopwatch.step() if is_first else contextlib.nullcontext():
                return self._run(program, leaves)
        finally:  # Ctrl-C may come before the step is begun, and after it is done
            self._steps_done += program.runtime.runs_done - done_before

    @_one_at_a_time
    def trace(self, path: str | os.PathLike[str], *args: Any, **kwargs: Any) -> Any:
        """One training step on a batch like the one that was compiled for, for which the step makes the same
        decisions, timed by operation; writes its timeline to a file that ui.perfetto.dev opens, and returns what the
        step returns."""
        args, kwargs, leaves, program = self._find_training(args, kwargs)
        first = self._programs.first
        if program is not first:
            raise Error(f"trace takes batches like the one compiled for, and not {self._described(args, kwargs)}")
        with replaced(path) as file:  # first: a step that is done stays done
            first.is_timed = True
            try:
                result = self._train(args, kwargs, leaves, first)
            finally:
                first.is_timed = False
            file.write_text(first.runtime.trace(), encoding="utf-8")
        return result

    def evaluate(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """The loss of a batch, given as to the step itself: the model is in eval mode for it, and there
        are no gradients. In the step's memory; what is returned has its own.

        >>> import torch, ebb.torch
        >>> model = torch.nn.Linear(4, 2)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> batch = (torch.randn(8, 4), torch.randint(0, 2, (8,)))
        >>> step = ebb.torch.compile(model, torch.nn.functional.cross_entropy, optimizer, batch)
        >>> bool(step.evaluate(*batch) == step(*batch)), model.training
        (True, True)
        """
        return self._run_in_eval_mode("evaluate", *batch_arguments(args, kwargs))

    def predict(self, *args: Any, **kwargs: Any) -> Any:
        """The model's output for inputs (without targets), likewise."""
        return self._run_in_eval_mode("predict", args, kwargs)

    @_one_at_a_time
    def _run_in_eval_mode(self, what: Literal["evaluate", "predict"], args: tuple, kwargs: dict) -> Any:
        if self._task is None:
            raise Error(
                f"a step made by compile_step has no {what}: Ebb does not know which part of the "
                "function is the model. Call the model itself, or use ebb.torch.compile"
            )
        with _in_eval_mode(self._task.model):
            leaves, program = self._find(what, args, kwargs)
            self._captured.check_autocast()
            self._state.adopt()
            if program is None:
                program = self._make(
                    what,
                    getattr(self._task, what),
                    args,
                    kwargs,
                    lambda: f"to {what} {describe(leaves, self._captured.inputs.values())}",
                    "Use smaller batches for it, or evaluate eagerly, outside of the budget: model.eval() "
                    "and torch.no_grad()",
                )
            return self._run(program, leaves)

    def _find(self, what: str, args: tuple, kwargs: dict) -> tuple[list[Any], Program | None]:
        if self._programs is None:
            raise Error("the step is closed")
        leaves, tree = pytree.tree_flatten((args, kwargs))
        if any(isinstance(leaf, FakeTensor) for leaf in leaves):
            raise Error("a compiled step cannot be captured again as part of another one")
        return leaves, self._programs.find(what, leaves, tree)

    def _described(self, args: tuple, kwargs: dict) -> str:
        """A batch that the first program does not take."""
        leaves, tree = pytree.tree_flatten((args, kwargs))
        first = self._programs.first
        words = describe(leaves, self._captured.inputs.values())
        decision = first.decided_otherwise(leaves) if first.is_like(leaves, tree) else None
        return words if decision is None else f"{words} (with which the step takes another way: it {decision})"

    def _run(self, program: Program, leaves: list[Any]) -> Any:
        try:
            return program.run(leaves, self._state)
        finally:
            if program.generation != self._generation and program is self._programs.first:
                self._look_at(program)

    def _make(
        self, what: str, function, args: tuple, kwargs: dict, name: Callable[[], str], remedy: str
    ) -> Program:
        try:
            return self._programs.make(what, function, args, kwargs)
        except Error as error:
            raise refused(name(), error, remedy) from error
        except Exception as error:  # of the user's code
            error.add_note(f"ebb: raised while it was captured: {name()}")
            raise

    def memory(self) -> Memory:
        """What the step holds, in bytes."""
        return self._memory

    @_one_at_a_time
    def report(self) -> Report:
        """What was measured, planned and predicted; and how many steps were done by now, how long the last
        ones took (of the batches compiled for), and how many samples a second that is."""
        measured = {"steps_done": self._steps_done}
        seconds = self._stopwatch.median()
        if seconds is not None:
            measured["step_seconds"] = seconds
            first = next(iter(self._captured.inputs.values()), None)
            if first is not None and first.dim() > 0:
                measured["samples_per_second"] = first.size(0) / seconds
        return Report({**self._figures, "measured": measured})

    @property
    def plan(self) -> str:
        """The plan, as `ebb apply` takes it; empty where the step fits as it is."""
        return self._plan

    @property
    def graph(self) -> ebb.Graph:
        """The captured graph."""
        return ebb.parse(self._captured.text)

    @property
    def captured(self) -> Captured:
        """What was captured: text, state, inputs."""
        return self._captured

    def program(self) -> str:
        """The instructions, and where in the arena everything lies, as text."""
        return self._program

    def __repr__(self) -> str:
        state = "closed" if self._programs is None else f"{self._memory.peak_bytes} bytes"
        return f"<ebb.torch.Step, {state}>"

    @_one_at_a_time
    def close(self) -> None:
        """Gives everything back: parameters and optimizer state get memory of their own again.

        Going out of scope does the same.
        """
        self._finalizer()
        self._programs = None

    def __reduce__(self) -> Any:
        raise Error(
            "a compiled step is neither copied nor pickled: it has an arena of its own. Save model.state_dict() and "
            "optimizer.state_dict(), load them where they are needed, and compile there"
        )

    def __enter__(self) -> Step:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


@contextlib.contextmanager
def _in_eval_mode(model: torch.nn.Module) -> Iterator[None]:
    """Each module's mode is put back as it was."""
    modes = [(part, part.training) for part in model.modules()]
    try:
        model.eval()
        yield
    finally:
        for part, training in modes:
            part.training = training
