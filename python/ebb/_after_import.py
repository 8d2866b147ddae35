"""Does something when a module is imported, which may be never, and imports nothing by itself."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Callable, Sequence

Action = Callable[[types.ModuleType], None]


class _Loader(importlib.abc.Loader):
    """The module's own loader, and then the action."""

    def __init__(self, loader: importlib.abc.Loader, action: Action) -> None:
        self.loader = loader
        self.action = action

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        module.__spec__.loader = module.__loader__ = self.loader  # as if we had not been here
        self.loader.exec_module(module)
        self.action(module)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, name: str, action: Action) -> None:
        self.name = name
        self.action = action

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            sys.meta_path.insert(0, self)  # it may be installed later
            return None
        spec.loader = _Loader(spec.loader, self.action)
        return spec


def after_import(name: str, action: Action) -> Callable[[], None]:
    """Calls ``action(module)`` when the module ``name`` has been imported: now, or once it is.

    What it returns takes that back, where it has not happened yet.
    """
    module = sys.modules.get(name)
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        action(module)
        return lambda: None
    finder = _Finder(name, action)
    sys.meta_path.insert(0, finder)

    def take_back() -> None:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)

    return take_back
