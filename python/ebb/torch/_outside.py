"""Tensors that were there before a step: its batch, parameters, buffers, optimizer state, constants.

They are real, and stay untouched while the step is captured. A fake stands for each of them there, and what it is and
where it lies is declared in the graph once.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from ebb import Error

from ._lines import Declaration, Meta, Storage, shares
from ._names import Names
from ._places import user_line


class Outside:
    def __init__(self, fake: FakeTensorMode, names: Names, device: torch.device) -> None:
        self.fake = fake
        self.names = names
        self.device = device
        self.declarations: dict[str, Declaration] = {}
        self.storages: dict[int, Storage] = {}  # of fakes; those that the step makes come in addition
        self.on_meeting: Callable[[torch.Tensor], None] = lambda tensor: None  # a real one, first time
        self._fakes: dict[int, tuple[torch.Tensor, FakeTensor]] = {}  # by id of the real tensor
        self._reals: dict[int, torch.Tensor] = {}  # by id of the fake
        self._known_names: dict[int, str] = {}  # of real tensors

    def know(self, tensor: torch.Tensor, name: str) -> None:
        """Says what a real tensor is called. The first name counts: tied parameters have several."""
        self._known_names.setdefault(id(tensor), name)

    def add_input(self, name: str, tensor: torch.Tensor) -> FakeTensor:
        # Of its own, though the example may share memory with another: batches are copied in.
        with self.fake:
            fake = torch.empty_strided(
                tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device
            )
        self._declare("input", self.names.unique(name), tensor, fake)
        return fake

    def add_state(self, tensor: torch.Tensor) -> None:
        self.fake_of(tensor, "state")

    def fake_of(self, tensor: torch.Tensor, guess: str, kind: str = "param") -> FakeTensor:
        """Declares it when it is first met, under its own name or this one."""
        if isinstance(tensor, FakeTensor):
            return self._of_this_capture(tensor)
        known = self._fakes.get(id(tensor))
        if known is not None:
            return known[1]
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
            raise Error(
                f"a tensor of class {type(tensor).__name__} cannot be captured "
                f"(at {user_line()}); plain tensors and parameters can"
            )
        if tensor.layout != torch.strided:
            raise Error(f"a tensor of layout {tensor.layout} cannot be captured ({user_line()})")
        name = self.names.unique(self._known_names.get(id(tensor), guess))
        if any(s == 0 and n > 1 for n, s in zip(tensor.size(), tensor.stride(), strict=True)):
            raise Error(f"{name} is an expanded tensor; give it memory of its own with .clone()")
        self.on_meeting(tensor)
        with torch.no_grad():
            fake = self.fake.from_tensor(tensor, static_shapes=True)
        self._fakes[id(tensor)] = (tensor, fake)
        self._reals[id(fake)] = tensor
        self._declare(kind, name, tensor, fake)
        return fake

    def has_met(self, tensor: torch.Tensor) -> bool:
        """Whether a fake stands for it."""
        return id(tensor) in self._fakes

    def shares_memory(self, tensor: torch.Tensor) -> str | None:
        """The name of another one that has the same memory."""
        storage = self.storages.get(self.fake_of(tensor, "captured").untyped_storage()._cdata)
        for declaration in self.declarations.values():
            is_same = storage is not None and storage.root in (declaration.name, declaration.root)
            if is_same and not declaration.is_whole and declaration.tensor is not tensor:
                return declaration.name
        return None

    def trial_fake_of(self, tensor: torch.Tensor) -> FakeTensor:
        """The fake of a tensor, which does not become part of the graph by this."""
        if isinstance(tensor, FakeTensor):
            return self._of_this_capture(tensor)
        if id(tensor) in self._fakes:
            return self._fakes[id(tensor)][1]
        with torch.no_grad():
            return self.fake.from_tensor(tensor, static_shapes=True)

    def _of_this_capture(self, tensor: FakeTensor) -> FakeTensor:
        """Where Python kept one from another (in a global, a closure), PyTorch would not say what is wrong."""
        if tensor.fake_mode is not self.fake:
            raise Error(
                f"the step uses a tensor that an earlier capture left behind, at {user_line()}; clear what keeps it. "
                "Where that is a cache, call the model once before the step is compiled, so that it is filled then; "
                "otherwise keep the tensor in a buffer, or return it"
            )
        return tensor

    def real_if_known(self, fake: FakeTensor) -> torch.Tensor:
        return self._reals.get(id(fake), fake)

    def _declare(self, kind: str, name: str, tensor: torch.Tensor, fake: FakeTensor) -> None:
        if tensor.device != self.device:
            remedy = f"make it there ({user_line()})"
            if tensor.dim() == 0:
                remedy += "; an optimizer keeps its count of steps there with fused=True or capturable=True"
            raise Error(f"the step is on {self.device}, and {name} on {tensor.device}: {remedy}")
        meta = Meta.of(fake)
        key = fake.untyped_storage()._cdata
        storage = self.storages.get(key)
        if storage is not None:  # two parameters in the same bytes
            root = self.declarations[storage.root]
            where = shares(storage.root, meta.offset)
            if root.meta.extent < meta.offset + meta.extent:
                raise Error(
                    f"{name} and {storage.root} share memory, and neither covers it; "
                    "give each its own with .clone()"
                )
            self.declarations[name] = Declaration(kind, name, meta, tensor, where, storage.root)
            storage.views.setdefault(meta, name)
            return
        if meta.offset != 0 or meta.extent != fake.untyped_storage().nbytes():
            # A slice of something larger that the step does not know.
            self._declare_whole(kind, name, tensor, fake)
            return
        self.declarations[name] = Declaration(kind, name, meta, tensor)
        self.storages[key] = Storage(
            fake.untyped_storage(), name, kind == "param", {Meta.of(fake): name}
        )

    def _declare_whole(self, kind: str, name: str, tensor: torch.Tensor, fake: FakeTensor) -> None:
        """Declares a whole storage, and the tensor as a view of it."""
        count = fake.untyped_storage().nbytes() // fake.element_size()
        whole = tensor.detach().as_strided((count,), (1,), 0)
        root = self.names.unique(name + ".storage")
        whole_meta = Meta(fake.dtype, (count,), (1,), 0)
        self.declarations[root] = Declaration(kind, root, whole_meta, whole, is_whole=True)
        self.storages[fake.untyped_storage()._cdata] = Storage(
            fake.untyped_storage(), root, kind == "param", {whole_meta: root}
        )
        self._declare(kind, name, tensor, fake)
