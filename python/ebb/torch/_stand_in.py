"""What stands in for a GPU where there is none, and must outlive the thread that captures first.

The first fake tensors of a process put something in a GPU's stead that belongs to their thread; fake tensors of other
threads crash when that thread has ended (seen with PyTorch alone). So it belongs to the main thread, or to one that stays.
"""

from __future__ import annotations

import functools
import threading

import torch

_staying: list[threading.Thread] = []


@functools.cache
def stand_in_for_a_gpu() -> None:
    """To be called before the first fake tensor."""
    if torch.cuda.is_available():
        return
    if threading.current_thread() is threading.main_thread():
        torch._C._ensureCUDADeviceGuardSet()
        return
    is_there = threading.Event()

    def stay() -> None:
        try:
            torch._C._ensureCUDADeviceGuardSet()
        finally:
            is_there.set()
        threading.Event().wait()

    thread = threading.Thread(target=stay, name="ebb stands in for a GPU", daemon=True)
    _staying.append(thread)
    thread.start()
    is_there.wait()


def is_only_thread() -> bool:
    """Whether this thread is the only one that runs anything."""
    return threading.active_count() - sum(thread.is_alive() for thread in _staying) <= 1
