"""Tensors that forward keeps where a captured step would not find them again: refused, and the model is as it was."""

import collections
import copy
import functools
import random
import types
import warnings

import pytest
import torch
import torch.nn.functional as F
from same_bits import differences
from small_models import sgd, vectors
from torch import nn

import ebb
import ebb.torch
from ebb.torch._step_function import Task


def compiled(model, batch):
    return ebb.torch.compile(model, F.cross_entropy, sgd(model), batch)


class Slotted:
    __slots__ = ("tensor",)

    def __init__(self, tensor):
        self.tensor = tensor


class Keeping(nn.Module):
    """Has a place for what is kept, and a function that keeps it there."""

    shared: dict = {}

    def __init__(self, place, keep):
        super().__init__()
        self.layer = nn.Linear(6, 3)
        self.place = place
        self.keep = keep

    def forward(self, x):
        h = torch.tanh(self.layer(x))
        self.keep(self, h.detach())
        return h


def put(key):
    return lambda model, h: model.place.__setitem__(key, h)


STATE = {  # what there is before, how forward replaces it, and what it is called
    "list": ([torch.zeros(5, 3)], put(0), r"place\[0\]"),
    "dict": ({"h": torch.zeros(5, 3)}, put("h"), r"place\['h'\]"),
    "nested": ({"a": [torch.zeros(5, 3)]}, lambda model, h: model.place["a"].__setitem__(0, h), r"place\['a'\]\[0\]"),
    "object": (types.SimpleNamespace(h=torch.zeros(1)), lambda model, h: setattr(model.place, "h", h), r"place\.h"),
    "slots": (Slotted(torch.zeros(1)), lambda model, h: setattr(model.place, "tensor", h), r"place\.tensor"),
    "deque": (collections.deque([torch.zeros(1)], 1), lambda model, h: model.place.append(h), r"place\[0\]"),
}
NEW = {
    "new in a list": ([], lambda model, h: model.place.append(h), r"place\[0\]"),
    "new in a dict": ({}, lambda model, h: model.place.__setitem__(len(h), h), r"place\[5\]"),
    "in a new tuple": ({}, lambda model, h: model.place.__setitem__(len(h), (1, h)), r"place\[5\]\[1\]"),
    "in a new list": (None, lambda model, h: setattr(model, "place", [h]), r"place\[0\]"),
    "new in a set": (set(), lambda model, h: model.place.add(h), r"place\[\]"),
    "new in an object": (types.SimpleNamespace(), lambda model, h: setattr(model.place, "h", h), r"place\.h"),
    "in a class": (None, lambda model, h: model.shared.__setitem__("h", h), r"shared\['h'\]"),
    "a new attribute": (None, lambda model, h: setattr(model, "other", h), "other"),
}


def seen(value):
    """A value as it can be compared: tensors by what they are, not by what is in them."""
    if isinstance(value, dict):
        return {key: seen(part) for key, part in value.items()}
    if isinstance(value, (list, tuple, set, collections.deque)):
        return [seen(part) for part in value]
    if isinstance(value, Slotted):
        return seen(value.tensor)
    return seen(vars(value)) if isinstance(value, types.SimpleNamespace) else id(value)


@pytest.mark.parametrize("case", [*STATE, *NEW])
def test_a_tensor_that_is_kept_for_later_is_refused_by_name_and_taken_away(case):
    place, keep, name = {**STATE, **NEW}[case]
    model, batch = Keeping(copy.deepcopy(place), keep), vectors()
    before = seen(vars(model))
    remedy = "make it a buffer" if case in STATE else "make it a buffer .* a cache, call the model once before"
    with pytest.raises(ebb.Error, match=rf"the step keeps a tensor as Keeping\.{name} for later; {remedy}"):
        compiled(model, batch)
    assert seen(vars(model)) == before and Keeping.shared == {}
    assert torch.isfinite(model(batch[0])).all()
    Keeping.shared.clear()


def test_what_a_refused_step_has_put_into_containers_is_taken_away():
    def keep(model, h):
        model.place["h"] = h
        return bool(h.sum() > 0)

    model = Keeping({"n": 1}, keep)
    with pytest.raises(ebb.Error, match="decides by the value"):
        compiled(model, vectors())
    assert model.place == {"n": 1}


class Hidden(nn.Module):
    def forward(self, x):
        self.last = x * 2
        return self.last


def test_modules_that_are_nobodys_child_are_looked_at_too():
    model = Keeping([Hidden()], lambda model, h: model.place[0](h))
    model.vocabulary = list(range(200_000))  # too large to be looked at, and no reason to stop
    model.later = {}
    with pytest.raises(ebb.Error, match=r"keeps a tensor as Hidden\.last for later"):
        compiled(model, vectors())
    assert not hasattr(model.place[0], "last")
    model.keep = lambda model, h: model.later.update(h=h)
    with pytest.raises(ebb.Error, match=r"keeps a tensor as Keeping\.later\['h'\] for later"):
        compiled(model, vectors())


def exchange(model, _):
    first, second = model.place
    model.layer(first)
    model.place[:] = second, first


def exchange_attributes(model, _):
    model.layer(model.first)
    model.first, model.second = model.second, model.first


@pytest.mark.parametrize(("keep", "name"), [(exchange, r"place\[0\]"), (exchange_attributes, "first")])
def test_tensors_that_change_places_are_refused_and_put_back(keep, name):
    model = Keeping([torch.ones(6), torch.zeros(6)], keep)
    model.first, model.second = model.place
    before = seen(vars(model))
    with pytest.raises(ebb.Error, match=rf"reads Keeping\.{name} and puts another tensor in its place.*with copy_"):
        compiled(model, vectors())
    assert seen(vars(model)) == before


def test_a_tensor_may_be_chosen_from_those_that_are_there():
    def choose(model, h):
        model.chosen = model.place[len(h)]
        model.layer(model.chosen)

    model, batch = Keeping({5: torch.ones(6), 3: torch.zeros(6)}, choose), vectors()
    model.chosen = model.place[3]
    assert torch.isfinite(compiled(model, batch)(*batch))
    assert model.chosen is model.place[5]


def test_what_a_refused_step_has_counted_is_taken_back():
    def count(model, h):
        model.count += 1
        model.place["n"] += 1
        model.new = 1
        del model.place["gone"]
        return bool(h.sum() > 0)

    model = Keeping(collections.OrderedDict(n=1, gone=2), count)
    model.count = 0
    with pytest.raises(ebb.Error, match="decides by the value"):
        compiled(model, vectors())
    assert (model.count, dict(model.place), hasattr(model, "new")) == (0, {"n": 1, "gone": 2}, False)


class Caching(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 3)
        self.cache = {}

    def forward(self, x):
        if len(x) not in self.cache:
            self.cache[len(x)] = torch.arange(len(x)).unsqueeze(1)
        return self.layer(x) * self.cache[len(x)]


def test_a_cache_that_is_there_before_is_captured_and_one_that_is_not_is_refused_for_other_batches_too():
    torch.manual_seed(0)
    model, (x, y) = Caching(), vectors()
    model(x)
    step = compiled(model, (x, y))
    for run in (step, step.evaluate):
        with pytest.raises(ebb.Error, match=r"keeps a tensor as Caching\.cache\[3\] for later.*with such a batch"):
            run(x[:3], y[:3])
    assert list(model.cache) == [5]
    model(x[:3])
    twin = copy.deepcopy(model)
    optimizer = sgd(twin)
    for size in (3, 5, 3):
        optimizer.zero_grad()
        loss = F.cross_entropy(twin(x[:size]), y[:size])
        loss.backward()
        optimizer.step()
        assert torch.equal(step(x[:size], y[:size]), loss)


def test_a_tensor_that_an_earlier_capture_left_in_a_closure_is_named_by_its_line():
    kept = []

    def train(x):
        kept.append(x * 2)
        return x + kept[0]

    ebb.torch.capture_step(train, (torch.ones(3),))
    with pytest.raises(ebb.Error, match=r"an earlier capture left behind, at .*return x \+ kept\[0\]"):
        ebb.torch.capture_step(train, (torch.ones(3),))


def test_a_tensor_in_a_cache_of_python_is_right_in_the_step_and_named_where_it_is_met_again():
    @functools.lru_cache
    def numbers(count):
        return torch.arange(count).unsqueeze(1)

    class Cached(Caching):
        def forward(self, x):
            return self.layer(x) * numbers(len(x))

    model, (x, y) = Cached(), vectors()
    step = compiled(model, (x, y))
    with pytest.raises(ebb.Error, match="left behind.*Where that is a cache, call the model once before"):
        step.evaluate(x, y)
    numbers.cache_clear()
    expected = F.cross_entropy(model(x), y)
    assert torch.equal(step.evaluate(x, y), expected)
    assert torch.equal(step(x, y), expected)


# What takes another tensor's place is written into that one, which nobody else may have.


class Averaging(nn.Module):
    """Two averages, which begin as one tensor."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 3)
        zeros = torch.zeros(6)
        self.register_buffer("mean", zeros)
        self.register_buffer("variance", zeros)
        self.first = [zeros]

    def forward(self, x):
        self.mean = (0.9 * self.mean + 0.1 * x.mean(0)).detach()
        self.variance = (0.9 * self.variance + 0.1 * x.var(0)).detach()
        return self.layer((x - self.mean + self.first[0]) / (self.variance + 1).sqrt())


def spectral():
    return nn.Sequential(nn.utils.spectral_norm(nn.Linear(6, 8)), nn.ReLU(), nn.Linear(8, 3))


@pytest.mark.parametrize("make", [spectral, Averaging])
def test_tensors_that_share_memory_until_the_model_is_called_have_eager_bits(make):
    torch.manual_seed(0)
    model, batch = make(), vectors()
    torch.manual_seed(0)
    twin = make()
    optimizers = [sgd(model), sgd(twin)]
    step = ebb.torch.compile(model, F.cross_entropy, optimizers[0], batch)
    eager = Task(twin, F.cross_entropy, optimizers[1])
    for _ in range(3):
        assert torch.equal(step(*batch), eager.step(*batch))
        assert torch.equal(model(batch[0]), twin(batch[0]))  # in which tensors take others' places, too
        assert differences(twin, optimizers[1], model, optimizers[0]) == []


class Cutting(nn.Module):
    """Keeps a part of a table that grows with the batch, as caches of positions do."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 3)
        self.register_buffer("table", torch.randn(10, 6))
        self.part = self.table[:5]

    def forward(self, x):
        self.part = self.table[: len(x)]
        return self.layer(x + self.part)


def test_a_view_that_takes_the_place_of_the_same_view_stays_one():
    torch.manual_seed(0)
    model, batch = Cutting(), vectors(5)
    twin = copy.deepcopy(model)
    optimizers = [sgd(model), sgd(twin)]
    step = ebb.torch.compile(model, F.cross_entropy, optimizers[0], batch)
    eager = Task(twin, F.cross_entropy, optimizers[1])
    for _ in range(2):
        assert torch.equal(step(*batch), eager.step(*batch))
        assert model.part.data_ptr() == model.table.data_ptr()
        assert torch.equal(model(batch[0]), twin(batch[0]))


@pytest.mark.parametrize("budget", ["1B", "100%"])
def test_what_a_refused_step_has_taken_apart_is_together_again_and_nothing_was_drawn(budget):
    model, batch = Averaging(), vectors()
    random.seed(0)
    before, state = dict(model._buffers), random.getstate()

    def loss_fn(output, y):
        random.random()
        loss = F.cross_entropy(output, y)
        return loss if budget == "1B" else loss.detach()

    with warnings.catch_warnings(), pytest.raises((ebb.Error, RuntimeError)):
        warnings.simplefilter("ignore")  # of random numbers
        ebb.torch.compile(model, loss_fn, sgd(model), batch, budget=budget)
    assert model.mean is model.variance is before["mean"]
    if budget == "100%":  # refused while it was captured
        assert random.getstate() == state
    random.seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ebb.torch.compile(model, lambda *each: random.random() and F.cross_entropy(*each), sgd(model), batch)
    drawn = random.getstate()
    random.setstate(state)
    random.random()
    assert drawn == random.getstate(), "once, as a first eager step does"


class AveragingInEvalMode(Averaging):
    def forward(self, x):
        return self.layer(x) if self.training else super().forward(x)


def test_where_another_program_of_the_step_finds_tensors_that_share_memory_both_are_named():
    model, batch = AveragingInEvalMode(), vectors()
    step = compiled(model, batch)
    with pytest.raises(ebb.Error, match=r"\.mean, .* and \w+\.\S+ has that memory, too; give each its own with .clone\(\), and compile"):
        step.evaluate(*batch)
    model.variance, model.first[0] = model.variance.clone(), model.first[0].clone()
    assert torch.isfinite(compiled(model, batch).evaluate(*batch))
