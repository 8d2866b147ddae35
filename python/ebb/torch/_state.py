"""The user's parameters, buffers and optimizer state, while they live in an arena.

They stay the objects they are; only their memory is the arena's. Some things the user may do put
other tensors in their place: `optimizer.load_state_dict`, an assignment to `parameter.data`. Before
every step this is looked for, and the new ones move in.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.utils._python_dispatch import _disable_current_modes

from ebb import Error

from ._captured import Captured, Shared
from ._fill import fill
from ._load import _runtime
from ._names import prefix_of
from ._scaler import TENSORS
from ._uninterrupted import uninterrupted


class _Owner(NamedTuple):
    """Where the user keeps a tensor."""

    table: dict | Callable[[], dict | None]
    key: str
    name: str

    def tensor(self) -> Any:
        table = self.table() if callable(self.table) else self.table
        return None if table is None else table.get(self.key)


class _Entry:
    """A tensor of the user's that lives in the arena."""

    def __init__(self, name: str, place: torch.Tensor, tensor: torch.Tensor, owners: list[_Owner], is_whole: bool) -> None:
        self.name = name
        self.tensor = tensor
        self.owners = owners  # all of which have that tensor
        self.is_whole = is_whole  # a storage of which the step has parts; the user has no such tensor
        self.address = place.data_ptr()
        self.extent = _extent(place)
        self.dtype = place.dtype
        self.place = place  # in the arena

    def lies(self, tensor: torch.Tensor) -> bool:
        return tensor.data_ptr() == self.address and tensor.is_set_to(self.place) and tensor.dtype == self.dtype

    @property
    def was_emptied(self) -> bool:
        """Whether the arena is no longer behind the place: who has a storage may give it other memory, and does so for all
        tensors of that storage."""
        return self.place.data_ptr() != self.address

    def now(self) -> torch.Tensor:
        """What the user has there by now."""
        found = self.tensor
        for i, owner in enumerate(self.owners):
            tensor = owner.tensor()
            if tensor is None:
                raise Error(f"{owner.name or self.name} is no longer there. Compile the step again")
            if not isinstance(tensor, torch.Tensor):
                raise Error(f"{owner.name or self.name} is no tensor any more but {tensor!r:.80}. Compile the step again")
            if i > 0 and tensor is not found:
                raise Error(
                    f"{self.owners[0].name} and {owner.name} were one tensor when the step was captured, and are two now. "
                    "Make them one again, or compile the step again"
                )
            found = tensor
        return found


class State:
    def __init__(self, captured: Captured, place_of: Callable[[str, dict | None], torch.Tensor]) -> None:
        """`place_of` a name gives a tensor in the arena; by the same dictionary those of the same bytes share them."""
        self._optimizers = captured.optimizers
        self._scalers = captured.scalers
        self._constants = [d for d in captured.declarations if d.kind == "const"]
        new = {id(state.tensor): state for state in captured.new_state}
        whole = {d.name for d in captured.declarations if d.is_whole}
        owners = _owners(captured)
        blocks: dict = {}
        self._entries = [
            _Entry(name, place_of(name, blocks), tensor, owners.get(id(tensor), []), name in whole)
            for name, tensor in captured.state.items()
        ]
        # First the arena, then the user's objects: what fails, fails before these are touched.
        for entry in self._entries:
            if id(entry.tensor) in new:
                new[id(entry.tensor)].fill(entry.place)
            else:
                _check(entry, entry.tensor)
                self._fill(entry)
        self._open = True
        self._place_of = place_of
        self._captured = captured
        self._others: list[weakref.ref[Captured]] = []  # that run in the same arena
        for entry in self._entries:
            entry.tensor.data = entry.place
        for state in captured.new_state:
            state.optimizer.state[state.parameter][state.key] = state.tensor
        captured.new_state.clear()  # what is put aside by others must not be kept here

    @staticmethod
    def _fill(entry: _Entry) -> None:
        with torch.no_grad():
            fill(entry.place, entry.tensor)

    def adopt(self) -> None:
        """Lets tensors move in that have taken others' places.

        Who was there before may be somebody else's now (weights and their average changed places), even another
        newcomer: it keeps its bytes, elsewhere.
        """
        now = [entry.now() for entry in self._entries]
        changed = [
            (entry, tensor)
            for entry, tensor in zip(self._entries, now, strict=True)
            if tensor is not entry.tensor or not entry.lies(tensor)
        ]
        if not changed:
            return
        for entry, tensor in changed:
            _check(entry, tensor)
        _check_sharing(self._entries, now)
        blocks: dict = {}
        for entry, _ in changed:
            if entry.was_emptied:
                entry.place = self._place_of(entry.name, blocks)
        newcomers = [entry for entry, tensor in changed if not entry.lies(tensor)]
        with uninterrupted():
            self._put(changed)
            self._vacate(newcomers)
            for entry in newcomers:
                self._fill(entry)
                entry.tensor.data = entry.place

    def _put(self, changed: list[tuple[_Entry, torch.Tensor]]) -> None:
        """From now on these are the user's; nobody here keeps the others."""
        names = {entry.name: tensor for entry, tensor in changed}
        instead = {id(entry.tensor): tensor for entry, tensor in changed}
        for captured in (self._captured, *(other() for other in self._others)):
            if captured is not None:
                captured.put(names, instead)
        for entry, tensor in changed:
            entry.tensor = tensor

    def _vacate(self, newcomers: list[_Entry]) -> None:
        """Nobody but us has tensors of the places afterwards: who has, gets the bytes in memory of his own."""
        sharing: dict[int, list[_Entry]] = {}  # by the storage of their places
        for entry in self._entries:
            sharing.setdefault(_storage_of(entry.place), []).append(entry)
        are_new = {entry.name for entry in newcomers}
        for storage in {_storage_of(entry.place): None for entry in newcomers}:
            entries = sharing[storage]
            staying = [entry for entry in entries if entry.name not in are_new]
            left = entries[0].place.untyped_storage()
            ours = 1 + len(entries) + len(staying)  # the name here, places, tensors
            if torch._C._storage_Use_Count(storage) <= ours:
                continue
            copy = left.clone()
            _runtime.move_out(storage, copy._cdata)
            blocks: dict = {}
            for entry in entries:
                entry.place = self._place_of(entry.name, blocks)  # at the same address
            for entry in staying:
                entry.tensor.data = entry.place

    def shared(self) -> Shared:
        """What another program in the same arena must declare."""
        state = {entry.name: entry.tensor for entry in self._entries}
        return Shared(state, self._constants, self._scalers)

    def join(self, captured: Captured, place_of: Callable[[str], torch.Tensor]) -> None:
        """Another program runs in the same arena. Raises where it has the state elsewhere, or of another type."""
        for entry in self._entries:
            place, ours = place_of(entry.name), entry.place
            if (
                place.data_ptr() != ours.data_ptr()
                or place.dtype != ours.dtype
                or place.size() != ours.size()
                or place.stride() != ours.stride()
            ):
                raise Error(f"{entry.name} does not lie where it lies in the compiled step")
        self._others = [other for other in self._others if other() is not None]
        self._others.append(weakref.ref(captured))

    def drop_gradients(self) -> None:
        for parameter in self._captured.gradients:
            if parameter.grad is not None:
                parameter.grad = None

    def note_update(self) -> None:
        """Tells autograd and the learning rate schedulers that a step was done."""
        torch.autograd.graph.increment_version([entry.tensor for entry in self._entries])
        for optimizer in self._optimizers:
            optimizer._opt_called = True

    def give_back(self) -> None:
        """Everything gets memory of its own again."""
        if not self._open:
            return
        with uninterrupted(), _as_if_outside(), torch.no_grad():
            copies: dict[int, torch.UntypedStorage] = {}  # tensors that share memory go on sharing it
            for entry in self._entries:
                tensor, storage = entry.tensor, entry.place.untyped_storage()
                if _storage_of(tensor) != storage._cdata or entry.was_emptied or not entry.extent:
                    continue
                if storage._cdata not in copies:
                    copies[storage._cdata] = storage.clone()
                # As the user has it by now, who may have made another view of it.
                tensor.data = tensor.new_empty(0).set_(
                    copies[storage._cdata], tensor.storage_offset(), tensor.size(), tensor.stride()
                )
            self._open = False
            self._entries = []
            self._place_of = None  # it has the arena


def _check(entry: _Entry, tensor: torch.Tensor) -> None:
    place = entry.place
    if (
        tensor.dtype != place.dtype
        or tensor.device != place.device
        or tensor.size() != place.size()
        or tensor.stride() != place.stride()
    ):
        was = f"{list(place.size())} of {place.dtype}, strides {list(place.stride())}"
        now = f"{list(tensor.size())} of {tensor.dtype}, strides {list(tensor.stride())}"
        raise Error(
            f"{entry.name} was {was} when the step was captured and is {now} on {tensor.device}. Compile the step again"
        )
    if tensor.device.type == "cpu" and tensor.is_shared() and not entry.is_whole:
        raise Error(
            f"{entry.name} is in memory that processes share (by share_memory_ or a queue of torch.multiprocessing), and a step "
            "has its state in an arena of its own. Give it memory of its own (tensor.data = tensor.clone()), and others a copy"
        )


class _Span(NamedTuple):
    """The bytes of a tensor: as the user has it, and as the step has it."""

    entry: _Entry
    at: int
    place: int


def _check_sharing(entries: list[_Entry], now: list[torch.Tensor]) -> None:
    """Raises where the user's tensors share bytes that did not when they were captured, or the other way round: they
    would be updated apart, or together."""
    spans = [
        _Span(entry, tensor.data_ptr(), entry.address)
        for entry, tensor in zip(entries, now, strict=True)
        if entry.extent and not entry.is_whole
    ]
    _check_overlaps(spans, lambda span: span.at, "share memory now, and did not when the step was captured")
    _check_overlaps(spans, lambda span: span.place, "shared memory when the step was captured, and do not as they did")


def _check_overlaps(spans: list[_Span], begin_of: Callable[[_Span], int], words: str) -> None:
    """Those that share bytes there must lie equally far from where they lie on the other side."""
    last, end = None, -1  # the one that reaches farthest
    for span in sorted(spans, key=begin_of):
        begin = begin_of(span)
        if begin < end and span.at - span.place != last.at - last.place:
            raise Error(f"{span.entry.name} and {last.entry.name} {words}. Compile the step again")
        if begin + span.entry.extent > end:
            last, end = span, begin + span.entry.extent


def _extent(tensor: torch.Tensor) -> int:
    """Bytes from the first element to the last."""
    if not tensor.numel():
        return 0
    last = sum((n - 1) * s for n, s in zip(tensor.size(), tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size()


def _storage_of(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


@contextlib.contextmanager
def _as_if_outside() -> Iterator[None]:
    """The collector of garbage may give a step's memory back anywhere: where tensors are fake, or differentiated."""
    is_in_fake_kernel = torch._C._meta_in_tls_dispatch_include()
    torch._C._set_meta_in_tls_dispatch_include(False)
    try:
        with _disable_current_modes(), temporarily_clear_interpreter_stack(), torch.inference_mode(False):
            yield
    finally:
        torch._C._set_meta_in_tls_dispatch_include(is_in_fake_kernel)


def _owners(captured: Captured) -> dict[int, list[_Owner]]:
    """Where the user keeps each tensor. Names of tied parameters must stay tied; what else a module has them under is
    only looked at where there is no such name."""
    owners: dict[int, list[_Owner]] = {}
    parts: dict[int, tuple[str, torch.nn.Module]] = {}
    for i, module in enumerate(captured.modules):
        for path, part in module.named_modules(prefix=prefix_of(i, module).rstrip(".")):
            parts.setdefault(id(part), (path, part))
    for path, part in parts.values():
        for table in (part._parameters, part._buffers):
            for key, tensor in table.items():
                if tensor is not None:
                    owners.setdefault(id(tensor), []).append(_Owner(table, key, f"{path}.{key}".lstrip(".")))

    def add(tensor: Any, owner: _Owner) -> None:
        if issubclass(type(tensor), torch.Tensor):  # isinstance fails for a proxy of what is gone
            owners.setdefault(id(tensor), [owner])

    for _, part in parts.values():
        for key, tensor in part.__dict__.items():
            add(tensor, _Owner(part.__dict__, key, ""))
    for scaler in captured.scalers:
        for key in TENSORS:
            add(getattr(scaler, key), _Owner(scaler.__dict__, key, ""))
    kept = [
        (optimizer, parameter, key, tensor)
        for optimizer in captured.optimizers
        for parameter, entries in optimizer.state.items()
        for key, tensor in entries.items()
    ]
    kept += [(new.optimizer, new.parameter, new.key, new.tensor) for new in captured.new_state]
    for optimizer, parameter, key, tensor in kept:
        # The dictionary itself is replaced when a checkpoint is loaded.
        add(tensor, _Owner(lambda optimizer=optimizer, parameter=parameter: optimizer.state.get(parameter), key, ""))
    return owners
