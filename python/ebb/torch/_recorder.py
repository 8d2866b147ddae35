"""Records the operations of a training step while it runs on fake tensors.

The step's own tensors are fake: they have types but no bytes. Tensors that were there before
(parameters, buffers, optimizer state) are real and stay untouched; when an operation meets one, a
fake takes its place, and the real one becomes a `param` of the graph. So the model, the optimizer
and any closure are captured as they are, without being taken apart.

A graph has no in-place operations on intermediates: `relu_` of an activation is written as `relu`
with a new result, and whoever reads the activation later reads that. What is written into
variables stays an update.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from ebb import Error

from . import _operators
from ._arguments import Arguments, constants_of
from ._decisions import BatchValues
from ._lines import Line, Meta, Result, Storage, shares, strided_attributes
from ._names import Names
from ._outside import Outside
from ._places import user_line
from ._results import Layouts, Origin, Results
from ._scalars import ScalarTape
from ._text import name_text

aten = torch.ops.aten


class Recorder(TorchDispatchMode):
    def __init__(self, fake: FakeTensorMode, names: Names, device: torch.device, layouts: Layouts):
        super().__init__()
        self.fake = fake
        self.names = names
        self.device = device
        self.outside = Outside(fake, names, device)
        self.tape = ScalarTape(self._emit_scalar, seed=1)
        self.values = BatchValues()
        self.results = Results(fake, device, layouts)
        self.lines: list[Line] = []
        self.updated: set[str] = set()  # roots of variables that some operation updates
        self.log: list[tuple[str, ...]] | None = None  # operators and constants, when wanted
        self.forbidden: dict[int, str] = {}  # storages that must not be used, and why
        self.trial = None  # who looks at operations instead, while an optimizer is tried out
        self._storages = self.outside.storages
        self._arguments = Arguments(self.name_of, self.tape, device)
        self.origins: dict[str, Origin] = {}  # of the graph's tensors
        self._read: set[str] = set()  # tensors of the graph that some line reads
        self._shared: set[str] = set()  # roots that are the value of several storages
        self._reads = 0

    # Names of tensors.

    def name_of(self, tensor: torch.Tensor) -> str:
        """The graph's tensor that has the value which `tensor` has now."""
        fake = self.outside.fake_of(tensor, "captured")
        storage = self._storages.get(fake.untyped_storage()._cdata)
        if fake.untyped_storage()._cdata in self.forbidden:
            raise Error(f"{self.forbidden[fake.untyped_storage()._cdata]} ({user_line()})")
        if storage is None:
            raise Error(
                f"the step uses a tensor that an earlier capture left behind, at {user_line()}; "
                "make the model anew"
            )
        meta = Meta.of(fake)
        if meta not in storage.views:
            storage.views[meta] = self._emit_view(storage, meta)
        return storage.views[meta]

    def _emit_view(self, storage: Storage, meta: Meta) -> str:
        """A view taken before the storage was written anew, remade on the newest version."""
        source_meta, source = next(iter(storage.views.items()))
        if source_meta.dtype != meta.dtype:
            raise Error(
                f"the step writes into a tensor of {source_meta.dtype} and then reads it as "
                f"{meta.dtype} through an older view, at {user_line()}; take the view again"
            )
        name, at = self.names.operation("as_strided")
        result = Result(name, meta.text, shares(storage.root, meta.offset))
        self._append(
            Line(
                "aten::as_strided",
                [f"%{name_text(source)}"],
                strided_attributes(meta),
                [result],
                [source],
                at=at,
            )
        )
        return name

    # Recording.

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if self.trial is not None:
            return self.trial.dispatch(func, args, kwargs)
        if not _operators.is_recorded(func):
            fake_args, fake_kwargs = self._to_fakes(func, args, kwargs)
            with self.fake:
                return func(*fake_args, **fake_kwargs)
        reason = _operators.refusal(func)
        if reason is not None:
            raise Error(f"{_operators.name_of(func)} {reason}; it cannot be captured ({user_line()})")
        otherwise = _operators.traced_otherwise(func)
        if otherwise is not None:
            raise Error(
                f"{otherwise} has other bits when it is traced than in an eager step, so it cannot be "
                f"captured ({self.names.place() or user_line()})"
            )
        if func is aten._local_scalar_dense.default:
            return self.decide("reads a number out of a tensor", func, *args)
        if func is aten.equal.default:
            return self.decide(f"needs the values of a tensor ({func})", func, *args)
        if _operators.changes_layout_only(func):
            if not isinstance(args[0], FakeTensor):
                raise Error(
                    f"{_operators.name_of(func)} changes the shape of a parameter in place, at "
                    f"{user_line()}; that cannot be captured"
                )
            self.values.forget([args[0]])
            with self.fake:
                return func(*args, **kwargs)  # whoever reads it next, reads a view
        if self.log is not None:
            self.log.append(constants_of(func, _operators.bind(func, args, kwargs), self.tape))
        constant = args[0] if func in _operators.LIFTS else None
        args, kwargs = self._to_fakes(func, args, kwargs)
        bound = _operators.bind(func, args, kwargs)
        written = _operators.written_arguments(func, bound)
        if not written:
            out, origins = self.results.run(func, args, kwargs)
            self._record(func, bound, out, origins)
            # Numbers that change from step to step are others here.
            if all(self.tape.find(leaf) is None for leaf in pytree.tree_leaves((args, kwargs))):
                self.values.note(func, args, kwargs, out, constant)
            return out
        self.values.forget(_tensors(bound, written))
        if not any(self._storage_of(t).is_variable for t in _tensors(bound, written)):
            out = self._record_functional(func, bound, written, args, kwargs)
        else:
            out = self._record_update(func, bound, written, args, kwargs)
        # What was written is what was given: the same object, real if it was real.
        return pytree.tree_map_only(FakeTensor, self.outside.real_if_known, out)

    def _to_fakes(self, func, args, kwargs):
        kind, guess = "param", "captured"
        if func in _operators.LIFTS:
            kind, guess = "const", "constant"
        return pytree.tree_map_only(
            torch.Tensor, lambda t: self.outside.fake_of(t, guess, kind), (args, kwargs)
        )

    def _storage_of(self, fake: FakeTensor) -> Storage:
        self.name_of(fake)
        return self._storages[fake.untyped_storage()._cdata]

    def _record(self, func, bound, out, origins: dict[int, Origin]) -> None:
        """An operation that writes nothing."""
        tensors = [t for t in pytree.tree_leaves(out) if isinstance(t, torch.Tensor)]
        for tensor in tensors:
            if tensor.layout != torch.strided:
                raise Error(
                    f"{_operators.name_of(func)} makes a tensor of layout {tensor.layout}, which "
                    f"cannot be captured ({user_line()}); use dense tensors, also for gradients"
                )
            if tensor.device != self.device:
                raise Error(
                    f"{_operators.name_of(func)} makes a tensor on {tensor.device} in a step on "
                    f"{self.device} ({user_line()}); make it there, with device="
                )
        if len(tensors) == 1 and self._is_same_value(func, bound, tensors[0]):
            return
        line = self._arguments.line(func, bound)
        for i, tensor in enumerate(tensors):
            self._add_result(line, tensor, i, origins)
        if not tensors:
            line.results.append(Result(self.names.operation(_base(func))[0], ""))
            line.effect = line.keeps = True
        self._append(line)

    def _is_same_value(self, func, bound, out) -> bool:
        """Whether the result is a tensor that the graph has already: nothing to write then."""
        storage = self._storages.get(out.untyped_storage()._cdata)
        meta = Meta.of(out)
        if storage is not None:
            return meta in storage.views
        if func is not aten.clone.default:
            return False
        # A copy, of the same layout, of bytes that nobody will overwrite, is the bytes themselves.
        source = bound["self"]
        storage = self._storage_of(source)
        if storage.is_variable or meta != Meta.of(source) or not storage.covers(meta):
            return False
        self._storages[out.untyped_storage()._cdata] = Storage(
            out.untyped_storage(), storage.root, False, {meta: storage.views[meta]}
        )
        self._shared.add(storage.root)
        return True

    def _add_result(self, line: Line, tensor: FakeTensor, index: int, origins: dict[int, Origin]) -> None:
        name = self._result_name(line, index)
        self.origins[name] = origins[id(tensor)]
        meta = Meta.of(tensor)
        key = tensor.untyped_storage()._cdata
        storage = self._storages.get(key)
        if storage is None:
            if meta.offset != 0:
                raise Error(f"{line.op} makes a tensor that begins inside its memory ({user_line()})")
            self._storages[key] = Storage(tensor.untyped_storage(), name, False, {meta: name})
            line.results.append(Result(name, meta.text))
            return
        if storage.root in [result.name for result in line.results]:
            if meta in storage.views:
                return  # the same tensor twice
            raise Error(f"{line.op} makes two tensors in the same memory ({user_line()})")
        storage.views[meta] = name
        line.results.append(Result(name, meta.text, shares(storage.root, meta.offset)))

    def _result_name(self, line: Line, index: int) -> str:
        if not line.results:
            name, line.at = self.names.operation(line.op.split("::")[1].split(".")[0])
            return name
        return self.names.unique(f"{line.results[0].name}.r{index}")

    def _record_functional(self, func, bound, written, args, kwargs):
        """An operation that writes into intermediates only: its functional form, new results."""
        form = _operators.functional_form(func)
        if form is not None and len(written) == 1:
            targets = list(_tensors(bound, written))
            if func is aten.copy_.default and self._is_plain_copy(targets[0], bound["src"]):
                out, _ = self.results.run(func, args, kwargs)
                source = self._storage_of(bound["src"])
                self._become(targets[0], source.root, self.name_of(bound["src"]))
                self._shared.add(source.root)
                return out
            if func is aten.copy_.default:
                value = self._copied_value(targets[0], bound["src"])
                out, _ = self.results.run(func, args, kwargs)
                self._write(targets[0], value)
                return out
            made, origins = self.results.run(form, *_operators.unbind(form, bound))
            values = [t for t in pytree.tree_leaves(made) if isinstance(t, FakeTensor)]
            # Random numbers are drawn in the order of the bytes, so that these must lie alike.
            count = 4 if _operators.is_random(func) else 2
            if [Meta.of(v)[:count] for v in values] == [Meta.of(t)[:count] for t in targets]:
                line = self._arguments.line(form, bound)
                for i, value in enumerate(values):
                    self._add_result(line, value, i, origins)
                self._append(line)
                out, _ = self.results.run(func, args, kwargs)
                for target, value in zip(targets, values, strict=True):
                    self._write(target, value)
                return out
        return self._record_update(func, bound, written, args, kwargs)

    def _copied_value(self, target: FakeTensor, source: FakeTensor) -> FakeTensor:
        """What `target.copy_(source)` writes: the source in the target's type and shape."""
        if source.dtype != target.dtype:
            options = {"dtype": target.dtype}
            source = self.__torch_dispatch__(aten._to_copy.default, (), (source,), options)
        if source.size() != target.size():
            size = list(target.size())
            source = self.__torch_dispatch__(aten.expand.default, (), (source, size))
        if self._storage_of(source).is_variable:  # which may be updated later
            source = self.__torch_dispatch__(aten.clone.default, (), (source,))
        return source

    def _is_plain_copy(self, target: FakeTensor, source: FakeTensor) -> bool:
        from_storage, meta = self._storage_of(source), Meta.of(source)
        return (
            not from_storage.is_variable
            and Meta.of(target) == meta
            and from_storage.covers(meta)
            and self._storage_of(target).covers(meta)
        )

    def _become(self, target: FakeTensor, root: str, name: str) -> None:
        """The target's bytes are from now on those of another tensor of the graph."""
        storage = self._storages[target.untyped_storage()._cdata]
        storage.root = root
        storage.views = {Meta.of(target): name}

    def _write(self, target: FakeTensor, value: FakeTensor) -> None:
        """Notes that `target` now has the value of the graph's tensor `value`."""
        storage, meta = self._storage_of(target), Meta.of(target)
        if storage.covers(meta) and Meta.of(value) == meta and self._storage_of(value).covers(meta):
            self._shared.add(self._storage_of(value).root)
            self._become(target, self._storages[value.untyped_storage()._cdata].root, self.name_of(value))
            return
        # A part of a storage was written, or the value lies otherwise: put it into a copy of the rest.
        whole_meta, whole = next(iter(storage.views.items()))
        if whole_meta.dtype != meta.dtype:
            raise Error(
                f"the step writes into a tensor of {whole_meta.dtype} through a view of {meta.dtype}, "
                f"at {user_line()}; that cannot be captured"
            )
        if not storage.covers(whole_meta):
            count = storage.bytes.nbytes() // meta.dtype.itemsize
            whole_meta = Meta(meta.dtype, (count,), (1,), 0)
            if whole_meta not in storage.views:
                storage.views[whole_meta] = self._emit_view(storage, whole_meta)
            whole = storage.views[whole_meta]
        name, at = self.names.operation("as_strided_scatter")
        operands = [whole, self.name_of(value)]
        self._append(
            Line(
                "aten::as_strided_scatter",
                [f"%{name_text(n)}" for n in operands],
                strided_attributes(meta),
                [Result(name, whole_meta.text)],
                operands,
                at=at,
            )
        )
        storage.root = name
        storage.views = {whole_meta: name}

    def _record_update(self, func, bound, written, args, kwargs):
        """An operation that stays in place: what it writes gets a next version."""
        targets = []
        for target in _tensors(bound, written):
            if not self._storage_of(target).is_variable:
                self._own(target)
            if all(Meta.of(target) != Meta.of(t) or not _same_bytes(target, t) for t in targets):
                targets.append(target)
        line = self._arguments.line(func, bound, written)
        line.keeps = True
        out, origins = self.results.run(func, args, kwargs)
        given = {id(t) for t in pytree.tree_leaves(bound) if isinstance(t, torch.Tensor)}
        made = [
            t for t in pytree.tree_leaves(out) if isinstance(t, torch.Tensor) and id(t) not in given
        ]
        for i, tensor in enumerate(made):
            self._add_result(line, tensor, i, origins)
        for target in targets:
            storage, meta = self._storage_of(target), Meta.of(target)
            self.updated.add(storage.root)
            name = self.names.version(storage.root, storage.views[meta])
            if not line.results:
                line.at = self.names.place()
            line.results.append(Result(name, meta.text, shares(storage.root, meta.offset)))
            storage.views = {meta: name}
        self._append(line)
        return out

    def _own(self, target: FakeTensor) -> None:
        """Gives an intermediate bytes of its own, which may then be written."""
        storage = self._storage_of(target)
        if storage.root not in self._read and storage.root not in self._shared:
            return  # nobody has seen the old value
        whole_meta, whole = next(iter(storage.views.items()))
        if not storage.covers(whole_meta):
            raise Error(f"the step writes into a part of a tensor in a way Ebb cannot follow ({user_line()})")
        name, at = self.names.operation("clone")
        self._append(
            Line(
                "aten::clone",
                [f"%{name_text(whole)}"],
                [],
                [Result(name, whole_meta.text)],
                [whole],
                at=at,
            )
        )
        storage.root = name
        storage.views = {whole_meta: name}

    def has_read(self, tensor: torch.Tensor) -> bool:
        """Whether some operation has read a tensor from before the step."""
        if not self.outside.has_met(tensor):
            return False
        storage = self._storage_of(self.outside.fake_of(tensor, ""))
        return storage.root in self._read or not self._read.isdisjoint(storage.views.values())

    def is_same(self, variable: torch.Tensor, value: FakeTensor) -> bool:
        """Whether a value is the variable itself: the same view of the same memory."""
        fake = self.outside.fake_of(variable, "captured")
        return _same_bytes(fake, value) and Meta.of(fake) == Meta.of(value)

    def overwrite(self, variable: torch.Tensor, value: torch.Tensor) -> None:
        """Writes a value into a variable: what the step did by giving a name to another tensor."""
        with torch.no_grad():
            aten.copy_.default(variable, value)

    # Lines.

    def _append(self, line: Line) -> None:
        self.lines.append(line)
        self._read.update(line.reads)

    def _emit_scalar(self, op: str, hint: str, arguments: list[str]) -> str:
        name, at = self.names.operation(hint)
        arguments = ["$" + name_text(a[1:]) if a.startswith("$") else a for a in arguments]
        reads = [a[1:] for a in arguments if a.startswith("$")]
        self._append(
            Line(f"scalar::{op}", arguments, [], [Result(name, "")], reads, scalar="f64", at=at)
        )
        return name

    def read_number(self, tensor: torch.Tensor) -> float:
        """What `tensor.item()` gives while a step is captured."""
        if tensor.numel() != 1:
            count = tensor.numel()
            raise Error(f"the step calls .item() of a tensor of {count} elements, at {user_line()}; it takes one")
        if not tensor.dtype.is_floating_point:
            return self.decide("reads an integer out of a tensor", aten._local_scalar_dense.default, tensor)
        source = self.name_of(tensor)
        name, at = self.names.operation("item")
        self._append(
            Line(
                "aten::_local_scalar_dense",
                [f"%{name_text(source)}"],
                [],
                [Result(name, "")],
                [source],
                scalar="f64",
                at=at,
            )
        )
        self._reads += 1
        return self.tape.read_scalar(name, f"item{self._reads}")

    def decide(self, what: str, reader: Callable[..., Any], *args: Any) -> Any:
        """What is read of tensors, where that follows from the batch alone."""
        decision = self.values.read(what, reader, *args)
        if decision is None:
            raise data_dependent(what)
        return decision.outcome

    def start_log(self) -> None:
        """Begins to note operators and constants, for comparison with a trial run."""
        self.log = []
        self._reads = 0


def data_dependent(what: str, error: BaseException | None = None) -> Error:
    return Error(
        f"the step {what} and computes on with it in Python, at {user_line(error)}. A captured step does "
        "the same operations every time, whatever the model computes; it may decide by its batch alone. Keep it in "
        "tensors (torch.where instead of if, masks instead of selections), or do it outside of the step"
    )


def _tensors(bound: dict[str, Any], names: Iterable[str]) -> Iterable[FakeTensor]:
    for name, value in bound.items():
        if name in names:
            yield from (t for t in pytree.tree_leaves(value) if isinstance(t, torch.Tensor))


def _same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.untyped_storage()._cdata == b.untyped_storage()._cdata


def _base(func) -> str:
    return func._schema.name.split("::")[1]
