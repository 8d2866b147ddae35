"""Steps that do unusual things: the same bits, or a refusal, never something else."""

import copy
import threading

import pytest
import torch
import torch.nn.functional as F
from same_bits import bits, train_both
from small_models import perceptron, sgd, vectors
from torch import nn

import ebb
import ebb.torch
from ebb.torch._step_function import step_function


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


# Beside other things.


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


def test_instance_norm_and_reductions_over_everything():
    def make():
        return nn.Sequential(nn.Unflatten(1, (2, 3)), nn.InstanceNorm1d(2), nn.Flatten(), nn.Linear(6, 3))

    train_both(make, lambda out, y: F.cross_entropy(out, y) + out.nanmean(), sgd, [vectors()])


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


def test_a_step_may_return_nothing_and_nested_things():
    batch = (torch.ones(3),)
    assert ebb.torch.compile_step(lambda x: None, batch)(*batch) is None
    result = ebb.torch.compile_step(lambda x: {"a": x + 1, "b": [None, 5, x * 2]}, batch)(*batch)
    assert result["b"][:2] == [None, 5] and torch.equal(result["a"], torch.full((3,), 2.0))


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
