"""Whether there is such a device, asked without starting TensorFlow."""

from __future__ import annotations

import re

import tensorflow as tf

from ..error import Error

_NAME = re.compile(r"^(?:/?device:|/)?(?P<type>[A-Za-z_]+)(?::(?P<number>\d+|\*))?$")


def _count(kind: str) -> int:
    """How many logical devices of the type there are, as configured by now."""
    total = 0
    for device in tf.config.list_physical_devices(kind):
        configured = tf.config.get_logical_device_configuration(device)
        total += len(configured) if configured else 1
    return total


def check_host(host: str, *, may_be_configured_later: bool = False) -> None:
    """Raises ebb.Error where there is no such device: TensorFlow would end the process.

    Where the environment turns Ebb on, the program has had no time to configure logical devices; then
    only the type is looked at.
    """
    if re.search(r"/(?:job|replica|task):", host):
        return  # of a cluster; its other machines are not known here
    name = _NAME.match(host)
    if name is None:
        raise Error(f"host = '{host}' is no device; write '/device:CPU:0'")
    kind, number = name["type"].upper(), name["number"]
    count = _count(kind)
    is_too_high = number not in (None, "*") and int(number) >= count
    if count == 0 or (is_too_high and not may_be_configured_later):
        raise Error(
            f"host = '{host}': there is no such device, but {count} of type {kind}; configure logical "
            "devices before Ebb is turned on, or use '/device:CPU:0'"
        )
