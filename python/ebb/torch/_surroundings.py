"""What capture watches around the recorded operators, and puts back as it was."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    UnsupportedOperatorException,
)
from torch.overrides import TorchFunctionMode

from ebb import Error

from ._lines import Meta
from ._places import is_called_by, user_line
from ._recorder import Recorder, data_dependent
from ._scalars import TracedFloat


class HostReads(TorchFunctionMode):
    """Catches what operators do not see: numbers read out of tensors, `.data`."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.Tensor.item and isinstance(args[0], torch.Tensor):
            reader = self.recorder.trial or self.recorder
            return reader.read_number(args[0])
        if func is torch.Tensor.__float__:  # Python makes a plain number of it: it would be lost
            if is_called_by("nn/modules/batchnorm.py"):
                raise Error(
                    "a BatchNorm with momentum=None averages by a count that it reads in Python, which a captured step cannot "
                    f"do; give it a number as momentum (at {user_line()})"
                )
            raise data_dependent("makes a Python number of a tensor with float()")
        if func is torch.Tensor.__bool__:
            return self._decide("decides by the value of a tensor (if, while, and, or, not)", func, args[0])
        if func in (torch.Tensor.__int__, torch.Tensor.__index__, torch.Tensor.tolist):
            return self._decide("reads the values of a tensor", func, args[0])
        if func is torch.Tensor.numpy:
            raise data_dependent("reads the values of a tensor")
        if func in _MADE_OF_NUMBERS and any(
            isinstance(leaf, TracedFloat) for leaf in pytree.tree_leaves((args, kwargs))
        ):
            raise Error(
                f"the step makes a tensor of a number that changes from step to step, at "
                f"{user_line()}; compute with the number itself, or keep it in a tensor"
            )
        if func == _GET_DATA:
            return args[0].detach()
        if func == _SET_DATA:
            return self._set_data(*args)
        return func(*args, **kwargs)

    def _decide(self, what: str, reader, tensor: torch.Tensor):
        if self.recorder.trial is not None:
            raise data_dependent(what)
        return self.recorder.decide(what, reader, tensor)

    def _set_data(self, tensor: torch.Tensor, value: torch.Tensor) -> None:
        if self.recorder.trial is not None:
            return
        if Meta.of(tensor)[:2] != Meta.of(value)[:2]:
            raise Error(f"the step changes the shape or type of a parameter, at {user_line()}")
        with torch.no_grad():
            tensor.copy_(value)


_GET_DATA = torch.Tensor.data.__get__  # compared by value: each look-up makes a new one
_SET_DATA = torch.Tensor.data.__set__
_MADE_OF_NUMBERS = (torch.tensor, torch.as_tensor, torch.asarray)


@contextlib.contextmanager
def in_users_words() -> Iterator[None]:
    """PyTorch's refusals in words that say where, and what to do."""
    try:
        yield
    except DataDependentOutputException as error:
        raise data_dependent(f"needs the values of a tensor ({error})", error) from error
    except DynamicOutputShapeException as error:
        what = f"makes a tensor whose shape depends on data ({error})"
        raise data_dependent(what, error) from error
    except UnsupportedOperatorException as error:
        raise Error(
            f"PyTorch cannot say what {error} makes without running it ({user_line(error)})"
        ) from error
    except RuntimeError as error:
        if "its data is not allocated yet" not in str(error):
            raise
        raise data_dependent("needs the values of a tensor inside of PyTorch", error) from error


def _no_new_generator_state(*_: Any) -> None:
    raise Error(
        f"the step sets the random number generator, at {user_line()}; a captured step draws from it "
        "in order. Activation checkpointing does it to repeat dropout: leave recomputing to Ebb, or "
        "pass preserve_rng_state=False where nothing is random"
    )


@contextlib.contextmanager
def same_generator() -> Iterator[None]:
    """Refuses steps that set the random number generator."""
    names = ("set_rng_state", "manual_seed", "seed")
    patched = [(module, name) for module in (torch, torch.random) for name in names]
    originals = [getattr(module, name) for module, name in patched]
    for module, name in patched:
        setattr(module, name, _no_new_generator_state)
    try:
        yield
    finally:
        for (module, name), original in zip(patched, originals, strict=True):
            setattr(module, name, original)


@contextlib.contextmanager
def said_once() -> Iterator[None]:
    """What the user's code does wrong is raised; PyTorch writes it to the log as well, with the whole way to it."""
    log = logging.getLogger(fake_tensor.__name__)

    def is_something_else(record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith("failed while attempting to run meta")

    log.addFilter(is_something_else)
    try:
        yield
    finally:
        log.removeFilter(is_something_else)


@contextlib.contextmanager
def unseen_fakes() -> Iterator[None]:
    """A library that is told that it is traced computes in another way, and rounds otherwise: transformers makes masks
    that an eager step does without."""
    library = sys.modules.get("transformers.utils.import_utils")
    original = getattr(library, "is_fake_tensor", None)
    if original is None:
        yield
        return
    library.is_fake_tensor = lambda tensor: False
    try:
        yield
    finally:
        library.is_fake_tensor = original


class Gradients:
    """Backward leaves fake gradients at the user's parameters: they are taken away again."""

    def __init__(self, recorder: Recorder) -> None:
        self.watched: list[torch.Tensor] = []
        self._recorder = recorder
        self._before: list[torch.Tensor | None] = []
        self._ids: set[int] = set()
        self._kept: list[torch.Tensor] = []

    def watch(self, tensor: torch.Tensor, must_be_dropped: bool = False) -> None:
        """`must_be_dropped`: the step must begin by dropping the gradient, as zero_grad does."""
        if not tensor.requires_grad or not tensor.is_leaf or id(tensor) in self._ids:
            return
        self._ids.add(id(tensor))
        self.watched.append(tensor)
        self._before.append(tensor.grad)
        tensor.grad = None
        if must_be_dropped:
            with self._recorder.fake:
                old = torch.empty_strided(
                    tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device
                )
            self._kept.append(old)
            self._recorder.forbidden[old.untyped_storage()._cdata] = (
                "the step adds to gradients from before it, which a compiled step does not keep; "
                "begin it with optimizer.zero_grad(), and accumulate within one step"
            )
            tensor.grad = old

    def check_used(self, trained: bool) -> None:
        """Refuses steps that leave gradients for somebody else."""
        old = {id(grad) for grad in self._kept}
        left = [t.grad for t in self.watched if isinstance(t.grad, FakeTensor)]
        if not trained and any(id(grad) not in old for grad in left):
            raise Error(
                "the step computes gradients and leaves them: let it do the optimizer's step too"
            )

    def __enter__(self) -> Gradients:
        return self

    def __exit__(self, *_) -> None:
        for tensor, before in zip(self.watched, self._before, strict=True):
            tensor.grad = None
            tensor.grad = before
