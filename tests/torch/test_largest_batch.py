"""The largest batch that fits is found without training anything."""

import copy
import io
import weakref

import pytest
import torch
import torch.nn.functional as F
from same_bits import differences
from small_models import perceptron, vectors
from torch import nn

import ebb
import ebb.torch
from ebb.torch._largest import _search
from ebb.torch._progress import Progress


def adam(model):
    return torch.optim.Adam(model.parameters(), lr=1e-3)


def test_it_compiles_and_half_as_many_again_do_not():
    model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 3))
    n = ebb.torch.largest_batch(vectors, model, F.cross_entropy, adam(model), budget="40KiB")
    assert n > 10

    def compiled(count):
        twin = copy.deepcopy(model)
        return ebb.torch.compile(twin, F.cross_entropy, adam(twin), vectors(count), budget="40KiB")

    step = compiled(n)
    assert torch.isfinite(step(*vectors(n)))
    assert step.report()["unconstrained_bytes"] > step.memory().budget_bytes >= step.memory().peak_bytes
    with pytest.raises(ebb.Error, match="no plan fits"):
        compiled(n + n // 2)


def test_model_and_optimizer_stay_as_they_are():
    model = perceptron()
    twin = copy.deepcopy(model)
    optimizer, twin_optimizer = adam(model), adam(twin)
    places = [p.data_ptr() for p in model.parameters()]
    batch = vectors(64)
    generator = torch.get_rng_state()

    def make_batch(n):
        return tuple(tensor[:n].clone() for tensor in batch)

    ebb.torch.largest_batch(make_batch, model, F.cross_entropy, optimizer, budget="1MiB", highest=64)
    assert [p.data_ptr() for p in model.parameters()] == places
    assert all(p.grad is None for p in model.parameters())
    assert torch.equal(torch.get_rng_state(), generator)
    assert differences(twin, twin_optimizer, model, optimizer) == []


def test_it_stays_between_lowest_and_highest():
    asked = []

    def make_batch(n):
        asked.append(n)
        return vectors(n)

    model = perceptron()
    arguments = (make_batch, model, F.cross_entropy, adam(model))
    assert ebb.torch.largest_batch(*arguments, budget="1GiB", lowest=3, highest=10) == 10
    assert asked == [3, 6, 10]


def test_where_not_even_the_lowest_fits_it_says_why():
    model = perceptron()
    with pytest.raises(ebb.Error, match="no plan fits into 1.0 KiB") as caught:
        ebb.torch.largest_batch(vectors, model, F.cross_entropy, adam(model), budget="1KiB", lowest=8)
    assert caught.value.kind == "infeasible"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"budget": "50%"}, "per cent"),
        ({"lowest": 0}, "lowest is the smallest batch to try, a whole number from 1 on, and not 0"),
        ({"lowest": 5, "highest": 4}, "no batch from lowest=5 to highest=4"),
        ({"lowest": 2.5}, "lowest is .* a whole number from 1 on, and not 2.5"),
        ({"highest": "3"}, "highest is .* a whole number from 1 on, and not '3'"),
        ({"lowest": True}, "lowest is .* a whole number from 1 on, and not True"),
        ({"budget": "lots"}, "cannot be read"),
        ({"host_budget": "50%"}, "a host budget is written '64GiB', and this is '50%'"),
    ],
)
def test_what_makes_no_sense_is_refused(options, words):
    model = perceptron()
    with pytest.raises(ebb.Error, match=words):
        ebb.torch.largest_batch(vectors, model, F.cross_entropy, adam(model), **{"budget": "1MiB", **options})


@pytest.mark.parametrize(
    "make",
    [lambda n: torch.zeros(n, 10**13), lambda n: torch.empty(n, 2**62), lambda n: [0] * (n * 10**15)],
    ids=["more than there is", "more than can be counted", "of Python"],
)
def test_a_batch_that_cannot_be_made_does_not_fit(make):
    def make_batch(n):
        return vectors(n) if n <= 5 else make(n)

    model = perceptron()
    arguments = (make_batch, model, F.cross_entropy, adam(model))
    assert ebb.torch.largest_batch(*arguments, budget="1GiB") == 5
    with pytest.raises(ebb.Error, match="a batch of 6 cannot even be made: .") as caught:
        ebb.torch.largest_batch(*arguments, budget="1GiB", lowest=6)
    assert caught.value.kind == "infeasible"


def test_a_step_that_needs_more_than_one_sample_is_told_of_lowest():
    model = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.BatchNorm1d(4))
    arguments = (vectors, model, F.cross_entropy, adam(model))
    with pytest.raises(ValueError, match="more than 1 value per channel") as caught:
        ebb.torch.largest_batch(*arguments, budget="1GiB")
    assert caught.value.__notes__ == ["ebb: in the step on make_batch(1); `lowest` is the smallest batch that is tried"]
    assert ebb.torch.largest_batch(*arguments, budget="1GiB", lowest=2, highest=4) == 4


def test_what_fails_otherwise_is_no_want_of_memory():
    def make_batch(n):
        raise RuntimeError("no such file")

    model = perceptron()
    with pytest.raises(RuntimeError, match="no such file"):
        ebb.torch.largest_batch(make_batch, model, F.cross_entropy, adam(model), budget="1GiB")


def test_batches_that_do_not_grow_are_refused():
    model = perceptron()
    with pytest.raises(ebb.Error, match=r"make_batch\(2\) gives a batch like one of another size"):
        ebb.torch.largest_batch(lambda n: vectors(5), model, F.cross_entropy, adam(model), budget="1MiB")


def test_a_batch_that_does_not_fit_is_gone_when_the_next_is_made():
    alive, asked = [], []

    def make_batch(n):
        assert [size for size, batch in alive if batch() is not None] == []
        batch = vectors(n)
        asked.append(n)
        alive.append((n, weakref.ref(batch[0])))
        return batch

    model = perceptron()
    arguments = (make_batch, model, F.cross_entropy, adam(model))
    n = ebb.torch.largest_batch(*arguments, budget="8KiB")
    assert len([size for size in asked if size > n]) > 1
    with pytest.raises(ebb.Error, match="no plan fits"):
        ebb.torch.largest_batch(*arguments, budget="1KiB")
    assert [size for size, batch in alive if batch() is not None] == []


def test_less_host_memory_means_a_smaller_batch():
    model = nn.Sequential(*[nn.Sequential(nn.Linear(16, 16), nn.GELU()) for _ in range(8)])

    def make_batch(n):
        return torch.randn(n, 16), torch.randn(n, 16)

    def largest(host_budget):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        return ebb.torch.largest_batch(
            make_batch, model, F.mse_loss, optimizer, budget="64KiB", host_budget=host_budget, lowest=16
        )

    assert largest("1KiB") < largest("1GiB")


class Attempts:
    """Fits up to a number; notes what it was asked."""

    def __init__(self, most):
        self.most, self.asked, self.why = most, [], ebb.Error("too large", kind="infeasible")

    def __call__(self, n):
        self.asked.append(n)
        return n <= self.most


@pytest.mark.parametrize("most", [1, 2, 3, 7, 8, 100, 1023, 1024, 1025])
def test_the_search_finds_the_border_in_few_attempts(most):
    attempts = Attempts(most)
    assert _search(attempts, 1, None) == most
    assert len(attempts.asked) == len(set(attempts.asked)) <= 2 * most.bit_length() + 2


def test_a_terminal_is_told_which_batch_is_tried(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(Progress, "PATIENCE", 0.0)
    monkeypatch.setattr(Progress, "PAUSE", 0.0)
    model = perceptron()
    ebb.torch.largest_batch(vectors, model, F.cross_entropy, adam(model), budget="1MiB", highest=2)
    assert "ebb: a batch of 2: measuring operations" in terminal.getvalue()
