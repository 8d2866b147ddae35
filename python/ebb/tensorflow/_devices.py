"""Whether there is such a device: TensorFlow ends the process where a graph names one that is not there.

Devices are configured until TensorFlow starts them, so this is asked twice: when Ebb is turned on,
without starting them, and when they are there.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.python.client import session as sessions
from tensorflow.python.eager import context

from ..error import Error

_PART = re.compile(r"/?(?P<key>job|replica|task|device):(?P<value>[^/]+)")
_SHORT = re.compile(r"^/?(?P<type>[A-Za-z_]+)(?::(?P<number>0|[1-9]\d*|\*))?$")


class _Device(NamedTuple):
    """A device's name in its parts; None: not said."""

    job: str | None
    replica: str | None
    task: str | None
    type: str
    number: int | None

    def may_be(self, other: _Device) -> bool:
        return all(mine in (None, theirs) for mine, theirs in zip(self, other, strict=True))


def _parse(name: str) -> _Device:
    if not isinstance(name, str):
        raise Error(f"host = {name!r} is no device; write '/device:CPU:0'")
    parts = {part["key"]: part["value"] for part in _PART.finditer(name)}
    short = _SHORT.match(parts.get("device", _PART.sub("", name)))
    if short is None:
        raise Error(f"host = '{name}' is no device; write '/device:CPU:0'")
    number = short["number"]
    return _Device(
        parts.get("job"),
        parts.get("replica"),
        parts.get("task"),
        short["type"].upper(),
        None if number in (None, "*") else int(number),
    )


def _started(name: str) -> _Device:
    """One that TensorFlow lists, which says no more of this machine than it needs to."""
    device = _parse(name)
    return device._replace(
        job=device.job or "localhost", replica=device.replica or "0", task=device.task or "0"
    )


# Every machine has it.
_SURE = _Device(None, None, None, "CPU", 0)


def _is_sure(host: str) -> bool:
    return _parse(host) in (_SURE, _SURE._replace(number=None))


def _count(kind: str) -> int:
    """How many logical devices of the type there are, as configured by now."""
    total = 0
    for device in tf.config.list_physical_devices(kind):
        configured = tf.config.get_logical_device_configuration(device)
        total += len(configured) if configured else 1
    return total


def _missing(host: str, kind: str, count: int) -> Error:
    return Error(
        f"host = '{host}': there is no such device, but {count} of type {kind}; configure logical "
        "devices before Ebb is turned on, or use '/device:CPU:0'"
    )


def check_host(host: str, *, may_be_configured_later: bool = False) -> None:
    """Raises ebb.Error where there is no such device, as far as that can be said before devices start.

    Where the environment turns Ebb on, the program has had no time to configure logical devices; then
    only the type is looked at. Of a cluster nothing is known yet.
    """
    device = _parse(host)
    if _is_sure(host) or device.job or device.replica or device.task:
        return
    count = _count(device.type)
    is_too_high = device.number is not None and device.number >= count
    if count == 0 or (is_too_high and not may_be_configured_later):
        raise _missing(host, device.type, count)


def check_no_late_fusing(accelerator: str, budget: int | str) -> None:
    """Raises ebb.Error where TensorFlow may fuse operations that a plan makes wait for each other.

    oneDNN's pass comes after all optimizers. With it a planned step ended in "nodes in a cycle", and without it the
    same step trained; that its fusing closes the cycle is what we take from that. GPUs have no such pass.
    """
    if budget in ("", None) or "CPU" not in accelerator.upper() or not _fuses_late():
        return
    raise Error(
        f"accelerator = '{accelerator}': oneDNN fuses operations of CPUs later on, and may tie a step into a circle that "
        "a budget makes wait; start with TF_ENABLE_ONEDNN_OPTS=0 in the environment, or give no budget"
    )


def _fuses_late() -> bool:
    try:
        from tensorflow.python.util import _pywrap_util_port
    except ImportError:
        return False
    return bool(_pywrap_util_port.IsMklEnabled())


_host = ""  # of the latest watch_host
_turn_off: Callable[[Error], None] | None = None


def _check_started(names: Callable[[], Iterable[str]]) -> None:
    if _turn_off is None:
        return
    try:
        wanted, there = _parse(_host), [_started(name) for name in names()]
    except Exception as problem:  # the program must not end because of Ebb
        _turn_off(Error(f"TensorFlow's devices cannot be listed: {problem}"))
        return
    if not any(wanted.may_be(device) for device in there):
        count = sum(device.type == wanted.type for device in there)
        _turn_off(_missing(_host, wanted.type, count))


@functools.cache
def _hook() -> None:
    start, make_session = context.Context.ensure_initialized, sessions.BaseSession.__init__

    @functools.wraps(start)
    def started(self: Any) -> None:
        was_there = self._initialized
        start(self)
        if not was_there:
            _check_started(lambda: [device.name for device in self.list_logical_devices()])

    @functools.wraps(make_session)
    def made_session(self: Any, *args: Any, **named: Any) -> None:
        make_session(self, *args, **named)
        _check_started(lambda: [device.name for device in self.list_devices()])

    context.Context.ensure_initialized = started
    sessions.BaseSession.__init__ = made_session


def watch_host(host: str, turn_off: Callable[[Error], None]) -> None:
    """Calls ``turn_off`` when TensorFlow starts devices and the host is not among them."""
    global _host, _turn_off
    _host, _turn_off = host, None if _is_sure(host) else turn_off
    if _turn_off is None:
        return
    _hook()
    current = context.context()
    if current._initialized:
        _check_started(lambda: [device.name for device in current.list_logical_devices()])
