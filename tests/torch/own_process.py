"""Runs something in a process of its own, so that nothing is left of it for the next."""

import multiprocessing
from collections.abc import Callable
from typing import Any


def in_own_process(work: Callable[[], Any], limit: float) -> tuple[Any, str]:
    """What it returns; or None, and why there is nothing, after so many seconds or when the process has ended."""
    fork = multiprocessing.get_context("fork")
    receive, send = fork.Pipe(duplex=False)
    process = fork.Process(target=lambda: send.send(work()))
    process.start()
    send.close()
    try:
        return (receive.recv(), "") if receive.poll(limit) else (None, f"not done in {limit} s")
    except EOFError:
        process.join()
        return None, f"the process ended with {process.exitcode}"
    finally:
        process.kill()
        process.join()
