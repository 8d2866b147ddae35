"""What is changed in a model or an optimizer after the step was captured: refused where eager PyTorch would obey."""

import copy
import enum
import functools
import logging
import types

import pytest
import torch
import torch.nn.functional as F
from small_models import perceptron, vectors
from torch import nn

import ebb
import ebb.torch
from ebb.torch._step_function import step_function


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


def compiled(model, batch, optimizer=None):
    return ebb.torch.compile(model, F.cross_entropy, optimizer or sgd(model), batch)


@pytest.mark.parametrize(
    "change",
    [
        lambda model, _: model.eval(),
        lambda model, _: model[0].weight.requires_grad_(False),
        lambda _, optimizer: optimizer.add_param_group({"params": [nn.Parameter(torch.ones(1))]}),
    ],
    ids=["eval", "requires_grad", "add_param_group"],
)
def test_a_model_that_would_compute_something_else_is_noticed(change):
    model, batch = perceptron(), vectors()
    optimizer = sgd(model)
    step = compiled(model, batch, optimizer=optimizer)
    step(*batch)
    change(model, optimizer)
    with pytest.raises(ebb.Error, match="was captured"):
        step(*batch)


CHANGES = {
    "an attribute": lambda model: setattr(model[2], "p", 0.9),
    "a layer": lambda model: setattr(model, "3", nn.Linear(16, 3)),
    "one more layer": lambda model: model.append(nn.ReLU()),
    "a hook": lambda model: model[0].register_forward_hook(lambda *_: None),
    "forward": lambda model: setattr(model[1], "forward", torch.relu),
}


def dropping():
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3))


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_changed_in_the_model_later_is_refused(change):
    model, batch = dropping(), vectors()
    step = compiled(model, batch)
    step.evaluate(*batch)
    CHANGES[change](model)
    with pytest.raises(ebb.Error, match="since the step was captured, .*another computation. Compile the step again"):
        step(*batch)
    with pytest.raises(ebb.Error, match="since the step was captured"):
        step.evaluate(*batch)


class Counting(nn.Module):
    """Forward counts, and evaluates with a counter of its own."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 3)
        self.steps = self.evaluations = 0

    def forward(self, x):
        if self.training:
            self.steps += 1
        else:
            self.evaluations += 1
        return self.layer(x)


def test_what_forward_counts_is_no_change():
    model, batch = Counting(), vectors()
    step = compiled(model, batch)
    for size in (None, 5, None, 3):  # other batches are captured
        part = tuple(tensor[:size] for tensor in batch)
        step(*part)
        step.evaluate(*part)


# Hooks.


HOOKS = {
    "gradient hook": lambda model, _: model[0].weight.register_hook(lambda grad: grad * 0.5),
    "accumulated gradient hook": lambda model, _: model[0].weight.register_post_accumulate_grad_hook(halve_gradient),
    "before the optimizer's step": lambda _, optimizer: optimizer.register_step_pre_hook(halve_gradients),
    "after the optimizer's step": lambda _, optimizer: optimizer.register_step_post_hook(halve_parameters),
}


def halve_gradient(parameter):
    parameter.grad.mul_(0.5)


def halve_gradients(optimizer, args, kwargs):
    for parameter in optimizer.param_groups[0]["params"]:
        parameter.grad.mul_(0.5)


def halve_parameters(optimizer, args, kwargs):
    with torch.no_grad():
        for parameter in optimizer.param_groups[0]["params"]:
            parameter.mul_(0.5)


@pytest.mark.parametrize("hook", HOOKS)
def test_what_hooks_do_is_captured_and_hooks_that_come_or_go_later_are_refused(hook):
    torch.manual_seed(0)
    model, batch = perceptron(), vectors()
    twin = copy.deepcopy(model)
    optimizer, twin_optimizer = sgd(model), sgd(twin)
    handle = HOOKS[hook](model, optimizer)
    HOOKS[hook](twin, twin_optimizer)
    step = compiled(model, batch, optimizer)
    eager = step_function(twin, F.cross_entropy, twin_optimizer)
    for _ in range(3):
        assert torch.equal(step(*batch), eager(*batch))
    step.evaluate(*batch)
    handle.remove()
    with pytest.raises(ebb.Error, match="since the step was captured, .* has other hooks.* Compile the step again"):
        step(*batch)

    model = perceptron()
    optimizer = sgd(model)
    step = compiled(model, batch, optimizer)
    step(*batch)
    HOOKS[hook](model, optimizer)
    with pytest.raises(ebb.Error, match="(the parameter 0.weight|SGD) has other hooks"):
        step(*batch)
    step.evaluate(*batch)  # without gradients


# Python values that modules have.


class Mode(enum.Enum):
    PLAIN = 1
    DOUBLE = 2


class Settings:
    kind = "plain"

    def __init__(self):
        self.scale = 2.0
        self.inner = types.SimpleNamespace(shift=1.0)
        self.itself = self


class Configured(nn.Module):
    power = 1

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 3)
        self.weights = [1.0, 2.0]
        self.table = {"k": 2.0, "tensor": torch.ones(3), "nested": [{"a": 1}]}
        self.settings = Settings()
        self.space = types.SimpleNamespace(scale=1.5)
        self.mode = Mode.PLAIN
        self.activation = torch.tanh
        self.kept = [torch.tensor(1.5), torch.tensor(0.0)]  # the second is not read
        self.log = logging.getLogger("configured")
        self.partial = functools.partial(torch.add, 1)
        self._private = [1.0]
        self._trainer = Settings()

    def forward(self, x):
        x = self.layer(x) * self.weights[0] * self.table["k"] * self.settings.scale * self.kept[0]
        return self.activation(x + self.settings.inner.shift) * self._private[0] * self.space.scale**self.power


VALUES = {
    "had weights[0] = 1.0 and now has 3.0": lambda model: model.weights.__setitem__(0, 3.0),
    "had weights = [1.0, 2.0] and now has [1.0, 2.0, 3.0]": lambda model: model.weights.append(3.0),
    "had weights = [1.0, 2.0] and now has none": lambda model: delattr(model, "weights"),
    "had table['k'] = 2.0 and now has 3.0": lambda model: model.table.update(k=3.0),
    "had table['new'] = none and now has 3.0": lambda model: model.table.update(new=3.0),
    "had table['nested'][0]['a'] = 1 and now has 2": lambda model: model.table["nested"][0].update(a=2),
    "had settings.scale = 2.0 and now has 3.0": lambda model: setattr(model.settings, "scale", 3.0),
    "had settings.kind = plain and now has other": lambda model: setattr(model.settings, "kind", "other"),
    "had settings.inner.shift = 1.0 and now has 3.0": lambda model: setattr(model.settings.inner, "shift", 3.0),
    "had space.scale = 1.5 and now has 3.0": lambda model: setattr(model, "space", types.SimpleNamespace(scale=3.0)),
    "had mode = Mode.PLAIN and now has Mode.DOUBLE": lambda model: setattr(model, "mode", Mode.DOUBLE),
    "had activation = <built-in": lambda model: setattr(model, "activation", torch.relu),
    "had power = none and now has 2": lambda model: setattr(model, "power", 2),
    "has another kept[0]": lambda model: model.kept.__setitem__(0, torch.tensor(9.0)),
    "had _private[0] = 1.0 and now has 3.0": lambda model: model._private.__setitem__(0, 3.0),
}


@pytest.mark.parametrize("words", VALUES)
def test_a_number_that_forward_may_read_is_refused_by_name_when_it_is_another(words):
    model, batch = Configured(), vectors()
    step = compiled(model, batch)
    step(*batch)
    VALUES[words](model)
    with pytest.raises(ebb.Error) as caught:
        step(*batch)
    assert f"since the step was captured, Configured {words}" in str(caught.value)


NO_CHANGES = {
    "equal values": lambda model: setattr(model, "weights", [1.0, 2.0]),
    "an equal object": lambda model: setattr(model, "space", types.SimpleNamespace(scale=1.5)),
    "a tensor that is not read": lambda model: model.kept.__setitem__(1, torch.tensor(9.0)),
    "a logger": lambda model: model.log.setLevel(logging.ERROR),
    "an object behind a private name": lambda model: setattr(model._trainer, "scale", 3.0),
    "a name that was not there": lambda model: setattr(model, "epoch", 3),
}


@pytest.mark.parametrize("change", NO_CHANGES)
def test_what_is_no_change_of_the_computation_is_none(change):
    model, batch = Configured(), vectors()
    step = compiled(model, batch)
    step(*batch)
    NO_CHANGES[change](model)
    assert torch.isfinite(step(*batch))


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


def test_large_containers_are_not_looked_into():
    model, batch = perceptron(), vectors()
    model.vocabulary = {str(i): i for i in range(5000)}
    step = compiled(model, batch)
    model.vocabulary["0"] = 1
    assert torch.isfinite(step(*batch))


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
