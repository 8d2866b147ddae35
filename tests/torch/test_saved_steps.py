"""The files of a captured step, `step.ebb` and `step.safetensors`."""

import errno
import os
import resource
import signal

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from same_bits import bits
from small_models import perceptron, vectors

import ebb.torch
from ebb.torch._step_function import step_function


@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077])
def test_saved_files_have_the_permissions_of_new_files(tmp_path, umask):
    model = perceptron()
    captured = ebb.torch.capture(
        model, F.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1), vectors()
    )
    before = os.umask(umask)
    try:
        captured.save(tmp_path / "step.ebb")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"step.ebb": 0o666 & ~umask, "step.safetensors": 0o666 & ~umask}


def test_a_folder_that_is_not_there_is_named_by_the_path_that_was_given(tmp_path):
    model = perceptron()
    captured = ebb.torch.capture(
        model, F.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1), vectors()
    )
    with pytest.raises(FileNotFoundError) as caught:
        captured.save(tmp_path / "nowhere" / "step.ebb")
    assert caught.value.filename == str(tmp_path / "nowhere" / "step.ebb")


def test_a_disk_without_room_is_named_and_the_old_files_stay(tmp_path):
    model = perceptron()
    captured = ebb.torch.capture(
        model, F.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1), vectors()
    )
    captured.save(tmp_path / "step.ebb")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    limit, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limit[1]))  # of one file
    try:
        with pytest.raises(OSError) as caught:
            captured.save(tmp_path / "step.ebb")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(tmp_path / "step.ebb"))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_saving_a_step_that_has_trained_changes_nothing(tmp_path):
    model, batch = perceptron(), vectors()
    optimizer = torch.optim.Adam(model.parameters())
    step = ebb.torch.compile(model, F.cross_entropy, optimizer, batch)
    for _ in range(3):
        step(*batch)
    before = [bits(v) for entries in optimizer.state.values() for v in entries.values()]
    step.captured.save(tmp_path / "step.ebb")
    after = [bits(v) for entries in optimizer.state.values() for v in entries.values()]
    assert after == before


def test_a_checkpoint_saved_after_eager_training_is_of_one_moment(tmp_path):
    model, batch = perceptron(), vectors()
    optimizer = torch.optim.Adam(model.parameters())
    captured = ebb.torch.capture(model, F.cross_entropy, optimizer, batch)
    step_function(model, F.cross_entropy, optimizer)(*batch)
    captured.save(tmp_path / "step.ebb")
    saved = load_file(tmp_path / "step.safetensors")
    assert saved["0.weight.step"].item() == 1
    assert torch.equal(saved["0.weight.exp_avg"], optimizer.state[model[0].weight]["exp_avg"])
