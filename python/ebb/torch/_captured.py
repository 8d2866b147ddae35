"""A captured step: the graph, the tensors behind it, and what must stay as it was."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.utils._pytree as pytree

from ebb import Error

from . import _operators
from ._changes import Changes, named
from ._decisions import Decisions
from ._lines import Declaration
from ._optimizer import Hyperparameter, NewState
from ._results import Layouts, Origin
from ._scalars import Guard


_MOST_ALIKE = 8  # captures of which only numbers differ, before it is taken that they will always do


@contextlib.contextmanager
def captured_as_it_lies(
    capture: Callable[[Layouts], Captured],
    make: Callable[[Captured, Callable], Any],
    layouts: Layouts,
    is_trial: bool = False,
) -> Iterator[tuple[Captured, Any]]:
    """A captured step and what is made of it, by `make(captured, capture_anew)`. Where results lie otherwise in memory
    than PyTorch had announced, the step is captured anew, knowing it: what reads them in another order would round
    otherwise. Where nothing can be made of it, where something is raised within the block, and after a trial, forward
    has changed nothing in its modules."""
    captured = capture(layouts)
    alike = 0

    def capture_anew(strides: dict[str, list[int]]) -> str | None:
        nonlocal captured, alike
        kinds = layouts.kinds
        if not layouts.learn(strides, captured.origins):
            return None
        if layouts.kinds == kinds:
            # Only numbers are others. Where forward draws them, they are others in every capture.
            alike += 1
            if alike > _MOST_ALIKE:
                return None
        captured.undo()
        try:
            captured = capture(layouts)
        except Exception as error:
            name = next(name for name in strides if name in captured.origins)
            operator = _operators.name_of(captured.origins[name][0])
            error.add_note(
                f"ebb: the step was captured once more, because %{name} of {operator} lies otherwise in memory than "
                "PyTorch announces"
            )
            raise
        return captured.text

    is_done = False
    try:
        made = make(captured, capture_anew)  # in which another one may take its place
        yield captured, made
        is_done = not is_trial
    finally:
        if not is_done:
            captured.undo()
    captured.keep()


TENSOR = object()
"""Stands in a list of leaves where a tensor goes."""


@dataclasses.dataclass(frozen=True)
class Shared:
    """What a step has in its arena from step to step, in the order in which it is declared."""

    state: dict[str, torch.Tensor]
    constants: list[Declaration]
    scalers: list[torch.amp.GradScaler]


@dataclasses.dataclass
class Captured:
    """A captured training step.

    `text` is the graph (docs/graph-text.md). The tensors behind its declarations are the user's
    own: `state` the parameters, buffers and optimizer state, `constants`, and `inputs`, the example
    batch in the order in which its tensors are flattened.
    """

    text: str = dataclasses.field(repr=False)
    inputs: dict[str, torch.Tensor] = dataclasses.field(repr=False)
    brought: dict[str, torch.Tensor] = dataclasses.field(repr=False)  # inputs that are no part of the batch
    state: dict[str, torch.Tensor] = dataclasses.field(repr=False)
    constants: dict[str, torch.Tensor] = dataclasses.field(repr=False)
    updates: bool = dataclasses.field(repr=False)  # whether it changes any state
    hyperparameters: dict[str, Hyperparameter]
    declarations: list[Declaration] = dataclasses.field(repr=False)
    batch_tree: pytree.TreeSpec = dataclasses.field(repr=False)
    batch_leaves: list[Any] = dataclasses.field(repr=False)
    output_tree: pytree.TreeSpec = dataclasses.field(repr=False)
    output_leaves: list[Any] = dataclasses.field(repr=False)  # TENSOR where a tensor goes
    origins: dict[str, Origin] = dataclasses.field(repr=False)  # of the graph's tensors
    decisions: Decisions = dataclasses.field(repr=False)  # what it read of its batch
    guards: list[Guard] = dataclasses.field(repr=False)
    _all_hyperparameters: dict[str, Hyperparameter] = dataclasses.field(repr=False)
    _modes: list[tuple] = dataclasses.field(repr=False)  # (module, its path, whether it was training)
    _changes: Changes = dataclasses.field(repr=False)
    _trainable: list[tuple] = dataclasses.field(repr=False)  # (parameter, name, requires_grad)
    _fixed: list[tuple] = dataclasses.field(repr=False)
    new_state: list[NewState] = dataclasses.field(repr=False)
    gradients: list[torch.Tensor] = dataclasses.field(repr=False)  # whose .grad is the step's
    modules: list[torch.nn.Module] = dataclasses.field(repr=False)
    optimizers: list[torch.optim.Optimizer] = dataclasses.field(repr=False)
    scalers: list[torch.amp.GradScaler] = dataclasses.field(repr=False)
    _fixed_scalers: list[tuple] = dataclasses.field(repr=False)
    undo: Callable[[], None] = dataclasses.field(repr=False)  # puts back what forward has changed in its modules
    moving: list[str] = dataclasses.field(repr=False)  # what forward reads and changes, in words
    device: torch.device = dataclasses.field(repr=False)
    autocast: bool = dataclasses.field(repr=False)  # whether it was on around the step
    _group_sizes: dict[int, list[int]] = dataclasses.field(repr=False)

    def put(self, names: dict[str, torch.Tensor], instead: dict[int, torch.Tensor]) -> None:
        """Other tensors are the user's by now: by name, and by the id of those in whose stead they are."""
        self.state.update(names)
        for declaration in self.declarations:
            if declaration.kind == "param":
                declaration.tensor = names.get(declaration.name, declaration.tensor)
        self.gradients = [instead.get(id(tensor), tensor) for tensor in self.gradients]
        self._trainable = [(instead.get(id(tensor), tensor), *rest) for tensor, *rest in self._trainable]
        self._changes.put(instead)

    def keep(self) -> Captured:
        """It will not be captured anew: forgets what that takes."""
        self.origins, self.undo = {}, lambda: None
        return self

    def check_unchanged(self) -> None:
        """Raises where the model or the optimizer would compute something else by now."""
        for optimizer in self.optimizers:
            if [len(group["params"]) for group in optimizer.param_groups] != self._group_sizes[id(optimizer)]:
                raise Error(
                    f"{type(optimizer).__name__} has other parameters than when the step was captured. "
                    "Compile the step again"
                )
        for optimizer, group, key, value in self._fixed:
            now = optimizer.param_groups[group].get(key)
            if type(now) is not type(value) or now != value:
                raise Error(
                    f"{key} of parameter group {group} was {value} when the step was captured and "
                    f"is {now}: another computation. Compile the step again"
                )
        for scaler, key, value in self._fixed_scalers:
            if getattr(scaler, key) != value:
                raise Error(
                    f"{key.lstrip('_')} of the gradient scaler was {value} when the step was captured and is "
                    f"{getattr(scaler, key)}: another computation. Compile the step again"
                )
        self.check_autocast()
        self._changes.check()
        for module, path, training in self._modes:
            if module.training != training:
                word = "training" if training else "evaluating"
                raise Error(
                    f"{named(module, path)} was {word} when the step was captured and no longer is; "
                    f"call model.{'train' if training else 'eval'}() before the step, or compile the step again"
                )
        for parameter, name, required in self._trainable:
            if parameter.requires_grad != required:
                raise Error(
                    f"requires_grad of {name} was {required} when the step was captured and no longer is: "
                    "another computation. Compile the step again"
                )

    def check_autocast(self) -> None:
        if torch.is_autocast_enabled(self.device.type) != self.autocast:
            raise Error(
                "torch.autocast is on around the step and was not when it was captured, or the other "
                "way round; give autocast= to compile, or compile the step again"
            )

    def scalar_values(self) -> dict[str, float]:
        """The runtime scalars as they are now, checked against what was captured."""
        self.check_unchanged()
        values = {}
        for name, place in self._all_hyperparameters.items():
            values[name] = place.value()
        for guard in self.guards:
            if guard.evaluate(values) != guard.outcome:
                raise Error(
                    f"{guard.text} was {guard.outcome} when the step was captured and no longer is: "
                    "another computation. Compile the step again"
                )
        return {name: values[name] for name in self.hyperparameters}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes `step.ebb`, and beside it `step.safetensors` with the state, constants, example
        batch, scalars and the state of the random number generator: what `ebb run` needs."""
        from ._files import save

        save(self, path)
