"""What operators make, as types without bytes: as PyTorch announces it, or as it really is where that is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from . import _operators
from ._lines import Meta

Origin = tuple[torch._ops.OpOverload, tuple, int]
"""An operator, what it was given, and which of its results it is."""


class Layouts:
    """How results lie in memory, where that is otherwise than PyTorch announces."""

    def __init__(self) -> None:
        self._strides: dict[Origin, tuple[int, ...]] = {}
        self._alike: set[tuple] = set()

    @property
    def kinds(self) -> int:
        """Of results that are known: those of an operator on tensors of some types, whatever else it was given."""
        return len(self._alike)

    def learn(self, strides: Mapping[str, Sequence[int]], origins: Mapping[str, Origin]) -> bool:
        """`strides` and `origins` by the names that the results have in a graph. Whether any of this is new."""
        before = len(self._strides)
        self._strides.update((origins[name], tuple(lies)) for name, lies in strides.items() if name in origins)
        self._alike = {(func, *(leaf for leaf in given if isinstance(leaf, Meta)), i) for func, given, i in self._strides}
        return len(self._strides) > before

    def find(self, origin: Origin) -> tuple[int, ...] | None:
        return self._strides.get(origin)


class Results:
    def __init__(self, fake: FakeTensorMode, device: torch.device, layouts: Layouts) -> None:
        self._fake = fake
        self._device = device
        self._layouts = layouts

    def run(self, func, args, kwargs) -> tuple[Any, dict[int, Origin]]:
        """What the operator makes of fakes, and where each tensor of that comes from, by its id."""
        with self._fake:
            out = _operators.announce(func, args, kwargs)
        given = pytree.tree_leaves((args, kwargs))
        operands = [leaf for leaf in given if isinstance(leaf, torch.Tensor)]
        if _operators.is_measured(func, operands):
            out = self._measured(func, args, kwargs, out)
        else:
            out = self._corrected(func, args, kwargs, out)
        key = (*kwargs, *(Meta.of(leaf) if isinstance(leaf, torch.Tensor) else repr(leaf) for leaf in given))
        leaves, tree = pytree.tree_flatten(out)
        for i, leaf in enumerate(leaves):
            strides = self._layouts.find((func, key, i))
            if strides is not None:
                leaves[i] = self._fake_of(leaf.dtype, leaf.size(), strides)
        return pytree.tree_unflatten(leaves, tree), {id(leaf): (func, key, i) for i, leaf in enumerate(leaves)}

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
                results[i] = self._fake_of(dtype, results[i].size(), results[i].stride())
        return tuple(results)

    def _fake_of(self, dtype: torch.dtype, size: Sequence[int], strides: Sequence[int]) -> FakeTensor:
        with self._fake:
            return torch.empty_strided(size, strides, dtype=dtype, device=self._device)

    def _measured(self, func, args, kwargs, out):
        """Runs the operator on zeros, to learn what PyTorch does not know beforehand."""

        def zeros(fake: torch.Tensor) -> torch.Tensor:
            return torch.empty_strided(
                fake.size(), fake.stride(), dtype=fake.dtype, device=fake.device
            ).zero_()

        real_args, real_kwargs = pytree.tree_map_only(torch.Tensor, zeros, (args, kwargs))
        real = func(*real_args, **real_kwargs)
        if isinstance(out, torch.Tensor):
            return out if Meta.of(out) == Meta.of(real) else self._fake_of(real.dtype, real.size(), real.stride())

        settled = []
        for fake, measured in zip(out, real, strict=True):
            known = any(fake is other for other in settled)
            if measured is not None and (known or Meta.of(fake) != Meta.of(measured)):
                fake = self._fake_of(measured.dtype, measured.size(), measured.stride())
            settled.append(None if measured is None else fake)
        return settled if isinstance(out, list) else tuple(settled)
