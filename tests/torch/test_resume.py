"""Training that was saved and goes on, here or in a new process, has the bits of training that was not interrupted."""

import copy
import io
import os
import pathlib
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from same_bits import bits, differences
from small_models import convolutional, images, perceptron, vectors

import ebb.torch
from ebb.torch._step_function import Task, step_function

OPTIMIZERS = {
    "sgd": lambda model: torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
    "adam": lambda model: torch.optim.Adam(model.parameters(), lr=1e-3),
    "fused adamw with a scaler": lambda model: torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True),
}


class Training:
    """A model with batch norm and dropout, and all that belongs to its training."""

    def __init__(self, name, seed):
        torch.manual_seed(seed)
        self.model = convolutional()
        self.optimizer = OPTIMIZERS[name](self.model)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 2, gamma=0.7)
        self.scaler = torch.amp.GradScaler("cpu", growth_interval=2, enabled="scaler" in name)

    def eager(self):
        return step_function(self.model, F.cross_entropy, self.optimizer, scaler=self.scaler)

    def compiled(self, batch):
        return ebb.torch.compile(self.model, F.cross_entropy, self.optimizer, batch, scaler=self.scaler)

    def parts(self):
        return {
            "model": self.model,
            "optimizer": self.optimizer,
            "scheduler": self.scheduler,
            "scaler": self.scaler,
        }

    def save(self):
        file = io.BytesIO()
        torch.save(
            {
                "generator": torch.get_rng_state(),
                **{name: part.state_dict() for name, part in self.parts().items()},
            },
            file,
        )
        return file

    def load(self, file):
        file.seek(0)
        saved = torch.load(file)
        for name, part in self.parts().items():
            part.load_state_dict(saved[name])
        torch.set_rng_state(saved["generator"])

    def train(self, step, batches):
        losses = []
        for batch in batches:
            losses.append(step(*batch).item())
            self.scheduler.step()
        return losses


def same(ours, theirs):
    """Whether two checkpoints are the same but for where their bytes lie."""
    loaded = []
    for file in (ours, theirs):
        file.seek(0)
        loaded.append(torch.load(file))
    return same_values(*loaded)


def same_values(a, b):
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(same_values(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same_values, a, b))
    return a == b


@pytest.fixture
def batches():
    whole, last = images(6, 8), images(4, 8)
    return [whole, whole, last, whole, last, whole, whole, last]


@pytest.mark.parametrize("load", ["before compiling", "into a compiled step", "into a step that has trained"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_that_was_saved_goes_on_as_if_nothing_had_been(name, load, batches):
    uninterrupted = Training(name, seed=0)
    torch.manual_seed(1)
    losses = uninterrupted.train(uninterrupted.eager(), batches)
    end = uninterrupted.save()

    first = Training(name, seed=0)
    step = first.compiled(batches[0])
    torch.manual_seed(1)
    ours = first.train(step, batches[:4])
    checkpoint = first.save()
    del first, step

    second = Training(name, seed=7)
    if load == "before compiling":
        second.load(checkpoint)
        step = second.compiled(batches[0])
        checkpoint.seek(0)
        torch.set_rng_state(torch.load(checkpoint)["generator"])
    else:
        step = second.compiled(batches[0])
        if load == "into a step that has trained":
            second.train(step, batches[:3])
        second.load(checkpoint)
    ours += second.train(step, batches[4:])
    assert ours == losses
    assert same(second.save(), end)


def test_a_step_goes_back_to_its_own_checkpoint(batches):
    training = Training("adam", seed=0)
    step = training.compiled(batches[0])
    training.train(step, batches[:3])
    checkpoint = training.save()
    expected = training.train(step, batches[3:6])
    training.load(checkpoint)
    assert training.train(step, batches[3:6]) == expected


# Checkpoints.


def adamw(model):
    return torch.optim.AdamW(model.parameters(), lr=0.01)


def compiled(model, optimizer, batch):
    return ebb.torch.compile(model, F.cross_entropy, optimizer, batch)


def test_state_dicts_are_small_and_load_anywhere():
    model = perceptron()
    optimizer = adamw(model)
    batch = vectors()
    step = compiled(model, optimizer, batch)
    step(*batch)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    assert len(file.getvalue()) < 20000, "each tensor is saved by itself, not the whole arena"
    file.seek(0)
    saved = torch.load(file)
    fresh = perceptron()
    fresh.load_state_dict(saved["model"])
    assert [bits(p) for p in fresh.parameters()] == [bits(p) for p in model.parameters()]


CONTINUE = """
import sys
import torch, torch.nn.functional as F
import ebb.torch
sys.path.insert(0, sys.argv[1])
from small_models import convolutional

torch.use_deterministic_algorithms(True)
saved = torch.load(sys.argv[2])
model = convolutional()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
compile_first = sys.argv[3] == "compile first"
if compile_first:
    step = ebb.torch.compile(model, F.cross_entropy, optimizer, saved["batch"])
model.load_state_dict(saved["model"])
optimizer.load_state_dict(saved["optimizer"])
scheduler.load_state_dict(saved["scheduler"])
if not compile_first:
    step = ebb.torch.compile(model, F.cross_entropy, optimizer, saved["batch"])
torch.set_rng_state(saved["generator"])
losses = []
for _ in range(3):
    losses.append(step(*saved["batch"]).item())
    scheduler.step()
torch.save({"losses": losses, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, sys.argv[2])
"""


@pytest.mark.parametrize("order", ["compile first", "load first"])
def test_saved_and_continued_elsewhere_equals_uninterrupted_training(tmp_path, order):
    def make():
        torch.manual_seed(0)
        model = convolutional()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        return model, optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)

    batch = (torch.randn(4, 3, 8, 8), torch.randint(0, 10, (4,)))
    model, optimizer, scheduler = make()
    eager = step_function(model, F.cross_entropy, optimizer)
    torch.manual_seed(1)
    losses = []
    for _ in range(6):
        losses.append(eager(*batch).item())
        scheduler.step()

    other, other_optimizer, other_scheduler = make()
    step = compiled(other, other_optimizer, batch)
    torch.manual_seed(1)
    ours = []
    for _ in range(3):
        ours.append(step(*batch).item())
        other_scheduler.step()
    file = tmp_path / "checkpoint.pt"
    torch.save(
        {
            "batch": batch,
            "model": other.state_dict(),
            "optimizer": other_optimizer.state_dict(),
            "scheduler": other_scheduler.state_dict(),
            "generator": torch.get_rng_state(),
        },
        file,
    )
    here = pathlib.Path(__file__).parent
    subprocess.run(
        [sys.executable, "-c", CONTINUE, here, file, order], check=True, timeout=300, env=os.environ
    )
    saved = torch.load(file)
    assert ours + saved["losses"] == losses
    other.load_state_dict(saved["model"])
    other_optimizer.load_state_dict(saved["optimizer"])
    assert differences(model, optimizer, other, other_optimizer) == []


def test_a_checkpoint_loaded_into_a_running_step_counts():
    model = perceptron()
    optimizer = adamw(model)
    batch = vectors()
    step = compiled(model, optimizer, batch)
    start = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    first = [step(*batch).item() for _ in range(3)]
    model.load_state_dict(start[0])
    optimizer.load_state_dict(start[1])
    assert [step(*batch).item() for _ in range(3)] == first
