"""What a recorded step is made of: lines of the graph, declarations, and where tensors lie."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import NamedTuple

import torch

from ._text import bytes_text, name_text, quoted, type_text


class Meta(NamedTuple):
    """How a tensor lies in its storage."""

    dtype: torch.dtype
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int  # in bytes

    @staticmethod
    def of(tensor: torch.Tensor) -> Meta:
        return Meta(
            tensor.dtype,
            tuple(tensor.size()),
            tuple(tensor.stride()),
            tensor.storage_offset() * tensor.element_size(),
        )

    @property
    def text(self) -> str:
        return type_text(self.dtype, self.size, self.stride)

    @property
    def extent(self) -> int:
        """Bytes from the first element to the last."""
        if 0 in self.size:
            return 0
        last = sum((n - 1) * s for n, s in zip(self.size, self.stride, strict=True))
        return (last + 1) * self.dtype.itemsize

    @property
    def is_dense(self) -> bool:
        """Whether no byte lies between its elements, and none in two of them."""
        count = 1
        for n in self.size:
            count *= n
        return self.extent == count * self.dtype.itemsize


@dataclasses.dataclass
class Storage:
    """What is known of the bytes behind some fake tensors."""

    bytes: torch.UntypedStorage  # kept, so that its address is nobody else's
    root: str  # the graph's tensor that brought them into being
    is_variable: bool
    views: dict[Meta, str]  # the graph's tensors of the newest version

    def covers(self, meta: Meta) -> bool:
        return meta.offset == 0 and meta.is_dense and meta.extent == self.bytes.nbytes()


@dataclasses.dataclass
class Result:
    name: str
    type: str
    shares: str = ""  # "%w" or "%w + 64B"


@dataclasses.dataclass
class Line:
    """One operation of the graph. Operands and attributes are text already."""

    op: str
    operands: list[str]
    attributes: list[tuple[str, str]]
    results: list[Result]
    reads: list[str]  # names of the tensors and scalars among operands and attributes
    scalar: str = ""  # the type, when the result is a scalar
    keeps: bool = False  # must run even if nobody reads its results
    random: bool = False
    effect: bool = False
    at: str = ""

    def text(self) -> str:
        if self.scalar:
            left = f"${name_text(self.results[0].name)}: {self.scalar} = "
        elif self.results and not self.results[0].type:
            left = f"{name_text(self.results[0].name)}: "  # a label
        else:
            results = [
                f"%{name_text(r.name)}: {r.type}" + (f" ~ {r.shares}" if r.shares else "")
                for r in self.results
            ]
            left = ", ".join(results) + " = "
        attributes = list(self.attributes)
        if self.at:
            attributes.append(("ebb.at", quoted(self.at)))
        text = f"{left}{self.op}({', '.join(self.operands)})"
        if attributes:
            text += " {" + ", ".join(f"{key} = {value}" for key, value in attributes) + "}"
        if self.random:
            text += " random"
        if self.effect:
            text += " effect"
        return text


@dataclasses.dataclass
class Declaration:
    kind: str  # input, param, const
    name: str
    meta: Meta
    tensor: torch.Tensor  # the real one
    shares: str = ""
    root: str = ""  # the declaration whose bytes these are, where it shares
    is_whole: bool = False  # a storage of which only parts are the user's tensors

    def text(self) -> str:
        tail = f" ~ {self.shares}" if self.shares else ""
        return f"{self.kind} %{name_text(self.name)}: {self.meta.text}{tail}"


def shares(root: str, offset: int) -> str:
    return f"%{name_text(root)}" + (f" + {bytes_text(offset)}" if offset else "")


def list_text(values: Iterable[int]) -> str:
    return "[" + ", ".join(map(str, values)) + "]"


def strided_attributes(meta: Meta) -> list[tuple[str, str]]:
    """The attributes of `as_strided` and its kin."""
    return [
        ("size", list_text(meta.size)),
        ("stride", list_text(meta.stride)),
        ("storage_offset", str(meta.offset // meta.dtype.itemsize)),
    ]
