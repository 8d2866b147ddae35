"""Values into a place of the arena."""

from __future__ import annotations

import torch


def fill(place: torch.Tensor, tensor: torch.Tensor) -> None:
    """Copies a tensor into a place of the same size and strides.

    Along a dimension of stride 0, as of an expanded mask, all elements are one: it is copied once.
    """
    if 0 in place.stride():
        once = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in place.stride())
        place, tensor = place[once], tensor[once]
    place.copy_(tensor)
