"""What PyTorch's operator schemas do not say, or say wrongly."""

from __future__ import annotations

import torch

from ebb import Error

from ._text import row_major

aten = torch.ops.aten

# Arguments that an operator overwrites without saying so, and the argument that says when.
_HIDDEN_UPDATES = {
    "aten::native_batch_norm": (("running_mean", "running_var"), "training"),
    "aten::cudnn_batch_norm": (("running_mean", "running_var"), "training"),
    "aten::miopen_batch_norm": (("running_mean", "running_var"), "training"),
    "aten::mkldnn_rnn_layer_backward": (("workspace",), "train"),
}

# Arguments that an operator says it overwrites, and does only when the other one is given.
_WRITES_ONLY_WITH = {
    "aten::_fused_adam_": ("grads", "grad_scale"),
    "aten::_fused_adamw_": ("grads", "grad_scale"),
    "aten::_fused_sgd_": ("grads", "grad_scale"),
    "aten::_fused_adagrad_": ("grads", "grad_scale"),
}

# Operators whose names end in "_" and whose functional forms are called differently.
_FUNCTIONAL_FORMS = {
    "aten::bernoulli_.float": aten.bernoulli.p,
    "aten::normal_": aten.normal_functional.default,
}

# Operators that touch no tensor's bytes: nothing to record.
_NOTHING_TO_RECORD = ("prim", "profiler")

_REFUSED = {
    "aten::set_": "gives a tensor other bytes",
    "aten::resize_": "changes the size of a tensor in place",
    "aten::resize_as_": "changes the size of a tensor in place",
    "aten::_resize_output_": "changes the size of a tensor in place",
    "aten::_conj": "conjugates lazily; use conj_physical, or compute in real numbers",
    "aten::_neg_view": "negates lazily; compute in real numbers",
    "aten::_cudnn_rnn": "keeps hidden state in its weight buffer",
}

# What makes a tensor of Python's numbers part of the computation.
LIFTS = (aten.lift_fresh.default, aten.lift_fresh_copy.default)

# Operators that change how a tensor lies in its bytes, and not the bytes.
_LAYOUT_ONLY = {
    "aten::as_strided_",
    "aten::squeeze_",
    "aten::swapaxes_",
    "aten::swapdims_",
    "aten::t_",
    "aten::transpose_",
    "aten::unsqueeze_",
}

# Operators whose results PyTorch knows only after it has run them: their sizes, how they lie, or whether two are one.
_MEASURED_RESULTS = {"aten::_fft_r2c", "aten::mkldnn_rnn_layer", "aten::mkldnn_rnn_layer_backward"}

# Operators whose results PyTorch announces as lying row by row, and which lie as the operands do.
_LIE_AS_OPERANDS = {
    "aten::_log_softmax_backward_data",
    "aten::channel_shuffle",
    "aten::glu_backward",
    "aten::native_channel_shuffle",
    "aten::max_unpool2d",
    *(f"aten::{kind}_pad{n}d{way}" for kind in ("reflection", "replication") for n in (2, 3) for way in ("", "_backward")),
}

# Operators that return nothing where their output_mask says so, though PyTorch announces a tensor.
MASKED_RESULTS = {"aten::native_batch_norm_backward"}

# Nodes of autograd that compute in another way when they are traced, and round otherwise; and the
# operator by which that shows.
_TRACED_OTHERWISE = {
    "CumprodBackward0": ("the derivative of cumprod", None),
    "ProdBackward0": ("the derivative of prod", None),
    "ProdBackward1": ("the derivative of prod", None),
    "MaskedFillBackward1": ("the derivative of masked_fill by its value", "aten::where"),
}

# Operators that look at the grad mode, and keep what backward needs when it is on.
GRAD_MODE_MATTERS = {"aten::mkldnn_rnn_layer"}


def _saved_statistics(bound: dict[str, object], results: list) -> list[torch.dtype]:
    """Normalisation of half precision with f32 weights, bias or running statistics saves its own in f32."""
    dtypes = [result.dtype for result in results]
    for name in ("weight", "bias", "running_mean"):
        given = bound.get(name)
        if given is not None and given.device.type == "cpu" and given.dtype != dtypes[0]:
            dtypes[1:] = [given.dtype] * (len(dtypes) - 1)
            break
    return dtypes


def _gradient_as_input(bound: dict[str, object], results: list) -> list[torch.dtype | None]:
    """The gradient of the input is of the input's type, whatever the statistics are of."""
    dtypes = [None if result is None else result.dtype for result in results]
    if dtypes[0] is not None and bound["input"].device.type == "cpu":
        dtypes[0] = bound["input"].dtype
    return dtypes


# Operators whose results PyTorch announces with the wrong element type.
_RESULT_DTYPES = {
    "aten::native_batch_norm": _saved_statistics,
    "aten::native_layer_norm": _saved_statistics,
    "aten::native_group_norm": _saved_statistics,
    "aten::native_group_norm_backward": _gradient_as_input,
}


def result_dtypes(func: torch._ops.OpOverload, bound: dict[str, object], results: list):
    """The element types that the operator's results really have; None when as announced."""
    right = _RESULT_DTYPES.get(func._schema.name)
    return None if right is None else right(bound, results)


def is_measured(func: torch._ops.OpOverload, operands: list[torch.Tensor]) -> bool:
    """Whether the operator must be run to know what it makes."""
    if func._schema.name in _LIE_AS_OPERANDS:  # a stride says which layout it is also where there is one element
        return any(operand.stride() != row_major(operand.size()) for operand in operands)
    return func._schema.name in _MEASURED_RESULTS


def announce(func: torch._ops.OpOverload, args: tuple, kwargs: dict) -> object:
    """What the operator makes of fakes, by PyTorch's word."""
    if func._schema.name == "aten::_grouped_mm":
        bound = bind(func, args, kwargs)
        # Announced for bfloat16 alone; the operator takes f32 and f16 as well.
        if bound["self"].dtype == bound["mat2"].dtype != torch.bfloat16:
            from torch._meta_registrations import _create_grouped_mm_output_tensor

            return _create_grouped_mm_output_tensor(bound["self"], bound["mat2"], bound["offs"], bound["out_dtype"])
    return func(*args, **kwargs)


def name_of(func: torch._ops.OpOverload) -> str:
    """`aten::add.Tensor`; the default overload has no suffix."""
    overload = func._schema.overload_name
    return f"{func._schema.name}.{overload}" if overload else func._schema.name


def is_recorded(func: torch._ops.OpOverload) -> bool:
    return func.namespace not in _NOTHING_TO_RECORD and "::sym_" not in func._schema.name


def traced_otherwise(func: torch._ops.OpOverload) -> str | None:
    """What autograd would compute with other bits in an eager step; None where it does not."""
    node = torch._C._current_autograd_node()
    if node is None or node.name() not in _TRACED_OTHERWISE:
        return None
    what, sign = _TRACED_OTHERWISE[node.name()]
    return what if sign is None or func._schema.name == sign else None


def changes_layout_only(func: torch._ops.OpOverload) -> bool:
    return func._schema.name in _LAYOUT_ONLY


def is_random(func: torch._ops.OpOverload) -> bool:
    return torch.Tag.nondeterministic_seeded in func.tags


def refusal(func: torch._ops.OpOverload) -> str | None:
    return _REFUSED.get(func._schema.name)


def written_arguments(func: torch._ops.OpOverload, bound: dict[str, object]) -> set[str]:
    """The names of the arguments whose bytes the call overwrites."""
    schema = func._schema
    written = {
        argument.name
        for argument in schema.arguments
        if argument.alias_info is not None
        and argument.alias_info.is_write
        and bound.get(argument.name) is not None
    }
    if schema.name in _HIDDEN_UPDATES:
        names, condition = _HIDDEN_UPDATES[schema.name]
        if bound[condition]:
            written.update(name for name in names if bound[name] is not None)
    if schema.name in _WRITES_ONLY_WITH:
        name, condition = _WRITES_ONLY_WITH[schema.name]
        if bound.get(condition) is None:
            written.discard(name)
    return written


def functional_form(func: torch._ops.OpOverload) -> torch._ops.OpOverload | None:
    """The operator that returns what `func` would have written; None when there is none."""
    name = name_of(func)
    if name in _FUNCTIONAL_FORMS:
        return _FUNCTIONAL_FORMS[name]
    base = func._schema.name.split("::")[1]
    if func.namespace != "aten" or not base.endswith("_") or base.endswith("__"):
        return None
    packet = getattr(aten, base[:-1], None)
    if packet is None:
        return None
    overload = func._schema.overload_name or "default"
    if overload not in packet.overloads():
        return None
    form = getattr(packet, overload)
    if form._schema.is_mutable:
        return None
    ours = [(argument.name, str(argument.type)) for argument in func._schema.arguments]
    theirs = [(argument.name, str(argument.type)) for argument in form._schema.arguments]
    return form if ours == theirs else None


def bind(func: torch._ops.OpOverload, args: tuple, kwargs: dict) -> dict[str, object]:
    """Every argument by its name, defaults included."""
    bound = {}
    for i, argument in enumerate(func._schema.arguments):
        if i < len(args) and not argument.kwarg_only:
            bound[argument.name] = args[i]
        elif argument.name in kwargs:
            bound[argument.name] = kwargs[argument.name]
        elif argument.has_default_value():
            bound[argument.name] = argument.default_value
        else:
            raise Error(f"{name_of(func)} was called without its argument {argument.name}")
    return bound


def unbind(func: torch._ops.OpOverload, bound: dict[str, object]) -> tuple[tuple, dict[str, object]]:
    """The other way round: arguments to call an operator with."""
    arguments = func._schema.arguments
    args = tuple(bound[argument.name] for argument in arguments if not argument.kwarg_only)
    return args, {argument.name: bound[argument.name] for argument in arguments if argument.kwarg_only}
