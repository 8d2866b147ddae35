"""The plug-in's shared library: TensorFlow loads it once, and we talk to it by JSON texts."""

from __future__ import annotations

import ctypes
import functools
import json
import operator
import pathlib
import threading
from typing import Any

from ..error import Error

try:
    import tensorflow  # noqa: F401: what loads the library
except ModuleNotFoundError as missing:
    if missing.name not in ("tensorflow", "tensorflow.python"):  # a folder of that name is no package
        raise
    raise ModuleNotFoundError(
        "ebb.tensorflow needs TensorFlow: pip install 'ebb-lms[tensorflow]'", name=missing.name
    ) from missing

from tensorflow.python.client import pywrap_tf_session

PATH = pathlib.Path(__file__).absolute().with_name("libebb_grappler.so")
_loading = threading.Lock()


def _json(name: str, value: Any) -> str:
    """The value of a parameter. Numbers of NumPy's are numbers; JSON has none that is no number or infinite."""
    try:
        text = json.dumps(value, default=operator.index, ensure_ascii=False, allow_nan=False)
        text.encode()
    except (TypeError, ValueError):
        raise Error(f"{name} is {value!r}, which is no value that a parameter can have") from None
    if isinstance(value, int) and value.bit_length() > 64:
        raise Error(f"{name} is a number of {value.bit_length()} bits, and 64 is the most")
    return text


class Library:
    """The functions that the library exports."""

    def __init__(self, path: pathlib.Path) -> None:
        self._functions = ctypes.CDLL(str(path))
        for name in ("configure", "report", "profile"):
            getattr(self._functions, f"ebb_grappler_{name}").restype = ctypes.c_void_p
        self._functions.ebb_grappler_configure.argtypes = [ctypes.c_char_p]
        self._functions.ebb_grappler_profile.argtypes = [ctypes.c_char_p]
        self._functions.ebb_grappler_last_number.restype = ctypes.c_uint64
        self._functions.ebb_grappler_free.argtypes = [ctypes.c_void_p]
        self._functions.ebb_grappler_free.restype = None
        self._functions.ebb_grappler_disable.restype = None
        self._functions.ebb_grappler_forget_reports.restype = None

    def _taken(self, text: int | None) -> str:
        if text is None:
            raise MemoryError("Ebb's plug-in is out of memory")
        copy = ctypes.string_at(text).decode("utf-8", "replace")
        self._functions.ebb_grappler_free(text)
        return copy

    def is_loaded(self) -> bool:
        """Whether TensorFlow has it: it must not be given it twice."""
        return bool(self._functions.ebb_grappler_is_loaded())

    def configure(self, parameters: dict[str, Any]) -> None:
        """Turns the plug-in on; raises ebb.Error where a parameter is wrong."""
        members = [f"{json.dumps(name)}:{_json(name, value)}" for name, value in parameters.items()]
        text = "{" + ",".join(members) + "}"
        if problem := self._taken(self._functions.ebb_grappler_configure(text.encode())):
            raise Error(problem)

    def disable(self) -> None:
        self._functions.ebb_grappler_disable()

    def report(self) -> dict[str, Any]:
        return json.loads(self._taken(self._functions.ebb_grappler_report()))

    def last_number(self) -> int:
        """Of the last graph that came into the report: whether there are new ones, without reading it."""
        return self._functions.ebb_grappler_last_number()

    def profile(self, operations: list[dict[str, Any]]) -> str:
        """The text of a profile; raises ebb.Error where none of the operations was planned."""
        measured = json.dumps({"operations": operations}).encode()
        text = self._taken(self._functions.ebb_grappler_profile(measured))
        if not text.startswith("{"):
            raise Error(text)
        return text

    def forget_reports(self) -> None:
        self._functions.ebb_grappler_forget_reports()


@functools.cache
def _opened() -> Library:
    if not PATH.exists():
        is_build_tree = (PATH.parents[3] / "CMakeCache.txt").exists()
        raise Error(
            "this ebb-lms was built without TensorFlow: build it again where that is installed, by '"
            + ("cmake --preset release && cmake --build --preset release" if is_build_tree else "pip install .")
            + "' in Ebb's source tree"
        )
    try:
        return Library(PATH)
    except OSError as problem:
        raise Error(f"Ebb's plug-in for TensorFlow cannot be opened: {problem}") from problem


def loaded() -> Library:
    """The library, which TensorFlow has loaded then."""
    library = _opened()
    with _loading:
        if not library.is_loaded():
            # Not load_pluggable_device_library, which calls this and then forgets what the user has
            # configured of devices so far (visible ones, memory growth).
            for _type in ("CPU", "GPU"):  # it is asked for one type of device at a time
                pywrap_tf_session.TF_LoadPluggableDeviceLibrary(str(PATH))
    return library
