"""Optimizers while a step is captured.

Three things are particular about them. Their hyperparameters change from step to step, so they
become runtime scalars. They make their state in their first step, so it is made beforehand, as the
first step would. And they compute with numbers in Python, so that it is checked that nothing
computed from a hyperparameter ended up as a constant.
"""

from __future__ import annotations

import contextlib
import dataclasses
import numbers
import threading
from collections.abc import Iterator
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
)
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils._python_dispatch import _disable_current_modes

from ebb import Error

from . import _operators
from ._arguments import constants_of
from ._recorder import Recorder
from ._scalars import ScalarTape

aten = torch.ops.aten

# How an optimizer may make its state: filled with one number. Which one is an argument, or known.
_FILLED = {
    "aten::zeros_like": 0.0,
    "aten::zeros": 0.0,
    "aten::new_zeros": 0.0,
    "aten::ones_like": 1.0,
    "aten::ones": 1.0,
    "aten::new_ones": 1.0,
    "aten::full_like": "fill_value",
    "aten::full": "fill_value",
    "aten::new_full": "fill_value",
    "aten::scalar_tensor": "s",
    "aten::lift_fresh": "self",
}


# Why PyTorch's own optimizers cannot be captured: the line of the user's code says nothing about it.
_WHY_NOT = {
    torch.optim.Adafactor: "it decides in Python by its count of steps",
    torch.optim.ASGD: "it computes in Python with its count of steps and makes tensors of that",
    torch.optim.RAdam: "it decides in Python by its count of steps",
    torch.optim.Rprop: "it makes tensors of its hyperparameters",
}


@dataclasses.dataclass(frozen=True)
class NewState:
    """State that the optimizer does not have yet. Its memory is untouched until it is filled."""

    optimizer: torch.optim.Optimizer
    parameter: torch.Tensor
    key: str
    tensor: torch.Tensor
    value: float | torch.Tensor

    def fill(self, tensor: torch.Tensor) -> None:
        """Gives a tensor the value that the state has before the first step."""
        with torch.no_grad():
            if isinstance(self.value, torch.Tensor):
                tensor.copy_(self.value)
            else:
                tensor.fill_(self.value)


@dataclasses.dataclass(frozen=True)
class Hyperparameter:
    """Where a runtime scalar has its value: `optimizer.param_groups[group][key]`."""

    optimizer: torch.optim.Optimizer
    group: int
    key: str
    index: int | None = None  # within a tuple, as in `betas`

    def value(self) -> float:
        group = self.optimizer.param_groups[self.group]
        if self.key not in group:
            raise Error(f"{self} is no longer there")
        value = group[self.key]
        if self.index is None:
            return _as_float(value, self)
        if not isinstance(value, (tuple, list)) or self.index >= len(value):
            raise Error(f"{self} must be a number, and param_groups[{self.group}][{self.key!r}] is {value!r}")
        return _as_float(value[self.index], self)

    def __str__(self) -> str:
        within = "" if self.index is None else f"[{self.index}]"
        return f"param_groups[{self.group}][{self.key!r}]{within} of {type(self.optimizer).__name__}"


def _as_float(value: Any, place: Hyperparameter) -> float:
    if isinstance(value, (float, numbers.Integral)):
        with contextlib.suppress(OverflowError):
            return float(value)
    # An eager step computes with NumPy's numbers and with tensors in their own precision.
    remedy = "; give float() of it" if isinstance(value, torch.Tensor) or type(value).__module__ == "numpy" else ""
    raise Error(f"{place} must be a number, and is {value!r}{remedy}")


class Optimizers:
    """Watches every `optimizer.step()` of a captured step."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.hyperparameters: dict[str, Hyperparameter] = {}
        # Hyperparameters that were 0 (or no float): they decide what is computed.
        self.fixed: list[tuple[torch.optim.Optimizer, int, str, Any]] = []
        self.new_state: list[NewState] = []
        self.seen: list[torch.optim.Optimizer] = []
        self._states: dict[int, dict] = {}  # as they were, by id of the optimizer
        # As they were, and as they are during capture: by id of the optimizer, a dict for each group.
        self._originals: dict[int, list[dict[str, Any]]] = {}
        self._traced: dict[int, list[dict[str, Any]]] = {}
        self.stepped: list[torch.optim.Optimizer] = []
        self._running: torch.optim.Optimizer | None = None
        self._scalar_names: dict[tuple, str] = {}
        self._names: dict[int, str] = {}
        self._thread = threading.get_ident()  # hooks are called for all threads' optimizers
        self._hooks: list = []

    def __enter__(self) -> Optimizers:
        self._hooks = [
            register_optimizer_step_pre_hook(self._before_step),
            register_optimizer_step_post_hook(self._after_step),
        ]
        return self

    def __exit__(self, _, error: BaseException | None, __) -> None:
        for hook in self._hooks:
            hook.remove()
        for optimizer in self.seen:
            optimizer.state.clear()
            optimizer.state.update(self._states[id(optimizer)])
            self._set_groups(optimizer, self._originals[id(optimizer)])
        if self._running is not None and isinstance(error, _REFUSALS):
            raise _in_words(self._running, error) from error

    def check_unchanged(self) -> None:
        """Refuses steps that change hyperparameters: a scheduler belongs outside of the step."""
        for optimizer in self.seen:
            groups = self._traced[id(optimizer)]
            if len(groups) != len(optimizer.param_groups):
                raise Error("the step adds a parameter group to its optimizer")
            for group, traced in zip(optimizer.param_groups, groups, strict=True):
                for key, value in traced.items():
                    if group.get(key) is not value:
                        raise Error(
                            f"the step changes the optimizer's {key}; do this outside of the step, as "
                            "with scheduler.step() in the training loop"
                        )

    def know(self, optimizer: torch.optim.Optimizer, names: dict[int, str]) -> None:
        """Names the optimizer's state after the parameters it belongs to."""
        if any(optimizer is seen for seen in self.seen):
            return
        if isinstance(optimizer, torch.optim.LBFGS):
            raise Error("LBFGS computes the loss several times in a step; it cannot be captured")
        self.seen.append(optimizer)
        self._states[id(optimizer)] = {p: dict(s) for p, s in optimizer.state.items()}
        self._name_state(optimizer, names)
        self._names = names
        self._originals[id(optimizer)] = [dict(group) for group in optimizer.param_groups]
        self._traced[id(optimizer)] = self._trace_groups(optimizer, self.recorder.tape, note=True)
        self._set_groups(optimizer, self._traced[id(optimizer)])

    def _name_state(self, optimizer: torch.optim.Optimizer, names: dict[int, str]) -> None:
        for i, parameter in enumerate(p for g in optimizer.param_groups for p in g["params"]):
            name = names.setdefault(id(parameter), f"parameter.{i}")
            self.recorder.outside.know(parameter, name)
            for key, value in optimizer.state.get(parameter, {}).items():
                if isinstance(value, torch.Tensor):
                    self.recorder.outside.know(value, f"{name}.{key}")

    # Around optimizer.step().

    def _before_step(self, optimizer: torch.optim.Optimizer, args: tuple, kwargs: dict) -> None:
        if self.recorder.trial is not None or threading.get_ident() != self._thread:
            return
        if len(args) > 1 or kwargs.get("closure") is not None:
            raise Error("optimizer.step(closure) cannot be captured; compute the loss before it")
        if not any(optimizer is seen for seen in self.seen):
            self.know(optimizer, {})
        if self._running is not None:
            raise Error("an optimizer's step within an optimizer's step cannot be captured")
        self._running = optimizer
        self.stepped.append(optimizer)
        self._make_state(optimizer)
        self.recorder.names.phase = "optimizer"
        self.recorder.start_log()

    def _after_step(self, optimizer: torch.optim.Optimizer, args: tuple, kwargs: dict) -> None:
        if self.recorder.trial is not None or threading.get_ident() != self._thread:
            return
        log, self.recorder.log = self.recorder.log, None
        self._settle_state(optimizer)
        self.recorder.names.phase = ""
        # Once more, with other values for the hyperparameters: every constant must be the same.
        tape = ScalarTape(None, seed=2)
        with self._trying(optimizer, tape) as trial:
            _run_step(optimizer)
        if trial.log != log:
            self._report_difference(optimizer, log, trial.log)
        self._running = None

    def _report_difference(self, optimizer, log, other) -> None:
        for ours, theirs in zip(log, other, strict=False):
            if ours != theirs:
                constants = [a for a, b in zip(ours, theirs, strict=False) if a != b]
                raise Error(
                    f"{type(optimizer).__name__} computes {', '.join(constants) or 'a constant'} of "
                    f"{ours[0]} from a hyperparameter in a way that cannot be followed from step to "
                    "step; use fused=True or capturable=True where the optimizer has them"
                )
        raise Error(f"{type(optimizer).__name__} does not do the same operations every time")

    # Hyperparameters.

    def _trace_groups(self, optimizer, tape: ScalarTape, note: bool) -> list[dict[str, Any]]:
        """The optimizer's groups with runtime scalars for the numbers in them."""
        number = next(i for i, seen in enumerate(self.seen) if seen is optimizer)
        prefix = f"optimizer{number + 1}." if number > 0 else ""
        originals = self._originals[id(optimizer)]
        if len(originals) > 1:
            prefix += "group{}."
        traced = []
        for i, original in enumerate(originals):
            group = {}
            for key, value in original.items():
                if key == "params" or isinstance(value, torch.Tensor):
                    continue
                group[key] = value
                name = prefix.format(i) + key
                if isinstance(value, tuple) and all(isinstance(v, float) for v in value):
                    parts = []
                    for j, part in enumerate(value):
                        place = Hyperparameter(optimizer, i, key, j)
                        part_name = f"{name.removesuffix('s')}{j + 1}"
                        parts.append(self._scalar(tape, part_name, part, place))
                    group[key] = tuple(parts)
                elif key == "lr" or (isinstance(value, float) and value != 0.0):
                    place = Hyperparameter(optimizer, i, key)
                    group[key] = self._scalar(tape, name, _as_float(value, place), place)
                elif note:
                    self.fixed.append((optimizer, i, key, value))
            traced.append(group)
        return traced

    @staticmethod
    def _set_groups(optimizer, groups: list[dict[str, Any]]) -> None:
        for group, values in zip(optimizer.param_groups, groups, strict=False):
            group.update({key: value for key, value in values.items() if key != "params"})

    def _scalar(self, tape: ScalarTape, name: str, value: float, place: Hyperparameter):
        key = (id(place.optimizer), place.group, place.key, place.index)
        if key not in self._scalar_names:
            self._scalar_names[key] = self.recorder.names.unique(name)
            self.hyperparameters[self._scalar_names[key]] = place
        name = self._scalar_names[key]
        known = tape.given.get(name)
        return known if known is not None else tape.given_scalar(name, value)

    # State.

    def _make_state(self, optimizer: torch.optim.Optimizer) -> None:
        """Makes the state that the optimizer would make in its first step."""
        tape = ScalarTape(None, seed=3)
        before = {p: dict(s) for p, s in optimizer.state.items()}
        with self._trying(optimizer, tape) as trial:
            _run_step(optimizer)
            made = {p: dict(s) for p, s in optimizer.state.items()}
        for parameter, entries in made.items():
            had = before.get(parameter, {})
            name = self._names.setdefault(id(parameter), "parameter")
            for key, value in entries.items():
                if key in had and had[key] is not None:
                    if not isinstance(value, torch.Tensor) and value != had[key]:
                        raise Error(
                            f"{type(optimizer).__name__} keeps a Python number in its state "
                            f"({key}), which a captured step cannot change"
                        )
                    continue
                if isinstance(value, FakeTensor):
                    new = self._new_state(optimizer, parameter, key, value, trial)
                    self.new_state.append(new)
                    value = new.tensor
                    self.recorder.outside.know(value, f"{name}.{key}")
                elif isinstance(value, (int, float)) and not isinstance(value, bool):
                    raise Error(
                        f"{type(optimizer).__name__} keeps a Python number in its state ({key}), "
                        "which a captured step cannot change"
                    )
                optimizer.state[parameter][key] = value

    def _new_state(self, optimizer, parameter, key: str, made: FakeTensor, trial: Trial) -> NewState:
        value = _filled_with(trial.created.get(made.untyped_storage()._cdata))
        if isinstance(value, float) and trial.tape.find(value) is not None:
            raise Error(
                f"{type(optimizer).__name__} makes its state '{key}' out of a hyperparameter; do one "
                "ordinary step before, so that the state is there"
            )
        if value is None and _is_momentum_without_dampening(optimizer, parameter, key):
            # The first step makes it the gradient itself. -0.0 is the number that gives any gradient
            # when momentum times it is added, to the bit.
            value = -0.0
        if value is None:
            raise Error(
                f"{type(optimizer).__name__} makes its state '{key}' out of gradients; do one "
                "ordinary step before, so that the state is there"
            )
        with _disable_current_modes(), torch.no_grad():
            tensor = torch.empty_strided(
                made.size(), made.stride(), dtype=made.dtype, device=made.device
            )
        return NewState(optimizer, parameter, key, tensor, value)

    def _settle_state(self, optimizer: torch.optim.Optimizer) -> None:
        """State that the step replaced by another tensor is written back into the one it had."""
        before = {
            (id(p), key): value
            for p, entries in self._states[id(optimizer)].items()
            for key, value in entries.items()
        }
        for new in self.new_state:
            if new.optimizer is optimizer:
                before[id(new.parameter), new.key] = new.tensor
        for parameter, entries in optimizer.state.items():
            for key, value in entries.items():
                if isinstance(value, FakeTensor):
                    self.recorder.overwrite(before[id(parameter), key], value)
                    entries[key] = before[id(parameter), key]

    @contextlib.contextmanager
    def _trying(self, optimizer, tape: ScalarTape) -> Iterator[Trial]:
        """Runs an optimizer's step without leaving a trace."""
        before = {p: dict(s) for p, s in optimizer.state.items()}
        self._set_groups(optimizer, self._trace_groups(optimizer, tape, note=False))
        self.recorder.trial = Trial(self.recorder, tape)
        try:
            yield self.recorder.trial
        finally:
            self.recorder.trial = None
            self._set_groups(optimizer, self._traced[id(optimizer)])
            optimizer.state.clear()
            optimizer.state.update(before)


_REFUSALS = (Error, DataDependentOutputException, DynamicOutputShapeException)


def _in_words(optimizer: torch.optim.Optimizer, error: BaseException) -> BaseException:
    """What was refused within an optimizer's step, by the name of the optimizer."""
    kind = type(optimizer)
    tensors = [
        key
        for group in optimizer.param_groups
        for key, value in group.items()
        if key != "params" and any(isinstance(v, torch.Tensor) for v in pytree.tree_leaves(value))
    ]
    if isinstance(error, DataDependentOutputException) and tensors:
        is_on_cuda = any(p.is_cuda for group in optimizer.param_groups for p in group["params"])
        options = ("fused", "capturable") if is_on_cuda else ("fused",)  # the CPU has no capturable
        remedies = ["give a number", *(f"{option}=True" for option in options if option in optimizer.defaults)]
        return Error(
            f"{tensors[0]} of {kind.__name__} is a tensor, and the optimizer reads a number out of it; "
            f"{', or '.join(remedies)}"
        )
    if kind in _WHY_NOT and not any(group.get("capturable") for group in optimizer.param_groups):
        return Error(f"{kind.__name__} cannot be captured: {_WHY_NOT[kind]}. Use another optimizer")
    if kind is torch.optim.Adagrad and any(group["lr_decay"] == 0 for group in optimizer.param_groups):
        return Error(
            "Adagrad with lr_decay=0 cannot be captured: it multiplies its count of steps by 0, which "
            "cannot be told from a constant. Give another lr_decay, or fused=True, or use another optimizer"
        )
    if not isinstance(error, Error) or error.message.startswith(kind.__name__):
        return error
    return Error(f"{kind.__name__} cannot be captured: {error}", kind=error.kind, code=error.code)


def _filled_with(creation: tuple | None) -> float | torch.Tensor | None:
    """The value a tensor was made with; None when it was not made of a constant."""
    if creation is None:
        return None
    func, args, kwargs = creation
    value = _FILLED.get(func._schema.name)
    if isinstance(value, str):
        value = _operators.bind(func, args, kwargs)[value]
    return None if isinstance(value, FakeTensor) else value


def _is_momentum_without_dampening(optimizer, parameter: torch.Tensor, key: str) -> bool:
    """Dampening counts from the second step on: the first one is another computation."""
    return (
        isinstance(optimizer, torch.optim.SGD)
        and key == "momentum_buffer"
        and all(
            group["dampening"] == 0
            for group in optimizer.param_groups
            if any(p is parameter for p in group["params"])
        )
    )


def _run_step(optimizer: torch.optim.Optimizer) -> None:
    type(optimizer).step(optimizer)


class Trial:
    """Stands in for the recorder: notes only constants, and who made which tensor."""

    def __init__(self, recorder: Recorder, tape: ScalarTape) -> None:
        self.recorder = recorder
        self.tape = tape
        self.log: list[tuple[str, ...]] = []
        self.created: dict[int, tuple] = {}
        self._kept: list = []
        self._reads = 0

    def dispatch(self, func, args: tuple, kwargs: dict) -> Any:
        fake_args, fake_kwargs = pytree.tree_map_only(
            torch.Tensor, self.recorder.outside.trial_fake_of, (args, kwargs)
        )
        with self.recorder.fake:
            out = func(*fake_args, **fake_kwargs)
        if _operators.is_recorded(func):
            bound = _operators.bind(func, args, kwargs)
            self.log.append(constants_of(func, bound, self.tape))
            for made in pytree.tree_leaves(out):
                if isinstance(made, FakeTensor):
                    self._kept.append(made.untyped_storage())
                    self.created.setdefault(
                        made.untyped_storage()._cdata, (func, args, kwargs)
                    )
        return pytree.tree_map_only(FakeTensor, self.recorder.outside.real_if_known, out)

    def read_number(self, tensor: torch.Tensor) -> float:
        self._reads += 1
        return self.tape.read_scalar("", f"item{self._reads}")
