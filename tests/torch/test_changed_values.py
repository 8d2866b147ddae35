"""Python values that modules have, and that are others later: refused where forward has read them."""

import enum
import functools
import gc
import logging
import types
import weakref

import numpy
import pytest
import torch
import torch.nn.functional as F
from small_models import Lstm, sentences, sgd, vectors, word_loss
from torch import nn

import ebb
import ebb.torch


def compiled(model, batch, optimizer=None):
    return ebb.torch.compile(model, F.cross_entropy, optimizer or sgd(model), batch)


class Mode(enum.Enum):
    PLAIN = 1
    DOUBLE = 2


class Settings:
    kind = "plain"

    def __init__(self):
        self.scale = 2.0
        self.inner = types.SimpleNamespace(shift=1.0)
        self.itself = self


class Configured(nn.Module):
    power = 1

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 3)
        self.weights = [1.0, 2.0]
        self.table = {"k": 2.0, "tensor": torch.ones(3), "nested": [{"a": 1}]}
        self.settings = Settings()
        self.space = types.SimpleNamespace(scale=1.5)
        self.mode = Mode.PLAIN
        self.activation = torch.tanh
        self.kept = [torch.tensor(1.5), torch.tensor(0.0)]  # the second is not read
        self.log = logging.getLogger("configured")
        self.partial = functools.partial(torch.add, 1)
        self._private = [1.0]
        self._trainer = Settings()

    def forward(self, x):
        x = self.layer(x) * self.weights[0] * self.table["k"] * self.settings.scale * self.kept[0]
        if self.mode is Mode.PLAIN:
            x = self.partial(x)
        return self.activation(x + self.settings.inner.shift) * self._private[0] * self.space.scale**self.power


VALUES = {
    "had weights[0] = 1.0 and now has 3.0": lambda model: model.weights.__setitem__(0, 3.0),
    "had weights[2] = none and now has 3.0": lambda model: model.weights.append(3.0),
    "had weights = [1.0, 2.0] and now has none": lambda model: delattr(model, "weights"),
    "had table['k'] = 2.0 and now has 3.0": lambda model: model.table.update(k=3.0),
    "had table['new'] = none and now has 3.0": lambda model: model.table.update(new=3.0),
    "had table['nested'][0]['a'] = 1 and now has 2": lambda model: model.table["nested"][0].update(a=2),
    "had settings.scale = 2.0 and now has 3.0": lambda model: setattr(model.settings, "scale", 3.0),
    "had settings.kind = plain and now has other": lambda model: setattr(model.settings, "kind", "other"),
    "had settings.inner.shift = 1.0 and now has 3.0": lambda model: setattr(model.settings.inner, "shift", 3.0),
    "had space.scale = 1.5 and now has 3.0": lambda model: setattr(model, "space", types.SimpleNamespace(scale=3.0)),
    "had mode = Mode.PLAIN and now has Mode.DOUBLE": lambda model: setattr(model, "mode", Mode.DOUBLE),
    "had activation = tanh and now has relu": lambda model: setattr(model, "activation", torch.relu),
    "had power = 1 and now has 2": lambda model: setattr(model, "power", 2),
    "had partial.args[0] = 1 and now has 2": lambda model: setattr(model, "partial", functools.partial(torch.add, 2)),
    "has another kept[0]": lambda model: model.kept.__setitem__(0, torch.tensor(9.0)),
    "had _private[0] = 1.0 and now has 3.0": lambda model: model._private.__setitem__(0, 3.0),
}


@pytest.mark.parametrize("words", VALUES)
def test_a_number_that_forward_may_read_is_refused_by_name_when_it_is_another(words):
    model, batch = Configured(), vectors()
    step = compiled(model, batch)
    step(*batch)
    VALUES[words](model)
    with pytest.raises(ebb.Error) as caught:
        step(*batch)
    assert f"since the step was captured, Configured {words}: another computation. " in str(caught.value)
    is_tensor = "another" in words
    remedy = "Write into the tensor with copy_" if is_tensor else "keep what the loop counts outside"
    assert remedy in str(caught.value)


NO_CHANGES = {
    "equal values": lambda model: setattr(model, "weights", [1.0, 2.0]),
    "an equal object": lambda model: setattr(model, "space", types.SimpleNamespace(scale=1.5)),
    "a tensor that is not read": lambda model: model.kept.__setitem__(1, torch.tensor(9.0)),
    "a logger": lambda model: model.log.setLevel(logging.ERROR),
    "an object behind a private name": lambda model: setattr(model._trainer, "scale", 3.0),
    "a name that was not there": lambda model: setattr(model, "epoch", 3),
    "a name that a configuration did not have": lambda model: setattr(model.settings, "cached", 3),
    "an equal partial": lambda model: setattr(model, "partial", functools.partial(torch.add, 1)),
    "a cached tensor": lambda model: model.table.update(cached=(torch.ones(3), 1)),
}


@pytest.mark.parametrize("change", NO_CHANGES)
def test_what_is_no_change_of_the_computation_is_none(change):
    model, batch = Configured(), vectors()
    step = compiled(model, batch)
    step(*batch)
    NO_CHANGES[change](model)
    assert torch.isfinite(step(*batch))


def test_a_value_of_the_class_that_is_another_is_refused():
    class Powered(Configured):
        pass

    model, batch = Powered(), vectors()
    step = compiled(model, batch)
    Powered.power = 2
    with pytest.raises(ebb.Error, match="Powered had power = 1 and now has 2"):
        step(*batch)


def test_a_child_that_is_none_is_no_change():
    model, batch = Configured(), vectors()
    step = compiled(model, batch)
    model.add_module("head", None)
    assert torch.isfinite(step(*batch))


class Reading(nn.Module):
    """Has some values, which forward reads."""

    def __init__(self, *values):
        super().__init__()
        self.layer = nn.Linear(6, 3)
        for i, value in enumerate(values):
            setattr(self, f"value{i or ''}", value)

    def forward(self, x):
        for name in ("value", "value1"):
            getattr(self, name, None)
        return self.layer(x)


class Slotted:
    __slots__ = ("scale", "unset")

    def __init__(self, scale):
        self.scale = scale


def objects(*values):
    array = numpy.empty(len(values), object)
    array[:] = values
    return array


PAIRS = {
    "float32 of numpy": (numpy.float32(1), numpy.float32(2), "value = 1.0 and now has 2.0"),
    "int64 of numpy": (numpy.int64(1), numpy.int64(2), "value = 1 and now has 2"),
    "bool of numpy": (numpy.bool_(True), numpy.bool_(False), "value = True and now has False"),
    "an array of numpy": (numpy.ones(2), 2 * numpy.ones(2), r"value = array\(\[1.0, 1.0\]\) and now has array\(\[2.0, 2.0\]\)"),
    "an array of another type": (numpy.ones(1), numpy.ones(1, "f"), r"value = array\(\[1.0\]\) and now has array"),
    "an array of objects": (objects("a", [1]), objects("a", [2]), r"value\[1\]\[0\] = 1 and now has 2"),
    "another array of objects": (objects(1), objects(1, 2), r"value = array\(\[1\]\) and now has array\(\[1, 2\]\)"),
    "an object that is an array": (numpy.array(None), numpy.array("a", object), "value = None and now has a"),
    "a tuple as key": ({(1, 2): 3.0}, {(1, 2): 4.0}, r"value\[\(1, 2\)\] = 3.0 and now has 4.0"),
    "slots": (Slotted(1.0), Slotted(2.0), r"value\.scale = 1.0 and now has 2.0"),
    "memory format": (torch.preserve_format, torch.channels_last, "value = torch.preserve_format and now"),
    "layout": (torch.strided, torch.sparse_coo, "value = torch.strided and now has torch.sparse_coo"),
    "slice": (slice(1), slice(2), "value = slice"),
    "range": (range(1), range(2), "value = range"),
    "float for int": ([1], [1.0], r"value\[0\] = 1 and now has 1.0"),
    "int for bool": ({"a": True}, {"a": 1}, r"value\['a'\] = True and now has 1"),
    "the other zero": ((0.0,), (-0.0,), r"value\[0\] = 0.0 and now has -0.0"),
    "float for int in a set": ({1}, {1.0}, r"value = \{1\} and now has \{1.0\}"),
    "a thousand values": (list(range(1000)), [*range(999), 0], r"value\[999\] = 999 and now has 0"),
    "a new length": ([*range(900)], [*range(800)], r"value\[800\] = 800 and now has none"),
    "a tensor for none": (None, torch.ones(1), "value = None and now has a tensor"),
    "a container for a number": (1, [torch.ones(1)] * 500, r"value = 1 and now has \[a tensor, .{60,80}\.\.\.:"),
    "an object for a number": (1, object(), "value = 1 and now has an object"),
}


@pytest.mark.parametrize("kind", PAIRS)
def test_values_of_all_kinds_are_told_apart(kind):
    before, now, words = PAIRS[kind]
    model, batch = Reading(before), vectors()
    step = compiled(model, batch)
    step(*batch)
    model.value = now
    with pytest.raises(ebb.Error, match=f"Reading had {words}"):
        step(*batch)


def test_an_array_that_is_written_into_is_refused():
    model, batch = Reading(numpy.ones(2)), vectors()
    step = compiled(model, batch)
    step(*batch)
    model.value[1] = 3
    with pytest.raises(ebb.Error, match=r"value = array\(\[1.0, 1.0\]\) and now has array\(\[1.0, 3.0\]\)"):
        step(*batch)


SAME = {
    "an equal array of objects": (objects("a", 1.5), lambda model: setattr(model, "value", objects("a", 3 / 2))),
    "not a number": (float("nan"), lambda model: setattr(model, "value", float("nan"))),
    "a large list within a dict": ({"all": list(range(2000))}, lambda model: model.value["all"].clear()),
    "a large dict": ({str(i): i for i in range(5000)}, lambda model: model.value.update({"0": 1})),
    "another large list": (list(range(2000)), lambda model: model.value.clear()),
    "a large array": (numpy.ones(2000), lambda model: model.value.fill(0)),
    "a large square": ([[0.0] * 900 for _ in range(900)], lambda model: model.value[1].__setitem__(0, 1.0)),
}


@pytest.mark.parametrize("kind", SAME)
def test_equal_values_and_what_is_too_large_to_look_at_are_no_change(kind):
    value, change = SAME[kind]
    model, batch = Reading(value), vectors()
    step = compiled(model, batch)
    change(model)
    assert torch.isfinite(step(*batch))


def test_an_object_that_was_first_met_deep_down_is_looked_into_where_it_stands_higher():
    settings = types.SimpleNamespace(table={"a": [1]})
    model, batch = Reading([[settings]], settings), vectors()
    step = compiled(model, batch)
    settings.table["a"][0] = 2
    with pytest.raises(ebb.Error, match=r"Reading had value1\.table\['a'\]\[0\] = 1 and now has 2"):
        step(*batch)


def test_a_name_that_forward_asked_for_in_vain_is_refused_when_it_is_there():
    model, batch = Reading(), vectors()
    step = compiled(model, batch)
    model.value = 2.0
    with pytest.raises(ebb.Error, match="Reading had value = none and now has 2.0"):
        step(*batch)


def test_what_a_configuration_refers_to_may_be_gone():
    class Owner:
        pass

    owner = Owner()
    model, batch = Reading(types.SimpleNamespace(owner=weakref.proxy(owner)), weakref.proxy(owner)), vectors()
    step = compiled(model, batch)
    del owner
    gc.collect()
    assert torch.isfinite(step(*batch))
    assert torch.isfinite(compiled(model, batch)(*batch))


class Named(str):
    """Counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other):
        Named.compared += 1
        return str(self) == str(other)

    __hash__ = str.__hash__


def test_a_configuration_that_modules_share_is_compared_once_a_step():
    settings, batch = types.SimpleNamespace(name=Named("a")), vectors()
    parts = [nn.Sequential(nn.Linear(3, 6), Reading(settings)) for _ in range(9)]
    model = nn.Sequential(Reading(settings), *parts)
    step = compiled(model, batch)
    settings.name = Named("a")
    Named.compared = 0
    step(*batch)
    assert Named.compared == 1


def test_classes_of_configurations_are_not_kept():
    class Passing:
        def __init__(self):
            self.scale = 1.0

    kind = weakref.ref(Passing)
    model, batch = Reading(Passing()), vectors()
    step = compiled(model, batch)
    step(*batch)
    del Passing, model, step
    gc.collect()
    assert kind() is None


def test_a_module_that_is_nobodys_child_is_watched():
    class Hiding(Reading):
        def forward(self, x):
            return self.layer(nn.Dropout(0.0)(self.value[0](x)))

    model, batch = Hiding([nn.Dropout(0.0)]), vectors()
    step = compiled(model, batch)
    step(*batch)
    assert [type(part).__name__ for part in step.captured._changes._parts] == ["Hiding", "Linear", "Dropout"]
    model.value[0].p = 0.5
    with pytest.raises(ebb.Error, match="Dropout had p = 0.0 and now has 0.5"):
        step(*batch)


def test_a_parameter_where_there_was_none_is_refused():
    model, batch = nn.Linear(6, 3, bias=False), vectors()
    step = compiled(model, batch)
    step(*batch)
    model.bias = nn.Parameter(torch.ones(3))
    with pytest.raises(ebb.Error, match="Linear had bias = None and now has a tensor"):
        step(*batch)


def test_new_parameters_of_a_recurrent_layer_move_in_though_it_has_them_in_a_list_too():
    torch.manual_seed(0)
    model, batch = Lstm(), sentences(3, 7, 50)
    loaded = Lstm()
    step = ebb.torch.compile(model, word_loss, sgd(model), batch)
    step(*batch)
    model.load_state_dict(loaded.state_dict(), assign=True)
    torch.manual_seed(1)
    expected = word_loss(loaded(batch[0]), batch[1])
    torch.manual_seed(1)
    assert torch.equal(step(*batch), expected)
    model.lstm._flat_weights[0] = torch.zeros_like(model.lstm._flat_weights[0])
    with pytest.raises(ebb.Error, match=r"LSTM 'lstm' has another _flat_weights\[0\]"):
        step(*batch)
