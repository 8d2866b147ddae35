"""Keras while Ebb is on: steps that XLA compiles as a whole hide from it.

Keras 3 chooses XLA by itself (``jit_compile="auto"``): while Ebb is on this means no, and one line
says so. Who asks for XLA gets it, with a warning. Keras may be imported and models may be compiled
before Ebb is turned on or later; ``unhook`` gives Keras back as it was.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
import warnings
import weakref
from collections.abc import Callable
from typing import Any

from .._after_import import after_import

Function = Callable[..., Any]

_take_back: list[Callable[[], None]] = []
_explicit: weakref.WeakSet[Any] = weakref.WeakSet()  # models that the user wants compiled by XLA
_has_said_so = False


def _say_once(reason: str) -> None:
    global _has_said_so
    if not _has_said_so:
        _has_said_so = True
        line = f"ebb: {reason} means False while Ebb is on: XLA would hide the step"
        print(line, file=sys.stderr)


def _warn(stacklevel: int) -> None:
    warnings.warn(
        "jit_compile=True: XLA compiles the training step as a whole, so Ebb cannot see into it "
        "and swaps nothing there. Compile the model with jit_compile=False.",
        stacklevel=stacklevel + 1,
    )


def _replace(owner: type, name: str, make: Callable[[Function], Function]) -> None:
    original = owner.__dict__[name]
    ours = functools.wraps(original)(make(original))
    setattr(owner, name, ours)

    def give_back() -> None:
        if owner.__dict__.get(name) is ours:
            setattr(owner, name, original)

    _take_back.append(give_back)


def _hook_compile(owner: type) -> None:
    """``compile(jit_compile="auto")`` means no; True is warned about."""

    def make(original: Function) -> Function:
        signature = inspect.signature(original)

        def compile(self: Any, *args: Any, **kwargs: Any) -> Any:
            given = signature.bind_partial(self, *args, **kwargs)
            given.apply_defaults()
            asked_for = given.arguments.get("jit_compile")
            if asked_for == "auto":
                _say_once('jit_compile="auto"')
                arguments = signature.bind_partial(self, *args, **kwargs)
                arguments.arguments["jit_compile"] = False
                return original(*arguments.args, **arguments.kwargs)
            if asked_for:
                _warn(stacklevel=2)
                _explicit.add(self)
            return original(self, *args, **kwargs)

        return compile

    _replace(owner, "compile", make)


def _hook_train_function(owner: type, chooses_by_itself: bool) -> None:
    """A model that was compiled before Ebb was on makes its training function."""

    def make(original: Function) -> Function:
        def make_train_function(self: Any, *args: Any, **kwargs: Any) -> Any:
            if self.jit_compile and self not in _explicit:
                if chooses_by_itself:  # whether it or the user did is not known any more
                    _say_once("jit_compile of a model that was compiled before")
                    self.jit_compile = False
                else:
                    _explicit.add(self)
                    _warn(stacklevel=2)
            return original(self, *args, **kwargs)

        return make_train_function

    _replace(owner, "make_train_function", make)


def _hook_keras_3_compile(module: types.ModuleType) -> None:
    _hook_compile(module.Trainer)


def _hook_keras_3_training(module: types.ModuleType) -> None:
    _hook_train_function(module.TensorFlowTrainer, chooses_by_itself=True)


def _hook_keras_2(module: types.ModuleType) -> None:
    _hook_compile(module.Model)
    _hook_train_function(module.Model, chooses_by_itself=False)


_MODULES: dict[str, Callable[[types.ModuleType], None]] = {
    "keras.src.trainers.trainer": _hook_keras_3_compile,
    "keras.src.backend.tensorflow.trainer": _hook_keras_3_training,
    "tf_keras.src.engine.training": _hook_keras_2,
}


def _carefully(action: Callable[[types.ModuleType], None]) -> Callable[[types.ModuleType], None]:
    """Another Keras may be built differently: training goes on, and it is said what is missing."""

    def careful(module: types.ModuleType) -> None:
        try:
            action(module)
        except Exception as problem:
            print(
                f"ebb: {module.__name__} is not as expected ({problem!r}); compile models with "
                "jit_compile=False",
                file=sys.stderr,
            )

    return careful


def hook() -> None:
    """Once, however often it is called."""
    global _has_said_so
    if _take_back:
        return
    _has_said_so = False
    for name, action in _MODULES.items():
        _take_back.append(after_import(name, _carefully(action)))


def unhook() -> None:
    while _take_back:
        _take_back.pop()()
