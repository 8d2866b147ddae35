"""A training step as a graph: capture, and what is needed to run and save it."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedOperatorException,
)
from torch.overrides import TorchFunctionMode

from ebb import Error

from ._names import Names
from ._optimizer import Hyperparameter, NewState, Optimizers
from ._places import user_line
from ._recorder import Declaration, Line, Meta, Recorder, data_dependent
from ._scalars import Guard, TracedFloat, TracedMath
from ._step_function import step_function
from ._text import name_text


@dataclasses.dataclass
class Captured:
    """A captured training step.

    `text` is the graph (docs/graph-text.md). The tensors behind its declarations are the user's
    own: `state` the parameters, buffers and optimizer state, `constants`, and `inputs`, the example
    batch in the order in which its tensors are flattened.
    """

    text: str
    inputs: dict[str, torch.Tensor]
    state: dict[str, torch.Tensor]
    constants: dict[str, torch.Tensor]
    hyperparameters: dict[str, Hyperparameter]
    declarations: list[Declaration] = dataclasses.field(repr=False)
    batch_tree: pytree.TreeSpec = dataclasses.field(repr=False)
    batch_leaves: list[Any] = dataclasses.field(repr=False)
    output_tree: pytree.TreeSpec = dataclasses.field(repr=False)
    output_leaves: list[Any] = dataclasses.field(repr=False)  # None where a tensor goes
    _guards: list[Guard] = dataclasses.field(repr=False)
    _fixed: list[tuple] = dataclasses.field(repr=False)
    new_state: list[NewState] = dataclasses.field(repr=False)
    _zero_at_first: set[tuple] = dataclasses.field(repr=False)
    gradients: list[torch.Tensor] = dataclasses.field(repr=False)  # whose .grad is the step's
    modules: list[torch.nn.Module] = dataclasses.field(repr=False)
    optimizers: list[torch.optim.Optimizer] = dataclasses.field(repr=False)

    def scalar_values(self, first_step: bool = False) -> dict[str, float]:
        """The runtime scalars as they are now, checked against what was captured."""
        for optimizer, group, key, value in self._fixed:
            now = optimizer.param_groups[group].get(key)
            if type(now) is not type(value) or now != value:
                raise Error(
                    f"{key} of parameter group {group} was {value} when the step was captured and "
                    f"is {now}: another computation. Capture the step again"
                )
        values = {}
        for name, place in self.hyperparameters.items():
            values[name] = place.value()
            if first_step and (id(place.optimizer), place.group, place.key) in self._zero_at_first:
                values[name] = 0.0
        for guard in self._guards:
            if guard.evaluate(values) != guard.outcome:
                raise Error(
                    f"{guard.text} was {guard.outcome} when the step was captured and no longer is: "
                    "another computation. Capture the step again"
                )
        return values

    @contextlib.contextmanager
    def hyperparameters_of_step(self, first_step: bool) -> Iterator[None]:
        """While active, the optimizers' own hyperparameters are those of the first or a later step."""
        changed = []
        for place in self.hyperparameters.values():
            key = (id(place.optimizer), place.group, place.key)
            if first_step and key in self._zero_at_first:
                group = place.optimizer.param_groups[place.group]
                changed.append((group, place.key, group[place.key]))
                group[place.key] = 0.0
        try:
            yield
        finally:
            for group, key, value in changed:
                group[key] = value

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes `step.ebb`, and beside it `step.safetensors` with the state, constants, example
        batch, scalars and the state of the random number generator: what `ebb run` needs."""
        from ._files import save

        save(self, path)


def capture(
    model: torch.nn.Module,
    loss_fn: Callable[..., torch.Tensor] | None,
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
    batch: Any,
    *,
    clip_grad_norm: float | None = None,
    autocast: torch.dtype | None = None,
    accumulate: int = 1,
) -> Captured:
    """Captures forward, backward and optimizer step of a model as one graph.

    `batch` is `(inputs, targets)`: the loss is `loss_fn(model(inputs), targets)`. Inputs that are
    a tuple or a dict are spread over the model's arguments. More than two items: all but the last
    are inputs. A dict is spread as a whole, and the loss is `loss_fn(output, batch)`. Without
    `loss_fn` the model's output is the loss, or has it as `.loss` or `["loss"]`.

    Nothing is computed, and neither model nor optimizer is changed.

    >>> import torch
    >>> model = torch.nn.Linear(4, 2)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> batch = (torch.randn(8, 4), torch.randint(0, 2, (8,)))
    >>> step = capture(model, torch.nn.functional.cross_entropy, optimizer, batch)
    >>> step.text.splitlines()[0]
    'graph step {'
    """
    function = step_function(
        model, loss_fn, optimizer, clip_grad_norm=clip_grad_norm, autocast=autocast,
        accumulate=accumulate,
    )
    args, kwargs = batch_arguments((batch,), {})
    return capture_step(function, args, kwargs, modules=model, optimizers=optimizer)


def capture_step(
    function: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: dict[str, Any] | None = None,
    *,
    modules: torch.nn.Module | Sequence[torch.nn.Module] | None = None,
    optimizers: torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | None = None,
) -> Captured:
    """Captures any function that does a training step on its arguments and returns tensors.

    Modules and optimizers that the function refers to by name are found; others may be given, and
    lend their names to the graph.
    """
    found_modules, found_optimizers = _find(function)
    modules = _as_list(modules) or found_modules
    optimizers = _as_list(optimizers) or found_optimizers
    _refuse_distributed(modules)

    kwargs = dict(kwargs or {})
    leaves, tree = pytree.tree_flatten((tuple(args), kwargs))
    names = Names()
    tensors = _named_state(modules)
    device = _device(leaves, tensors)
    recorder = Recorder(FakeTensorMode(static_shapes=True), names, device)
    for tensor, name in tensors:
        recorder.know(tensor, name)
    for i, module in enumerate(modules):
        names.know_modules(module, prefix=f"model{i}" if len(modules) > 1 else "")

    gradients = _Gradients()
    with contextlib.ExitStack() as stack:
        stack.enter_context(names)
        stack.enter_context(TracedMath())
        stack.enter_context(_in_users_words())
        stack.enter_context(_same_generator())
        watched = stack.enter_context(Optimizers(recorder))
        stack.enter_context(gradients)
        parameter_names = {id(tensor): name for tensor, name in reversed(tensors)}
        for optimizer in optimizers:
            watched.know(optimizer, parameter_names)
        input_names = _input_names(tree, len(leaves))
        inputs = {}
        fakes = []
        for leaf, name in zip(leaves, input_names, strict=True):
            if isinstance(leaf, torch.Tensor):
                fake = recorder.add_input(name, leaf)
                inputs[next(reversed(recorder.declarations))] = leaf
                fakes.append(fake.requires_grad_(leaf.requires_grad))
            else:
                fakes.append(leaf)
        for tensor, _ in tensors:
            recorder.add_state(tensor)
            gradients.watch(tensor)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    recorder.add_state(parameter)
                    gradients.watch(parameter)
        buffers = [(module, _buffers(module)) for module in modules]
        fake_args, fake_kwargs = pytree.tree_unflatten(fakes, tree)
        stack.enter_context(_HostReads(recorder))
        with recorder:
            output = function(*fake_args, **fake_kwargs)
            for module, before in buffers:
                _settle_buffers(recorder, module, before)
        output_leaves, output_tree = pytree.tree_flatten(output)
        returned = [recorder.name_of(t) for t in output_leaves if isinstance(t, torch.Tensor)]
        _refuse_returned_variables(recorder, output_leaves)

    lines = _live_lines(recorder.lines, returned)
    used = _used_scalars(lines)
    hyperparameters = {
        name: place for name, place in watched.hyperparameters.items() if name in used
    }
    declarations = _in_order(recorder.declarations.values())
    return Captured(
        text=_graph_text(declarations, hyperparameters, lines, returned),
        inputs=inputs,
        state={d.name: d.tensor for d in declarations if d.kind == "param"},
        constants={d.name: d.tensor for d in declarations if d.kind == "const"},
        hyperparameters=hyperparameters,
        declarations=declarations,
        batch_tree=tree,
        batch_leaves=[None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves],
        output_tree=output_tree,
        output_leaves=[None if isinstance(t, torch.Tensor) else t for t in output_leaves],
        _guards=[g for g in recorder.tape.guards],
        _fixed=watched.fixed,
        new_state=watched.new_state,
        _zero_at_first=watched.zero_at_first,
        gradients=gradients.watched,
        modules=modules,
        optimizers=watched.seen,
    )


# Around the run.


class _HostReads(TorchFunctionMode):
    """Catches `tensor.item()` and its kin before the number becomes a plain one."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in (torch.Tensor.item, torch.Tensor.__float__) and isinstance(args[0], torch.Tensor):
            reader = self.recorder.trial or self.recorder
            return reader.read_number(args[0])
        if func is torch.Tensor.__bool__:
            raise data_dependent("decides by the value of a tensor (if, while, and, or, not)")
        if func in (torch.Tensor.tolist, torch.Tensor.numpy, torch.Tensor.__int__, torch.Tensor.__index__):
            raise data_dependent("reads the values of a tensor")
        if func in (torch.tensor, torch.as_tensor, torch.asarray):
            if any(isinstance(leaf, TracedFloat) for leaf in pytree.tree_leaves((args, kwargs))):
                raise Error(
                    f"the step makes a tensor of a number that changes from step to step, at "
                    f"{user_line()}; compute with the number itself, or keep it in a tensor"
                )
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def _in_users_words() -> Iterator[None]:
    try:
        yield
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        what = f"makes a tensor whose shape depends on data ({error})"
        raise data_dependent(what, error) from error
    except UnsupportedOperatorException as error:
        raise Error(
            f"PyTorch cannot say what {error} makes without running it ({user_line(error)})"
        ) from error


def _no_new_generator_state(*_: Any) -> None:
    raise Error(
        f"the step sets the random number generator, at {user_line()}; a captured step draws from it "
        "in order. Activation checkpointing does it to repeat dropout: leave recomputing to Ebb, or "
        "pass preserve_rng_state=False where nothing is random"
    )


@contextlib.contextmanager
def _same_generator() -> Iterator[None]:
    """Refuses steps that set the random number generator, and undoes it."""
    before = torch.get_rng_state()
    patched = [(module, module.set_rng_state) for module in (torch, torch.random)]
    for module, _ in patched:
        module.set_rng_state = _no_new_generator_state
    try:
        yield
        if not torch.equal(torch.get_rng_state(), before):
            raise Error(
                "the step sets the seed of the random number generator; set it outside of the step"
            )
    finally:
        for module, original in patched:
            module.set_rng_state = original
        torch.set_rng_state(before)


class _Gradients:
    """Backward leaves fake gradients at the user's parameters: they are taken away again."""

    def __init__(self) -> None:
        self.watched: list[torch.Tensor] = []
        self._before: list[torch.Tensor | None] = []
        self._ids: set[int] = set()

    def watch(self, tensor: torch.Tensor) -> None:
        if tensor.requires_grad and tensor.is_leaf and id(tensor) not in self._ids:
            self._ids.add(id(tensor))
            self.watched.append(tensor)
            self._before.append(tensor.grad)
            tensor.grad = None

    def __enter__(self) -> _Gradients:
        return self

    def __exit__(self, *_) -> None:
        for tensor, before in zip(self.watched, self._before, strict=True):
            tensor.grad = None
            tensor.grad = before


def _settle_buffers(recorder: Recorder, module: torch.nn.Module, before: dict) -> None:
    """A buffer that forward replaced by another tensor is written back into the one it was."""
    for (owner, key), value in before.items():
        now = owner._buffers.get(key)
        if now is not value:
            if isinstance(now, FakeTensor) and value is not None:
                if Meta.of(now)[:2] != Meta.of(value)[:2]:
                    raise Error(f"the step changes the shape or type of the buffer {key}")
                recorder.overwrite(value, now)
            owner._buffers[key] = value


def _buffers(module: torch.nn.Module) -> dict:
    return {
        (owner, key): value
        for owner in module.modules()
        for key, value in owner._buffers.items()
        if value is not None
    }


# Names and kinds of what is given.


def batch_arguments(args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """A batch given whole, `step((x, y))` or `step({"x": x})`, spread as arguments."""
    if len(args) == 1 and not kwargs:
        if isinstance(args[0], dict):
            return (), dict(args[0])
        if isinstance(args[0], (tuple, list)):
            return tuple(args[0]), {}
    return tuple(args), dict(kwargs)


def _as_list(value: Any) -> list:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _named_state(modules: list[torch.nn.Module]) -> list[tuple[torch.Tensor, str]]:
    """Parameters and buffers, each once, under its first name."""
    named, seen = [], set()
    for i, module in enumerate(modules):
        prefix = f"model{i}." if len(modules) > 1 else ""
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
            if id(tensor) not in seen:
                seen.add(id(tensor))
                named.append((tensor, prefix + name))
    return named


def _input_names(tree: pytree.TreeSpec, count: int) -> list[str]:
    paths = pytree.tree_flatten_with_path(pytree.tree_unflatten(list(range(count)), tree))[0]
    names = []
    for path, _ in paths:
        parts = [str(getattr(key, "idx", getattr(key, "key", ""))) for key in path[1:]]
        name = ".".join(parts)
        names.append(f"batch.{name}" if not name or name[0].isdigit() else name)
    return names


def _device(leaves: list[Any], tensors: list[tuple[torch.Tensor, str]]) -> torch.device:
    devices = {t.device for t in leaves if isinstance(t, torch.Tensor)}
    devices |= {t.device for t, _ in tensors}
    if len(devices) > 1:
        raise Error(f"the step is on several devices ({', '.join(sorted(map(str, devices)))})")
    return devices.pop() if devices else torch.device("cpu")


def _refuse_distributed(modules: list[torch.nn.Module]) -> None:
    for module in modules:
        for part in module.modules():
            kind = type(part)
            if kind.__module__.startswith(("torch.nn.parallel", "torch.distributed")):
                raise Error(
                    f"{kind.__name__} cannot be captured: it exchanges gradients behind autograd's "
                    "back. Give Ebb the module inside it (module.module)"
                )
            if isinstance(part, torch.jit.ScriptModule):
                raise Error("a ScriptModule cannot be captured; give Ebb the Python module")
        if hasattr(module, "_fsdp_wrapped_module") or "FSDP" in type(module).__name__:
            raise Error("a fully sharded module cannot be captured; give Ebb the plain module")


def _refuse_returned_variables(recorder: Recorder, leaves: list[Any]) -> None:
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor) and not isinstance(leaf, FakeTensor):
            raise Error("the step returns one of its parameters; read it from the model instead")


def _find(function: Callable[..., Any]) -> tuple[list, list]:
    """Modules and optimizers among what a function refers to."""
    values = []
    if inspect.ismethod(function):
        values += list(vars(function.__self__).values()) if hasattr(function.__self__, "__dict__") else []
        values.append(function.__self__)
        function = function.__func__
    if inspect.isfunction(function):
        closure = inspect.getclosurevars(function)
        values += [*closure.nonlocals.values(), *closure.globals.values()]
    modules, optimizers = [], []
    for value in pytree.tree_leaves(values):
        for kind, found in ((torch.nn.Module, modules), (torch.optim.Optimizer, optimizers)):
            if isinstance(value, kind) and not any(value is other for other in found):
                found.append(value)
    return modules, optimizers


# The text.


def _live_lines(lines: list[Line], returned: list[str]) -> list[Line]:
    """The lines that somebody needs. Backward computes some things nobody asks for."""
    needed = set(returned)
    live = []
    for line in reversed(lines):
        if line.keeps or any(result.name in needed for result in line.results):
            needed.update(line.reads)
            live.append(line)
    return live[::-1]


def _used_scalars(lines: list[Line]) -> set[str]:
    return {name for line in lines for name in line.reads}


def _in_order(declarations) -> list[Declaration]:
    kinds = {"input": 0, "param": 1, "const": 2}
    return sorted(declarations, key=lambda d: kinds[d.kind])


def _graph_text(declarations, scalars, lines, returned) -> str:
    out = ["graph step {"]
    out += [f"  {declaration.text()}" for declaration in declarations]
    out += [f"  scalar ${name_text(name)}: f64" for name in scalars]
    out += [f"  {line.text()}" for line in lines]
    results = ", ".join(f"%{name_text(name)}" for name in returned)
    out += [f"  return {results}".rstrip(), "}", ""]
    return "\n".join(out)
