"""What is changed in a model or an optimizer after the step was captured: refused where eager PyTorch would obey."""

import copy

import pytest
import torch
import torch.nn.functional as F
from small_models import perceptron, sgd, vectors
from torch import nn

import ebb
import ebb.torch
from ebb.torch._step_function import step_function


def compiled(model, batch, optimizer=None):
    return ebb.torch.compile(model, F.cross_entropy, optimizer or sgd(model), batch)


@pytest.mark.parametrize(
    "change",
    [
        lambda model, _: model.eval(),
        lambda model, _: model[0].weight.requires_grad_(False),
        lambda _, optimizer: optimizer.add_param_group({"params": [nn.Parameter(torch.ones(1))]}),
        lambda _, optimizer: optimizer.param_groups.pop(),
    ],
    ids=["eval", "requires_grad", "add_param_group", "param_groups.pop"],
)
def test_a_model_that_would_compute_something_else_is_noticed(change):
    model, batch = perceptron(), vectors()
    optimizer = sgd(model)
    step = compiled(model, batch, optimizer=optimizer)
    step(*batch)
    change(model, optimizer)
    with pytest.raises(ebb.Error, match="was captured.*ompile the step again"):
        step(*batch)


def test_the_module_that_is_in_another_mode_is_named():
    model, batch = dropping(), vectors()
    step = compiled(model, batch)
    model[2].eval()
    with pytest.raises(ebb.Error, match=r"Dropout '2' was training when the step was captured.* call model.train\(\)"):
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
