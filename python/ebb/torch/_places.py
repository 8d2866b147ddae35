"""Which line of the user's program an operation comes from."""

from __future__ import annotations

import itertools
import linecache
import pathlib
import sys
import sysconfig
import traceback
import types
from collections.abc import Iterator

import torch

_TORCH = str(pathlib.Path(torch.__file__).parent) + "/"
_OPTIM = _TORCH + "optim/"
_STANDARD = sysconfig.get_path("stdlib") + "/"
_EBB = str(pathlib.Path(__file__).parent.parent) + "/"


def _short(path: str) -> str:
    """The last two parts of a path: enough to recognise it, and the same on every machine."""
    return "/".join(path.replace("\\", "/").split("/")[-2:])


def user_place() -> str:
    """`models/resnet.py:93`: the innermost line that is neither PyTorch's nor ours.

    Inside an optimizer it is the optimizer's own line, which says more than the call of `step`.
    """
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith("<"):
            is_torch = file.startswith(_TORCH) and (
                not file.startswith(_OPTIM) or file.endswith("/optimizer.py")
            )
            if not is_torch and not file.startswith(_EBB) and not _is_standard(file):
                return f"{_short(file)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def user_line(error: BaseException | None = None) -> str:
    """`train.py:12, in forward: return self.fc(x)`, for messages; empty when there is none.

    Where an exception was raised; without one, or where it was raised in what the user called, where
    we are.
    """
    for file, number, function in itertools.chain(_places_of(error) if error else (), _places_here()):
        if not _is_foreign(file):
            text = linecache.getline(file, number).strip()
            place = f"{_short(file)}:{number}, in {function}"
            return f"{place}: {text}" if text else place
    return ""


def is_of_torch(frame: types.FrameType) -> bool:
    """Whether it is PyTorch's own code that runs there."""
    return frame.f_code.co_filename.startswith(_TORCH)


def is_called_by(file: str) -> bool:
    """Whether it is this file of PyTorch's that has called us."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_EBB):
        frame = frame.f_back
    return frame is not None and is_of_torch(frame) and frame.f_code.co_filename.endswith(file)


def levels_to_user() -> int:
    """`stacklevel` for warnings of the caller: the line outside of Ebb, and of what Ebb calls itself by."""
    level, frame = 1, sys._getframe(1)
    while frame is not None and (frame.f_code.co_filename.startswith(_EBB) or _is_standard(frame.f_code.co_filename)):
        level, frame = level + 1, frame.f_back
    return level


def _is_standard(file: str) -> bool:
    return file.startswith(_STANDARD) and "/site-packages/" not in file


def _is_foreign(file: str) -> bool:
    return file.startswith(("<", _TORCH, _EBB)) or _is_standard(file)


def _places_here() -> Iterator[tuple[str, int, str]]:
    """Innermost first."""
    frame = sys._getframe(2)
    while frame is not None:
        yield frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
        frame = frame.f_back


def _places_of(error: BaseException) -> Iterator[tuple[str, int, str]]:
    places = [
        (frame.f_code.co_filename, number, frame.f_code.co_name)
        for frame, number in traceback.walk_tb(error.__traceback__)
    ]
    yield from reversed(places)
