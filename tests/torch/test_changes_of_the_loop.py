"""What hangs on a model and is none of the step's: what it does not read, and what it writes itself."""

import copy
import logging

import pytest
import torch
import torch.nn.functional as F
from small_models import perceptron, sgd, vectors
from test_changed_values import Reading, compiled
from torch import nn

import ebb
import ebb.torch
from ebb.torch._step_function import step_function


class Momentum(torch.optim.SGD):
    """An optimizer of one's own, which counts."""

    def __init__(self, parameters):
        super().__init__(parameters, lr=0.1, momentum=0.9)
        self.count = 0


class Schedule(torch.optim.lr_scheduler.StepLR):
    pass


class Logger(logging.Logger):
    pass


class Trainer:
    def __init__(self):
        self.global_step = 0
        self.history = []


class Accuracy(nn.Module):
    """A metric as a child, which the loop updates."""

    def __init__(self):
        super().__init__()
        self.count, self.values, self.total = 0, [], torch.zeros(())

    def update(self, loss):
        self.count += 1
        self.values.append(loss.item())
        self.total = self.total + loss


def test_what_belongs_to_the_loop_may_hang_on_the_model():
    model, batch = perceptron(), vectors()
    model.optimizer = Momentum(model.parameters())
    model.scheduler = Schedule(model.optimizer, 1)
    model.logger = Logger("of the loop")
    model.trainer = Trainer()
    model.state = {"epoch": 0}
    whole = nn.ModuleDict({"model": model, "metric": Accuracy()})

    def train(x, y):
        model.optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        model.optimizer.step()
        return loss.detach()

    step = ebb.torch.compile_step(train, batch, modules=whole)
    for i in range(3):
        loss = step(*batch)
        model.optimizer.count += 1
        model.scheduler.step()
        model.logger.setLevel(logging.ERROR)
        model.logger.level_of_loop = i
        model.trainer.global_step += 1
        model.trainer.history.append(i)
        whole["metric"].update(loss)
        model.state["epoch"] += 1
    assert whole["metric"].count == 3


class Noting(nn.Module):
    """Forward notes the shape of its batch, and counts evaluations."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 3)
        self.shape, self.evaluations, self.scale = None, 0, 1.0

    def forward(self, x):
        self.shape = x.shape
        if not self.training:
            self.evaluations += 1
        return self.layer(x) * self.scale


def test_what_forward_writes_is_not_watched_though_it_had_that_value_before():
    model, (x, y) = Noting(), vectors()
    model(x)
    step = compiled(model, (x, y))
    for run in (step, step.evaluate):
        run(x, y)
        model(x[:3])
        model.eval()
        model(x[:2])
        model.train()
        run(x, y)
    model.scale = 2.0
    with pytest.raises(ebb.Error, match="Noting had scale = 1.0 and now has 2.0"):
        step(x, y)


def test_what_forward_reads_as_a_whole_is_watched():
    class Whole(Reading):
        def forward(self, x):
            return self.layer(x) * vars(self)["value"]

    model, batch = Whole(2.0), vectors()
    step = compiled(model, batch)
    model.value = 3.0
    with pytest.raises(ebb.Error, match="Whole had value = 2.0 and now has 3.0"):
        step(*batch)


def test_a_class_that_reads_attributes_in_its_own_way_is_watched_as_a_whole():
    class Own(Reading):
        def __getattribute__(self, name):
            return object.__getattribute__(self, name)

    model, batch = Own(2.0), vectors()
    step = compiled(model, batch)
    model.value = 3.0
    with pytest.raises(ebb.Error, match="Own had value = 2.0 and now has 3.0"):
        step(*batch)


def test_modules_are_as_they_were_after_a_capture_that_failed():
    class Failing(Reading):
        def forward(self, x):
            raise KeyError(self.value)

    before = {name: vars(nn.Module).get(name) for name in ("__getattribute__", "__setattr__")}
    with pytest.raises(KeyError):
        compiled(Failing(1), vectors())
    compiled(Reading(1), vectors())
    assert {name: vars(nn.Module).get(name) for name in ("__getattribute__", "__setattr__")} == before


def test_a_base_class_that_reads_attributes_in_its_own_way_goes_on_doing_so():
    class Doubling:
        def __getattribute__(self, name):
            value = super().__getattribute__(name)
            return value * 2 if name == "value" else value

    class Doubled(Reading, Doubling):
        def forward(self, x):
            return self.layer(x) * self.value

    torch.manual_seed(0)
    model, batch = Doubled(3.0), vectors()
    expected = F.cross_entropy(model(batch[0]), batch[1])
    assert torch.equal(compiled(model, batch)(*batch), expected)


class Keeping(nn.Module):
    """Forward counts in a dictionary, and lengthens a list; both hold what is set from outside, too."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 3)
        self.counts = {"calls": 0, "scale": 2.0}
        self.shapes = []

    def forward(self, x):
        self.counts["calls"] += 1
        self.shapes.append(len(x))
        return self.layer(x) * self.counts["scale"]


def test_what_forward_keeps_in_containers_is_no_change_and_what_lies_beside_it_is_watched():
    model, (x, y) = Keeping(), vectors()
    step = compiled(model, (x, y))
    for size in (None, 5, None, 3):
        step(x[:size], y[:size])
        step.evaluate(x[:size], y[:size])
    model.shapes.clear()
    model.counts["calls"] = 0
    step(x, y)
    model.counts["scale"] = 3.0
    with pytest.raises(ebb.Error, match=r"Keeping had counts\['scale'\] = 2.0 and now has 3.0"):
        step(x, y)


def test_a_tensor_in_a_closure_may_be_written_into_and_numbers_there_are_constants():
    torch.manual_seed(0)
    model, batch = perceptron(), vectors()
    twin = copy.deepcopy(model)
    weight, number = torch.ones(()), [1.0]

    def loss(output, targets):
        return F.cross_entropy(output, targets) * weight * number[0]

    step = ebb.torch.compile(model, loss, sgd(model), batch)
    eager = step_function(twin, loss, sgd(twin))
    for value in (1.0, 0.5, 2.0):
        weight.fill_(value)
        assert torch.equal(step(*batch), eager(*batch))
    number[0] = 3.0
    assert not torch.equal(step(*batch), eager(*batch))
