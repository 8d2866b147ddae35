"""Numbers as people read them."""

from __future__ import annotations


def human(count: float) -> str:
    """Bytes, as ``"14.0 GiB"``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            break
        count /= 1024
    else:
        unit = "TiB"
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
