"""Steps inside a byte budget: the bits of eager PyTorch, and never a byte more."""

import copy
import re

import pytest
import torch
import torch.nn.functional as F
import torchvision
from same_bits import differences
from small_models import Experts, Lstm, Transformer, UNet3d, convolutional, images, sentences, word_loss
from torch import nn

import ebb.torch
from ebb.torch._step_function import step_function


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def adamw(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-3)


# Sizes at which activations count, as they do in practice: model, loss, optimizer, batch.
MODELS = {
    "convolutional": (convolutional, F.cross_entropy, adamw, lambda: images(16, 32)),
    "resnet": (lambda: torchvision.models.resnet18(num_classes=10), F.cross_entropy, sgd, lambda: images(64, 32)),
    "unet": (UNet3d, F.cross_entropy, adamw, lambda: (torch.randn(1, 1, 16, 16, 16), torch.randint(0, 3, (1, 16, 16, 16)))),
    "transformer": (lambda: Transformer(blocks=3), word_loss, adamw, lambda: sentences(16, 16, 100)),
    "experts": (lambda: nn.Sequential(*[Experts() for _ in range(3)], nn.Linear(16, 5)), F.cross_entropy, adamw, lambda: (torch.randn(512, 16), torch.randint(0, 5, (512,)))),
    "lstm": (Lstm, word_loss, sgd, lambda: sentences(16, 12, 50)),
}


@pytest.fixture(autouse=True)
def deterministic():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


class Pair:
    """A model twice: one to be trained eagerly, one by Ebb."""

    def __init__(self, name, models=MODELS):
        make_model, self.loss_fn, make_optimizer, make_batch, *options = models[name]
        self.options = options[0] if options else {}
        torch.manual_seed(0)
        self.model = make_model()
        self.other = copy.deepcopy(self.model)
        self.optimizer, self.other_optimizer = make_optimizer(self.model), make_optimizer(self.other)
        self.batch = make_batch()

    def compile(self, budget, **options):
        return ebb.torch.compile(self.other, self.loss_fn, self.other_optimizer, self.batch, budget=budget, **self.options, **options)

    def compile_least(self, budget="1KiB", **options):
        """For this budget, or the least above it that there is a plan for. Times are measured anew each time, and what is
        found depends on them a little."""
        for _ in range(5):
            try:
                return self.compile(budget, **options)
            except ebb.Error as error:
                assert error.kind == "infeasible"
                budget = re.search(r"the least budget found is (\d+[KMG]?i?B)", str(error))[1]
        raise AssertionError("what was said to be enough was not, time and again")

    def check(self, step, steps=3):
        eager = step_function(self.model, self.loss_fn, self.optimizer, **self.options)
        for i in range(steps):
            torch.manual_seed(i)
            loss = eager(*self.batch)
            torch.manual_seed(i)
            assert step(*self.batch).item() == loss.item()
        assert differences(self.model, self.optimizer, self.other, self.other_optimizer) == []
        memory = step.memory()
        assert memory.peak_bytes <= memory.budget_bytes
        if step.plan:
            assert memory.peak_bytes == step.report()["plan"]["peak_bytes"]


@pytest.mark.parametrize("name", MODELS)
def test_with_all_the_memory_that_it_needs_nothing_is_moved(name):
    pair = Pair(name)
    step = pair.compile("100%")
    pair.check(step)
    assert step.plan == ""
    assert step.memory().host_bytes == 0


@pytest.mark.parametrize("name", MODELS)
def test_with_half_of_it_or_the_least_above_that(name):
    pair = Pair(name)
    step = pair.compile_least("50%")
    assert step.memory().peak_bytes < step.report()["unconstrained_bytes"]
    pair.check(step)


@pytest.mark.parametrize("name", MODELS)
def test_with_the_least_that_there_is_a_plan_for(name):
    pair = Pair(name)
    pair.check(pair.compile_least())


def test_both_means_are_used():
    assert Pair("resnet").compile_least().report()["plan"]["tensors_swapped"] > 0
    # With no room on the host, what is too much is computed again.
    pair = Pair("transformer")
    step = pair.compile("95%", host_budget="1KiB")
    assert step.report()["plan"]["tensors_recomputed"] > 0
    pair.check(step)


def test_a_budget_of_the_host_is_kept():
    pair = Pair("transformer")
    step = pair.compile("90%", host_budget="64KiB")
    assert step.memory().host_bytes <= 64 * 1024
    pair.check(step)
    with pytest.raises(ebb.Error, match="host budget"):
        Pair("transformer").compile("90%", host_budget="much")


def test_the_plan_and_the_graph_are_there_to_be_read():
    pair = Pair("transformer")
    step = pair.compile_least()
    assert step.plan.startswith("ebb plan 1\n")
    assert ebb.find_violations(str(step.graph)) == []
    assert "computed again" in str(step.report())


def test_auto_takes_what_is_free():
    pair = Pair("convolutional")
    step = pair.compile("auto")
    assert step.plan == "", "there is enough"
    pair.check(step)


def test_two_compiled_steps_do_not_disturb_each_other():
    first, second = Pair("convolutional"), Pair("transformer")
    steps = [pair.compile_least() for pair in (first, second)]
    for _ in range(2):
        for pair, step in zip((first, second), steps, strict=True):
            pair.check(step, steps=1)
