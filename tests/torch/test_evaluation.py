"""Evaluating inside the budget: eager's bits, and everything is left as it was."""

import copy

import pytest
import torch
import torch.nn.functional as F
from same_bits import bits, differences
from small_models import (
    Lstm,
    Transformer,
    UNet3d,
    convolutional,
    images,
    perceptron,
    sentences,
    vectors,
    word_loss,
)
from torch import nn

import ebb
import ebb.torch
from ebb.torch._step_function import step_function

MODELS = {
    "perceptron": (perceptron, F.cross_entropy, lambda n: vectors(n)),
    "batch norm and dropout": (convolutional, F.cross_entropy, lambda n: images(n, 8)),
    "transformer with dropout": (Transformer, word_loss, lambda n: sentences(n, 16, 100)),
    "lstm": (Lstm, word_loss, lambda n: sentences(n, 7, 50)),
    "u-net": (
        UNet3d,
        F.cross_entropy,
        lambda n: (torch.randn(n, 1, 8, 8, 8), torch.randint(0, 3, (n, 8, 8, 8))),
    ),
}


def adam(model):
    return torch.optim.Adam(model.parameters(), lr=1e-3)


def evaluate_eagerly(model, loss_fn, batch):
    modes = [part.training for part in model.modules()]
    model.eval()
    with torch.no_grad():
        output = model(batch[0])
        loss = loss_fn(output, batch[1])
    for part, training in zip(model.modules(), modes, strict=True):
        part.training = training
    return output, loss


@pytest.mark.parametrize("name", MODELS)
def test_evaluation_between_steps_has_eager_bits_and_so_have_the_steps(name):
    make_model, loss_fn, make_batch = MODELS[name]
    torch.manual_seed(0)
    model = make_model()
    other = copy.deepcopy(model)
    optimizer, other_optimizer = adam(model), adam(other)
    # What convolutions take besides depends on the number of threads: the test batch fits with any.
    batch, last, test = make_batch(8), make_batch(3), make_batch(5)
    eager = step_function(model, loss_fn, optimizer)
    step = ebb.torch.compile(other, loss_fn, other_optimizer, batch)

    def run(step, evaluate, predict):
        torch.manual_seed(1)
        found = []
        for training in (batch, last, batch):
            found += [step(*training), evaluate(*training), predict(test[0]), evaluate(*test)]
        return [bits(tensor) for tensor in found]

    ours = run(step, step.evaluate, step.predict)
    theirs = run(
        eager,
        lambda x, y: evaluate_eagerly(model, loss_fn, (x, y))[1],
        lambda x: evaluate_eagerly(model, lambda *_: None, (x, None))[0],
    )
    assert ours == theirs
    assert differences(model, optimizer, other, other_optimizer) == []


def test_evaluation_under_autocast_has_eager_bits():
    torch.manual_seed(0)
    model = Transformer()
    batch = sentences(3, 16, 100)
    step = ebb.torch.compile(model, word_loss, adam(model), batch, autocast=torch.bfloat16)
    step(*batch)
    loss, output = step.evaluate(*batch), step.predict(batch[0])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        eager_output, eager_loss = evaluate_eagerly(model, word_loss, batch)
    assert torch.equal(loss, eager_loss) and torch.equal(output, eager_output)
    assert output.dtype == torch.bfloat16
    with pytest.raises(ebb.Error, match="autocast is on around"), torch.autocast("cpu"):
        step.evaluate(*batch)


def test_modes_gradients_statistics_and_generator_stay_as_they_are():
    model = convolutional()
    model[1].eval()  # frozen statistics
    batch = images(4, 8)
    step = ebb.torch.compile(model, F.cross_entropy, adam(model), batch)
    step(*batch)
    F.cross_entropy(model(batch[0]), batch[1]).backward()
    gradients = [p.grad for p in model.parameters()]
    versions = [p._version for p in model.parameters()]
    before = [bits(tensor) for tensor in (*model.state_dict().values(), *gradients, torch.get_rng_state())]
    modes = [part.training for part in model.modules()]
    for _ in range(2):
        step.evaluate(*batch)
        step.predict(batch[0])
    assert [part.training for part in model.modules()] == modes
    assert all(p.grad is g for p, g in zip(model.parameters(), gradients, strict=True))
    assert [p._version for p in model.parameters()] == versions
    after = [bits(tensor) for tensor in (*model.state_dict().values(), *gradients, torch.get_rng_state())]
    assert after == before


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_it_does_not_matter_whether_gradients_are_off_around_it(context):
    model, batch = perceptron(), vectors(5)
    step = ebb.torch.compile(model, F.cross_entropy, adam(model), batch)
    with context():
        loss, output = step.evaluate(*vectors(3)), step.predict(batch[0])
        again = step.predict(batch[0])
    assert not loss.requires_grad and not output.requires_grad
    assert torch.equal(output, again) and output.data_ptr() != again.data_ptr()
    assert torch.equal(output, evaluate_eagerly(model, F.cross_entropy, batch)[0])
    assert torch.isfinite(step(*batch))


def test_outputs_may_be_structures_and_batches_dicts():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = perceptron()

        def forward(self, x, y=None, shift=0.0):
            out = self.inner(x) + shift
            loss = None if y is None else F.cross_entropy(out, y)
            return {"loss": loss, "out": (out, [x, 7])}

    model = Two()
    x, y = vectors(5)
    step = ebb.torch.compile(model, None, adam(model), {"x": x, "y": y})
    model.eval()
    with torch.no_grad():
        expected = model(x=x, y=y)
    model.train()
    assert torch.equal(step.evaluate(x=x, y=y), expected["loss"])
    assert torch.equal(step.evaluate({"x": x, "y": y}), expected["loss"])
    for found in (step.predict(x=x, y=y), step.predict({"x": x, "y": y}), step.predict(x, y)):
        assert torch.equal(found["loss"], expected["loss"])
        assert torch.equal(found["out"][0], expected["out"][0])
        assert torch.equal(found["out"][1][0], x) and found["out"][1][1] == 7
    assert torch.equal(step.predict(x, shift=1.0)["out"][0], expected["out"][0] + 1.0)
    assert step.predict(x)["loss"] is None


def test_a_planned_step_evaluates_in_its_memory():
    torch.manual_seed(0)
    model = Transformer(blocks=4)
    batch = sentences(32, 16, 100)
    step = ebb.torch.compile(model, word_loss, adam(model), batch, budget="60%")
    step(*batch)
    assert torch.equal(step.evaluate(*batch), evaluate_eagerly(model, word_loss, batch)[1])


def test_what_does_not_fit_is_refused_and_the_mode_is_as_before():
    model, batch = perceptron(), vectors(5)
    step = ebb.torch.compile(model, F.cross_entropy, adam(model), batch)
    with pytest.raises(ebb.Error, match=r"to evaluate a batch of \[9000, 6\], \[9000\] cannot run in the memory") as caught:
        step.evaluate(*vectors(9000))
    assert caught.value.kind == "infeasible" and "model.eval()" in str(caught.value)
    assert model.training and torch.isfinite(step.evaluate(*batch))


def test_a_step_of_ones_own_has_no_evaluation():
    step = ebb.torch.compile_step(lambda x: x + 1, (torch.ones(3),))
    with pytest.raises(ebb.Error, match="made by compile_step has no evaluate"):
        step.evaluate(torch.ones(3))
    with pytest.raises(ebb.Error, match="made by compile_step has no predict"):
        step.predict(torch.ones(3))


def test_a_closed_step_evaluates_no_more():
    model, batch = perceptron(), vectors(5)
    step = ebb.torch.compile(model, F.cross_entropy, adam(model), batch)
    step.close()
    with pytest.raises(ebb.Error, match="closed"):
        step.evaluate(*batch)
