"""Training that was saved and goes on, here or in a new process, has the bits of training that was not interrupted."""

import io

import pytest
import torch
import torch.nn.functional as F
from small_models import convolutional, images

import ebb.torch
from ebb.torch._step_function import step_function

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
