"""Loads ``_runtime``, which links libtorch, or says what is missing.

torch comes first: libraries are found by name, so that ``_runtime`` then uses the libtorch that the
user's own tensors live in, wherever it is installed.
"""

from __future__ import annotations

BUILT_FOR = "2.11"


def check_torch(version: str) -> None:
    """Raises ImportError where ``_runtime`` could not be loaded beside this version of torch."""
    if not version.startswith(BUILT_FOR + "."):
        raise ImportError(
            f"ebb.torch was built for torch {BUILT_FOR} and found torch {version}: "
            f"pip install 'torch=={BUILT_FOR}.*'"
        )


try:
    import torch
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "ebb.torch needs PyTorch: pip install 'ebb-lms[torch]'", name=missing.name
    ) from missing

check_torch(torch.__version__)

try:
    from . import _runtime
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "this ebb-lms was built without PyTorch: build it again where torch is installed",
        name=missing.name,
    ) from missing

__all__ = ["BUILT_FOR", "_runtime", "check_torch"]
