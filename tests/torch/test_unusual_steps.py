"""Steps that do unusual things: the same bits, or a refusal, never something else."""

import copy
import os
import pickle
import threading

import pytest
import torch
import torch.nn.functional as F
from same_bits import bits, train_both
from small_models import perceptron, vectors
from torch import nn

import ebb
import ebb.torch
from ebb.torch._step_function import step_function


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


def compiled(model, batch, loss_fn=F.cross_entropy, optimizer=None):
    return ebb.torch.compile(model, loss_fn, optimizer or sgd(model), batch)


def same_as_eager(make_step, *batches):
    """`make_step()` gives a step and the tensors it trains; both must end alike."""
    step, state = make_step()
    eager, expected = make_step()
    run = ebb.torch.compile_step(step, batches[0])
    for batch in batches:
        ours, theirs = run(*batch), eager(*batch)
        assert torch.equal(ours, theirs)
    assert [bits(t) for t in state] == [bits(t) for t in expected]


# Assignments.


@pytest.mark.parametrize(
    "write",
    [
        lambda h: h[1].copy_(torch.ones(4)),
        lambda h: h[1:].add_(2.0),
        lambda h: h[:, 1:].relu_(),
        lambda h: h.view(-1)[::2].add_(1.0),
        lambda h: h.t().mul_(3.0),
        lambda h: h[:, 0].fill_(7.0),
        lambda h: h.index_put_((torch.tensor([0, 2]),), torch.zeros(2, 4)),
        lambda h: h.masked_fill_(h > 0, 0.5),
        lambda h: h.scatter_(1, torch.zeros(3, 1, dtype=torch.int64), 9.0),
        lambda h: h.copy_(torch.arange(4.0)),
        lambda h: h.copy_(torch.arange(4)),
    ],
)
@pytest.mark.parametrize("tracked", [True, False], ids=["with gradients", "without"])
def test_writing_into_parts_of_intermediates(write, tracked):
    def make():
        torch.manual_seed(0)
        weight = torch.randn(3, 4, requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=0.1)

        def step(x):
            optimizer.zero_grad()
            h = x * weight if tracked else x * 2
            first = h[0]
            write(h)
            loss = (h * weight).sum() + first.sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step, [weight]

    same_as_eager(make, (torch.randn(3, 4),), (torch.randn(3, 4),))


def test_data_assigned_in_a_step_is_an_update():
    def make():
        torch.manual_seed(0)
        layer = nn.Linear(4, 2)

        def step(x):
            layer.zero_grad()
            loss = layer(x).sum()
            loss.backward()
            for p in layer.parameters():
                p.data = p.data - 0.1 * p.grad
            return loss.detach()

        return step, list(layer.parameters())

    same_as_eager(make, (torch.randn(3, 4),), (torch.randn(3, 4),))


def test_gradients_left_for_somebody_else_are_refused():
    layer = nn.Linear(4, 2)

    def step(x):
        layer.zero_grad()
        layer(x).sum().backward()

    refused("leaves them", step, torch.ones(3, 4))
    assert all(p.grad is None for p in layer.parameters())


def test_slices_of_one_tensor_as_batch_do_not_stay_tied():
    model = nn.Linear(4, 4)
    twin = copy.deepcopy(model)
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    step = compiled(model, (x, x), F.mse_loss)
    eager = step_function(twin, F.mse_loss, sgd(twin))
    assert torch.equal(step(x, y), eager(x, y))
    tokens = torch.randint(0, 10, (2, 9))
    model = nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 10), nn.Flatten(0, 1))
    train_both(
        lambda: copy.deepcopy(model),
        lambda out, t: F.cross_entropy(out, t.flatten()),
        sgd,
        [(tokens[:, :-1], tokens[:, 1:])],
    )


def test_layout_changes_in_place_are_views():
    def make():
        weight = torch.ones(3, requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=0.1)

        def step(x):
            optimizer.zero_grad()
            loss = ((x * 2).unsqueeze_(0).t_().squeeze_(1) * weight).sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step, [weight]

    same_as_eager(make, (torch.randn(3),), (torch.randn(3),))


# State in unusual places.


class Centered(nn.Module):
    """A loss with state of its own."""

    def __init__(self):
        super().__init__()
        self.register_buffer("center", torch.zeros(3))
        self.last = torch.zeros(3)

    def forward(self, output, targets):
        loss = F.cross_entropy(output - self.center - self.last, targets)
        self.center = self.center * 0.9 + output.detach().mean(0) * 0.1
        self.last = output.detach()[0].clone()
        return loss


def test_a_loss_module_may_have_buffers_and_attributes_that_change():
    torch.manual_seed(0)
    model, batch = perceptron(), vectors()
    twin, loss, twin_loss = copy.deepcopy(model), Centered(), Centered()
    step = compiled(model, batch, loss)
    eager = step_function(twin, twin_loss, sgd(twin))
    for _ in range(4):
        assert torch.equal(step(*batch), eager(*batch))
    assert bits(loss.center) == bits(twin_loss.center)
    assert bits(loss.last) == bits(twin_loss.last)


def test_state_made_in_forward_is_refused_and_leaves_nothing_behind():
    class Keeps(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(6, 3)
            self.kept = None

        def forward(self, x):
            self.kept = self.layer(x)
            return self.kept

    model = Keeps()
    with pytest.raises(ebb.Error, match="Keeps.kept"):
        compiled(model, vectors())
    assert model.kept is None


def test_a_refused_step_leaves_buffers_as_they_were():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(6, 3)
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x):
            self.count = self.count + 1
            return self.layer(x) if x.sum() > 0 else -self.layer(x)

    model = Odd()
    buffer = model.count
    with pytest.raises(ebb.Error, match="decides by the value"):
        compiled(model, vectors())
    assert model.count is buffer


def test_numbers_made_of_tensors_by_float_are_refused():
    model = nn.Sequential(nn.BatchNorm1d(6, momentum=None), nn.Linear(6, 3))  # reads its count
    with pytest.raises(ebb.Error, match=r"with float\(\)"):
        compiled(model, vectors())
    refused(r"with float\(\)", lambda x: x * float(x.sum()), torch.ones(3))


@pytest.mark.parametrize("kind", [nn.GRU, nn.RNN])
def test_recurrent_layers(kind):
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = kind(6, 8, batch_first=True, bidirectional=True)
            self.head = nn.Linear(16, 3)

        def forward(self, x):
            return self.head(self.layer(x.unsqueeze(1).expand(-1, 4, -1))[0][:, -1])

    train_both(Recurrent, F.cross_entropy, sgd, [vectors(), vectors()])


def test_parametrized_weights():
    def make():
        return nn.Sequential(
            nn.utils.parametrizations.weight_norm(nn.Linear(6, 8)),
            nn.utils.parametrizations.spectral_norm(nn.Linear(8, 3)),
        )

    train_both(make, F.cross_entropy, sgd, [vectors(), vectors()])


def test_gradient_hooks_and_custom_functions():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * 2 + 0 * x

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(6, 3)

        def forward(self, x):
            h = self.layer(x)
            if h.requires_grad:
                h.register_hook(lambda grad: grad.clamp(-0.01, 0.01))
            return Double.apply(h)

    train_both(Model, F.cross_entropy, sgd, [vectors()])


# What would silently go wrong.


def refused(match, step, *args):
    with pytest.raises(ebb.Error, match=match):
        ebb.torch.capture_step(step, args)


def test_a_scheduler_belongs_outside_of_the_step():
    model = perceptron()
    optimizer = sgd(model)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)

    def step(x, y):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        scheduler.step()

    refused("changes the optimizer's lr", step, *vectors())
    assert optimizer.param_groups[0]["lr"] == 0.1


def test_hyperparameters_read_outside_of_the_optimizer_stay_live():
    model = perceptron()
    twin = copy.deepcopy(model)

    def make(model):
        optimizer = sgd(model)

        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                for p in model.parameters():
                    p.mul_(1 - 0.1 * optimizer.param_groups[0]["lr"])
            return loss.detach()

        return step, optimizer

    (step, optimizer), (eager, twin_optimizer) = make(model), make(twin)
    batch = vectors()
    run = ebb.torch.compile_step(step, batch)
    for rate in (0.1, 0.3, 0.01):
        for one in (optimizer, twin_optimizer):
            one.param_groups[0]["lr"] = rate
        assert torch.equal(run(*batch), eager(*batch))
    assert [bits(p) for p in model.parameters()] == [bits(p) for p in twin.parameters()]


def test_gradients_kept_from_step_to_step_are_refused():
    model = perceptron()
    optimizer = sgd(model)

    def step(x, y):
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    refused("zero_grad", step, *vectors())


def test_numbers_read_from_tensors_are_not_returned():
    refused("return the tensor", lambda x: x.sum().item(), torch.ones(3))


@pytest.mark.parametrize(
    "function",
    [lambda z: z * 1j, lambda z: torch.add(z, 1 + 2j), lambda z: torch.full_like(z, 1j)],
    ids=["operand", "added", "fill"],
)
def test_complex_numbers_as_constants_are_refused_with_their_line(function):
    match = "complex numbers as constants are not captured.*test_unusual_steps.py.*compute in real numbers"
    refused(match, function, torch.ones(3, dtype=torch.complex64))


def test_lazy_conjugation_is_refused():
    refused("_conj", lambda z: z.conj() @ z, torch.ones(3, dtype=torch.complex64))


@pytest.mark.parametrize(
    "function",
    [
        lambda w: w.cumprod(0),
        lambda w: w.prod(),
        lambda w: w.prod(0),
        lambda w: torch.ones(4).masked_fill(torch.tensor([True, False, True, False]), w[0]),
    ],
    ids=["cumprod", "prod", "prod of a dimension", "masked_fill"],
)
def test_derivatives_with_other_bits_when_traced_are_refused(function):
    weight = torch.randn(4, requires_grad=True)

    def step(x):
        return torch.autograd.grad((function(weight) * x).sum(), weight)[0]

    refused("has other bits when it is traced", step, torch.ones(4))


def test_instance_norm_and_reductions_over_everything():
    def make():
        return nn.Sequential(nn.Unflatten(1, (2, 3)), nn.InstanceNorm1d(2), nn.Flatten(), nn.Linear(6, 3))

    train_both(make, lambda out, y: F.cross_entropy(out, y) + out.nanmean(), sgd, [vectors()])


def test_writing_through_a_view_of_another_type_is_refused():
    def step(z):
        h = z * 2
        torch.view_as_real(h)[0].mul_(2)
        return h.abs()

    refused("through a view", step, torch.ones(3, dtype=torch.complex64))


def test_what_cannot_be_told_from_a_constant_is_refused():
    count = torch.zeros(())
    refused("cannot be told from a constant", lambda x: x * (count.item() // 4), torch.ones(3))


@pytest.mark.parametrize(
    "change",
    [
        lambda model, _: model.eval(),
        lambda model, _: model[0].weight.requires_grad_(False),
        lambda _, optimizer: optimizer.add_param_group({"params": [nn.Parameter(torch.ones(1))]}),
    ],
    ids=["eval", "requires_grad", "add_param_group"],
)
def test_a_model_that_would_compute_something_else_is_noticed(change):
    model, batch = perceptron(), vectors()
    optimizer = sgd(model)
    step = compiled(model, batch, optimizer=optimizer)
    step(*batch)
    change(model, optimizer)
    with pytest.raises(ebb.Error, match="was captured"):
        step(*batch)


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
    step = compiled(model, (x, y))
    eager = step_function(twin, F.cross_entropy, sgd(twin))
    turned = x.t().contiguous().t()
    for batch in ((x, y), (turned, y), (x, y)):
        assert torch.equal(step(*batch), eager(*batch))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_compiled_step_is_neither_copied_nor_pickled(copied):
    model, batch = perceptron(), vectors()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = ebb.torch.compile(model, F.cross_entropy, optimizer, batch)
    with pytest.raises(ebb.Error, match=r"neither copied nor pickled.*model.state_dict\(\)"):
        copied(step)
    assert torch.isfinite(step(*batch))


@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077])
def test_saved_files_have_the_permissions_of_new_files(tmp_path, umask):
    model = perceptron()
    captured = ebb.torch.capture(
        model, F.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1), vectors()
    )
    before = os.umask(umask)
    try:
        captured.save(tmp_path / "step.ebb")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"step.ebb": 0o666 & ~umask, "step.safetensors": 0o666 & ~umask}


def test_a_folder_that_is_not_there_is_named_by_the_path_that_was_given(tmp_path):
    model = perceptron()
    captured = ebb.torch.capture(
        model, F.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1), vectors()
    )
    with pytest.raises(FileNotFoundError) as caught:
        captured.save(tmp_path / "nowhere" / "step.ebb")
    assert caught.value.filename == str(tmp_path / "nowhere" / "step.ebb")


def test_saving_a_step_that_has_trained_changes_nothing(tmp_path):
    model, batch = perceptron(), vectors()
    optimizer = torch.optim.Adam(model.parameters())
    step = compiled(model, batch, optimizer=optimizer)
    for _ in range(3):
        step(*batch)
    before = [bits(v) for entries in optimizer.state.values() for v in entries.values()]
    step.captured.save(tmp_path / "step.ebb")
    after = [bits(v) for entries in optimizer.state.values() for v in entries.values()]
    assert after == before


def test_captures_on_several_threads_wait_for_each_other():
    errors = []
    generator = torch.set_rng_state

    def work():
        try:
            model = perceptron()
            for _ in range(5):
                ebb.torch.capture(model, F.cross_entropy, sgd(model), vectors())
        except BaseException as error:  # noqa: BLE001: reported below
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert torch.set_rng_state is generator


def test_a_compiled_step_is_not_captured_again():
    model, batch = perceptron(), vectors()
    step = compiled(model, batch)
    refused("captured again", lambda x, y: step(x, y), *batch)


def test_a_capture_within_a_capture_is_refused():
    model, batch = perceptron(), vectors()

    def step(x, y):
        ebb.torch.capture(model, F.cross_entropy, sgd(model), batch)
        return x

    refused("within the capture", step, *batch)


def test_a_failing_second_optimizer_leaves_both_as_they_were():
    model, batch = perceptron(), vectors()

    class Fails(torch.optim.SGD):
        def step(self, closure=None):
            raise RuntimeError("no")

    optimizers = [sgd(model), Fails(model.parameters(), lr=0.2)]
    with pytest.raises(RuntimeError, match="no"):
        ebb.torch.capture(model, F.cross_entropy, optimizers, batch)
    assert [type(o.param_groups[0]["lr"]) for o in optimizers] == [float, float]


def test_a_step_may_return_nothing_and_nested_things():
    batch = (torch.ones(3),)
    assert ebb.torch.compile_step(lambda x: None, batch)(*batch) is None
    result = ebb.torch.compile_step(lambda x: {"a": x + 1, "b": [None, 5, x * 2]}, batch)(*batch)
    assert result["b"][:2] == [None, 5] and torch.equal(result["a"], torch.full((3,), 2.0))


def test_autocast_around_a_step_that_was_captured_without_is_noticed():
    model, batch = perceptron(), vectors()
    step = compiled(model, batch)
    with pytest.raises(ebb.Error, match="autocast"), torch.autocast("cpu"):
        step(*batch)


def test_capture_without_gradients_is_refused():
    model = perceptron()
    with pytest.raises(ebb.Error, match="gradients on"), torch.no_grad():
        compiled(model, vectors())


def test_a_checkpoint_saved_after_eager_training_is_of_one_moment(tmp_path):
    from safetensors.torch import load_file

    model, batch = perceptron(), vectors()
    optimizer = torch.optim.Adam(model.parameters())
    captured = ebb.torch.capture(model, F.cross_entropy, optimizer, batch)
    step_function(model, F.cross_entropy, optimizer)(*batch)
    captured.save(tmp_path / "step.ebb")
    saved = load_file(tmp_path / "step.safetensors")
    assert saved["0.weight.step"].item() == 1
    assert torch.equal(saved["0.weight.exp_avg"], optimizer.state[model[0].weight]["exp_avg"])


def test_close_frees_the_arena():
    import pathlib
    import resource

    def resident():
        return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    model = nn.Linear(6, 3)
    x = torch.randn(1000, 6)

    def step_function_(x):
        return (model(x).repeat(1, 4000) * 2).sum()

    step = ebb.torch.compile_step(step_function_, (x,))
    step(x)
    arena = step.memory().peak_bytes
    before = resident()
    step.close()
    assert before - resident() > arena / 2
