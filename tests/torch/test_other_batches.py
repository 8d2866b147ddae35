"""Batches of another shape than the compiled one: in the same arena, with eager's bits."""

import copy
import warnings

import pytest
import torch
import torch.nn.functional as F
from same_bits import bits, differences
from small_models import Transformer, convolutional, images, perceptron, sentences, vectors, word_loss
from torch import nn

import ebb
import ebb.torch
from ebb.torch._programs import Programs
from ebb.torch._step_function import step_function

OPTIMIZERS = {
    "sgd": lambda model: torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
    "adam": lambda model: torch.optim.Adam(model.parameters(), lr=1e-3),
    "adamw": lambda model: torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True),
}
MODELS = {
    "perceptron": (perceptron, F.cross_entropy, lambda n: vectors(n)),
    "batch norm and dropout": (convolutional, F.cross_entropy, lambda n: images(n, 8)),
    "transformer with dropout": (Transformer, word_loss, lambda n: sentences(n, 16, 100)),
}


def both(make_model, loss_fn, make_optimizer, batch, **options):
    """An eager step with its model and optimizer, and a compiled one of a copy."""
    torch.manual_seed(0)
    model = make_model()
    other = copy.deepcopy(model)
    optimizer, other_optimizer = make_optimizer(model), make_optimizer(other)
    eager = step_function(model, loss_fn, optimizer)
    step = ebb.torch.compile(other, loss_fn, other_optimizer, batch, **options)
    return (eager, model, optimizer), (step, other, other_optimizer)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("model", MODELS)
def test_epochs_with_a_last_partial_batch_have_eager_bits(model, optimizer):
    make_model, loss_fn, make_batch = MODELS[model]
    epoch = [make_batch(6), make_batch(6), make_batch(3)]
    eager, ours = both(make_model, loss_fn, OPTIMIZERS[optimizer], epoch[0])

    def train(step, _, optimizer):
        torch.manual_seed(1)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
        losses = []
        for _ in range(3):
            losses += [step(*batch).item() for batch in epoch]
            schedule.step()
        return losses

    assert train(*ours) == train(*eager)
    assert differences(*eager[1:], *ours[1:]) == []
    memory = ours[0].memory()
    assert memory.peak_bytes <= memory.budget_bytes


def test_the_first_batch_may_be_the_one_of_another_shape():
    for make_optimizer in OPTIMIZERS.values():
        eager, ours = both(perceptron, F.cross_entropy, make_optimizer, vectors(5))
        for batch in (vectors(3), vectors(5), vectors(3), vectors(5)):
            assert torch.equal(ours[0](*batch), eager[0](*batch))
        assert differences(*eager[1:], *ours[1:]) == []


def test_state_stays_where_it_is():
    model = convolutional()
    optimizer = OPTIMIZERS["adam"](model)
    step = ebb.torch.compile(model, F.cross_entropy, optimizer, images(6, 8))
    state = [*model.state_dict().values()]
    state += [tensor for entries in optimizer.state.values() for tensor in entries.values()]
    places = [tensor.data_ptr() for tensor in state]
    step(*images(3, 8))
    assert [tensor.data_ptr() for tensor in state] == places
    assert all(entries["step"].item() == 1 for entries in optimizer.state.values())


def test_a_checkpoint_loaded_before_another_batch_comes_counts():
    eager, ours = both(perceptron, F.cross_entropy, OPTIMIZERS["adam"], vectors(5))
    batches = [vectors(5), vectors(3)]
    for step, model, optimizer in (eager, ours):
        step(*batches[0])
        saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
        step(*batches[0])
        model.load_state_dict(saved[0])
        optimizer.load_state_dict(saved[1])
    for batch in (batches[1], batches[0]):
        assert torch.equal(ours[0](*batch), eager[0](*batch))
    assert differences(*eager[1:], *ours[1:]) == []


def test_parameters_that_share_memory_go_on_sharing_it():
    class Halves(nn.Module):
        def __init__(self):
            super().__init__()
            whole = torch.randn(6, 6)
            self.first = nn.Parameter(whole[:3])
            self.second = nn.Parameter(whole[3:])

        def forward(self, x):
            return F.linear(x, self.first) + F.linear(x, self.second)

    eager, ours = both(Halves, F.cross_entropy, OPTIMIZERS["sgd"], vectors(5))
    for batch in (vectors(5), vectors(3), vectors(5)):
        assert torch.equal(ours[0](*batch), eager[0](*batch))
    assert differences(*eager[1:], *ours[1:]) == []


def test_what_only_another_batch_needs_is_brought_along():
    class Padding(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = perceptron()

        def forward(self, x):
            if len(x) < 5:
                x = torch.cat([x, torch.tensor([[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]])])
            return self.inner(x)[: len(x)]

    def loss(output, targets):
        return F.cross_entropy(output[: len(targets)], targets)

    eager, ours = both(Padding, loss, OPTIMIZERS["adam"], vectors(5))
    for batch in (vectors(5), vectors(3), vectors(5), vectors(3)):
        assert torch.equal(ours[0](*batch), eager[0](*batch))
    assert differences(*eager[1:], *ours[1:]) == []


def test_a_batch_that_does_not_fit_is_refused_with_the_remedy_and_training_goes_on():
    eager, ours = both(perceptron, F.cross_entropy, OPTIMIZERS["adam"], vectors(5))
    with pytest.raises(ebb.Error, match=r"a batch of \[5000, 6\], \[5000\] cannot run in the memory.*") as caught:
        ours[0](*vectors(5000))
    assert caught.value.kind == "infeasible"
    assert "no plan fits" in str(caught.value) and "other_batches='eager'" in str(caught.value)
    batch = vectors(5)
    assert torch.equal(ours[0](*batch), eager[0](*batch))


def test_a_batch_that_cannot_be_captured_is_refused():
    class Deciding(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = perceptron()

        def forward(self, x):
            if len(x) < 5 and self.inner(x).sum() > 0:
                x = x + 1
            return self.inner(x)

    model = Deciding()
    step = ebb.torch.compile(model, F.cross_entropy, OPTIMIZERS["adam"](model), vectors(5))
    with pytest.raises(ebb.Error, match=r"a batch of \[3, 6\], \[3\] cannot run .*the value of a tensor") as caught:
        step(*vectors(3))
    assert "memory" not in str(caught.value) and "budget" not in str(caught.value)
    assert torch.isfinite(step(*vectors(5)))


@pytest.mark.parametrize("what", ["__call__", "evaluate"])
def test_a_batch_of_a_wrong_type_is_refused_by_its_type_and_without_advice_about_memory(what):
    model, (x, y) = perceptron(), vectors(5)
    step = ebb.torch.compile(model, F.cross_entropy, OPTIMIZERS["adam"](model), (x, y))
    with pytest.raises(ebb.Error, match=r"a batch of \[5, 6\] float64, \[5\] cannot run .*same dtype") as caught:
        getattr(step, what)(x.double(), y)
    for advice in ("more budget", "drop_last", "eager", "smaller"):
        assert advice not in str(caught.value)
    assert torch.isfinite(step(x, y))


def test_what_the_model_does_not_take_is_raised_by_its_shape_and_said_once(caplog):
    eager, (step, *ours) = both(perceptron, F.cross_entropy, OPTIMIZERS["sgd"], vectors(4))
    x, y = vectors(4)
    for wrong in (lambda: step(x[:, 1:], y), lambda: step.evaluate(x[:, 1:], y)):
        with pytest.raises(RuntimeError) as caught:
            wrong()
        assert f"a batch of {list(x[:, 1:].shape)}, [4]" in caught.value.__notes__[0]
    assert not caplog.records
    assert torch.equal(step(x, y), eager[0](x, y))
    assert not differences(*eager[1:], *ours)


def test_other_batches_can_be_trained_eagerly():
    eager, ours = both(perceptron, F.cross_entropy, OPTIMIZERS["adam"], vectors(5), other_batches="eager")
    for batch in (vectors(5), vectors(3), vectors(5), vectors(500)):
        assert torch.equal(ours[0](*batch), eager[0](*batch))
    assert differences(*eager[1:], *ours[1:]) == []
    with pytest.raises(ebb.Error, match="'compile' or 'eager'"):
        both(perceptron, F.cross_entropy, OPTIMIZERS["adam"], vectors(5), other_batches="drop")


def test_a_step_of_ones_own_takes_other_batches_too():
    model = perceptron()
    optimizer = OPTIMIZERS["sgd"](model)
    twin = copy.deepcopy(model)
    twin_optimizer = OPTIMIZERS["sgd"](twin)

    def own(x, y, scale):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x) * scale, y)
        loss.backward()
        optimizer.step()
        return {"loss": loss.detach(), "scale": scale}

    step = ebb.torch.compile_step(own, (*vectors(5), 2))
    for count, scale in ((5, 2), (3, 2), (5, 3), (3, 2)):
        x, y = vectors(count)
        twin_optimizer.zero_grad()
        loss = F.cross_entropy(twin(x) * scale, y)
        loss.backward()
        twin_optimizer.step()
        out = step(x, y, scale)
        assert torch.equal(out["loss"], loss) and out["scale"] == scale
    assert [bits(p) for p in model.parameters()] == [bits(p) for p in twin.parameters()]


def test_so_many_programs_are_kept_and_it_is_said_once_when_there_are_more():
    eager, ours = both(perceptron, F.cross_entropy, OPTIMIZERS["sgd"], vectors(40))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for count in [*range(1, Programs.KEPT + 1), 1]:
            batch = vectors(count)
            assert torch.equal(ours[0](*batch), eager[0](*batch))
        assert caught == []
        for count in (20, 21, 1, 40):
            batch = vectors(count)
            assert torch.equal(ours[0](*batch), eager[0](*batch))
    assert [str(warning.message)[:40] for warning in caught] == ["ebb: batches of more than 8 other kinds,"]
    assert differences(*eager[1:], *ours[1:]) == []


def test_a_planned_step_plans_other_batches_into_the_same_memory():
    eager, ours = both(
        lambda: Transformer(blocks=4, dropout=0.0), word_loss, OPTIMIZERS["adam"], sentences(32, 16, 100), budget="60%"
    )
    step = ours[0]
    assert step.report()["plan"]["decisions"]
    for count in (32, 30, 32, 36):  # 36 need more than the one compiled
        batch = sentences(count, 16, 100)
        assert torch.equal(step(*batch), eager[0](*batch))
    assert differences(*eager[1:], *ours[1:]) == []
