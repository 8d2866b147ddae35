from collections.abc import Callable, Mapping
from typing import Annotated

import torch


def torch_versions() -> tuple[str, str]:
    """The torch that this was built with, and the one that it runs with."""

class Step:
    """A step made ready to run: program, arena, kernels."""

    def __init__(self, text: str, progress: Callable[[int, int], None] | None = ...) -> None:
        """
        Measures every distinct operation, plans the arena and binds the kernels; ``progress(done, total)`` is told how far it is.
        """

    def memory(self, name: str) -> Annotated[torch.Tensor, dict(dtype='uint8', shape=(None,), order='C', device='cpu')]:
        """
        The bytes of the storage behind a tensor, as long as somebody has them.
        """

    def layout(self, name: str) -> tuple:
        """Element type, sizes, strides, and bytes from the start of the storage."""

    def run(self, scalars: Mapping[str, float]) -> None:
        """One step, with values for all runtime scalars."""

    def program(self) -> str:
        """The instructions and where everything lies, as text."""

    @property
    def state_is_whole(self) -> bool:
        """Whether no state was updated in a step that failed."""

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
