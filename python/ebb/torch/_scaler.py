"""Gradient scalers while a step is captured.

A scaler's scale and growth tracker are tensors, and become state of the step. Whether a step is skipped
is decided by a tensor too: fused optimizers take it, and decide in their kernels. Others are skipped
by an `if` in Python, which no captured step can do.
"""

from __future__ import annotations

import collections
import types
from typing import NoReturn

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.amp.grad_scaler import _refresh_per_optimizer_state

from ebb import Error

from ._recorder import Recorder

TENSORS = ("_scale", "_growth_tracker")
"""Attributes of a scaler that are tensors."""
_NUMBERS = ("_growth_factor", "_backoff_factor", "_growth_interval")


class Scalers:
    """While active, enabled scalers can be captured; afterwards they are as before."""

    def __init__(
        self,
        recorder: Recorder,
        scalers: list[torch.amp.GradScaler],
        optimizers: list[torch.optim.Optimizer],
    ) -> None:
        self.seen = [scaler for scaler in scalers if scaler.is_enabled()]
        # What decides about the computation, and must stay.
        self.fixed = [(scaler, key, getattr(scaler, key)) for scaler in self.seen for key in _NUMBERS]
        self._recorder = recorder
        self._optimizers = optimizers

    def __enter__(self) -> Scalers:
        for i, scaler in enumerate(self.seen):
            if scaler._scale is None:  # which the first step would make
                scaler._lazy_init_scale_growth_tracker(self._recorder.device)
            for key in TENSORS:
                prefix = f"scaler{i + 1}" if i > 0 else "scaler"
                self._recorder.outside.know(getattr(scaler, key), f"{prefix}.{key.lstrip('_')}")
            scaler._maybe_opt_step = types.MethodType(_refuse, scaler)
        return self

    def __exit__(self, *_) -> None:
        for scaler in self.seen:
            del scaler._maybe_opt_step
            # What a capture that failed has left there.
            scaler._per_optimizer_states = collections.defaultdict(_refresh_per_optimizer_state)
        for optimizer in self._optimizers:
            for key in ("grad_scale", "found_inf"):
                if isinstance(getattr(optimizer, key, None), FakeTensor):
                    delattr(optimizer, key)


def _refuse(_scaler, optimizer: torch.optim.Optimizer, *_args, **_kwargs) -> NoReturn:
    raise Error(
        f"GradScaler decides in Python whether {type(optimizer).__name__} does its step, by what is in the "
        "gradients, which a captured step cannot do. Make the optimizer with fused=True (Adam, AdamW, "
        "SGD): then its kernel decides"
    )
