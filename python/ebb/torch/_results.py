"""What operators make, as types without bytes: as PyTorch announces it, or as it really is where that is wrong."""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from . import _operators
from ._lines import Meta

Call = tuple[torch._ops.OpOverload, tuple[Meta, ...]]
"""An operator, and what it was given."""

_wrongly_announced: set[Call] = set()


def learn(calls: Iterable[Call]) -> bool:
    """Calls whose results lie otherwise than PyTorch announces: they are run when a step is captured next. Whether any
    of them is new."""
    before = len(_wrongly_announced)
    _wrongly_announced.update(calls)
    return len(_wrongly_announced) > before


class Results:
    def __init__(self, fake: FakeTensorMode, device: torch.device) -> None:
        self._fake = fake
        self._device = device
        self.call: Call | None = None  # the last one

    def run(self, func, args, kwargs):
        """What the operator makes of fakes."""
        with self._fake:
            out = _operators.announce(func, args, kwargs)
        operands = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        self.call = (func, tuple(Meta.of(operand) for operand in operands))
        is_wrong = self.call in _wrongly_announced and not _operators.is_random(func)  # which would draw numbers
        if is_wrong or _operators.is_measured(func, operands):
            return self._measured(func, args, kwargs, out)
        return self._corrected(func, args, kwargs, out)

    def _corrected(self, func, args, kwargs, out):
        """The results as they really are, where PyTorch announces others."""
        if not isinstance(out, tuple):
            return out
        bound = _operators.bind(func, args, kwargs)
        results = list(out)
        mask = bound.get("output_mask")
        if func._schema.name in _operators.MASKED_RESULTS:
            results = [r if wanted else None for r, wanted in zip(results, mask, strict=True)]
        dtypes = _operators.result_dtypes(func, bound, results)
        for i, dtype in enumerate(dtypes or ()):
            if results[i] is not None and results[i].dtype != dtype:
                results[i] = self._fake_like(results[i], dtype)
        return tuple(results)

    def _fake_like(self, tensor: torch.Tensor, dtype: torch.dtype | None = None) -> FakeTensor:
        with self._fake:
            return torch.empty_strided(
                tensor.size(), tensor.stride(), dtype=dtype or tensor.dtype, device=self._device
            )

    def _measured(self, func, args, kwargs, out):
        """Runs the operator on zeros, to learn what PyTorch does not know beforehand."""

        def zeros(fake: torch.Tensor) -> torch.Tensor:
            return torch.empty_strided(
                fake.size(), fake.stride(), dtype=fake.dtype, device=fake.device
            ).zero_()

        try:
            real_args, real_kwargs = pytree.tree_map_only(torch.Tensor, zeros, (args, kwargs))
            real = func(*real_args, **real_kwargs)
        except Exception:  # it does not like zeros, or there is no memory for them
            return self._corrected(func, args, kwargs, out)
        if isinstance(out, torch.Tensor):
            return out if Meta.of(out) == Meta.of(real) else self._fake_like(real)

        settled = []
        for fake, measured in zip(out, real, strict=True):
            known = any(fake is other for other in settled)
            if measured is not None and (known or Meta.of(fake) != Meta.of(measured)):
                fake = self._fake_like(measured)
            settled.append(None if measured is None else fake)
        return settled if isinstance(out, list) else tuple(settled)
