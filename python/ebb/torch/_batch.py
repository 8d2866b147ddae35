"""What a batch is made of: tensors, which are copied in at every step, and plain values, which are
constants of the step that was captured with them."""

from __future__ import annotations

import enum
import functools
import numbers
import types
from collections.abc import Mapping
from typing import Any

import torch
import torch.utils._pytree as pytree

from ebb import Error

try:
    from numpy import generic as _numpy_number
except ImportError:  # PyTorch does without it, too
    _numpy_number = type(None)

PLAIN = (
    numbers.Number,
    _numpy_number,
    str,
    bytes,
    type(None),
    types.EllipsisType,
    slice,
    range,
    enum.Enum,
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
    torch.Size,
)
"""Values that are the same for as long as they are equal."""
_KNOWN = (torch.nn.Module, torch.optim.Optimizer, torch.amp.GradScaler, torch.Generator)


def batch_arguments(args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """A batch given whole, `step((x, y))` or `step({"x": x})`, spread as arguments."""
    if len(args) == 1 and not kwargs:
        if isinstance(args[0], Mapping):  # not only dict: tokenizers give mappings of their own
            return (), dict(args[0])
        if isinstance(args[0], (tuple, list)):
            return tuple(args[0]), {}
    return tuple(args), dict(kwargs)


def flattened(
    args: tuple, kwargs: dict[str, Any], is_batch: bool = True
) -> tuple[list[Any], list[str], pytree.TreeSpec]:
    """The leaves of a batch, or of the arguments of somebody's step function, what they are called, and how they hang
    together; refuses leaves that may have tensors in them, for these would not be found, and tensors that are not dense."""
    leaves, tree = pytree.tree_flatten((args, kwargs))
    try:
        paths = [path for path, _ in pytree.tree_flatten_with_path((args, kwargs))[0]]
        names = [_name(path) for path in paths]
    except ValueError:  # a class that was registered without names for its parts
        names = [f"batch.{i}" for i in range(len(leaves))]
    for leaf, name in zip(leaves, names, strict=True):
        if isinstance(leaf, torch.Tensor):
            if leaf.layout != torch.strided:
                raise _not_dense(leaf, name, is_batch)
        elif not _is_known(leaf):
            raise _unknown(leaf, name, is_batch)
    return leaves, names, tree


def _is_known(leaf: Any) -> bool:
    if isinstance(leaf, functools.partial):
        return all(map(_is_known, _parts_of_partial(leaf)[0]))
    return isinstance(leaf, (*PLAIN, *_KNOWN))


def _parts_of_partial(leaf: functools.partial) -> tuple[list[Any], pytree.TreeSpec]:
    return pytree.tree_flatten((leaf.func, leaf.args, leaf.keywords))


def is_same_value(leaf: Any, other: Any) -> bool:
    """Whether a step that was captured with one of these leaves does for the other."""
    if leaf is other:
        return True
    if type(leaf) is not type(other):
        return False
    if isinstance(leaf, numbers.Number):
        return repr(leaf) == repr(other)  # not a number is one, and -0.0 is another than 0.0
    if isinstance(leaf, functools.partial):
        (parts, tree), (others, other_tree) = _parts_of_partial(leaf), _parts_of_partial(other)
        return tree == other_tree and all(map(is_same_value, parts, others))
    if isinstance(leaf, (list, tuple)):
        return len(leaf) == len(other) and all(map(is_same_value, leaf, other))
    return bool(leaf == other)


def _name(path: tuple) -> str:
    parts = [str(getattr(key, "idx", getattr(key, "key", getattr(key, "name", "")))) for key in path[1:]]
    name = ".".join(parts)
    return f"batch.{name}" if not name or name[0].isdigit() else name


def _unknown(leaf: Any, name: str, is_batch: bool) -> Error:
    kind = type(leaf).__name__
    if isinstance(leaf, Mapping):
        remedy = "put a dict in its place, as dict(batch) makes it"
    elif kind == "ndarray":
        remedy = "make a tensor of it, by torch.from_numpy, or a number, by .item()"
    else:
        remedy = (
            "give its tensors themselves, in a tuple or a dict; a dataclass may stay one where its class has been "
            "given to torch.export.register_dataclass"
        )
        if not is_batch:
            remedy += ". Bind what stays the same: lambda x, y: train(model, optimizer, config, x, y)"
    what = f"the batch has a {kind} in it ({name})" if is_batch else _argument_is(kind, name)
    return Error(
        f"{what}, and Ebb finds tensors in dicts, tuples and lists, so that "
        f"what it holds would be the same in all steps; {remedy}"
    )


def _not_dense(leaf: torch.Tensor, name: str, is_batch: bool) -> Error:
    layout = str(leaf.layout).removeprefix("torch.")
    kind = "sparse tensor" if layout.startswith("sparse") else f"tensor of layout {layout}"
    what = f"the batch has a {kind} ({name})" if is_batch else _argument_is(kind, name)
    return Error(f"{what}, and steps are compiled for dense ones; use .to_dense()")


def _argument_is(kind: str, name: str) -> str:
    return f"the argument {name.removeprefix('batch.')} of the step function is a {kind}"
