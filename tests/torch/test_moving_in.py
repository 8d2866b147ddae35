"""Tensors that take the places of others in a compiled step: they move in, and what was there keeps its bytes."""

import copy
import gc
import weakref

import pytest
import torch
import torch.nn.functional as F
from same_bits import bits, differences
from small_models import perceptron, vectors
from test_resume import adamw, compiled, same_values

import ebb.torch
from ebb.torch._step_function import Task


def test_parameters_given_other_memory_move_in_again():
    model = perceptron()
    batch = vectors()
    step = compiled(model, adamw(model), batch)
    for parameter in model.parameters():
        parameter.data = torch.zeros_like(parameter)
    assert step(*batch).item() == pytest.approx(torch.tensor(3.0).log().item())
    assert not torch.equal(model[2].bias, torch.zeros(3))


def exchange_data(a, b):
    a.data, b.data = b.data, a.data


def test_weights_that_change_places_with_their_average_come_back():
    torch.manual_seed(0)
    model, batch = perceptron(), vectors()
    optimizer = adamw(model)
    twin, twin_optimizer = copy.deepcopy((model, optimizer))
    step = compiled(model, optimizer, batch)
    eager = Task(twin, F.cross_entropy, twin_optimizer)
    averages = [copy.deepcopy(model) for _ in range(2)]
    for _ in range(3):
        assert torch.equal(step(*batch), eager.step(*batch))
        losses = []
        for trained, average in zip((model, twin), averages):
            for own, other in zip(trained.parameters(), average.parameters()):
                exchange_data(own, other)
            losses.append(step.evaluate(*batch) if trained is model else F.cross_entropy(trained(batch[0]), batch[1]))
            for own, other in zip(trained.parameters(), average.parameters()):
                exchange_data(own, other)
                other.data.lerp_(own.data, 0.1)
        assert bits(losses[0]) == bits(losses[1])
        assert same_values(*(average.state_dict() for average in averages))
    assert differences(twin, twin_optimizer, model, optimizer) == []


def exchange_parameters(a, b):
    a.weight, b.weight = b.weight, a.weight


@pytest.mark.parametrize("exchange", [lambda a, b: exchange_data(a.weight, b.weight), exchange_parameters])
def test_parameters_that_change_places_keep_their_bytes(exchange):
    torch.manual_seed(0)
    model, batch = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Tanh(), torch.nn.Linear(6, 6)), vectors()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)  # keeps nothing that would have to change places, too
    twin = copy.deepcopy(model)
    step = compiled(model, optimizer, batch)
    eager = Task(twin, F.cross_entropy, torch.optim.SGD(twin.parameters(), lr=0.1))
    for _ in range(3):
        assert torch.equal(step(*batch), eager.step(*batch))
        for each in (model, twin):
            exchange(each[0], each[2])
    step.close()
    assert same_values(model.state_dict(), twin.state_dict())


@pytest.mark.parametrize("programs", [1, 3])
def test_what_was_put_aside_keeps_its_bytes_and_no_memory_is_kept_for_what_was_dropped(programs):
    model, batch = perceptron(), vectors()
    optimizer = adamw(model)
    step = compiled(model, optimizer, batch)
    step(*batch)
    if programs > 1:
        step(*(each[:2] for each in batch))
        step.evaluate(*batch)
    bias, momentum = model[2].bias, optimizer.state[model[0].weight]["exp_avg"]
    is_dropped = weakref.ref(momentum)
    aside, value = bias.detach(), bias.detach().clone()
    model[2].bias.data = torch.ones(3)
    optimizer.state[model[0].weight]["exp_avg"] = torch.zeros_like(momentum)
    del momentum
    step(*batch)
    assert torch.equal(aside, value) and not torch.equal(bias, value)
    gc.collect()
    assert is_dropped() is None


def test_checkpoints_loaded_beside_other_programs_leave_no_second_copy_of_the_state():
    model, batch = perceptron(), vectors()
    optimizer = adamw(model)
    step = compiled(model, optimizer, batch)
    step(*batch)
    step(*(each[:2] for each in batch))
    before = [weakref.ref(each) for entries in optimizer.state.values() for each in entries.values()]
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    step(*batch)
    gc.collect()
    assert [each() for each in before] == [None] * len(before)


def test_an_array_over_a_parameter_that_left_outlives_the_step():
    model, batch = perceptron(), vectors()
    step = compiled(model, adamw(model), batch)
    array = model[0].weight.detach().numpy()
    model[0].weight.data = torch.ones_like(model[0].weight)
    step(*batch)
    trained = model[0].weight.detach().clone()
    step.close()
    del step, model
    gc.collect()
    assert torch.equal(torch.from_numpy(array.copy()), trained)  # it has the arena, where the newcomer was trained


def test_parameters_assigned_from_the_models_own_state_stay_where_they_are():
    model, batch = perceptron(), vectors()
    optimizer = adamw(model)
    step = compiled(model, optimizer, batch)
    before = list(model.parameters())
    model.load_state_dict(model.state_dict(), assign=True)
    for _ in range(3):
        step(*batch)
    for old, new in zip(before, model.parameters(), strict=True):
        assert old is not new and old.data_ptr() == new.data_ptr()


class Viewing(torch.nn.Module):
    """A buffer is a part of the weight."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(6, 3))
        self.register_buffer("first", self.weight.detach()[0])

    def put(self, data):
        self.weight.data, self.first = data, data[0]

    def forward(self, x):
        return x @ self.weight + self.first


def test_tensors_that_share_memory_move_in_together():
    torch.manual_seed(0)
    model, batch = Viewing(), vectors()
    twin = Viewing()
    twin.put(model.weight.detach().clone())
    step = compiled(model, torch.optim.SGD(model.parameters(), lr=0.1), batch)
    eager = Task(twin, F.cross_entropy, torch.optim.SGD(twin.parameters(), lr=0.1))
    for _ in range(3):
        asides = [each.weight.detach() for each in (model, twin)]
        assert torch.equal(step(*batch), eager.step(*batch))
        assert torch.equal(*asides) and torch.equal(model.first, model.weight[0])
        for each in (model, twin):
            each.put(each.weight.detach() * 0.5)
        assert torch.equal(step(*batch), eager.step(*batch))
        assert torch.equal(*asides) and torch.equal(model.first, model.weight[0])
        assert same_values(model.state_dict(), twin.state_dict())


def test_what_was_put_aside_of_tensors_that_share_memory_keeps_its_bytes():
    model, batch = Viewing(), vectors()
    step = compiled(model, torch.optim.SGD(model.parameters(), lr=0.1), batch)
    step(*batch)
    aside, value = model.first, model.first.clone()
    model.put(torch.ones(6, 3))
    step(*batch)
    assert torch.equal(aside, value)


def test_tensors_that_no_longer_share_memory_are_refused():
    model, batch = Viewing(), vectors()
    step = compiled(model, torch.optim.SGD(model.parameters(), lr=0.1), batch)
    step(*batch)
    model.weight.data = torch.ones(6, 3)
    with pytest.raises(ebb.Error, match=r"shared memory when the step was captured, and do not .* Compile the step again"):
        step(*batch)
    assert torch.equal(model.weight, torch.ones(6, 3))


def tie(model):
    model[0].weight = model[2].weight


def tie_back(model):
    model[2].weight = model[0].weight


def share_data(model):
    model[0].weight.data = model[2].weight.data


@pytest.mark.parametrize("share", [tie, tie_back, share_data])
def test_parameters_that_share_memory_since_the_step_was_captured_are_refused(share):
    model, batch = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Linear(6, 6), torch.nn.Linear(6, 6)), vectors()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = compiled(model, optimizer, batch)
    step(*batch)
    share(model)
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ebb.Error, match=r"2.weight and 0.weight share memory now, and did not .* Compile the step again"):
        step(*batch)
    assert same_values(model.state_dict(), before)


def share_a_part(model):
    model[2].bias.data = model[0].weight.data[1]


def test_parameters_that_share_a_part_since_the_step_was_captured_are_refused():
    model, batch = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Linear(6, 6), torch.nn.Linear(6, 6)), vectors()
    step = compiled(model, torch.optim.SGD(model.parameters(), lr=0.1), batch)
    share_a_part(model)
    with pytest.raises(ebb.Error, match=r"2.bias and 0.weight share memory now, and did not .* Compile the step again"):
        step(*batch)


def test_parameters_in_one_block_share_nothing():
    torch.manual_seed(0)
    model, batch = perceptron(), vectors()
    optimizer = adamw(model)
    twin, twin_optimizer = copy.deepcopy((model, optimizer))
    step = compiled(model, optimizer, batch)
    eager = Task(twin, F.cross_entropy, twin_optimizer)
    for each_model in (model, twin):
        block = torch.cat([each.detach().flatten() for each in each_model.parameters()])
        start = 0
        for each in each_model.parameters():
            each.data = block[start : start + each.numel()].view_as(each)
            start += each.numel()
    for _ in range(2):
        assert torch.equal(step(*batch), eager.step(*batch))
    assert differences(twin, twin_optimizer, model, optimizer) == []


def ones(model):
    model[2].weight.data = torch.ones_like(model[2].weight)


def assign_copies(model):
    model.load_state_dict({name: each.clone() for name, each in model.state_dict().items()}, assign=True)


@pytest.mark.parametrize("change", [ones, assign_copies])
def test_a_parameter_that_was_a_part_of_something_larger_may_be_replaced(change):
    torch.manual_seed(0)
    model, batch = perceptron(), vectors()
    weight = model[2].weight
    block = torch.randn(100)
    weight.data = block[10 : 10 + weight.numel()].view_as(weight)
    twin = copy.deepcopy(model)
    step = compiled(model, torch.optim.SGD(model.parameters(), lr=0.1), batch)
    for each in (model, twin):
        change(each)
    eager = Task(twin, F.cross_entropy, torch.optim.SGD(twin.parameters(), lr=0.1))
    for _ in range(2):
        assert torch.equal(step(*batch), eager.step(*batch))
    step.close()
    assert same_values(model.state_dict(), twin.state_dict())


class Tied(torch.nn.Sequential):
    def __init__(self):
        super().__init__(torch.nn.Linear(6, 6), torch.nn.Tanh(), torch.nn.Linear(6, 6))
        self[2].weight = self[0].weight


def untie_first(model):
    model[0].weight = torch.nn.Parameter(model[0].weight.detach().clone())


def untie_second(model):
    model[2].weight = torch.nn.Parameter(model[2].weight.detach().clone())


@pytest.mark.parametrize("untie", [untie_first, untie_second, assign_copies])
def test_tied_parameters_of_which_one_was_replaced_are_refused_by_both_names(untie):
    model, batch = Tied(), vectors()
    step = compiled(model, torch.optim.SGD(model.parameters(), lr=0.1), batch)
    step(*batch)
    untie(model)
    with pytest.raises(ebb.Error, match=r"^0.weight and 2.weight were one tensor .* compile the step again"):
        step(*batch)


def test_tied_parameters_that_are_replaced_together_move_in():
    torch.manual_seed(0)
    model, batch = Tied(), vectors()
    step = compiled(model, torch.optim.SGD(model.parameters(), lr=0.1), batch)
    new = torch.nn.Parameter(torch.randn(6, 6))
    model[0].weight = model[2].weight = new
    twin = copy.deepcopy(model)
    eager = Task(twin, F.cross_entropy, torch.optim.SGD(twin.parameters(), lr=0.1))
    for _ in range(2):
        assert torch.equal(step(*batch), eager.step(*batch))
    assert model[0].weight is model[2].weight is new
    assert same_values(model.state_dict(), twin.state_dict())


@pytest.mark.parametrize("change", [lambda data: data.t(), lambda data: data[:3], lambda data: data.view(4, 9)])
def test_another_view_of_the_same_memory_is_refused(change):
    model, batch = Tied(), vectors()
    step = compiled(model, torch.optim.SGD(model.parameters(), lr=0.1), batch)
    model[0].weight.data = change(model[0].weight.data)
    before = model[0].weight.detach().clone()
    with pytest.raises(ebb.Error, match=r"0.weight was \[6, 6\] .* Compile the step again"):
        step(*batch)
    step.close()
    assert bits(model[0].weight) == bits(before), "also when it is in memory of its own again"


def test_state_that_is_no_tensor_any_more_is_refused():
    model, batch = perceptron(), vectors()
    optimizer = adamw(model)
    step = compiled(model, optimizer, batch)
    optimizer.state[model[2].bias]["exp_avg"] = 3
    with pytest.raises(ebb.Error, match="2.bias.exp_avg is no tensor any more but 3"):
        step(*batch)
    del optimizer.state[model[2].bias]["exp_avg"]
    with pytest.raises(ebb.Error, match="2.bias.exp_avg is no longer there"):
        step(*batch)


def test_a_parameter_of_another_shape_is_refused():
    model = perceptron()
    batch = vectors()
    step = compiled(model, adamw(model), batch)
    model[2].bias.data = torch.zeros(7)
    with pytest.raises(ebb.Error, match="2.bias was .* Compile the step again"):
        step(*batch)


def test_tied_parameters_of_two_models_are_named_by_their_models():
    one, two = torch.nn.Linear(6, 3), torch.nn.Linear(6, 3)
    two.weight = one.weight
    optimizer = torch.optim.SGD([one.weight, one.bias, two.bias], lr=0.1)

    def train(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(one(x) + two(x), y)
        loss.backward()
        optimizer.step()
        return loss

    batch = vectors()
    step = ebb.torch.compile_step(train, batch)
    two.weight = torch.nn.Parameter(two.weight.detach().clone())
    with pytest.raises(ebb.Error, match="^weight and Linear1.weight were one tensor"):
        step(*batch)


def test_state_in_memory_that_processes_share_is_refused_and_trains_on_in_its_own():
    torch.manual_seed(0)
    model, batch = perceptron(), vectors()
    twin = copy.deepcopy(model)
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (model, twin)]
    model[0].weight.share_memory_()
    with pytest.raises(ebb.Error, match="0.weight is in memory that processes share"):
        compiled(model, optimizers[0], batch)
    model[0].weight.data = model[0].weight.data.clone()
    step, eager = compiled(model, optimizers[0], batch), Task(twin, F.cross_entropy, optimizers[1])
    assert torch.equal(step(*batch), eager.step(*batch))
    model.share_memory()
    with pytest.raises(ebb.Error, match="0.weight is in memory that processes share"):
        step(*batch)
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()
    assert torch.equal(step(*batch), eager.step(*batch))
    model.share_memory()
    step.close()
    assert model[0].weight.is_shared()
    assert same_values(model.state_dict(), twin.state_dict())


def test_a_hook_on_a_parameter_that_took_anothers_place_is_refused():
    model, batch = perceptron(), vectors()
    step = compiled(model, torch.optim.SGD(model.parameters(), lr=0.1), batch)
    old = weakref.ref(model[0].weight)
    assign_copies(model)
    step._captured.optimizers[0].param_groups[0]["params"] = list(model.parameters())
    step(*batch)
    gc.collect()
    assert old() is None
    model[0].weight.register_hook(lambda gradient: None)
    with pytest.raises(ebb.Error, match="the parameter 0.weight has other hooks"):
        step(*batch)
