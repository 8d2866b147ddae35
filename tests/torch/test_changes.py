"""What is changed in a model or an optimizer after the step was captured: refused where eager PyTorch would obey."""

import copy
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
from small_models import Lstm, perceptron, sentences, sgd, vectors, word_loss
from torch import nn

import ebb
import ebb.torch
from ebb.torch._step_function import step_function


def compiled(model, batch, optimizer=None):
    return ebb.torch.compile(model, F.cross_entropy, optimizer or sgd(model), batch)


@pytest.mark.parametrize(
    "change",
    [
        lambda model, _: model.eval(),
        lambda model, _: model[0].weight.requires_grad_(False),
        lambda _, optimizer: optimizer.add_param_group({"params": [nn.Parameter(torch.ones(1))]}),
        lambda _, optimizer: optimizer.param_groups.pop(),
    ],
    ids=["eval", "requires_grad", "add_param_group", "param_groups.pop"],
)
def test_a_model_that_would_compute_something_else_is_noticed(change):
    model, batch = perceptron(), vectors()
    optimizer = sgd(model)
    step = compiled(model, batch, optimizer=optimizer)
    step(*batch)
    change(model, optimizer)
    with pytest.raises(ebb.Error, match="was captured.*ompile the step again"):
        step(*batch)


def test_the_module_that_is_in_another_mode_is_named():
    model, batch = dropping(), vectors()
    step = compiled(model, batch)
    model[2].eval()
    with pytest.raises(ebb.Error, match=r"Dropout '2' was training when the step was captured.* call model.train\(\)"):
        step(*batch)


def test_a_child_that_is_none_is_no_change():
    model, batch = Configured(), vectors()
    step = compiled(model, batch)
    model.add_module("head", None)
    assert torch.isfinite(step(*batch))


CHANGES = {
    "an attribute": lambda model: setattr(model[2], "p", 0.9),
    "a layer": lambda model: setattr(model, "3", nn.Linear(16, 3)),
    "one more layer": lambda model: model.append(nn.ReLU()),
    "a hook": lambda model: model[0].register_forward_hook(lambda *_: None),
    "forward": lambda model: setattr(model[1], "forward", torch.relu),
}


def dropping():
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3))


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_changed_in_the_model_later_is_refused(change):
    model, batch = dropping(), vectors()
    step = compiled(model, batch)
    step.evaluate(*batch)
    CHANGES[change](model)
    with pytest.raises(ebb.Error, match="since the step was captured, .*another computation. Compile the step again"):
        step(*batch)
    with pytest.raises(ebb.Error, match="since the step was captured"):
        step.evaluate(*batch)


class Counting(nn.Module):
    """Forward counts, and evaluates with a counter of its own."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 3)
        self.steps = self.evaluations = 0

    def forward(self, x):
        if self.training:
            self.steps += 1
        else:
            self.evaluations += 1
        return self.layer(x)


def test_what_forward_counts_is_no_change():
    model, batch = Counting(), vectors()
    step = compiled(model, batch)
    for size in (None, 5, None, 3):  # other batches are captured
        part = tuple(tensor[:size] for tensor in batch)
        step(*part)
        step.evaluate(*part)


# Hooks.


HOOKS = {
    "gradient hook": lambda model, _: model[0].weight.register_hook(lambda grad: grad * 0.5),
    "accumulated gradient hook": lambda model, _: model[0].weight.register_post_accumulate_grad_hook(halve_gradient),
    "before the optimizer's step": lambda _, optimizer: optimizer.register_step_pre_hook(halve_gradients),
    "after the optimizer's step": lambda _, optimizer: optimizer.register_step_post_hook(halve_parameters),
}


def halve_gradient(parameter):
    parameter.grad.mul_(0.5)


def halve_gradients(optimizer, args, kwargs):
    for parameter in optimizer.param_groups[0]["params"]:
        parameter.grad.mul_(0.5)


def halve_parameters(optimizer, args, kwargs):
    with torch.no_grad():
        for parameter in optimizer.param_groups[0]["params"]:
            parameter.mul_(0.5)


@pytest.mark.parametrize("hook", HOOKS)
def test_what_hooks_do_is_captured_and_hooks_that_come_or_go_later_are_refused(hook):
    torch.manual_seed(0)
    model, batch = perceptron(), vectors()
    twin = copy.deepcopy(model)
    optimizer, twin_optimizer = sgd(model), sgd(twin)
    handle = HOOKS[hook](model, optimizer)
    HOOKS[hook](twin, twin_optimizer)
    step = compiled(model, batch, optimizer)
    eager = step_function(twin, F.cross_entropy, twin_optimizer)
    for _ in range(3):
        assert torch.equal(step(*batch), eager(*batch))
    step.evaluate(*batch)
    handle.remove()
    with pytest.raises(ebb.Error, match="since the step was captured, .* has other hooks.* Compile the step again"):
        step(*batch)

    model = perceptron()
    optimizer = sgd(model)
    step = compiled(model, batch, optimizer)
    step(*batch)
    HOOKS[hook](model, optimizer)
    with pytest.raises(ebb.Error, match="(the parameter 0.weight|SGD) has other hooks"):
        step(*batch)
    step.evaluate(*batch)  # without gradients


# Python values that modules have.


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


PAIRS = {
    "float32 of numpy": (numpy.float32(1), numpy.float32(2), "value = 1.0 and now has 2.0"),
    "int64 of numpy": (numpy.int64(1), numpy.int64(2), "value = 1 and now has 2"),
    "bool of numpy": (numpy.bool_(True), numpy.bool_(False), "value = True and now has False"),
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


SAME = {
    "not a number": (float("nan"), lambda model: setattr(model, "value", float("nan"))),
    "a large list within a dict": ({"all": list(range(2000))}, lambda model: model.value["all"].clear()),
    "a large dict": ({str(i): i for i in range(5000)}, lambda model: model.value.update({"0": 1})),
    "another large list": (list(range(2000)), lambda model: model.value.clear()),
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


# What the step does not read, and what it writes.


class Momentum(torch.optim.SGD):
    """An optimizer of one's own, which counts."""

    def __init__(self, parameters):
        super().__init__(parameters, lr=0.1, momentum=0.9)
        self.count = 0


class Schedule(torch.optim.lr_scheduler.StepLR):
    pass


class Logger(logging.Logger):
    pass


class Trainer:
    def __init__(self):
        self.global_step = 0
        self.history = []


class Accuracy(nn.Module):
    """A metric as a child, which the loop updates."""

    def __init__(self):
        super().__init__()
        self.count, self.values, self.total = 0, [], torch.zeros(())

    def update(self, loss):
        self.count += 1
        self.values.append(loss.item())
        self.total = self.total + loss


def test_what_belongs_to_the_loop_may_hang_on_the_model():
    model, batch = perceptron(), vectors()
    model.optimizer = Momentum(model.parameters())
    model.scheduler = Schedule(model.optimizer, 1)
    model.logger = Logger("of the loop")
    model.trainer = Trainer()
    model.state = {"epoch": 0}
    whole = nn.ModuleDict({"model": model, "metric": Accuracy()})

    def train(x, y):
        model.optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        model.optimizer.step()
        return loss.detach()

    step = ebb.torch.compile_step(train, batch, modules=whole)
    for i in range(3):
        loss = step(*batch)
        model.optimizer.count += 1
        model.scheduler.step()
        model.logger.setLevel(logging.ERROR)
        model.logger.level_of_loop = i
        model.trainer.global_step += 1
        model.trainer.history.append(i)
        whole["metric"].update(loss)
        model.state["epoch"] += 1
    assert whole["metric"].count == 3


class Noting(nn.Module):
    """Forward notes the shape of its batch, and counts evaluations."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 3)
        self.shape, self.evaluations, self.scale = None, 0, 1.0

    def forward(self, x):
        self.shape = x.shape
        if not self.training:
            self.evaluations += 1
        return self.layer(x) * self.scale


def test_what_forward_writes_is_not_watched_though_it_had_that_value_before():
    model, (x, y) = Noting(), vectors()
    model(x)
    step = compiled(model, (x, y))
    for run in (step, step.evaluate):
        run(x, y)
        model(x[:3])
        model.eval()
        model(x[:2])
        model.train()
        run(x, y)
    model.scale = 2.0
    with pytest.raises(ebb.Error, match="Noting had scale = 1.0 and now has 2.0"):
        step(x, y)


def test_what_forward_reads_as_a_whole_is_watched():
    class Whole(Reading):
        def forward(self, x):
            return self.layer(x) * vars(self)["value"]

    model, batch = Whole(2.0), vectors()
    step = compiled(model, batch)
    model.value = 3.0
    with pytest.raises(ebb.Error, match="Whole had value = 2.0 and now has 3.0"):
        step(*batch)


def test_a_class_that_reads_attributes_in_its_own_way_is_watched_as_a_whole():
    class Own(Reading):
        def __getattribute__(self, name):
            return object.__getattribute__(self, name)

    model, batch = Own(2.0), vectors()
    step = compiled(model, batch)
    model.value = 3.0
    with pytest.raises(ebb.Error, match="Own had value = 2.0 and now has 3.0"):
        step(*batch)


def test_modules_are_as_they_were_after_a_capture_that_failed():
    class Failing(Reading):
        def forward(self, x):
            raise KeyError(self.value)

    before = {name: vars(nn.Module).get(name) for name in ("__getattribute__", "__setattr__")}
    with pytest.raises(KeyError):
        compiled(Failing(1), vectors())
    compiled(Reading(1), vectors())
    assert {name: vars(nn.Module).get(name) for name in ("__getattribute__", "__setattr__")} == before


def test_a_base_class_that_reads_attributes_in_its_own_way_goes_on_doing_so():
    class Doubling:
        def __getattribute__(self, name):
            value = super().__getattribute__(name)
            return value * 2 if name == "value" else value

    class Doubled(Reading, Doubling):
        def forward(self, x):
            return self.layer(x) * self.value

    torch.manual_seed(0)
    model, batch = Doubled(3.0), vectors()
    expected = F.cross_entropy(model(batch[0]), batch[1])
    assert torch.equal(compiled(model, batch)(*batch), expected)


class Keeping(nn.Module):
    """Forward counts in a dictionary, and lengthens a list; both hold what is set from outside, too."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 3)
        self.counts = {"calls": 0, "scale": 2.0}
        self.shapes = []

    def forward(self, x):
        self.counts["calls"] += 1
        self.shapes.append(len(x))
        return self.layer(x) * self.counts["scale"]


def test_what_forward_keeps_in_containers_is_no_change_and_what_lies_beside_it_is_watched():
    model, (x, y) = Keeping(), vectors()
    step = compiled(model, (x, y))
    for size in (None, 5, None, 3):
        step(x[:size], y[:size])
        step.evaluate(x[:size], y[:size])
    model.shapes.clear()
    model.counts["calls"] = 0
    step(x, y)
    model.counts["scale"] = 3.0
    with pytest.raises(ebb.Error, match=r"Keeping had counts\['scale'\] = 2.0 and now has 3.0"):
        step(x, y)


def test_a_tensor_in_a_closure_may_be_written_into_and_numbers_there_are_constants():
    torch.manual_seed(0)
    model, batch = perceptron(), vectors()
    twin = copy.deepcopy(model)
    weight, number = torch.ones(()), [1.0]

    def loss(output, targets):
        return F.cross_entropy(output, targets) * weight * number[0]

    step = ebb.torch.compile(model, loss, sgd(model), batch)
    eager = step_function(twin, loss, sgd(twin))
    for value in (1.0, 0.5, 2.0):
        weight.fill_(value)
        assert torch.equal(step(*batch), eager(*batch))
    number[0] = 3.0
    assert not torch.equal(step(*batch), eager(*batch))
