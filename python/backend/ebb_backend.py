"""scikit-build-core, plus the one requirement that depends on where the wheel is built: torch.

The extension ``ebb.torch._runtime`` must be compiled against the torch it will run with, and pip's
isolated builds do not see the environment that they are for. If that has a torch 2.11, of whatever
CUDA or none, it is the right one, and cmake/EbbTorch.cmake finds it through sysconfig: nothing is
downloaded. Otherwise torch 2.11.0 becomes a requirement of the build: 4.7 GB and minutes more. (A
fixed requirement would cost that in every isolated build, and build against another torch than the
one that is there.)
``-C cmake.define.EBB_BUILD_TORCH=OFF`` builds a package without ``ebb.torch._runtime``.
"""

from __future__ import annotations

import pathlib
import re
import sysconfig

import scikit_build_core.build as backend
from scikit_build_core.build import *  # noqa: F403 (the hooks that are not changed here)
from scikit_build_core.settings.skbuild_read_settings import SettingsReader

Settings = dict[str, "str | list[str]"] | None


def has_torch(folder: str) -> bool:
    """Whether a site-packages folder holds a torch that the extension can be built against."""
    version = pathlib.Path(folder, "torch", "version.py")
    return version.exists() and bool(
        re.search(r"^__version__ *= *'2\.11\.", version.read_text(encoding="utf-8"), re.MULTILINE)
    )


def torch_requirement(config_settings: Settings) -> list[str]:
    """The torch that the build cannot do without and would not find."""
    define = SettingsReader.from_file("pyproject.toml", config_settings or {}).settings.cmake.define
    if define["EBB_BUILD_TORCH"].upper() in ("OFF", "FALSE", "NO", "0"):
        return []
    if define.get("EBB_TORCH_DIR") or has_torch(sysconfig.get_path("platlib")):
        return []
    return ["torch==2.11.0"]


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    return backend.get_requires_for_build_wheel(config_settings) + torch_requirement(
        config_settings
    )


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    return backend.get_requires_for_build_editable(config_settings) + torch_requirement(
        config_settings
    )
