"""Ebb for PyTorch: capture a training step, run it inside a byte budget.

>>> import torch, ebb.torch
>>> model = torch.nn.Linear(4, 2)
>>> optimizer = torch.optim.AdamW(model.parameters())
>>> batch = (torch.randn(8, 4), torch.randint(0, 2, (8,)))
>>> step = ebb.torch.compile(model, torch.nn.functional.cross_entropy, optimizer, batch)
>>> loss = step(*batch)
"""

from . import _load  # noqa: F401: first, because it says what is missing where torch is
from ._capture import capture, capture_step
from ._captured import Captured
from ._compile import compile, compile_step
from ._largest import largest_batch
from ._memory import Memory
from ._report import Report
from ._step import Step

__all__ = [
    "Captured",
    "Memory",
    "Report",
    "Step",
    "capture",
    "capture_step",
    "compile",
    "compile_step",
    "largest_batch",
]
