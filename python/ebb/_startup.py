"""Run when Python starts and some ``EBB_*`` is set (``ebb-lms.pth``): Ebb by environment alone.

TensorFlow is not imported here. When the program imports it, ``ebb.tensorflow`` follows, loads the
plug-in, and that reads the environment. Whatever goes wrong is said in one line, and the program
runs without Ebb.
"""

from __future__ import annotations

import sys
import types

from ._after_import import after_import


def _load(_tensorflow: types.ModuleType) -> None:
    try:
        from . import tensorflow  # noqa: F401: reads the environment when it is imported
    except Exception as problem:
        print(f"ebb: {problem}; Ebb stays off", file=sys.stderr)


after_import("tensorflow", _load)
