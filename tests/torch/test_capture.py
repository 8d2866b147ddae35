"""What capture makes of a step, and what it refuses."""

import collections
import re

import pytest
import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from same_bits import bits
from small_models import Lstm, convolutional, perceptron, sentences, vectors, word_loss
from torch import nn

import ebb
import ebb.torch


def capture(model, batch=None, loss_fn=F.cross_entropy, **options):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return ebb.torch.capture(model, loss_fn, optimizer, batch or vectors(), **options)


def lines(captured, op):
    return [line.strip() for line in captured.text.splitlines() if f"= {op}(" in line]


class Around(nn.Module):
    """A linear layer, and what a test does with its output."""

    def __init__(self, then):
        super().__init__()
        self.layer = nn.Linear(6, 3)
        self.then = then

    def forward(self, x):
        return self.then(self.layer(x))


# What it makes.


def test_capture_changes_neither_model_nor_optimizer_nor_generator():
    model = convolutional()
    optimizer = torch.optim.Adam(model.parameters())
    before = {name: bits(tensor) for name, tensor in model.state_dict().items()}
    batch = (torch.randn(2, 3, 8, 8), torch.randint(0, 10, (2,)))
    generator = torch.get_rng_state()
    ebb.torch.capture(model, F.cross_entropy, optimizer, batch)
    assert {name: bits(tensor) for name, tensor in model.state_dict().items()} == before
    assert not optimizer.state
    assert optimizer.param_groups[0]["lr"] == 0.001
    assert type(optimizer.param_groups[0]["lr"]) is float
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.equal(torch.get_rng_state(), generator)


def test_capture_is_deterministic():
    torch.manual_seed(0)
    first = capture(perceptron()).text
    torch.manual_seed(1)
    assert capture(perceptron()).text == first


def test_names_say_where_an_operation_comes_from():
    text = capture(perceptron()).text
    assert "%0/addmm:" in text
    assert "%gradients/0/mm" in text
    assert re.search(r"%0\.weight\.1: .* ~ %0\.weight = aten::add_", text)
    assert re.search(r'aten::relu\(.*ebb\.at = "torch/test_capture\.py:\d+"', text)


def test_in_place_operations_on_intermediates_become_functional():
    captured = capture(Around(lambda x: x.mul_(2.0).relu_()))
    assert lines(captured, "aten::relu") and lines(captured, "aten::mul.Tensor")
    assert not lines(captured, "aten::relu_")


def test_hidden_updates_of_batch_norm_are_shown():
    batch = (torch.randn(2, 3, 8, 8), torch.randint(0, 10, (2,)))
    (line,) = lines(capture(convolutional(), batch), "aten::native_batch_norm")
    assert "%1.running_mean!" in line and "%1.running_var!" in line
    assert "%1.running_mean.1: f32[8] ~ %1.running_mean" in line


def test_batch_norm_in_evaluation_updates_nothing():
    batch = (torch.randn(2, 3, 8, 8), torch.randint(0, 10, (2,)))
    (line,) = lines(capture(convolutional().eval(), batch), "aten::native_batch_norm")
    assert "!" not in line


def test_random_operations_are_marked():
    captured = capture(Around(lambda x: F.dropout(x, 0.5)))
    (line,) = lines(captured, "aten::bernoulli.p")
    assert line.endswith(" random")


def test_writing_into_a_part_of_an_intermediate_keeps_the_rest():
    def first_row_zero(x):
        y = x * 2
        y[0] = 0
        return y

    def step(x):
        y = first_row_zero(x)
        return y, y[1:].clone()

    x = torch.randn(3, 4)
    compiled = ebb.torch.compile_step(step, (x,))
    for ours, eager in zip(compiled(x), step(x), strict=True):
        assert torch.equal(ours, eager)


def test_views_taken_before_a_write_see_it():
    def step(x):
        y = x + 1
        row = y[1]
        y.mul_(3)
        row.add_(5)
        return y, row * 2

    x = torch.randn(3, 4)
    compiled = ebb.torch.compile_step(step, (x,))
    for ours, eager in zip(compiled(x), step(x.clone()), strict=True):
        assert torch.equal(ours, eager)


def test_a_buffer_that_forward_replaces_is_updated():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(6, 3)
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x):
            self.count = self.count + x.size(0)
            return self.layer(x)

    model = Counts()
    buffer = model.count
    step = ebb.torch.compile(
        model, F.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1), vectors()
    )
    step(*vectors())
    step(*vectors())
    assert model.count is buffer
    assert model.count.item() == 10


def test_tensors_that_are_no_parameters_are_captured_as_they_are():
    scale = torch.full((3,), 2.0)
    model = Around(lambda x: x * scale + torch.tensor([1.0, 2.0, 3.0]))
    captured = capture(model)
    assert [name for name in captured.constants] == ["constant"]
    assert captured.state["captured"] is scale


def test_dict_batches_go_to_the_model_by_name():
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(6, 3)

        def forward(self, features, labels):
            return {"loss": F.cross_entropy(self.layer(features), labels)}

    features, labels = vectors()
    model = Named()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = {"features": features, "labels": labels}
    step = ebb.torch.compile(model, None, optimizer, batch)
    assert {"features", "labels"} == set(step.captured.inputs)
    expected = F.cross_entropy(model.layer(features), labels)
    assert torch.equal(step(**batch), expected.detach())
    step.close()

    # So do mappings that are no dict, as tokenizers give them.
    step = ebb.torch.compile(model, None, optimizer, collections.UserDict(batch))
    assert {"features", "labels"} == set(step.captured.inputs)
    expected = F.cross_entropy(model.layer(features), labels)
    assert torch.equal(step(collections.UserDict(batch)), expected.detach())


def test_a_mapping_that_is_no_dict_within_a_batch_is_refused():
    features, labels = vectors()
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = (collections.UserDict(input=features), labels)
    with pytest.raises(ebb.Error, match=r"the batch has a UserDict in it.*dict\(batch\)"):
        ebb.torch.capture(model, F.cross_entropy, optimizer, batch)
    with pytest.raises(ebb.Error, match="the argument 0 of the step function is a UserDict"):
        ebb.torch.capture_step(lambda batch: model(batch["input"]).sum(), batch[:1])
    ebb.torch.capture(model, F.cross_entropy, optimizer, (dict(batch[0]), labels))


def test_gradients_nobody_asked_for_are_not_computed():
    captured = capture(perceptron())
    assert len(lines(captured, "aten::mm")) == 3, "two weights and one activation; no input"


def test_a_captured_lstm_is_a_valid_graph():
    text = capture(Lstm(), sentences(2, 4, 50), word_loss).text
    assert ebb.find_violations(text) == []


def test_any_function_is_a_step():
    weight = torch.randn(4, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = ((x * weight).sum() - 1) ** 2
        loss.backward()
        torch.nn.utils.clip_grad_value_([weight], 0.5)
        optimizer.step()
        return loss.detach()

    x, before = torch.randn(4), weight.detach().clone()
    compiled = ebb.torch.compile_step(step, (x,))
    losses = [compiled(x) for _ in range(3)]
    after = weight.detach().clone()
    compiled.close()
    with torch.no_grad():
        weight.copy_(before)
    assert [step(x).item() for _ in range(3)] == [loss.item() for loss in losses]
    assert torch.equal(weight.detach(), after)


# What it refuses: with the line of user code, and the remedy.


def refused(match, then=None, model=None, batch=None, **options):
    with pytest.raises(ebb.Error, match=match) as caught:
        capture(model or Around(then), batch, **options)
    return str(caught.value)


def test_control_flow_on_data_is_refused_with_its_line():
    def then(x):
        if x.sum() > 0:
            return x
        return -x

    message = refused("decides by the value of a tensor", then)
    assert "test_capture.py:" in message and "if x.sum() > 0" in message
    assert "torch.where" in message


def test_shapes_that_depend_on_data_are_refused_with_their_line():
    message = refused("shape depends on data", lambda x: x[x > 0].sum().expand(5, 3))
    assert "test_capture.py:" in message


def test_comparing_tensors_in_python_is_refused_with_its_line():
    text = refused("needs the values of a tensor", lambda x: x + 1 if torch.equal(x, x * 2) else x)
    assert "aten.equal" in text and "test_capture.py" in text


def test_numbers_read_from_tensors_may_not_decide():
    def then(x):
        return x if x.sum().item() > 0 else -x

    assert "test_capture.py:" in refused("reads out of a tensor", then)


def test_integers_read_from_tensors_are_refused():
    refused("reads an integer", lambda x: x * x.argmax().item())


def test_numbers_read_from_tensors_may_not_become_tensors():
    refused("makes a tensor of a number", lambda x: x * torch.tensor(x.sum().item()))
    refused("makes a tensor of a number", lambda x: x * torch.tensor(x[0].tolist()))


def test_numpy_is_refused():
    refused("reads the values", lambda x: x * x.detach().numpy().sum())


def test_anomaly_detection_is_refused_by_name_where_it_reads_gradients():
    model, batch = perceptron(), vectors()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = ebb.torch.compile(model, F.cross_entropy, optimizer, batch)
    with torch.autograd.set_detect_anomaly(True):
        message = refused(r"anomaly detection is on \(torch.autograd.set_detect_anomaly\)", model=perceptron())
        assert "switch it off for compile" in message
        assert torch.isfinite(step(*batch)) and torch.isfinite(step.evaluate(*batch))
        with pytest.raises(ebb.Error, match="anomaly detection is on"):
            step(*vectors(3))
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        assert torch.isfinite(step(*vectors(3)))


def test_a_generator_of_ones_own_is_refused():
    generator = torch.Generator()
    refused("generator of its own", lambda x: x + torch.rand(3, generator=generator))


def test_setting_the_generator_is_refused():
    def then(x):
        torch.manual_seed(0)
        return F.dropout(x)

    model, batch = Around(then), vectors()
    before = torch.get_rng_state()
    refused("sets the random number generator", model=model, batch=batch)
    assert torch.equal(torch.get_rng_state(), before)


def test_checkpointing_that_repeats_dropout_is_refused():
    def then(x):
        return torch.utils.checkpoint.checkpoint(F.dropout, x, use_reentrant=False)

    refused("preserve_rng_state=False", then)


def test_data_parallel_modules_are_refused():
    message = refused("DataParallel", model=nn.DataParallel(perceptron()))
    assert "module.module" in message


def test_a_loss_that_is_no_number_is_refused():
    def refused_as(what, loss_fn):
        refused(f"must be one number in a tensor, and is {what}", lambda x: x, loss_fn=loss_fn)

    refused_as(r"a tensor of shape .*; reduce it with \.mean\(\)", lambda x, y: x)
    refused_as("a tuple; return only the loss", lambda x, y: (F.cross_entropy(x, y), x))
    refused_as("a dict; return only the loss", lambda x, y: {"loss": F.cross_entropy(x, y)})
    refused_as(r"a number of Python; .* do not call \.item\(\)", lambda x, y: F.cross_entropy(x, y).item())
    refused_as("None; loss_fn must return it", lambda x, y: None)


def test_a_model_without_loss_is_refused():
    refused("no loss_fn", lambda x: (x, x), loss_fn=None, batch=(vectors()[0],))


def test_sparse_gradients_are_refused():
    model = nn.Sequential(nn.Embedding(50, 6, sparse=True), nn.Linear(6, 50))
    refused("layout", model=model, batch=sentences(2, 4, 50), loss_fn=word_loss)


def test_what_is_no_model_or_optimizer_is_refused():
    model = perceptron()
    with pytest.raises(ebb.Error, match="torch.optim.Optimizer, and is a float"):
        ebb.torch.capture(model, F.cross_entropy, 0.1, vectors())
    with pytest.raises(ebb.Error, match="torch.nn.Module, and is a function"):
        ebb.torch.capture(vectors, F.cross_entropy, torch.optim.SGD(model.parameters()), vectors())


def test_a_refused_capture_leaves_everything_as_it_was():
    model = Around(lambda x: x if x.sum() > 0 else -x)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with pytest.raises(ebb.Error):
        ebb.torch.capture(model, F.cross_entropy, optimizer, vectors())
    assert not optimizer.state and all(p.grad is None for p in model.parameters())
    model.then = lambda x: x
    assert torch.isfinite(ebb.torch._step_function.step_function(model, F.cross_entropy, optimizer)(*vectors()))
