from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import torch


def torch_versions() -> tuple[str, str]:
    """The torch that this was built with, and the one that it runs with."""

def available_host_bytes() -> int:
    """
    Host memory that can be had without pushing anybody out, in the system and in the container.
    """

def move_out(storage: int, copy: int) -> None:
    """
    A storage takes the memory of a copy of it, which is left without; by their ``_cdata``.
    """

class Measurements:
    """What was measured of operations, so that nothing is measured twice."""

    def __init__(self) -> None: ...

    def __len__(self) -> int: ...

def plan(text: str, *, device: str = ..., budget: str = ..., host_budget: str = ..., known: Measurements | None = ..., capture_anew: Callable[[Mapping[str, Sequence[int]]], str | None] | None = ..., progress: Callable[[str, int, int], None] | None = ...) -> str:
    """Whether a step fits, without making it: its report, as JSON."""

class Step:
    """A step made ready to run: program, arena, kernels."""

    def __init__(self, text: str, *, device: str = ..., budget: str = ..., host_budget: str = ..., shares_arena_of: Step | None = ..., known: Measurements | None = ..., evaluations: int | None = ..., capture_anew: Callable[[Mapping[str, Sequence[int]]], str | None] | None = ..., progress: Callable[[str, int, int], None] | None = ...) -> None:
        """
        Measures every distinct operation, plans for the budget, lays out the arena and binds the kernels. Where results lie otherwise than the text says, ``capture_anew(strides)`` may give another one; ``progress(what, done, total)`` is told how far it is.
        """

    def memory(self, name: str) -> Annotated[torch.Tensor, dict(dtype='uint8', shape=(None,), order='C')]:
        """
        The bytes of the storage behind a tensor, as long as somebody has them.
        """

    def layout(self, name: str) -> tuple:
        """Element type, sizes, strides, and bytes from the start of the storage."""

    def run(self, scalars: Mapping[str, float], is_timed: bool = ..., progress: Callable[[str, int, int], None] | None = ...) -> None:
        """
        One step, with values for all runtime scalars; ``progress(what, done, total)`` is told where it is planned again afterwards.
        """

    def settle(self) -> None:
        """Returns when the device has done all that was put into it."""

    @property
    def is_kept(self) -> bool:
        """Whether the GPU does the step again as it was recorded, without calls."""

    def take_notes(self) -> list[str]:
        """What people should hear of and nobody has been told yet: a line each."""

    def report(self) -> str:
        """What was measured and planned, as JSON."""

    def trace(self) -> str:
        """The last step, if it was timed, for ui.perfetto.dev."""

    def predicted_trace(self) -> str:
        """The step as predicted, likewise; empty where the step fits as it is."""

    def plan(self) -> str:
        """The plan file; empty where the step fits as it is."""

    def text(self) -> str:
        """The graph as it runs."""

    def program(self) -> str:
        """The instructions and where everything lies, as text."""

    @property
    def state_is_as_before(self) -> bool:
        """
        Whether the last run has changed no state: it failed before the first update.
        """

    @property
    def runs_done(self) -> int:
        """Runs that came to their end, whatever was raised afterwards."""

    @property
    def generation(self) -> int:
        """
        Grows when a run has put inputs and outputs elsewhere, or changed the report.
        """

    @property
    def outputs(self) -> list: ...

    @property
    def arena_bytes(self) -> int: ...

    @property
    def state_bytes(self) -> int: ...

    @property
    def bound_bytes(self) -> int: ...

    @property
    def host_bytes(self) -> int: ...

    @property
    def instruction_count(self) -> int: ...
