"""Runtime scalars: host numbers that change from step to step.

An optimizer computes with Python floats: `1 - beta1 ** step`, `lr / bias_correction`. While a step
is captured these floats are `TracedFloat`s, which note the arithmetic done with them. PyTorch's
operators take them as plain doubles, and there they are recognised by their value: the values they
have during capture are not the user's but unlikely ones, random in all their digits, so that a
double that has the same bits is the same number. Arithmetic that loses a TracedFloat (a C function,
say) gives a constant instead; the optimizer is run twice with different values, and a constant that
differs between the two is found (`_optimizer.py`).
"""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable
from typing import Any

from ebb import Error

from ._places import user_line
from ._text import number_text


def _bits(value: float) -> bytes:
    return struct.pack("<d", value)


class Guard:
    """A comparison the captured program depends on: it must come out the same in every step."""

    def __init__(self, text: str, outcome: bool, evaluate: Callable[[dict[str, float]], bool]):
        self.text = text
        self.outcome = outcome
        self.evaluate = evaluate


class ScalarTape:
    """The scalars of one capture: those given each step, and the arithmetic on them."""

    def __init__(self, emit: Callable[[str, str, list[str]], str] | None, seed: int):
        # emit(operator, hint for a name, arguments as text) writes a line and returns its name.
        # Without it nothing is written: a trial run.
        self._emit = emit
        self._random = random.Random(seed)
        self._by_bits: dict[bytes, TracedFloat] = {}
        self.given: dict[str, TracedFloat] = {}
        self.values: dict[str, float] = {}  # the user's, of the given ones
        self.guards: list[Guard] = []

    def unlikely(self, near: float) -> float:
        """A value like `near` in sign and size that nothing else has."""
        if near == 0.0 or not math.isfinite(near):
            near = 1.0
        return near * (1.0 - self._random.uniform(0.01, 0.1))

    def given_scalar(self, name: str, value: float) -> TracedFloat:
        """A number that is given anew each step, such as a learning rate."""
        scalar = TracedFloat(
            self.unlikely(value), self, name, name, lambda values: values[name]
        )
        self.given[name] = scalar
        self.values[name] = value
        self._by_bits[_bits(scalar.plain)] = scalar
        return scalar

    def read_scalar(self, name: str, key: str) -> TracedFloat:
        """A number that the step reads out of a tensor."""
        scalar = TracedFloat(self.unlikely(3.0), self, name, key, None)
        self._by_bits[_bits(scalar.plain)] = scalar
        return scalar

    def find(self, value: float) -> TracedFloat | None:
        """The scalar that an operator was given as this double."""
        if isinstance(value, TracedFloat):
            return value
        return self._by_bits.get(_bits(value)) if isinstance(value, float) else None

    def text(self, value: Any) -> str:
        """The value as it stands in a line."""
        scalar = self.find(value)
        if scalar is None:
            return number_text(value)
        return f"${scalar.name}"

    def key(self, value: Any) -> str:
        """What the value is made of, the same in every run."""
        scalar = self.find(value)
        return f"${scalar.key}" if scalar is not None else number_text(value)

    def compute(self, op: str, function: Callable[..., float], *arguments: Any) -> TracedFloat:
        hint = function(*(float(argument) for argument in arguments))
        if isinstance(hint, complex):
            raise Error(f"the step takes a complex power of a runtime scalar at {user_line()}")
        if hint == 0.0 or (abs(hint) < 2**20 and hint == round(hint)):
            raise Error(
                f"the step computes {op} of a number that changes from step to step, at "
                f"{user_line()}, and what comes out cannot be told from a constant"
            )
        key = f"{op}({','.join(self.key(argument) for argument in arguments)})"
        name = ""
        if self._emit is not None:
            name = self._emit(op, op, [self.text(argument) for argument in arguments])
        evaluators = [_evaluator(argument) for argument in arguments]
        evaluate = None
        if all(evaluator is not None for evaluator in evaluators):

            def evaluate(values: dict[str, float]) -> float:
                return function(*(evaluator(values) for evaluator in evaluators))

        result = TracedFloat(hint, self, name, key, evaluate)
        self._by_bits.setdefault(_bits(hint), result)
        return result

    def compare(self, op: str, function: Callable[..., bool], *arguments: Any) -> bool:
        keys = [self.key(argument) for argument in arguments]
        text = f" {op} ".join(keys) if len(keys) == 2 else f"{op}({keys[0]})"
        evaluators = [_evaluator(argument) for argument in arguments]
        if any(evaluator is None for evaluator in evaluators):
            raise Error(
                f"the step decides by a number that it reads out of a tensor, at {user_line()}. "
                "A captured step does the same operations every time: decide with torch.where, "
                "or outside of the step; where it follows from the batch alone, by the tensor itself, without .item(): "
                "if x.max() > 3"
            )
        outcome = function(*(evaluator(self.values) for evaluator in evaluators))
        self.guards.append(
            Guard(text, outcome, lambda values: function(*(e(values) for e in evaluators)))
        )
        return outcome


def _evaluator(value: Any) -> Callable[[dict[str, float]], float] | None:
    if isinstance(value, TracedFloat):
        return value.evaluate
    return lambda values: value


class TracedFloat(float):
    """A float that notes what is computed with it."""

    __slots__ = ("tape", "name", "key", "evaluate")

    def __new__(cls, hint, tape, name, key, evaluate):
        self = super().__new__(cls, hint)
        self.tape = tape
        self.name = name  # in the text
        self.key = key  # what it is made of
        self.evaluate = evaluate  # its value from the given scalars'; None when a tensor is involved
        return self

    @property
    def plain(self) -> float:
        return float.__float__(self)

    def __hash__(self):
        return hash(self.plain)

    def __bool__(self):
        return self.tape.compare("bool", lambda a: a != 0.0, self)

    def _refuse(self, *_):
        raise Error(
            f"the step makes an integer of a runtime scalar ({self.key}) at {user_line()}; "
            "captured steps compute with such numbers in floating point only"
        )

    __int__ = __trunc__ = __round__ = __floor__ = __ceil__ = __divmod__ = __rdivmod__ = _refuse


def _arithmetic(method: str, op: str, function: Callable[..., float]) -> None:
    def forward(self, other):
        if not isinstance(other, (int, float)):
            return NotImplemented
        return self.tape.compute(op, function, self, other)

    def backward(self, other):
        if not isinstance(other, (int, float)):
            return NotImplemented
        return self.tape.compute(op, function, other, self)

    setattr(TracedFloat, f"__{method}__", forward)
    setattr(TracedFloat, f"__r{method}__", backward)


for _method, _op, _function in (
    ("add", "add", lambda a, b: a + b),
    ("sub", "sub", lambda a, b: a - b),
    ("mul", "mul", lambda a, b: a * b),
    ("truediv", "truediv", lambda a, b: a / b),
    ("floordiv", "floordiv", lambda a, b: a // b),
    ("mod", "mod", lambda a, b: a % b),
    ("pow", "pow", lambda a, b: a**b),
):
    _arithmetic(_method, _op, _function)

for _method, _function in (("neg", lambda a: -a), ("abs", abs)):
    setattr(
        TracedFloat,
        f"__{_method}__",
        lambda self, _op=_method, _function=_function: self.tape.compute(_op, _function, self),
    )
TracedFloat.__pos__ = lambda self: self

for _method, _op, _function in (
    ("lt", "<", lambda a, b: a < b),
    ("le", "<=", lambda a, b: a <= b),
    ("gt", ">", lambda a, b: a > b),
    ("ge", ">=", lambda a, b: a >= b),
    ("eq", "==", lambda a, b: a == b),
    ("ne", "!=", lambda a, b: a != b),
):

    def _compare(self, other, _op=_op, _function=_function):
        if not isinstance(other, (int, float)):
            return NotImplemented
        return self.tape.compare(_op, _function, self, other)

    setattr(TracedFloat, f"__{_method}__", _compare)

_plain_sqrt = math.sqrt


def _traced_sqrt(value: Any) -> float:
    if isinstance(value, TracedFloat):
        return value.tape.compute("sqrt", _plain_sqrt, value)
    return _plain_sqrt(value)


class TracedMath:
    """While active, `math.sqrt` follows TracedFloats; optimizers use no other function of `math`."""

    def __enter__(self) -> None:
        math.sqrt = _traced_sqrt

    def __exit__(self, *_) -> None:
        math.sqrt = _plain_sqrt
