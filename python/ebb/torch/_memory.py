"""What a compiled step holds."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

import torch

from ebb import Error


@dataclasses.dataclass(frozen=True)
class Memory:
    """What a compiled step holds, in bytes: one arena, and one block on the host for what is
    swapped out. Both are allocated once."""

    budget_bytes: int
    """What it may use."""
    peak_bytes: int
    """What it uses: the arena."""
    state_bytes: int
    """Of these, what lives from step to step: parameters, buffers, optimizer state, constants."""
    bound_bytes: int
    """What is alive at once at the worst moment; no placement in memory can be smaller."""
    host_bytes: int
    """What is swapped out at once at most: the block on the host, which does not count in the budget."""
    outside_bytes: int
    """Device memory outside of the arena when the step had been compiled: what PyTorch's
    allocator had (your other tensors, and what it keeps for later), and what libraries took meanwhile
    (handles, workspaces, loaded kernels). Not in the budget, and without what the process had before
    besides PyTorch's allocator, as the CUDA context. What other processes took meanwhile counts too. 0 on the CPU."""


@contextlib.contextmanager
def shortage_is_named() -> Iterator[None]:
    """Around what makes a step: its arena may be had, and then not the little that everything else needs."""
    try:
        yield
    except MemoryError as error:
        raise Error(
            "the system has no host memory left for what the step needs besides its arena; give a smaller budget or "
            "host budget, or end what else uses the memory",
            kind="infeasible",
        ) from error


def is_shortage(error: BaseException) -> bool:
    """Whether PyTorch says by this that there is not so much memory. For host memory it has no class of its own."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    words = ("can't allocate memory", "Storage size calculation overflowed")
    return isinstance(error, RuntimeError) and any(word in str(error) for word in words)


class OutsideMeter:
    """Measures device memory outside of an arena: made before the arena is allocated, asked after."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        if device.type == "cuda":
            self._before = torch.cuda.memory_reserved(device) + torch.cuda.mem_get_info(device)[0]

    def bytes(self, arena: int) -> int:
        if self._device.type != "cuda":
            return 0
        torch.cuda.empty_cache()  # the parameters live in the arena now; nobody needs their old memory
        return max(self._before - torch.cuda.mem_get_info(self._device)[0] - arena, 0)
