"""Whether there is such a device: TensorFlow ends the process where a graph names one that is not there.

Devices are configured until TensorFlow starts them, so this is asked twice: when Ebb is turned on,
without starting them, and when they are there.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf
from tensorflow.python.client import session as sessions
from tensorflow.python.eager import context

from ..error import Error

_NAME = re.compile(r"^(?:/?device:|/)?(?P<type>[A-Za-z_]+)(?::(?P<number>\d+|\*))?$")


def _parts(host: str) -> tuple[str, int | None]:
    """Type and number, if it has one."""
    name = _NAME.match(host)
    if name is None:
        raise Error(f"host = '{host}' is no device; write '/device:CPU:0'")
    number = name["number"]
    return name["type"].upper(), None if number in (None, "*") else int(number)


def _is_of_cluster(host: str) -> bool:
    """Its other machines are not known here."""
    return re.search(r"/(?:job|replica|task):", host) is not None


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
    """Raises ebb.Error where there is no such device.

    Where the environment turns Ebb on, the program has had no time to configure logical devices; then
    only the type is looked at.
    """
    if _is_of_cluster(host):
        return
    kind, number = _parts(host)
    count = _count(kind)
    is_too_high = number is not None and number >= count
    if count == 0 or (is_too_high and not may_be_configured_later):
        raise _missing(host, kind, count)


_host = ""  # of the latest watch_host
_turn_off: Callable[[Error], None] | None = None


def _check_started(types: Iterable[str]) -> None:
    if _turn_off is None:
        return
    kind, number = _parts(_host)
    count = sum(each == kind for each in types)
    if number is not None and number >= count:
        _turn_off(_missing(_host, kind, count))


@functools.cache
def _hook() -> None:
    start, make_session = context.Context.ensure_initialized, sessions.BaseSession.__init__

    @functools.wraps(start)
    def started(self: Any) -> None:
        was_there = self._initialized
        start(self)
        if not was_there:
            _check_started(device.device_type for device in self.list_logical_devices())

    @functools.wraps(make_session)
    def made_session(self: Any, *args: Any, **named: Any) -> None:
        make_session(self, *args, **named)
        _check_started(device.device_type for device in self.list_devices())

    context.Context.ensure_initialized = started
    sessions.BaseSession.__init__ = made_session


def watch_host(host: str, turn_off: Callable[[Error], None]) -> None:
    """Calls ``turn_off`` when TensorFlow starts devices and the host is not among them."""
    global _host, _turn_off
    # The first of a type is there if the type is.
    is_sure = _is_of_cluster(host) or _parts(host)[1] in (None, 0)
    _host, _turn_off = host, None if is_sure else turn_off
    if not is_sure:
        _hook()
