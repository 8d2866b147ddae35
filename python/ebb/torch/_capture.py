"""A training step as a graph."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import inspect
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from ebb import Error

from ._batch import batch_arguments, flattened
from ._captured import TENSOR, Captured, Shared
from ._changes import Changes
from ._kept import Kept, Together
from ._lines import Declaration, Line
from ._names import Names, prefix_of
from ._optimizer import Optimizers
from ._recorder import Recorder
from ._repeats import capture_what_repeats, generators, put_back
from ._results import Layouts
from ._scaler import Scalers
from ._scalars import TracedFloat, TracedMath
from ._stand_in import stand_in_for_a_gpu
from ._step_function import Task, step_function
from ._surroundings import Gradients, HostReads, in_users_words, said_once, same_generator, unseen_fakes
from ._text import name_text
from ._uninterrupted import uninterrupted


def capture(
    model: torch.nn.Module,
    loss_fn: Callable[..., torch.Tensor] | None,
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
    batch: Any,
    *,
    clip_grad_norm: float | None = None,
    autocast: torch.dtype | None = None,
    accumulate: int = 1,
    scaler: torch.amp.GradScaler | None = None,
) -> Captured:
    """Captures forward, backward and optimizer step of a model as one graph.

    `batch` is `(inputs, targets)`: the loss is `loss_fn(model(inputs), targets)`. Inputs that are
    a tuple or a dict are spread over the model's arguments. More than two items: all but the last
    are inputs. A dict, or another mapping, is spread as a whole, and the loss is `loss_fn(output, batch)`. Without
    `loss_fn` the model's output is the loss, or has it as `.loss` or `["loss"]`.

    Nothing is computed but what the step decides by and a few operators whose results PyTorch does not know
    beforehand, and neither model nor optimizer is changed; but a tensor that forward makes anew no longer shares its
    memory with another one, as after a first eager step.

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
        accumulate=accumulate, scaler=scaler,
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
    return capture_with(Layouts(), function, args, kwargs, modules, optimizers).keep()


def capture_with(layouts: Layouts, function, args, kwargs, modules, optimizers) -> Captured:
    """The same, where more is known of how results lie."""
    if not isinstance(args, (tuple, list)):
        raise Error(f"the arguments must be a tuple, and are a {type(args).__name__}")
    return _capture_alone(function, tuple(args), dict(kwargs or {}), modules, optimizers, None, layouts)


def capture_beside(
    shared: Shared, layouts: Layouts, function: Callable[..., Any], args: tuple, kwargs: dict[str, Any], modules, optimizers
) -> Captured:
    """Captures a function whose state lives in the arena of another step already.

    It declares the state and the constants of that step, all of them and in the same order, so that they
    lie where they lie. What it needs besides is brought along with every batch.
    """
    with torch.inference_mode(False), torch.enable_grad():
        return _capture_alone(function, args, kwargs, modules, optimizers, shared, layouts)


def _capture_alone(function, args: tuple, kwargs: dict, modules, optimizers, shared, layouts) -> Captured:
    if _captured_by.get() == threading.get_ident():
        raise Error("a step is captured within the capture of another one")
    captured = None
    try:
        # PyTorch's fake tensors do not survive an exception anywhere: they end the process. Signals wait for the lock, too:
        # their handlers may capture.
        with uninterrupted(), _capturing:
            try:
                _captured_by.set(threading.get_ident())
                stand_in_for_a_gpu()
                captured = capture_what_repeats(
                    lambda: _capture_apart(function, args, kwargs, modules, optimizers, shared=shared, layouts=layouts)
                )
            finally:
                _captured_by.set(None)
    except BaseException:
        if captured is not None:  # Ctrl-C, which has waited
            captured.undo()
        raise
    return captured


# Capture hooks into what all threads share (module hooks, math.sqrt): one at a time.
_capturing = threading.Lock()
_captured_by: contextvars.ContextVar[int | None] = contextvars.ContextVar("captured", default=None)


def _capture_apart(*arguments, shared: Shared | None, layouts: Layouts) -> Captured:
    before = generators()
    try:
        return _capture(*arguments, shared, layouts)
    except Together as error:
        if shared is not None:  # what is in an arena stays there
            raise
        together = error
    put_back(before)
    together.separate()
    try:
        captured = _capture(*arguments, shared, layouts)
    except BaseException:
        together.join()
        raise
    undo = captured.undo
    captured.undo = lambda: (undo(), together.join())
    return captured


def _capture(function, args: tuple, kwargs: dict, modules, optimizers, shared, layouts) -> Captured:
    is_batch = isinstance(getattr(function, "__self__", None), Task)
    leaves, input_names, tree = flattened(args, kwargs, is_batch)
    found_modules, found_optimizers, scalers = _find([*leaves] if shared else [function, *leaves])
    scalers = shared.scalers if shared else scalers
    modules = _once_each([*_as_list(modules), *found_modules])
    optimizers = _once_each([*_as_list(optimizers), *found_optimizers])
    _refuse_distributed(modules)
    if is_batch and shared is None:
        _refuse_untrained(function.__self__.model, modules, optimizers)

    if not torch.is_grad_enabled():
        why = "inference_mode" if torch.is_inference_mode_enabled() else "no_grad"
        raise Error(f"a training step is captured with gradients on, and they are off here ({why})")
    if (shared is None or optimizers) and torch.is_anomaly_enabled() and torch.is_anomaly_check_nan_enabled():
        raise Error(
            "anomaly detection is on (torch.autograd.set_detect_anomaly), and looks at the values of every "
            "gradient, which are not there while a step is captured; switch it off for compile, or give it check_nan=False. "
            "An eager step has the same bits: look there for what is not finite"
        )
    tensors = _named_state(modules)
    device = _device(leaves, tensors)
    names = Names()
    recorder = Recorder(FakeTensorMode(static_shapes=True), names, device, layouts)
    for name, tensor in shared.state.items() if shared else ():
        recorder.outside.know(tensor, name)
    for tensor, name in tensors:
        recorder.outside.know(tensor, name)
    for i, module in enumerate(modules):
        prefix = prefix_of(i, module).rstrip(".")
        names.know_modules(module, prefix)
        for path, part in module.named_modules(prefix=prefix):
            for key, value in vars(part).items():
                if issubclass(type(value), torch.Tensor):  # isinstance fails for a proxy of what is gone
                    recorder.outside.know(value, f"{path}.{key}".lstrip("."))

    changes = Changes(modules)
    gradients = Gradients(recorder)
    recorder.outside.on_meeting = gradients.watch
    with contextlib.ExitStack() as stack:
        for context in (names, TracedMath(), in_users_words(), same_generator(), said_once(), unseen_fakes(), gradients):
            stack.enter_context(context)
        scaling = stack.enter_context(Scalers(recorder, scalers, optimizers))
        watched = stack.enter_context(Optimizers(recorder))
        kept = stack.enter_context(Kept(modules))
        parameter_names = {id(tensor): name for tensor, name in reversed(tensors)}
        for optimizer in optimizers:
            watched.know(optimizer, parameter_names)
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    gradients.watch(parameter, must_be_dropped=True)
        if not optimizers:
            for tensor, _ in tensors:
                gradients.watch(tensor, must_be_dropped=True)
        if shared is not None:
            _add_shared(recorder, shared)
        inputs, fakes = _add_inputs(recorder, leaves, input_names)
        for tensor, _ in tensors:
            recorder.outside.add_state(tensor)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    recorder.outside.add_state(parameter)
        fake_args, fake_kwargs = pytree.tree_unflatten(fakes, tree)
        stack.enter_context(HostReads(recorder))
        with recorder:
            with changes.noting(), _empty_is_named(leaves, input_names):
                output = function(*fake_args, **fake_kwargs)
            for decision in itertools.islice(recorder.values.decisions, 1):
                changes.refuse_remembered(decision)
            kept.settle(recorder)
        watched.check_unchanged()
        gradients.check_used(bool(watched.stepped) or _trains_by_itself(recorder))
        output_leaves, output_tree = pytree.tree_flatten(output)
        _check_outputs(output_leaves)
        returned = [recorder.name_of(t) for t in output_leaves if isinstance(t, torch.Tensor)]

    lines = _live_lines(recorder.lines, returned)
    used = {name for line in lines for name in line.reads}
    hyperparameters = {
        name: place for name, place in watched.hyperparameters.items() if name in used
    }
    brought = _bring_the_rest(recorder, watched, shared) if shared else {}
    declarations = _in_order(recorder.outside.declarations.values())
    updates = bool(recorder.updated & set(recorder.outside.declarations))
    graph_names = {id(d.tensor): d.name for d in declarations}
    changes.settle(
        used=[d.tensor for d in declarations],
        parameters=[(t, graph_names.get(id(t), "")) for t in gradients.watched] if updates else [],
        optimizers=watched.seen,
    )
    return Captured(
        text=_graph_text(declarations, hyperparameters, lines, returned),
        inputs=inputs,
        brought=brought,
        state={d.name: d.tensor for d in declarations if d.kind == "param"},
        constants={d.name: d.tensor for d in declarations if d.kind == "const"},
        updates=updates,
        hyperparameters=hyperparameters,
        declarations=declarations,
        batch_tree=tree,
        batch_leaves=[TENSOR if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves],
        output_tree=output_tree,
        output_leaves=[TENSOR if isinstance(t, torch.Tensor) else t for t in output_leaves],
        guards=recorder.tape.guards,
        origins=recorder.origins,
        undo=kept.undo,
        moving=changes.moving,
        decisions=recorder.values.decisions,
        _all_hyperparameters=watched.hyperparameters,
        _modes=[(part, path, part.training) for module in modules for path, part in module.named_modules()],
        _changes=changes,
        _trainable=[(tensor, name, tensor.requires_grad) for tensor, name in tensors],
        _fixed=watched.fixed,
        new_state=watched.new_state,
        gradients=gradients.watched,
        modules=modules,
        optimizers=watched.seen,
        scalers=scaling.seen,
        _fixed_scalers=scaling.fixed,
        device=device,
        autocast=torch.is_autocast_enabled(device.type),
        _group_sizes={
            id(o): [len(group["params"]) for group in o.param_groups] for o in watched.seen
        },
    )


@contextlib.contextmanager
def _empty_is_named(leaves: list[Any], names: list[str]) -> Iterator[None]:
    """PyTorch divides by the number of elements where an eager step makes nan of it, as in the derivative of a mean."""
    try:
        yield
    except ZeroDivisionError as error:
        for leaf, name in zip(leaves, names, strict=True):
            if isinstance(leaf, torch.Tensor) and leaf.numel() == 0:
                raise Error(
                    f"a tensor of the batch has no elements ({name}, of shape {list(leaf.shape)}), and the step divides by "
                    "how many there are; leave such batches out"
                ) from error
        raise


def _add_inputs(recorder: Recorder, leaves: list[Any], names: list[str]) -> tuple[dict, list]:
    inputs, fakes = {}, []
    for leaf, name in zip(leaves, names, strict=True):
        if isinstance(leaf, FakeTensor):
            raise Error("a compiled step cannot be captured again as part of another one")
        if isinstance(leaf, torch.Tensor):
            fake = recorder.outside.add_input(name, leaf)
            inputs[next(reversed(recorder.outside.declarations))] = leaf
            recorder.values.add_input(fake, leaf)
            fakes.append(fake.requires_grad_(leaf.requires_grad))
        else:
            fakes.append(leaf)
    return inputs, fakes


def _add_shared(recorder: Recorder, shared: Shared) -> None:
    for tensor in shared.state.values():
        recorder.outside.add_state(tensor)
    for constant in shared.constants:
        recorder.outside.declarations[recorder.names.unique(constant.name)] = constant


def _bring_the_rest(recorder: Recorder, watched: Optimizers, shared: Shared) -> dict[str, torch.Tensor]:
    """What the other step does not have becomes an input."""
    brought = {}
    known = {*shared.state, *(constant.name for constant in shared.constants)}
    if watched.new_state:
        raise Error("the optimizer has state for it that the compiled step does not have")
    for declaration in recorder.outside.declarations.values():
        root = declaration.root or declaration.name
        if declaration.kind == "input" or root in known:
            continue
        if root in recorder.updated:
            raise Error(f"it updates {declaration.name}, which the compiled step does not have")
        declaration.kind = "input"
        brought[declaration.name] = declaration.tensor
    return brought


def _trains_by_itself(recorder: Recorder) -> bool:
    """Whether parameters are updated without an optimizer."""
    updated = [recorder.outside.declarations[name] for name in recorder.updated & set(recorder.outside.declarations)]
    return any(declaration.tensor.requires_grad for declaration in updated)


def _check_outputs(leaves: list[Any]) -> None:
    for leaf in leaves:
        if isinstance(leaf, TracedFloat):
            raise Error(
                "the step returns a number that it reads out of a tensor; return the tensor, and "
                "read the number from it outside"
            )
        if isinstance(leaf, torch.Tensor) and not isinstance(leaf, FakeTensor):
            raise Error("the step returns one of its parameters; read it from the model instead")


# Names and kinds of what is given.


def _as_list(value: Any) -> list:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _once_each(values: list) -> list:
    return list({id(value): value for value in values}.values())


def _named_state(modules: list[torch.nn.Module]) -> list[tuple[torch.Tensor, str]]:
    """Parameters and buffers, each once, under its first name."""
    named, seen = [], set()
    for i, module in enumerate(modules):
        prefix = prefix_of(i, module)
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
            if id(tensor) not in seen:
                seen.add(id(tensor))
                named.append((tensor, prefix + name))
    return named


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


def _refuse_untrained(model: torch.nn.Module, modules: list[torch.nn.Module], optimizers: list) -> None:
    """A frozen model may lend its gradients to what is trained elsewhere: autograd says whether there is anything."""
    trained = {id(p) for one in optimizers for group in one.param_groups for p in group["params"]}
    known = {id(p) for module in modules for p in module.parameters()}
    if trained.isdisjoint(known) and any(p.requires_grad for p in model.parameters()):
        raise Error(
            "the optimizer has none of the model's parameters, so nothing would be trained; make it of "
            "model.parameters()"
        )


def _find(values: list[Any]) -> tuple[list, list, list]:
    """Modules, optimizers and scalers among values and what functions refer to, directly or through functions."""
    modules, optimizers, scalers, seen = [], [], [], set()

    def look(value: Any, depth: int) -> None:
        if id(value) in seen or depth > 4:
            return
        seen.add(id(value))
        if isinstance(value, torch.nn.Module):
            modules.append(value)
        elif isinstance(value, torch.optim.Optimizer):
            optimizers.append(value)
        elif isinstance(value, torch.amp.GradScaler):
            scalers.append(value)
        elif isinstance(value, functools.partial):
            for part in (value.func, *value.args, *value.keywords.values()):
                look(part, depth + 1)
        elif inspect.ismethod(value):
            look(value.__self__, depth)
            look(value.__func__, depth)
        elif inspect.isfunction(value):
            if not value.__module__.startswith("torch."):
                closure = inspect.getclosurevars(value)
                for part in (*closure.nonlocals.values(), *closure.globals.values()):
                    look(part, depth + 1)
        elif isinstance(value, (list, tuple, dict)):
            for part in value.values() if isinstance(value, dict) else value:
                look(part, depth + 1)
        elif not inspect.ismodule(value) and not inspect.isclass(value) and callable(value):
            for part in vars(value).values() if hasattr(value, "__dict__") else ():
                look(part, depth + 1)
        elif depth == 0 and hasattr(value, "__dict__"):
            for part in vars(value).values():  # the object whose method is the step
                look(part, depth + 1)

    for value in values:
        look(value, 0)
    return modules, optimizers, scalers


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
