"""Steps with a gradient scaler: eager's bits, also where gradients overflow and the step is skipped."""

import copy

import pytest
import torch
import torch.nn.functional as F
from same_bits import differences
from small_models import convolutional, images, perceptron, vectors

import ebb
import ebb.torch

OPTIMIZERS = {
    "adam": lambda model: torch.optim.Adam(model.parameters(), lr=0.01, fused=True),
    "adamw": lambda model: torch.optim.AdamW(model.parameters(), lr=0.01, fused=True),
    "sgd": lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, fused=True),
}


def new_scaler(**options):
    return torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=3, **options)


def overflowing(batch):
    """A batch whose loss is finite and whose scaled gradients are not."""
    x, y = batch
    return x * 1e37, y


class Eager:
    """The loop of PyTorch's documentation."""

    def __init__(self, model, loss_fn, optimizer, scaler, clip_grad_norm=None, accumulate=1):
        self.model, self.loss_fn, self.optimizer, self.scaler = model, loss_fn, optimizer, scaler
        self.clip_grad_norm, self.accumulate = clip_grad_norm, accumulate

    def __call__(self, x, y):
        self.optimizer.zero_grad()
        total = None
        for part_x, part_y in zip(x.chunk(self.accumulate), y.chunk(self.accumulate), strict=True):
            loss = self.loss_fn(self.model(part_x), part_y)
            if self.accumulate > 1:
                loss = loss / self.accumulate
            self.scaler.scale(loss).backward()
            total = loss.detach() if total is None else total + loss.detach()
        if self.clip_grad_norm is not None:
            self.scaler.unscale_(self.optimizer)
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip_grad_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return total


def both(make_model, make_optimizer, batch, loss_fn=F.cross_entropy, **options):
    torch.manual_seed(0)
    model = make_model()
    other = copy.deepcopy(model)
    eager = Eager(model, loss_fn, make_optimizer(model), new_scaler(), **options)
    optimizer, scaler = make_optimizer(other), new_scaler()
    step = ebb.torch.compile(other, loss_fn, optimizer, batch, scaler=scaler, **options)
    return eager, step, other, optimizer, scaler


def check(eager, step, model, optimizer, scaler, batches):
    """Trains both; returns after how many steps the scale was what."""
    scales = []
    for batch in batches:
        state = torch.get_rng_state()
        ours = step(*batch)
        torch.set_rng_state(state)
        theirs = eager(*batch)
        assert torch.equal(ours, theirs) or (ours.isnan() and theirs.isnan())
        assert scaler.state_dict() == eager.scaler.state_dict()
        assert differences(eager.model, eager.optimizer, model, optimizer) == []
        scales.append(scaler.get_scale())
    return scales


@pytest.mark.parametrize("options", [{}, {"clip_grad_norm": 0.1}, {"accumulate": 2}], ids=str)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_scaled_steps_and_skipped_ones_have_eager_bits(name, options):
    batch = vectors(6)
    training = both(perceptron, OPTIMIZERS[name], batch, **options)
    batches = [batch, overflowing(batch), batch, batch, batch, overflowing(vectors(6)), vectors(6)]
    scales = check(*training, batches)
    assert scales == [1024.0, 512.0, 512.0, 512.0, 1024.0, 512.0, 512.0]


def test_batch_norm_dropout_and_batches_of_another_shape_have_eager_bits():
    def loss(output, targets):
        return F.cross_entropy(output, targets[:, 0].long()) * targets[0, 1]

    def weighed(count, weight):
        x, y = images(count, 8)
        return x, torch.stack([y.float(), torch.full((count,), weight)], dim=1)

    batch, last, heavy = weighed(6, 1.0), weighed(4, 1.0), weighed(4, 1e37)
    training = both(convolutional, OPTIMIZERS["adam"], batch, loss)
    scales = check(*training, [batch, last, heavy, batch, last, batch])
    assert scales == [1024.0, 1024.0, 512.0, 512.0, 512.0, 1024.0]
    step, model = training[1:3]
    with torch.no_grad():
        expected = loss(model.eval()(batch[0]), batch[1])
    model.train()
    assert torch.equal(step.evaluate(*batch), expected)


def test_a_skipped_step_changes_nothing_but_the_scale():
    batch = vectors(6)
    _, step, model, optimizer, scaler = both(perceptron, OPTIMIZERS["adam"], batch)
    step(*batch)
    before = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    step(*overflowing(batch))
    twin = perceptron()
    twin_optimizer = OPTIMIZERS["adam"](twin)
    twin.load_state_dict(before[0])
    twin_optimizer.load_state_dict(before[1])
    assert differences(twin, twin_optimizer, model, optimizer) == []
    assert scaler.get_scale() == 512.0


def test_half_precision_with_autocast_has_eager_bits():
    torch.manual_seed(0)
    batch = vectors(6)
    model = perceptron()
    other = copy.deepcopy(model)
    optimizer, other_optimizer = OPTIMIZERS["adam"](model), OPTIMIZERS["adam"](other)
    scaler, other_scaler = new_scaler(), new_scaler()
    step = ebb.torch.compile(
        other, F.cross_entropy, other_optimizer, batch, scaler=other_scaler, autocast=torch.float16
    )
    for _ in range(4):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.cross_entropy(model(batch[0]), batch[1])
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        assert torch.equal(step(*batch), loss)
    assert differences(model, optimizer, other, other_optimizer) == []
    assert scaler.state_dict() == other_scaler.state_dict()


def test_a_loaded_scale_counts_and_other_factors_are_refused():
    batch = vectors(6)
    training = both(perceptron, OPTIMIZERS["adam"], batch)
    eager, step, _, _, scaler = training
    check(*training, [batch])
    for one in (scaler, eager.scaler):
        one.load_state_dict({**one.state_dict(), "scale": 4.0, "_growth_tracker": 2})
    assert check(*training, [batch, batch]) == [8.0, 8.0]
    for one in (scaler, eager.scaler):
        one.update(new_scale=32.0)
    assert check(*training, [batch]) == [32.0]
    scaler.set_growth_factor(4.0)
    with pytest.raises(ebb.Error, match="growth_factor of the gradient scaler was 2.0"):
        step(*batch)


def test_a_scaler_that_is_off_does_nothing():
    torch.manual_seed(0)
    model = perceptron()
    twin = copy.deepcopy(model)
    batch = vectors()
    optimizer, twin_optimizer = (torch.optim.Adam(m.parameters()) for m in (model, twin))
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    step = ebb.torch.compile(model, F.cross_entropy, optimizer, batch, scaler=scaler)
    plain = ebb.torch.compile(twin, F.cross_entropy, twin_optimizer, batch)
    assert torch.equal(step(*batch), plain(*batch))
    assert differences(model, optimizer, twin, twin_optimizer) == []


def test_optimizers_that_are_not_fused_are_refused_and_nothing_is_left_behind():
    model = perceptron()
    optimizer = torch.optim.Adam(model.parameters())
    scaler = new_scaler()
    with pytest.raises(ebb.Error, match=r"whether Adam does its step.*fused=True"):
        ebb.torch.compile(model, F.cross_entropy, optimizer, vectors(), scaler=scaler)
    assert not optimizer.state and not hasattr(optimizer, "found_inf")
    eager = Eager(model, F.cross_entropy, optimizer, scaler)
    assert torch.isfinite(eager(*vectors()))
    with pytest.raises(ebb.Error, match=r"must be a torch.amp.GradScaler"):
        ebb.torch.compile(model, F.cross_entropy, optimizer, vectors(), scaler=3)


def test_a_step_of_ones_own_may_use_a_scaler():
    torch.manual_seed(0)
    model = perceptron()
    twin = copy.deepcopy(model)
    eager, ours = (Eager(m, F.cross_entropy, OPTIMIZERS["sgd"](m), new_scaler()) for m in (model, twin))
    step = ebb.torch.compile_step(ours.__call__, vectors())
    for batch in (vectors(), overflowing(vectors()), vectors()):
        assert torch.equal(step(*batch), eager(*batch))
    assert ours.scaler.state_dict() == eager.scaler.state_dict()
    assert differences(eager.model, eager.optimizer, ours.model, ours.optimizer) == []


def test_a_closed_step_leaves_the_scaler_in_use():
    batch = vectors(6)
    eager, step, model, optimizer, scaler = both(perceptron, OPTIMIZERS["adam"], batch)
    assert torch.equal(step(*batch), eager(*batch))
    step.close()
    goes_on = Eager(model, F.cross_entropy, optimizer, scaler)
    assert torch.equal(goes_on(*batch), eager(*batch))
    assert scaler.state_dict() == eager.scaler.state_dict()
