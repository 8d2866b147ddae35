"""Whether a captured step is the step of every call.

A captured step computes with what Python had when it was captured. Where forward changes a value that it reads (a
counter), or draws numbers of Python's or NumPy's, the next eager step may be another one. So such a step is captured
once more, and refused where that gives another step.
"""

from __future__ import annotations

import itertools
import random
import re
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch

from ebb import Error

from ._captured import Captured
from ._places import levels_to_user


def capture_what_repeats(capture: Callable[[], Captured]) -> Captured:
    """What `capture` makes; or an ebb.Error, and nothing of the user's has changed."""
    before = _generators()
    captured = capture()
    after = _generators()
    drawn = [name for name, state in after.items() if state != before.get(name, state)]
    if not drawn and not captured.moving:
        return captured
    try:
        again = _captured_again(capture, captured.moving, drawn)
        again.undo()
        _put_back(after)
        found = _first_difference(captured, again)
        if found is not None:
            raise _refusal(captured.moving, drawn, *found)
        if drawn:
            warnings.warn(
                f"ebb: the step draws random numbers of {' and '.join(drawn)}, which a compiled step does not do again. If "
                "it decides by them, draw them by torch.rand, or outside of the step",
                stacklevel=levels_to_user(),
            )
    except BaseException:
        captured.undo()
        raise
    return captured


def _captured_again(capture: Callable[[], Captured], moving: list[str], drawn: list[str]) -> Captured:
    try:
        return capture()
    except Exception as error:
        error.add_note(f"ebb: the step was captured once more, because it {_causes(moving, drawn)}")
        raise


def _causes(moving: list[str], drawn: list[str]) -> str:
    causes = [f"changes {', '.join(moving[:3])}"] if moving else []
    if drawn:
        causes.append(f"draws random numbers of {' and '.join(drawn)}")
    return " and ".join(causes)


def _generators() -> dict[str, tuple]:
    """The states of the generators that all of a program shares."""
    states: dict[str, tuple] = {"Python": random.getstate()}
    numpy = sys.modules.get("numpy")  # which need not be installed
    if numpy is not None:
        kind, numbers, *rest = numpy.random.get_state()
        states["NumPy"] = (kind, tuple(numbers.tolist()), *rest)
    return states


def _put_back(states: dict[str, tuple]) -> None:
    random.setstate(states["Python"])
    if "NumPy" in states:
        sys.modules["numpy"].random.set_state(states["NumPy"])


def _first_difference(one: Captured, other: Captured) -> tuple[str, str] | None:
    """The first two lines, or values, that are not the same."""
    for ours, theirs in itertools.zip_longest(one.text.splitlines(), other.text.splitlines(), fillvalue="no line"):
        if ours != theirs:
            return ours.strip(), theirs.strip()
    for name, value in one.constants.items():
        if not _are_same(value, other.constants[name]):
            return f"const %{name}", "another one"
    return None


def _are_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """To the bit; NaN is itself."""
    if one is other:
        return True
    left, right = (each.detach().reshape(-1).contiguous().view(torch.uint8) for each in (one, other))
    return torch.equal(left, right)


def _refusal(moving: list[str], drawn: list[str], ours: str, theirs: str) -> Error:
    remedies = []
    if moving:
        remedies.append("keep it in a buffer, as a tensor; where only the first call is another, call the model once before")
    if drawn:
        remedies.append("draw numbers by torch.rand")
    place = re.search(r'ebb\.at = "([^"]*)"', ours)
    return Error(
        f"the step is another one each time: it {_causes(moving, drawn)}, and where one capture has '{_shown(ours)}' the next "
        f"has '{_shown(theirs)}'{f', at {place[1]}' if place else ''}. A captured step is the same in every call; "
        f"{'; '.join(remedies)}"
    )


def _shown(line: str) -> str:
    """Without the place, which has words of its own."""
    line = re.sub(r',? *ebb\.at = "[^"]*"', "", line).replace(" {}", "")
    return line if len(line) <= 160 else f"{line[:157]}..."
