"""The user's parameters, buffers and optimizer state, while they live in an arena.

They stay the objects they are; only their memory is the arena's. Some things the user may do put
other tensors in their place: `optimizer.load_state_dict`, an assignment to `parameter.data`. Before
every step this is looked for, and the new ones move in.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator

import torch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.utils._python_dispatch import _disable_current_modes

from ebb import Error

from ._captured import Captured, Shared
from ._fill import fill
from ._load import _runtime
from ._scaler import TENSORS
from ._uninterrupted import uninterrupted


@dataclasses.dataclass
class _Entry:
    name: str
    place: torch.Tensor  # in the arena
    tensor: torch.Tensor  # the user's
    owner: dict | None  # where the user keeps it: a module's or an optimizer's dictionary
    key: str = ""


class State:
    def __init__(self, captured: Captured, place_of: Callable[[str, dict | None], torch.Tensor]) -> None:
        """`place_of` a name gives a tensor in the arena; by the same dictionary those of the same bytes share them."""
        self._optimizers = captured.optimizers
        self._parameters = captured.gradients
        self._scalers = captured.scalers
        self._constants = [d for d in captured.declarations if d.kind == "const"]
        new = {id(state.tensor): state for state in captured.new_state}
        owners = _owners(captured)
        blocks: dict = {}
        self._entries = [
            _Entry(name, place_of(name, blocks), tensor, *owners.get(id(tensor), (None, "")))
            for name, tensor in captured.state.items()
        ]
        # First the arena, then the user's objects: what fails, fails before these are touched.
        for entry in self._entries:
            if id(entry.tensor) in new:
                new[id(entry.tensor)].fill(entry.place)
            else:
                self._fill(entry, entry.tensor)
        self._open = True
        self._place_of = place_of
        self._captured = captured.state
        self._declared = {d.name: d for d in captured.declarations if d.kind == "param"}
        for entry in self._entries:
            entry.tensor.data = entry.place
        for state in captured.new_state:
            state.optimizer.state[state.parameter][state.key] = state.tensor
        captured.started = True
        captured.new_state.clear()  # what is put aside by others must not be kept here

    @staticmethod
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
                f"{entry.name} was {was} when the step was captured and is {now} on "
                f"{tensor.device}. Compile the step again"
            )

    def _fill(self, entry: _Entry, tensor: torch.Tensor) -> None:
        self._check(entry, tensor)
        with torch.no_grad():
            fill(entry.place, tensor)

    def adopt(self) -> None:
        """Lets tensors move in that have taken others' places.

        Who was there before may be somebody else's now (weights and their average changed places), even another
        newcomer: it keeps its bytes, elsewhere.
        """
        newcomers = self._newcomers()
        if not newcomers:
            return
        for entry, tensor in newcomers:
            self._check(entry, tensor)
        self._check_sharing()
        instead = {id(entry.tensor): tensor for entry, tensor in newcomers}
        self._parameters = [instead.get(id(each), each) for each in self._parameters]
        residents: dict[int, list[_Entry]] = {}  # by the storage of their places
        for entry in self._entries:
            residents.setdefault(_storage_of(entry.place), []).append(entry)
        with uninterrupted():
            for entry, tensor in newcomers:
                self._move_in(entry, tensor, residents)

    def _newcomers(self) -> list[tuple[_Entry, torch.Tensor]]:
        found = []
        for entry in self._entries:
            tensor = entry.tensor if entry.owner is None else self._current(entry)
            if tensor is not entry.tensor or tensor.data_ptr() != entry.place.data_ptr():
                found.append((entry, tensor))
        return found

    def _check_sharing(self) -> None:
        """Raises where the user's tensors share memory that did not when they were captured, or the other way round:
        they would be updated apart, or together."""
        seen: dict[int, _Entry] = {}  # by where they begin: parts of one block are as good as tensors of their own
        moved: dict[int, tuple[_Entry, int]] = {}  # by the storage of their places, how far
        for entry in self._entries:
            tensor = entry.tensor if entry.owner is None else self._current(entry)
            if not tensor.numel():
                continue
            other = seen.setdefault(tensor.data_ptr(), entry)
            if other.place.data_ptr() != entry.place.data_ptr():
                raise Error(
                    f"{entry.name} and {other.name} share memory now, and did not when the step was captured. "
                    "Compile the step again"
                )
            how_far = tensor.data_ptr() - entry.place.data_ptr()
            first, others = moved.setdefault(_storage_of(entry.place), (entry, how_far))
            if how_far != others:
                raise Error(
                    f"{entry.name} and {first.name} shared memory when the step was captured, and do not as they did. "
                    "Compile the step again"
                )

    def _move_in(self, entry: _Entry, tensor: torch.Tensor, residents: dict[int, list[_Entry]]) -> None:
        entry.tensor = self._captured[entry.name] = self._declared[entry.name].tensor = tensor
        left = entry.place.untyped_storage()
        sharing = residents[left._cdata]
        staying = [each for each in sharing if each is not entry and each.tensor.data_ptr() == each.place.data_ptr()]
        ours = 1 + len(sharing) + len(staying)  # the name here, places, tensors
        if torch._C._storage_Use_Count(left._cdata) > ours:
            own = left.clone()
            _runtime.swap_memory(left._cdata, own._cdata)
            blocks: dict = {}
            for each in sharing:
                each.place = self._place_of(each.name, blocks)
            for each in staying:
                each.tensor.data = each.place
            residents[_storage_of(entry.place)] = sharing
        self._fill(entry, tensor)
        tensor.data = entry.place

    def _current(self, entry: _Entry) -> torch.Tensor:
        owner = entry.owner() if callable(entry.owner) else entry.owner
        tensor = None if owner is None else owner.get(entry.key)
        if tensor is None:
            raise Error(f"{entry.name} is no longer there. Compile the step again")
        if not isinstance(tensor, torch.Tensor):
            raise Error(f"{entry.name} is no tensor any more but {tensor!r}. Compile the step again")
        return tensor

    def shared(self) -> Shared:
        """What another program in the same arena must declare."""
        state = {entry.name: entry.tensor for entry in self._entries}
        return Shared(state, self._constants, self._scalers)

    def check_places(self, place_of: Callable[[str], torch.Tensor]) -> None:
        """Raises where another program has the state elsewhere, or of another type."""
        for entry in self._entries:
            place, ours = place_of(entry.name), entry.place
            if (
                place.data_ptr() != ours.data_ptr()
                or place.dtype != ours.dtype
                or place.size() != ours.size()
                or place.stride() != ours.stride()
            ):
                raise Error(f"{entry.name} does not lie where it lies in the compiled step")

    def drop_gradients(self) -> None:
        for parameter in self._parameters:
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
            moved = {}
            for entry in self._entries:
                if entry.tensor.data_ptr() != entry.place.data_ptr() or not entry.place.numel():
                    continue
                # Tensors that share memory go on sharing it.
                storage = entry.place.untyped_storage()
                if storage.data_ptr() not in moved:
                    moved[storage.data_ptr()] = storage.clone()
                entry.tensor.data = entry.place.new_empty(0).set_(
                    moved[storage.data_ptr()],
                    entry.place.storage_offset(),
                    entry.place.size(),
                    entry.place.stride(),
                )
            self._open = False
            self._entries = []
            self._place_of = None  # it has the arena


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


def _owners(captured: Captured) -> dict[int, tuple]:
    """Where the user keeps each tensor: (dictionary or a function that gives it, key)."""
    owners: dict[int, tuple] = {}
    for module in captured.modules:
        for part in module.modules():
            for table in (part._parameters, part._buffers, part.__dict__):
                for key, tensor in table.items():
                    if issubclass(type(tensor), torch.Tensor):  # isinstance fails for a proxy of what is gone
                        owners.setdefault(id(tensor), (table, key))
    for scaler in captured.scalers:
        for key in TENSORS:
            owners.setdefault(id(getattr(scaler, key)), (scaler.__dict__, key))
    kept = [
        (optimizer, parameter, key, tensor)
        for optimizer in captured.optimizers
        for parameter, entries in optimizer.state.items()
        for key, tensor in entries.items()
    ]
    kept += [(new.optimizer, new.parameter, new.key, new.tensor) for new in captured.new_state]
    for optimizer, parameter, key, tensor in kept:
        if isinstance(tensor, torch.Tensor):
            # The dictionary itself is replaced when a checkpoint is loaded.
            def owner(optimizer=optimizer, parameter=parameter):
                return optimizer.state.get(parameter)

            owners.setdefault(id(tensor), (owner, key))
    return owners
