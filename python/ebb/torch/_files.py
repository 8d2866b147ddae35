"""Files that are there as a whole or not at all; a captured step as such: what `ebb run` needs to go on without Python."""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from ebb import Error

if TYPE_CHECKING:
    from ._captured import Captured

GENERATOR = "ebb.generator"
"""The tensor that holds the state of the random number generator."""


def save(captured: Captured, path: str | os.PathLike[str]) -> None:
    try:
        from safetensors import SafetensorError
        from safetensors.torch import save_file
    except ModuleNotFoundError as missing:
        raise Error("saving a step needs the package safetensors: pip install safetensors") from missing

    path = pathlib.Path(path)
    if path.suffix != ".ebb":
        raise Error(f"the graph's file must end in .ebb, and is {path.name}")
    tensors = {
        declaration.name: _bytes_of(declaration.tensor)
        for declaration in captured.declarations
        if not declaration.shares  # its bytes are another's
    }
    names = {id(d.tensor): d.name for d in captured.declarations}
    for new in captured.new_state:
        # State that the optimizer did not have; it may have been trained eagerly since.
        now = new.optimizer.state.get(new.parameter, {}).get(new.key)
        if now is None:
            now = torch.empty_like(new.tensor)
            new.fill(now)
        tensors[names[id(new.tensor)]] = _bytes_of(now)
    device = captured.device
    tensors[GENERATOR] = (
        torch.get_rng_state() if device.type == "cpu" else torch.cuda.get_rng_state(device)
    )
    metadata = {"format": "ebb-step-1"}
    if device.type != "cpu":
        metadata["device"] = device.type
        metadata["tf32.matmul"] = str(torch.backends.cuda.matmul.allow_tf32).lower()
        metadata["tf32.cudnn"] = str(torch.backends.cudnn.allow_tf32).lower()
    if torch.are_deterministic_algorithms_enabled():
        only_warns = torch.is_deterministic_algorithms_warn_only_enabled()
        metadata["deterministic"] = "warn" if only_warns else "true"
    for name, value in captured.scalar_values().items():
        metadata[f"scalar.{name}"] = value.hex()
    with replaced(path.with_suffix(".safetensors"), path) as file:
        try:
            save_file(tensors, file, metadata)
        except SafetensorError as error:  # it names its own temporary file, and has the system's number in its text
            number = re.search(r"\(os error (\d+)\)", str(error))
            if number is None:
                raise
            raise OSError(int(number[1]), os.strerror(int(number[1]))) from error
    with replaced(path) as file:
        file.write_text(captured.text, encoding="utf-8")


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor as the file has it: its bytes as they lie.

    The format knows row-major tensors only. What lies otherwise is written as one row, from its
    first element to its last; the graph's text has its sizes and strides.
    """
    tensor = tensor.detach()
    if tensor.is_contiguous():
        return tensor.clone()
    last = sum((n - 1) * s for n, s in zip(tensor.size(), tensor.stride(), strict=True))
    return tensor.as_strided((last + 1,), (1,), tensor.storage_offset()).clone()


@contextlib.contextmanager
def replaced(path: str | os.PathLike[str], given: str | os.PathLike[str] | None = None) -> Iterator[pathlib.Path]:
    """A temporary file beside this one, to be written; it takes its place when all went well, so that nobody sees half
    a file. What is no file, as /dev/stdout, is written itself. What goes wrong with it is said of the path that was given."""
    path = pathlib.Path(path)
    is_file = path.is_file() or not path.exists()
    target = pathlib.Path(os.path.realpath(path)) if is_file else path
    temporary = target.with_name(f".{target.name}.{os.getpid()}") if is_file else path
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if is_file:
            temporary.touch()
        mode = temporary.stat().st_mode  # of any new file, as the umask says
        yield temporary
        if is_file:
            temporary.chmod(mode)  # safetensors puts a file of its own there
            os.replace(temporary, target)
    except OSError as error:
        if error.errno is None:
            raise
        raise type(error)(error.errno, error.strerror, str(given or path)) from error
    finally:
        if is_file:
            temporary.unlink(missing_ok=True)
