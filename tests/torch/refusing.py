"""A library that refuses to pin host memory, for LD_PRELOAD."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess

import pytest

SOURCE = pathlib.Path(__file__).with_name("refusing.c")


def refusing_library(folder: pathlib.Path) -> pathlib.Path:
    """The one that scripts/device has packed (EBB_TEST_LIBRARIES), or made in this folder; skips where there is neither that
    nor a C compiler."""
    packed = os.environ.get("EBB_TEST_LIBRARIES")
    if packed is not None:
        library = pathlib.Path(packed, "refusing.so")
        assert library.is_file(), f"the pack has no {library.name}"
        return library
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    library = folder / "refusing.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, SOURCE], check=True)
    return library
