"""What a batch may be made of: tensors and plain values, in containers that Ebb looks into."""

import copy
import dataclasses
import enum
import functools
from typing import NamedTuple

import numpy
import pytest
import torch
import torch.nn.functional as F
from same_bits import bits
from small_models import perceptron, sgd, vectors
from torch import nn

import ebb
import ebb.torch
from ebb.torch._step_function import step_function


class Applied(nn.Module):
    """A perceptron on what a function makes of the inputs."""

    def __init__(self, read):
        super().__init__()
        self.layers = perceptron()
        self.read = read

    def forward(self, *inputs):
        return self.layers(self.read(*inputs))


def both(read, batch):
    """An eager step, and a compiled one of a copy of the model."""
    torch.manual_seed(0)
    model = Applied(read)
    twin = copy.deepcopy(model)
    eager = step_function(model, F.cross_entropy, sgd(model))
    return eager, ebb.torch.compile(twin, F.cross_entropy, sgd(twin), batch)


class Holder:
    def __init__(self, x):
        self.x = x


@dataclasses.dataclass
class Record:
    x: torch.Tensor


class Listing(list):
    pass


class Pair(NamedTuple):
    x: torch.Tensor
    shift: torch.Tensor


class Mode(enum.Enum):
    PLAIN = 1
    DOUBLE = 2


UNKNOWN = {
    "object": (Holder, lambda held: held.x, r"a Holder in it \(batch\.0\).*in a tuple or a dict"),
    "dataclass": (Record, lambda held: held.x, r"a Record in it \(batch\.0\).*torch\.export\.register_dataclass"),
    "list of its own": (lambda x: Listing([x]), lambda held: held[0], r"a Listing in it \(batch\.0\)"),
    "set": (lambda x: {x}, lambda held: next(iter(held)), r"a set in it \(batch\.0\)"),
    "array": (lambda x: x.numpy(), torch.from_numpy, r"a ndarray in it \(batch\.0\).*torch\.from_numpy"),
}


@pytest.mark.parametrize("kind", UNKNOWN)
def test_what_may_hold_tensors_that_are_not_found_is_refused(kind):
    make, read, match = UNKNOWN[kind]
    x, y = vectors()
    model = Applied(read)
    with pytest.raises(ebb.Error, match=f"the batch has {match}"):
        ebb.torch.compile(model, F.cross_entropy, sgd(model), (make(x), y))
    model = perceptron()
    step = ebb.torch.compile(model, F.cross_entropy, sgd(model), (x, y))
    with pytest.raises(ebb.Error, match=f"the batch has {match}"):
        step(make(x), y)
    with pytest.raises(ebb.Error, match=f"the batch has {match}"):
        step.evaluate(make(x), y)
    assert torch.isfinite(step(x, y))


def test_the_argument_of_a_step_function_that_is_refused_is_named():
    x, _ = vectors()
    match = r"the argument {} of the step function is a Holder.*its tensors.*Bind what stays the same: lambda x, y"
    with pytest.raises(ebb.Error, match=match.format(r"held\.first")):
        ebb.torch.capture_step(lambda held: held["first"].x.sum(), (), {"held": {"first": Holder(x)}})
    with pytest.raises(ebb.Error, match=match.format("1")):
        ebb.torch.capture_step(lambda x, held: held.x.sum() + x, (x, Holder(x)))
    partial = functools.partial(torch.add, x)  # which has a tensor in it
    with pytest.raises(ebb.Error, match="the argument 1 of the step function is a partial"):
        ebb.torch.capture_step(lambda x, add: add(x), (x, partial))


@pytest.mark.parametrize("convert", [torch.Tensor.to_sparse, torch.Tensor.to_sparse_csr], ids=["coo", "csr"])
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state")
def test_sparse_tensors_are_refused_by_name(convert):
    x, y = vectors()
    match = r"the batch has a sparse tensor \(batch\.0\), and steps are compiled for dense ones; use \.to_dense\(\)"
    model = perceptron()
    with pytest.raises(ebb.Error, match=match):
        ebb.torch.compile(model, F.cross_entropy, sgd(model), (convert(x), y))
    step = ebb.torch.compile(model, F.cross_entropy, sgd(model), (x, y))
    for call in (step, step.evaluate, step.predict):
        with pytest.raises(ebb.Error, match=match):
            call(convert(x), y)
    with pytest.raises(ebb.Error, match="the argument 0 of the step function is a sparse tensor"):
        ebb.torch.capture_step(lambda x: x.to_dense() + 1, (convert(x),))
    assert torch.isfinite(step(x, y))


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state")
def test_sparse_tensors_are_trained_eagerly_where_other_batches_are():
    x, y = vectors()
    model = Applied(lambda x: x.to_dense())
    twin = copy.deepcopy(model)
    eager = step_function(twin, F.cross_entropy, sgd(twin))
    step = ebb.torch.compile(model, F.cross_entropy, sgd(model), (x, y), other_batches="eager")
    for given in (x, x.to_sparse(), x.to_sparse_csr(), x):
        assert bits(step(given, y)) == bits(eager(given, y))


def test_a_batch_without_elements_is_refused_where_pytorch_divides_by_their_number():
    def compiled(loss_fn, batch):
        model = nn.Linear(6, 2)
        return ebb.torch.compile(model, loss_fn, sgd(model), batch)

    x, y = torch.randn(5, 6), torch.randn(5, 2)
    match = r"a tensor of the batch has no elements \(batch\.0, of shape \[0, 6\]\).*; leave such batches out"
    with pytest.raises(ebb.Error, match=match):
        compiled(F.mse_loss, (x[:0], y[:0]))
    step = compiled(F.mse_loss, (x, y))
    with pytest.raises(ebb.Error, match=match):
        step(x[:0], y[:0])
    assert torch.isfinite(step(x, y))

    def summed(output, targets):
        return F.mse_loss(output, targets, reduction="sum")

    assert compiled(summed, (x[:0], y[:0]))(x[:0], y[:0]) == 0
    with pytest.raises(ZeroDivisionError):
        compiled(lambda output, targets: summed(output, targets) * (1 / 0), (x, y))


def test_a_dataclass_that_pytorch_knows_is_looked_into():
    @dataclasses.dataclass
    class Known:
        x: torch.Tensor

    torch.export.register_dataclass(Known)
    eager, step = both(lambda held: held.x, (Known(vectors()[0]), vectors()[1]))
    for _ in range(3):
        x, y = vectors()
        assert bits(step(Known(x), y)) == bits(eager(Known(x), y))


def test_a_named_tuple_is_looked_into_and_names_its_tensors():
    x, y = vectors()
    eager, step = both(lambda x, shift: x + shift, (Pair(x, x), y))  # a tuple: spread over the model's arguments
    assert list(step.captured.inputs) == ["batch.0.x", "batch.0.shift", "batch.1"]
    for _ in range(3):
        x, y = vectors()
        assert bits(step(Pair(x, x + 1), y)) == bits(eager(Pair(x, x + 1), y))


PLAIN = [True, 2, 0.5, 1 + 2j, "a", b"a", None, torch.float32, torch.device("cpu"), Mode.DOUBLE]
PLAIN += [numpy.float32(2.0), numpy.bool_(True)]


@pytest.mark.parametrize("value", PLAIN, ids=str)
def test_plain_values_are_constants_of_the_step(value):
    x, y = vectors()
    eager, step = both(lambda x, value: x * 3 if value == PLAIN[1] else x, (x, value, y))
    for other in (value, 2, value):
        assert bits(step(x, other, y)) == bits(eager(x, other, y))


def test_modules_and_optimizers_may_be_arguments_of_a_step_function_and_are_watched():
    def train(model, optimizer, x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    model = perceptron()
    optimizer = sgd(model)
    twin = copy.deepcopy(model)
    twin_optimizer = sgd(twin)
    batch = vectors()
    step = ebb.torch.compile_step(train, (model, optimizer, *batch))
    for _ in range(3):
        assert bits(step(model, optimizer, *batch)) == bits(train(twin, twin_optimizer, *batch))
    assert "0.weight" in step.captured.state
    model.eval()
    with pytest.raises(ebb.Error, match="was training when the step was captured"):
        step(model, optimizer, *batch)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = perceptron()

    def encode(self, x):
        return self.layers(x)


def test_methods_and_partials_may_be_arguments_of_a_step_function():
    def train(encode, optimizer, loss_fn, x, y):
        optimizer.zero_grad()
        loss = loss_fn(encode(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def smoothed(smoothing):
        return functools.partial(F.cross_entropy, label_smoothing=smoothing)

    model, batch = Encoder(), vectors()
    optimizer = sgd(model)
    twin = copy.deepcopy(model)
    twin_optimizer = sgd(twin)
    step = ebb.torch.compile_step(train, (model.encode, optimizer, smoothed(0.1), *batch))
    assert "layers.0.weight" in step.captured.state
    for smoothing in (0.1, 0.1, 0.2, 0.1):  # made anew for each call
        loss = step(model.encode, optimizer, smoothed(smoothing), *batch)
        assert bits(loss) == bits(train(twin.encode, twin_optimizer, smoothed(smoothing), *batch))
    assert len(step._programs._others) == 1


def test_a_packed_sequence_is_refused_with_the_line_that_reads_its_sizes():
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.GRU(6, 3, batch_first=True)

        def forward(self, x):
            return self.layer(x)[1][-1]

    lengths = torch.tensor([4, 3, 1])
    packed = nn.utils.rnn.pack_padded_sequence(torch.randn(3, 4, 6), lengths, batch_first=True)
    model = Recurrent()
    with pytest.raises(ebb.Error, match=r"needs the values of a tensor inside of PyTorch.*in forward: return self\.layer"):
        ebb.torch.compile(model, F.cross_entropy, sgd(model), ({"x": packed}, torch.zeros(3, dtype=torch.int64)))


def test_not_a_number_is_captured_once():
    x, y = vectors()
    _, step = both(lambda x, value: x, (x, float("nan"), y))
    for value in (float("nan"), numpy.nan, -float("nan")):
        step(x, value, y)
    assert step._programs._others == []


def test_zeros_of_either_sign_are_told_apart():
    x, y = vectors()
    eager, step = both(lambda x, value: torch.copysign(x, value), (x, 0.0, y))
    for value in (0.0, -0.0, 0.0):
        assert bits(step(x, value, y)) == bits(eager(x, value, y))


def test_leaves_of_a_batch_are_told_apart():
    class Optional(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(6, 3), nn.Linear(6, 3)

        def forward(self, a=None, b=None):
            return (self.a(a) if a is not None else self.b(b)).sum()

    torch.manual_seed(0)
    model = Optional()
    twin = copy.deepcopy(model)
    x = torch.randn(2, 6)
    step = ebb.torch.compile(model, None, sgd(model), {"a": x, "b": None})
    eager = step_function(twin, None, sgd(twin))
    for batch in ({"a": x, "b": None}, {"a": None, "b": x}, {"a": x, "b": None}):
        assert torch.equal(step(**batch), eager(**batch))


def test_batches_that_lie_otherwise_have_eager_bits():
    torch.manual_seed(0)
    model = nn.Linear(300, 7)
    twin = copy.deepcopy(model)
    x, y = torch.randn(64, 300), torch.randint(0, 7, (64,))
    step = ebb.torch.compile(model, F.cross_entropy, sgd(model), (x, y))
    eager = step_function(twin, F.cross_entropy, sgd(twin))
    turned = x.t().contiguous().t()
    for batch in ((x, y), (turned, y), (x, y)):
        assert torch.equal(step(*batch), eager(*batch))
