"""Steps that would silently go wrong: refused, and everything is as it was."""

import copy
import pickle

import pytest
import torch
import torch.nn.functional as F
from small_models import perceptron, sgd, vectors
from torch import nn

import ebb
import ebb.torch


def compiled(model, batch, optimizer=None):
    return ebb.torch.compile(model, F.cross_entropy, optimizer or sgd(model), batch)


def refused(match, step, *args):
    with pytest.raises(ebb.Error, match=match):
        ebb.torch.capture_step(step, args)


def test_gradients_left_for_somebody_else_are_refused():
    layer = nn.Linear(4, 2)

    def step(x):
        layer.zero_grad()
        layer(x).sum().backward()

    refused("leaves them", step, torch.ones(3, 4))
    assert all(p.grad is None for p in layer.parameters())


def test_state_made_in_forward_is_refused_and_leaves_nothing_behind():
    class Keeps(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(6, 3)
            self.kept = None

        def forward(self, x):
            self.kept = self.layer(x)
            return self.kept

    model = Keeps()
    with pytest.raises(ebb.Error, match="Keeps.kept"):
        compiled(model, vectors())
    assert model.kept is None


def test_a_refused_step_leaves_buffers_as_they_were():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(6, 3)
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x):
            self.count = self.count + 1
            return self.layer(x) if self.layer(x).sum() > 0 else -self.layer(x)

    model = Odd()
    buffer = model.count
    with pytest.raises(ebb.Error, match="decides by the value"):
        compiled(model, vectors())
    assert model.count is buffer


def test_numbers_made_of_tensors_by_float_are_refused():
    model = nn.Sequential(nn.BatchNorm1d(6, momentum=None), nn.Linear(6, 3))  # reads its count
    with pytest.raises(ebb.Error, match="BatchNorm with momentum=None .* give it a number as momentum"):
        compiled(model, vectors())
    refused(r"with float\(\)", lambda x: x * float(x.sum()), torch.ones(3))


def test_a_scheduler_belongs_outside_of_the_step():
    model = perceptron()
    optimizer = sgd(model)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)

    def step(x, y):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        scheduler.step()

    refused("changes the optimizer's lr", step, *vectors())
    assert optimizer.param_groups[0]["lr"] == 0.1


def test_gradients_kept_from_step_to_step_are_refused():
    model = perceptron()
    optimizer = sgd(model)

    def step(x, y):
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    refused("zero_grad", step, *vectors())


def test_numbers_read_from_tensors_are_not_returned():
    refused("return the tensor", lambda x: x.sum().item(), torch.ones(3))


@pytest.mark.parametrize(
    "function",
    [lambda z: z * 1j, lambda z: torch.add(z, 1 + 2j), lambda z: torch.full_like(z, 1j)],
    ids=["operand", "added", "fill"],
)
def test_complex_numbers_as_constants_are_refused_with_their_line(function):
    match = "complex numbers as constants are not captured.*test_refused_steps.py.*compute in real numbers"
    refused(match, function, torch.ones(3, dtype=torch.complex64))


def test_lazy_conjugation_is_refused():
    refused("_conj", lambda z: z.conj() @ z, torch.ones(3, dtype=torch.complex64))


@pytest.mark.parametrize(
    "function",
    [
        lambda w: w.cumprod(0),
        lambda w: w.prod(),
        lambda w: w.prod(0),
        lambda w: torch.ones(4).masked_fill(torch.tensor([True, False, True, False]), w[0]),
    ],
    ids=["cumprod", "prod", "prod of a dimension", "masked_fill"],
)
def test_derivatives_with_other_bits_when_traced_are_refused(function):
    weight = torch.randn(4, requires_grad=True)

    def step(x):
        return torch.autograd.grad((function(weight) * x).sum(), weight)[0]

    refused("has other bits when it is traced", step, torch.ones(4))


def test_writing_through_a_view_of_another_type_is_refused():
    def step(z):
        h = z * 2
        torch.view_as_real(h)[0].mul_(2)
        return h.abs()

    refused("through a view", step, torch.ones(3, dtype=torch.complex64))


def test_what_cannot_be_told_from_a_constant_is_refused():
    count = torch.zeros(())
    refused("cannot be told from a constant", lambda x: x * (count.item() // 4), torch.ones(3))


def test_a_compiled_step_is_not_captured_again():
    model, batch = perceptron(), vectors()
    step = compiled(model, batch)
    refused("captured again", lambda x, y: step(x, y), *batch)


def test_a_capture_within_a_capture_is_refused():
    model, batch = perceptron(), vectors()

    def step(x, y):
        ebb.torch.capture(model, F.cross_entropy, sgd(model), batch)
        return x

    refused("within the capture", step, *batch)


def test_a_failing_second_optimizer_leaves_both_as_they_were():
    model, batch = perceptron(), vectors()

    class Fails(torch.optim.SGD):
        def step(self, closure=None):
            raise RuntimeError("no")

    optimizers = [sgd(model), Fails(model.parameters(), lr=0.2)]
    with pytest.raises(RuntimeError, match="no"):
        ebb.torch.capture(model, F.cross_entropy, optimizers, batch)
    assert [type(o.param_groups[0]["lr"]) for o in optimizers] == [float, float]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"loss_fn": "mse"}, "loss_fn is a function .* and not 'mse'"),
        ({"loss_fn": nn.CrossEntropyLoss}, r"the class CrossEntropyLoss; give an object of it: CrossEntropyLoss\(\)"),
        ({"budget": 1.5}, "a budget is written .* and this is 1.5"),
        ({"accumulate": 0}, "accumulate is .* a whole number from 1 on, and not 0"),
        ({"accumulate": "2"}, "accumulate is .* a whole number from 1 on, and not '2'"),
        ({"accumulate": True}, "accumulate is .* a whole number from 1 on, and not True"),
        ({"autocast": "bf16"}, "autocast is the type to compute in, .* and not 'bf16'"),
        ({"autocast": True}, "autocast is the type to compute in, .* and not True"),
        ({"autocast": torch.float64}, "autocast is the type to compute in, .* and not torch.float64"),
        ({"clip_grad_norm": -1}, "clip_grad_norm is .* and not -1"),
        ({"clip_grad_norm": float("nan")}, "clip_grad_norm is .* and not nan"),
        ({"clip_grad_norm": "1"}, "clip_grad_norm is .* and not '1'"),
        ({"host_budget": 1.5}, "a host budget is written '64GiB', and this is 1.5"),
        ({"host_budget": "50%"}, "a host budget is written '64GiB', and this is '50%'"),
        ({"host_budget": "auto"}, "a host budget is written '64GiB', and this is 'auto'"),
        ({"host_budget": ""}, "a host budget is written '64GiB', and this is ''"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_by_name(options, words):
    model = perceptron()
    arguments = {"loss_fn": F.cross_entropy, "optimizer": sgd(model), "batch": vectors(6)}
    with pytest.raises(ebb.Error, match=words) as caught:
        ebb.torch.compile(model, **{**arguments, **options})
    assert caught.value.kind == "usage"


def test_an_optimizer_of_another_model_is_refused_before_anything_is_captured():
    class Untouched(nn.Linear):
        def forward(self, x):
            raise AssertionError("captured")

    model = Untouched(6, 3)
    match = "the optimizer has none of the model's parameters.*make it of model.parameters"
    for optimizers in (sgd(perceptron()), [sgd(perceptron()), sgd(perceptron())]):
        with pytest.raises(ebb.Error, match=match):
            ebb.torch.compile(model, F.cross_entropy, optimizers, vectors())
        with pytest.raises(ebb.Error, match=match):
            ebb.torch.capture(model, F.cross_entropy, optimizers, vectors())


def test_an_optimizer_may_have_some_of_the_parameters_or_those_of_the_loss():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3))

        def forward(self, output, targets):
            return F.cross_entropy(output * self.scale, targets)

    model, loss_fn, batch = perceptron(), Scaled(), vectors()
    for trained, loss in ((model[0], F.cross_entropy), (loss_fn, loss_fn), (loss_fn, lambda *given: loss_fn(*given))):
        before = copy.deepcopy(trained.state_dict())
        with ebb.torch.compile(model, loss, sgd(trained), batch) as step:
            step(*batch)
        assert not any(torch.equal(value, before[name]) for name, value in trained.state_dict().items())
    scale = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.SGD([scale], lr=0.1)
    model.requires_grad_(False)
    with ebb.torch.compile(model, lambda x, y: F.cross_entropy(x * scale, y), optimizer, batch) as step:
        step(*batch)
    assert not torch.equal(scale, torch.ones(3))


def test_autocast_around_a_step_that_was_captured_without_is_noticed():
    model, batch = perceptron(), vectors()
    step = compiled(model, batch)
    with pytest.raises(ebb.Error, match="autocast"), torch.autocast("cpu"):
        step(*batch)


def test_capture_without_gradients_is_refused():
    model = perceptron()
    for context, name in ((torch.no_grad, "no_grad"), (torch.inference_mode, "inference_mode")):
        with pytest.raises(ebb.Error, match=rf"gradients on, .* \({name}\)"), context():
            compiled(model, vectors())


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_compiled_step_is_neither_copied_nor_pickled(copied):
    model, batch = perceptron(), vectors()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = ebb.torch.compile(model, F.cross_entropy, optimizer, batch)
    with pytest.raises(ebb.Error, match=r"neither copied nor pickled.*model.state_dict\(\)"):
        copied(step)
    assert torch.isfinite(step(*batch))
