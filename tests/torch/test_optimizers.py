"""Optimizers, schedulers, clipping, accumulation: every step has the bits of eager's."""

import copy
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from same_bits import differences, train_both
from small_models import Transformer, perceptron, sentences, vectors, word_loss

import ebb.torch

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "sgd momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "sgd nesterov": lambda p: torch.optim.SGD(
        p, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True
    ),
    "sgd foreach": lambda p: torch.optim.SGD(
        p, lr=0.1, momentum=0.9, weight_decay=0.01, foreach=True
    ),
    "sgd fused": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, fused=True),
    "sgd maximize": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, maximize=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "adam decay": lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=0.1),
    "adam amsgrad": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "adam foreach": lambda p: torch.optim.Adam(p, lr=0.01, foreach=True),
    "adam fused": lambda p: torch.optim.Adam(p, lr=0.01, fused=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "adamw foreach": lambda p: torch.optim.AdamW(p, lr=0.01, foreach=True, amsgrad=True),
    "adamw fused": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
    "adamax": lambda p: torch.optim.Adamax(p, lr=0.01),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.01, lr_decay=0.1),
    "adadelta": lambda p: torch.optim.Adadelta(p),
    "nadam": lambda p: torch.optim.NAdam(p),
    "rmsprop": lambda p: torch.optim.RMSprop(p, momentum=0.5, centered=True),
}

SCHEDULERS = {
    "cosine": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 4),
    "one cycle": lambda o: torch.optim.lr_scheduler.OneCycleLR(
        o, max_lr=0.1, total_steps=20
    ),  # changes momentum or betas as well
    "step": lambda o: torch.optim.lr_scheduler.StepLR(o, 2),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer_has_eager_bits(name):
    def make(model):
        return OPTIMIZERS[name](model.parameters())

    train_both(perceptron, F.cross_entropy, make, [vectors(), vectors()], steps=6)


@pytest.mark.parametrize("schedule", SCHEDULERS)
@pytest.mark.parametrize("name", ["sgd momentum", "adam", "adamw fused"])
def test_scheduler_has_eager_bits(name, schedule):
    def make(model):
        return OPTIMIZERS[name](model.parameters())

    scheduler = SCHEDULERS[schedule]
    train_both(perceptron, F.cross_entropy, make, [vectors()], steps=8, scheduler=scheduler)


def test_step_100_has_the_bits_of_eagers_step_100():
    def make(model):
        return torch.optim.AdamW(model.parameters(), lr=0.01)

    train_both(perceptron, F.cross_entropy, make, [vectors(), vectors()], steps=100)


def test_parameter_groups_have_their_own_hyperparameters():
    def make(model):
        layers = [{"params": layer.parameters()} for layer in (model[0], model[2])]
        layers[1] |= {"lr": 0.5, "momentum": 0.5}
        return torch.optim.SGD(layers, lr=0.1, momentum=0.9)

    step = train_both(perceptron, F.cross_entropy, make, [vectors()])
    assert {"group0.lr", "group1.lr"} <= set(step.captured.hyperparameters)


def test_two_optimizers_take_turns_in_one_step():
    def make(model):
        return [torch.optim.SGD(model[0].parameters(), lr=0.1), torch.optim.Adam(model[2].parameters())]

    torch.manual_seed(0)
    model = perceptron()
    other = perceptron()
    other.load_state_dict(model.state_dict())
    batch = vectors()
    eager = ebb.torch._step_function.step_function(model, F.cross_entropy, make(model))
    step = ebb.torch.compile(other, F.cross_entropy, make(other), batch)
    for _ in range(3):
        assert torch.equal(eager(*batch), step(*batch))
    for ours, theirs in zip(other.parameters(), model.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_learning_rate_as_a_tensor():
    def make(model):
        return torch.optim.Adam(model.parameters(), lr=torch.tensor(0.01), foreach=False, fused=True)

    train_both(perceptron, F.cross_entropy, make, [vectors()])


@pytest.mark.parametrize("name", ["sgd momentum", "adam foreach"])
def test_clipping_has_eager_bits(name):
    def make(model):
        return OPTIMIZERS[name](model.parameters())

    train_both(perceptron, F.cross_entropy, make, [vectors()], clip_grad_norm=0.01)


def test_clipping_adds_up_norms_in_the_order_of_the_model():
    """As `clip_grad_norm_(model.parameters(), ...)` does, whatever the order of the optimizer's groups is."""

    def make(model):
        biases = [p for p in model.parameters() if p.dim() == 1]
        weights = [p for p in model.parameters() if p.dim() > 1]
        return torch.optim.AdamW([{"params": biases, "weight_decay": 0.0}, {"params": weights}])

    torch.manual_seed(0)
    model = Transformer(dropout=0.0)
    other = copy.deepcopy(model)
    optimizer, other_optimizer = make(model), make(other)
    batch = sentences(4, 16, 100)
    step = ebb.torch.compile(other, word_loss, other_optimizer, batch, clip_grad_norm=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        loss = word_loss(model(batch[0]), batch[1])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        assert torch.equal(step(*batch), loss.detach())
    assert differences(model, optimizer, other, other_optimizer) == []


def test_accumulation_has_eager_bits():
    def make(model):
        return torch.optim.AdamW(model.parameters())

    train_both(perceptron, F.cross_entropy, make, [vectors(6), vectors(6)], accumulate=3)


def test_an_optimizer_that_has_trained_before_goes_on():
    model, batch = perceptron(), vectors()
    other = perceptron()
    other.load_state_dict(model.state_dict())

    def make(parameters):
        return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, dampening=0.3)

    optimizer, other_optimizer = make(model.parameters()), make(other.parameters())
    eager = ebb.torch._step_function.step_function(model, F.cross_entropy, optimizer)
    warm = ebb.torch._step_function.step_function(other, F.cross_entropy, other_optimizer)
    assert torch.equal(eager(*batch), warm(*batch))
    step = ebb.torch.compile(other, F.cross_entropy, other_optimizer, batch)
    for _ in range(3):
        assert torch.equal(eager(*batch), step(*batch))


def test_dampening_needs_an_ordinary_step_before():
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, dampening=0.3)
    with pytest.raises(ebb.Error, match="do one ordinary step before"):
        ebb.torch.compile(model, F.cross_entropy, optimizer, vectors())


def test_a_hyperparameter_that_changes_the_computation_is_refused():
    model, batch = perceptron(), vectors()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = ebb.torch.compile(model, F.cross_entropy, optimizer, batch)
    step(*batch)
    optimizer.param_groups[0]["weight_decay"] = 0.5
    with pytest.raises(ebb.Error, match="weight_decay .* was 0 .* Compile the step again"):
        step(*batch)


@pytest.mark.parametrize("value", ["0.1", None, [0.1], 10**400])
def test_a_learning_rate_that_is_no_number_is_refused_by_its_place(value):
    model, batch = perceptron(), vectors()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = ebb.torch.compile(model, F.cross_entropy, optimizer, batch)
    optimizer.param_groups[0]["lr"] = value
    for call in (lambda: step(*batch), lambda: ebb.torch.capture(model, F.cross_entropy, optimizer, batch)):
        with pytest.raises(ebb.Error) as caught:
            call()
        assert str(caught.value) == f"param_groups[0]['lr'] of SGD must be a number, and is {value!r}"


@pytest.mark.parametrize("value", [np.float32(0.003), np.float16(0.003), torch.tensor(0.003)], ids=repr)
def test_a_learning_rate_of_another_precision_is_refused_with_a_remedy(value):
    model, batch = perceptron(), vectors()
    optimizer = torch.optim.AdamW(model.parameters(), lr=np.float64(0.1))  # a number of Python's, too
    step = ebb.torch.compile(model, F.cross_entropy, optimizer, batch)
    step(*batch)
    optimizer.param_groups[0]["lr"] = value
    with pytest.raises(ebb.Error, match=r"param_groups\[0\]\['lr'\] of AdamW must be a number, .*; give float\(\) of it"):
        step(*batch)
    optimizer.param_groups[0]["lr"] = float(value)
    step(*batch)


class Leaky(torch.optim.SGD):
    """Computes with its learning rate where Ebb cannot follow."""

    def step(self, closure=None):
        factor = math.expm1(self.param_groups[0]["lr"])
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.data.add_(parameter.grad, alpha=-factor)


def test_a_constant_computed_from_a_hyperparameter_is_found():
    model, batch = perceptron(), vectors()
    with pytest.raises(ebb.Error, match="Leaky computes alpha=.* of aten::add_"):
        ebb.torch.capture(model, F.cross_entropy, Leaky(model.parameters(), lr=0.1), batch)


class TensorOfRate(torch.optim.SGD):
    def step(self, closure=None):
        rate = torch.tensor(self.param_groups[0]["lr"])
        for parameter in self.param_groups[0]["params"]:
            parameter.data.sub_(parameter.grad * rate)


def test_a_tensor_made_of_a_hyperparameter_is_refused():
    model, batch = perceptron(), vectors()
    with pytest.raises(ebb.Error, match="makes a tensor of a number .*test_optimizers.py"):
        ebb.torch.capture(model, F.cross_entropy, TensorOfRate(model.parameters(), lr=0.1), batch)


@pytest.mark.parametrize(
    ("make", "remedy"),
    [
        (lambda p, lr: torch.optim.Adam(p, lr=lr), "give a number, or fused=True"),
        (lambda p, lr: torch.optim.Adam(p, lr=lr, foreach=False), "give a number, or fused=True"),
        (lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=0.9), "give a number, or fused=True"),
        (lambda p, lr: torch.optim.RMSprop(p, lr=lr), "give a number"),
    ],
)
def test_a_learning_rate_that_is_a_tensor_and_read_in_python_is_refused_by_its_name(make, remedy):
    model, batch = perceptron(), vectors()
    optimizer = make(model.parameters(), torch.tensor(0.01))
    with pytest.raises(ebb.Error) as caught:
        ebb.torch.compile(model, F.cross_entropy, optimizer, batch)
    assert str(caught.value) == (
        f"lr of {type(optimizer).__name__} is a tensor, and the optimizer reads a number out of it; {remedy}"
    )
    assert isinstance(optimizer.param_groups[0]["lr"], torch.Tensor) and not optimizer.state


@pytest.mark.parametrize("kind", ["RAdam", "Adafactor", "ASGD", "Rprop"])
@pytest.mark.parametrize("trained", [False, True])
def test_an_optimizer_that_cannot_be_captured_is_named_with_the_remedy(kind, trained):
    model, batch = perceptron(), vectors()
    optimizer = getattr(torch.optim, kind)(model.parameters())
    if trained:
        ebb.torch._step_function.step_function(model, F.cross_entropy, optimizer)(*batch)
    with pytest.raises(ebb.Error, match=f"^{kind} cannot be captured: it .*Use another optimizer$"):
        ebb.torch.compile(model, F.cross_entropy, optimizer, batch)


def test_adagrad_without_decay_is_refused_with_what_works():
    model, batch = perceptron(), vectors()
    with pytest.raises(ebb.Error, match="^Adagrad with lr_decay=0 .*another lr_decay, or fused=True"):
        ebb.torch.capture(model, F.cross_entropy, torch.optim.Adagrad(model.parameters()), batch)
    train_both(
        perceptron, F.cross_entropy, lambda m: torch.optim.Adagrad(m.parameters(), fused=True), [batch], steps=3
    )


class Deciding(torch.optim.SGD):
    def step(self, closure=None):
        for parameter in self.param_groups[0]["params"]:
            if parameter.grad.sum() > 0:
                parameter.data.sub_(parameter.grad)


def test_an_optimizer_of_ones_own_is_named_with_its_line():
    model, batch = perceptron(), vectors()
    with pytest.raises(ebb.Error, match="^Deciding cannot be captured: .*test_optimizers.py.*grad.sum"):
        ebb.torch.capture(model, F.cross_entropy, Deciding(model.parameters(), lr=0.1), batch)


def test_lbfgs_is_refused():
    model, batch = perceptron(), vectors()
    with pytest.raises(ebb.Error, match="LBFGS"):
        ebb.torch.capture(model, F.cross_entropy, torch.optim.LBFGS(model.parameters()), batch)
