"""Names of the graph's tensors: the path of the module they come from, then the operator.

    layer1/0/conv1/convolution                     forward
    gradients/layer1/0/conv1/convolution_backward  backward of that
    optimizer/add_                                 the update
    layer1.0.conv1.weight, layer1.0.conv1.weight.1 a parameter, and what it is after one update
"""

from __future__ import annotations

import threading

import torch

from ._places import user_place


def prefix_of(number: int, module: torch.nn.Module) -> str:
    """Before the names of a module's parameters; the first module's are as its state dict has them."""
    return f"{type(module).__name__}{number}." if number else ""


class Names:
    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}
        self._modules: dict[int, str] = {}  # paths by id
        self._stack: list[str] = []
        self._forward: dict[int, tuple[str, str]] = {}  # by autograd sequence number
        self.phase = ""
        self._thread = threading.get_ident()  # hooks are called for all threads' modules
        self._hooks: list = []

    def know_modules(self, model: torch.nn.Module, prefix: str = "") -> None:
        for name, module in model.named_modules(prefix=prefix):
            self._modules.setdefault(id(module), name.replace(".", "/"))

    def unique(self, name: str) -> str:
        if name not in self._taken:
            self._taken.add(name)
            return name
        number = self._next.get(name, 2)
        while f"{name}_{number}" in self._taken:
            number += 1
        self._next[name] = number + 1
        unique = f"{name}_{number}"
        self._taken.add(unique)
        return unique

    def version(self, root: str, of: str) -> str:
        """The next version of a variable, or of a view of it."""
        base, _, tail = of.rpartition(".")
        number = 1
        if base and tail.isdigit() and base in self._taken:
            of, number = base, int(tail) + 1
        while f"{of}.{number}" in self._taken:
            number += 1
        self._taken.add(f"{of}.{number}")
        return f"{of}.{number}"

    def operation(self, op: str) -> tuple[str, str]:
        """A name for the operation that runs now, and the line of user code it comes from."""
        path, at = self._where()
        parts = [part for part in (self.phase, path, op) if part]
        return self.unique("/".join(parts)), at

    def place(self) -> str:
        return self._where()[1]

    def _where(self) -> tuple[str, str]:
        path = self._stack[-1] if self._stack else ""
        node = torch._C._current_autograd_node()
        if node is not None:
            # Operations of backward belong to the line whose derivative they compute.
            path, at = self._forward.get(node._sequence_nr(), (path, ""))
            return f"gradients/{path}" if path else "gradients", at
        at = user_place()
        if torch.is_grad_enabled():
            self._forward.setdefault(torch.autograd._get_sequence_nr() - 1, (path, at))
        return path, at

    # Which module runs.

    def __enter__(self) -> Names:
        enter = torch.nn.modules.module.register_module_forward_pre_hook(self._enter_module)
        leave = torch.nn.modules.module.register_module_forward_hook(
            self._leave_module, always_call=True
        )
        self._hooks = [enter, leave]
        return self

    def __exit__(self, *_) -> None:
        for hook in self._hooks:
            hook.remove()

    def _enter_module(self, module, _args) -> None:
        if threading.get_ident() != self._thread:
            return
        above = self._stack[-1] if self._stack else ""
        self._stack.append(self._modules.get(id(module), above))

    def _leave_module(self, _module, _args, _output) -> None:
        if self._stack and threading.get_ident() == self._thread:
            self._stack.pop()
