"""Pieces of the text form: names, types, values (docs/graph-text.md)."""

from __future__ import annotations

import math
import re

import torch

from ebb import Error

_DTYPES = {
    torch.bool: "bool",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.uint8: "u8",
    torch.uint16: "u16",
    torch.uint32: "u32",
    torch.uint64: "u64",
    torch.float8_e4m3fn: "f8e4m3",
    torch.float8_e5m2: "f8e5m2",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float32: "f32",
    torch.float64: "f64",
    torch.complex64: "c64",
    torch.complex128: "c128",
}
_BARE = re.compile(r"[A-Za-z0-9_./-]+")


def dtype_text(dtype: torch.dtype) -> str:
    if dtype not in _DTYPES:
        raise Error(f"tensors of type {dtype} cannot be captured")
    return _DTYPES[dtype]


def dtype_of(text: str) -> torch.dtype:
    return next(dtype for dtype, known in _DTYPES.items() if known == text)


def quoted(text: str) -> str:
    out = ['"']
    for char in text:
        if char in '"\\':
            out.append("\\" + char)
        elif char == "\n":
            out.append("\\n")
        elif char == "\t":
            out.append("\\t")
        elif ord(char) < 0x20 or ord(char) == 0x7F:
            out.append(f"\\x{ord(char):02x}")
        else:
            out.append(char)
    return "".join(out) + '"'


def name_text(name: str) -> str:
    return name if _BARE.fullmatch(name) else quoted(name)


def row_major(size: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for extent in reversed(size):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def type_text(dtype: torch.dtype, size: tuple[int, ...], stride: tuple[int, ...]) -> str:
    text = f"{dtype_text(dtype)}[{','.join(map(str, size))}]"
    if stride != row_major(size):
        text += f" strides [{','.join(map(str, stride))}]"
    return text


def number_text(value: bool | int | float) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return repr(float(value))


_UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def bytes_text(count: int) -> str:
    for size, unit in _UNITS:
        if count % size == 0 and count >= size:
            return f"{count // size}{unit}"
    return f"{count}B"
