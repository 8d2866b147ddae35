"""How much host memory there is for what is swapped out."""

from __future__ import annotations

import os
import pathlib

_MEMINFO = pathlib.Path("/proc/meminfo")
_CGROUP = pathlib.Path("/sys/fs/cgroup")


def available_host_bytes(meminfo: pathlib.Path = _MEMINFO, cgroup: pathlib.Path = _CGROUP) -> int:
    """What can be had without pushing anybody out, in the system and in the container."""
    sizes = [_of_system(meminfo)]
    try:
        limit = (cgroup / "memory.max").read_text().strip()
        if limit != "max":
            sizes.append(int(limit) - int((cgroup / "memory.current").read_text()))
    except (OSError, ValueError):
        pass  # no container that says so
    return max(min(sizes), 0)


def _of_system(meminfo: pathlib.Path) -> int:
    try:
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
