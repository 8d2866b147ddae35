"""One captured computation in an arena: where its batch goes in, where its results come out."""

from __future__ import annotations

import warnings
from typing import Any

import torch
import torch.utils._pytree as pytree

from ._batch import is_same_value
from ._captured import TENSOR, Captured
from ._decisions import Decision
from ._fill import fill
from ._places import levels_to_user
from ._progress import Progress
from ._state import State
from ._text import dtype_of


class Program:
    def __init__(self, captured: Captured, runtime: Any) -> None:
        self.captured = captured
        self.runtime = runtime
        self._is_random = " random\n" in captured.text
        self._find_places()
        self._say_notes()

    def _find_places(self) -> None:
        """Once, and again when a run has put them elsewhere."""
        runtime, captured = self.runtime, self.captured
        self.generation = runtime.generation
        self._inputs = [view(runtime, name) for name in captured.inputs]
        self._brought = [(view(runtime, name), tensor) for name, tensor in captured.brought.items()]
        self._outputs = [view(runtime, name) for name in runtime.outputs]

    def _say_notes(self) -> None:
        for note in self.runtime.take_notes():
            warnings.warn(f"ebb: {note}", stacklevel=levels_to_user())

    def takes(self, leaves: list[Any], tree: pytree.TreeSpec) -> bool:
        """Whether this is a batch like the one it was made for, and one by which the step decides as it did then."""
        return self.is_like(leaves, tree) and self.decided_otherwise(leaves) is None

    def decided_otherwise(self, leaves: list[Any]) -> Decision | None:
        """By what the step decides otherwise for this batch, which is like the one it was made for."""
        return self.captured.decisions.otherwise([leaf for leaf in leaves if isinstance(leaf, torch.Tensor)])

    def is_like(self, leaves: list[Any], tree: pytree.TreeSpec) -> bool:
        """Whether a batch has the structure, shapes, types and memory layout of the one it was made for."""
        if tree != self.captured.batch_tree:
            return False
        places = iter(self._inputs)
        for leaf, expected in zip(leaves, self.captured.batch_leaves, strict=True):
            if expected is not TENSOR or not isinstance(leaf, torch.Tensor):
                if not is_same_value(leaf, expected):
                    return False
                continue
            place = next(places)
            if (
                leaf.layout != place.layout  # sparse ones have no strides
                or leaf.dtype != place.dtype
                or leaf.device != place.device
                or leaf.size() != place.size()
                or leaf.stride() != place.stride()  # which decides about kernels, and so about bits
            ):
                return False
        return True

    is_timed = False
    """Whether the next runs are timed by operation."""

    def run(self, leaves: list[Any], state: State) -> Any:
        """Once, on a batch that it takes; returns what the captured function returns."""
        scalars = self.captured.scalar_values()
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        with torch.no_grad():
            for place, tensor in zip(self._inputs, tensors, strict=True):
                fill(place, tensor)
            for place, tensor in self._brought:
                fill(place, tensor)
            if self.captured.updates:
                state.drop_gradients()
            self._run(scalars, state)
            if self.runtime.generation != self.generation:
                self._find_places()
            results = iter([output.clone() for output in self._outputs])
        values = [next(results) if leaf is TENSOR else leaf for leaf in self.captured.output_leaves]
        self._say_notes()
        return pytree.tree_unflatten(values, self.captured.output_tree)

    def _run(self, scalars: dict[str, float], state: State) -> None:
        generator = self._generator_state() if self._is_random else None
        try:
            with Progress() as progress:  # of planning again, which may follow
                self.runtime.run(scalars, self.is_timed, progress)
        finally:  # Ctrl-C may come when the step is done: what it did to the state is what counts
            if not self.runtime.state_is_as_before:
                if self.captured.updates:
                    state.note_update()
            elif generator is not None:
                self._set_generator_state(generator)  # so that the step can be done again

    def _generator_state(self) -> torch.Tensor:
        device = self.captured.device
        return torch.get_rng_state() if device.type == "cpu" else torch.cuda.get_rng_state(device)

    def _set_generator_state(self, state: torch.Tensor) -> None:
        device = self.captured.device
        if device.type == "cpu":
            torch.set_rng_state(state)
        else:
            torch.cuda.set_rng_state(state, device)


def view(runtime: Any, name: str, blocks: dict[tuple, torch.Tensor] | None = None) -> torch.Tensor:
    """A tensor of the arena. Its storage has the bytes behind the graph's tensor and no others, so that
    saving it saves nothing else; tensors of the same bytes share it where they are given the same
    `blocks`."""
    dtype, size, stride, offset = runtime.layout(name)
    raw = torch.from_dlpack(runtime.memory(name))
    if blocks is not None:
        raw = blocks.setdefault((raw.data_ptr(), raw.numel()), raw)
    typed = raw.view(dtype_of(dtype)) if raw.numel() else raw.new_empty(0, dtype=dtype_of(dtype))
    return typed.as_strided(size, stride, offset // typed.element_size())
