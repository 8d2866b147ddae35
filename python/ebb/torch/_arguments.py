"""The arguments of an operator as a line of the graph has them.

Tensors become operands. Numbers, types and text become attributes, where they are not the default; so do numbers where
a tensor could be. Numbers that change from step to step are runtime scalars, which the line reads like a tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from ebb import Error

from . import _operators
from ._lines import Line
from ._places import user_line
from ._scalars import ScalarTape
from ._text import dtype_text, name_text, quoted

_MEMORY_FORMATS = {
    torch.contiguous_format: "contiguous_format",
    torch.channels_last: "channels_last",
    torch.channels_last_3d: "channels_last_3d",
    torch.preserve_format: "preserve_format",
}


class Arguments:
    def __init__(self, name_of: Callable[[torch.Tensor], str], tape: ScalarTape, device: torch.device) -> None:
        self._name_of = name_of  # the graph's tensor that has the value of this one
        self._tape = tape
        self._device = device

    def line(self, func, bound: dict[str, Any], written: Iterable[str] = ()) -> Line:
        """The operator on these arguments, some of which it writes; without results yet."""
        operands, attributes, reads = [], [], []
        for argument in func._schema.arguments:
            value = bound.get(argument.name)
            kind = str(argument.type)
            if "Tensor" in kind and "Dict" not in kind:
                if isinstance(value, complex):
                    raise _complex_constant()
                if isinstance(value, (bool, int, float)):
                    attributes.append((argument.name, self._number(value, reads)))
                else:
                    mark = "!" if argument.name in written else ""
                    operands.append(self._operand(value, mark, reads))
                continue
            text = self._attribute(argument, value, reads)
            if text is not None:
                attributes.append((argument.name, text))
        op = _operators.name_of(func)
        if func._schema.name in _operators.GRAD_MODE_MATTERS and torch.is_grad_enabled():
            attributes.append(("ebb.grad", "true"))
        random = _operators.is_random(func)
        return Line(op, operands, attributes, [], reads, random=random, keeps=random)

    def _operand(self, value, mark: str, reads: list[str]) -> str:
        if value is None:
            return "none"
        if isinstance(value, (list, tuple)):
            return "[" + ", ".join(self._operand(item, mark, reads) for item in value) + "]"
        name = self._name_of(value)
        reads.append(name)
        return f"%{name_text(name)}{mark}"

    def _number(self, value, reads: list[str]) -> str:
        text = self._tape.text(value)
        if text.startswith("$"):
            reads.append(text[1:])
            return "$" + name_text(text[1:])
        return text

    def _attribute(self, argument, value, reads: list[str]) -> str | None:
        """The argument as an attribute; None when it is as if it had not been given."""
        name = argument.name
        if isinstance(value, torch.Generator):
            raise Error(
                f"the step draws random numbers from a generator of its own, at {user_line()}; "
                "use the default generator"
            )
        if name == "layout" or name == "pin_memory":
            return None
        if name == "device":
            if value is None or torch.device(value).type == self._device.type:
                return None
            return quoted(str(value))
        if argument.has_default_value() and _same(value, argument.default_value):
            return None
        if value is None:
            return "none"
        if isinstance(value, torch.dtype):
            return dtype_text(value)
        if isinstance(value, torch.memory_format):
            return quoted(_MEMORY_FORMATS[value])
        if isinstance(value, str):
            return quoted(value)
        if isinstance(value, (list, tuple)):
            return "[" + ", ".join(self._number(item, reads) for item in value) + "]"
        if isinstance(value, complex):
            raise _complex_constant()
        if isinstance(value, (bool, int, float)):
            return self._number(value, reads)
        raise Error(f"an argument of type {type(value).__name__} cannot be captured ({user_line()})")


def _complex_constant() -> Error:
    return Error(
        f"complex numbers as constants are not captured, and the step has one, at {user_line()}; compute in "
        "real numbers"
    )


def constants_of(func, bound: dict[str, Any], tape: ScalarTape) -> tuple[str, ...]:
    """The operator and its constants, runtime scalars by what they are made of."""
    constants = [_operators.name_of(func)]
    if func in _operators.LIFTS and not isinstance(bound["self"], FakeTensor):
        # A tensor made of Python's numbers: `torch.tensor(lr)`.
        with _disable_current_modes():
            constants.append(f"values={bound['self'].detach().flatten()[:1000].tolist()}")
    for name, value in bound.items():
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(item, float):
                constants.append(f"{name}={tape.key(item)}")
            elif not isinstance(item, torch.Tensor):
                constants.append(f"{name}={item}")
    return tuple(constants)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    return type(a) is type(b) and a == b
