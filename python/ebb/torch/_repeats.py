"""Whether a captured step is the step of every call.

A captured step computes with what Python had when it was captured. Where forward changes a value that it reads (a
counter), or draws numbers of Python's or NumPy's, the next eager step may be another one. So such a step is captured
once more, and refused where that gives another step.
"""

from __future__ import annotations

import dataclasses
import itertools
import pickle
import random
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ebb import Error

from ._batch import PLAIN, is_same_value
from ._captured import Captured
from ._places import levels_to_user
from ._stand_in import is_only_thread

_PLACE = re.compile(r',? *ebb\.at = "([^"]*)"')


def capture_what_repeats(capture: Callable[[], Captured]) -> Captured:
    """What `capture` makes; or an ebb.Error, and modules and generators are as they were."""
    before = generators()
    captured = None
    try:
        captured = capture()
        after = generators()
        drawn = [name for name, state in after.items() if state != before.get(name, state)]
        if not drawn and not captured.moving:
            return captured
        again = _captured_again(capture, captured.moving, drawn)
        again.undo()
        put_back(after)
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
        if captured is not None:
            captured.undo()
        put_back(before)
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


def generators() -> dict[str, Any]:
    """The states of the generators that all of a program shares."""
    states: dict[str, Any] = {"Python": random.getstate()}
    numpy = sys.modules.get("numpy")  # which need not be installed
    if numpy is not None:
        states["NumPy"] = pickle.dumps(numpy.random.get_state(legacy=False))
    return states


def put_back(states: dict[str, Any]) -> None:
    if not is_only_thread():
        return  # others may have drawn meanwhile: numbers that are left out do no harm, and repeated ones would
    if random.getstate() != states["Python"]:
        random.setstate(states["Python"])
    if "NumPy" in states:
        sys.modules["numpy"].random.set_state(pickle.loads(states["NumPy"]))


@dataclasses.dataclass(frozen=True)
class _Part:
    """Of what was captured."""

    words: str
    value: Any
    place: str = ""

    def is_like(self, other: _Part) -> bool:
        if isinstance(self.value, torch.Tensor) and isinstance(other.value, torch.Tensor):
            return _are_same(self.value, other.value)
        return is_same_value(self.value, other.value)


def _parts(captured: Captured) -> Iterator[_Part]:
    """All that a step computes with."""
    for line in captured.text.splitlines():
        place = _PLACE.search(line)
        words = _PLACE.sub("", line).replace(" {}", "").strip()
        yield _Part(words, words, place[1] if place else "")
    for name, tensor in {**captured.constants, **captured.brought}.items():
        yield _Part(f"%{name} = {tensor.tolist()}" if tensor.numel() <= 4 else f"%{name}", tensor)
    for words, value in captured.decisions.parts():
        yield _Part(words, value)
    for guard in captured.guards:
        yield _Part(guard.text, guard.text)
    for leaf in captured.output_leaves:
        if isinstance(leaf, PLAIN):
            yield _Part(f"return {leaf!r}", leaf)


def _first_difference(one: Captured, other: Captured) -> tuple[_Part, _Part] | None:
    nothing = _Part("nothing", object())
    for ours, theirs in itertools.zip_longest(_parts(one), _parts(other), fillvalue=nothing):
        if not ours.is_like(theirs):
            return ours, theirs
    return None


def _are_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """To the bit; NaN is itself."""
    if one is other:
        return True
    left, right = (each.detach().reshape(-1).contiguous().view(torch.uint8) for each in (one, other))
    return torch.equal(left, right)


def _refusal(moving: list[str], drawn: list[str], ours: _Part, theirs: _Part) -> Error:
    remedies = []
    if moving:
        remedies.append("keep it in a buffer, as a tensor; where only the first call is another, call the model once before")
    if drawn:
        remedies.append("draw numbers by torch.rand")
    where = f"where one capture has '{_short(ours.words)}' the next has '{_short(theirs.words)}'"
    if ours.words == theirs.words:
        where = f"two captures have another '{_short(ours.words)}'"
    return Error(
        f"the step is another one each time: it {_causes(moving, drawn)}, and {where}"
        f"{f', at {ours.place}' if ours.place else ''}. A captured step is the same in every call; {'; '.join(remedies)}"
    )


def _short(words: str) -> str:
    return words if len(words) <= 160 else f"{words[:157]}..."
