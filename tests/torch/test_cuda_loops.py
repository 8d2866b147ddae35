"""Training loops on a GPU: other batches, evaluation, scalers, reports. Skipped where there is none; scripts/device takes them to one."""

import copy

import pytest
import torch
import torch.nn.functional as F
from same_bits import differences
from small_models import Noisy, Transformer, convolutional, images, perceptron, sentences, vectors, word_loss
from test_moving_in import exchange_data

import ebb.torch
from ebb.torch._step_function import step_function
from ebb.torch._stopwatch import Stopwatch

pytestmark = pytest.mark.cuda

MODELS = {
    "convolutional": (convolutional, F.cross_entropy, lambda n: images(n, 16)),
    "transformer": (Transformer, word_loss, lambda n: sentences(n, 16, 100)),
}


def adam(model):
    return torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)


def cuda(batch):
    return tuple(tensor.cuda() for tensor in batch)


def evaluated(model, loss_fn, batch):
    x, y = batch
    model.eval()
    with torch.no_grad():
        loss = loss_fn(model(x), y)
    model.train()
    return loss


@pytest.mark.parametrize("name", MODELS)
def test_epochs_with_a_partial_batch_and_evaluation_have_eager_bits(name):
    make_model, loss_fn, make_batch = MODELS[name]
    torch.manual_seed(0)
    model = make_model().cuda()
    other = copy.deepcopy(model)
    optimizer, other_optimizer = adam(model), adam(other)
    epoch = [cuda(make_batch(n)) for n in (6, 6, 3)]
    step = ebb.torch.compile(other, loss_fn, other_optimizer, epoch[0])
    eager = step_function(model, loss_fn, optimizer)

    def evaluate(x, y):
        return evaluated(model, loss_fn, (x, y))

    def train(step, evaluate):
        torch.manual_seed(1)
        losses = []
        for _ in range(3):
            losses += [step(*batch) for batch in epoch]
            losses += [evaluate(*batch) for batch in epoch]
        return [loss.item() for loss in losses]

    assert train(step, step.evaluate) == train(eager, evaluate)
    assert differences(model, optimizer, other, other_optimizer) == []


def test_steps_with_a_scaler_have_eager_bits_and_skip_what_overflows():
    torch.manual_seed(0)
    model = perceptron().cuda()
    other = copy.deepcopy(model)
    optimizer, other_optimizer = adam(model), adam(other)
    scaler, other_scaler = (torch.amp.GradScaler("cuda", init_scale=1024.0, growth_interval=2) for _ in range(2))
    options = {"autocast": torch.float16}
    x, y = cuda(vectors(6))
    eager = step_function(model, F.cross_entropy, optimizer, scaler=scaler, **options)
    step = ebb.torch.compile(other, F.cross_entropy, other_optimizer, (x, y), scaler=other_scaler, **options)
    for batch in ((x, y), (x * 1e4, y), (x, y), (x, y), (x, y)):
        ours, theirs = step(*batch), eager(*batch)
        assert torch.equal(ours, theirs) or (ours.isnan() and theirs.isnan())
        assert other_scaler.state_dict() == scaler.state_dict()
    assert differences(model, optimizer, other, other_optimizer) == []


def test_a_learning_rate_that_changes_counts_also_when_steps_are_kept():
    """After three steps with the same one they are a graph of CUDA's."""
    torch.manual_seed(0)
    model = perceptron().cuda()
    other = copy.deepcopy(model)
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (model, other)]
    batch = cuda(vectors(6))
    eager = step_function(model, F.cross_entropy, optimizers[0])
    step = ebb.torch.compile(other, F.cross_entropy, optimizers[1], batch)
    kept = []
    for rate in [0.1] * 5 + [0.02] * 5 + [0.1] * 2:
        for optimizer in optimizers:
            optimizer.param_groups[0]["lr"] = rate
        assert step(*batch).item() == eager(*batch).item()
        kept.append(step._programs.first.runtime.is_kept)
    assert [kept[4], kept[9], kept[11]] == [True, True, False]
    assert differences(model, optimizers[0], other, optimizers[1]) == []


def kept_whole():
    return perceptron(), F.cross_entropy, vectors(6), "100%"


def swapping():
    batch = torch.randn(4096, 256), torch.randn(4096, 256)
    return torch.nn.Sequential(torch.nn.Linear(256, 256), Noisy()), F.mse_loss, batch, "60%"


@pytest.mark.parametrize("make", [kept_whole, swapping])
def test_weights_that_change_places_with_their_average_have_eager_bits(make):
    torch.manual_seed(0)
    model, loss_fn, batch, budget = make()
    models, batch = [model.cuda(), copy.deepcopy(model).cuda()], cuda(batch)
    averages = copy.deepcopy(models)
    optimizers = [adam(model) for model in models]
    step = ebb.torch.compile(models[0], loss_fn, optimizers[0], batch, budget=budget)
    trained = [step, step_function(models[1], loss_fn, optimizers[1])]
    evaluations = [step.evaluate, lambda *batch: evaluated(models[1], loss_fn, batch)]

    def losses(functions):
        for function in functions:
            torch.manual_seed(1)
            yield function(*batch)

    for _ in range(3):
        for _ in range(4):  # the third is recorded, where nothing is swapped, and the fourth done as recorded
            assert torch.equal(*losses(trained))
        assert step._programs.first.runtime.is_kept == (make is kept_whole)
        for model, average in zip(models, averages, strict=True):
            for own, other in zip(model.parameters(), average.parameters(), strict=True):
                exchange_data(own, other)
        assert torch.equal(*losses(evaluations))
        for model, average in zip(models, averages, strict=True):
            for own, other in zip(model.parameters(), average.parameters(), strict=True):
                exchange_data(own, other)
                other.data.lerp_(own.data, 0.1)
        for one, other in zip(*(average.parameters() for average in averages), strict=True):
            assert torch.equal(one, other)
    assert (make is swapping) == bool(step.memory().host_bytes)
    assert differences(models[1], optimizers[1], models[0], optimizers[0]) == []


def test_the_largest_batch_trains_and_all_memory_for_finding_it_is_given_back():
    model = Transformer(blocks=4, dropout=0.0).cuda()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()

    def make_batch(n):
        return cuda(sentences(n, 16, 100))

    n = ebb.torch.largest_batch(make_batch, model, word_loss, adam(model), budget="8MiB", highest=4096)
    assert torch.cuda.memory_reserved() <= before
    step = ebb.torch.compile(model, word_loss, adam(model), make_batch(n), budget="8MiB")
    assert torch.isfinite(step(*make_batch(n)))


def test_steps_are_timed_in_the_stream_and_what_lies_outside_is_counted():
    model = perceptron().cuda()
    batch = cuda(vectors(5))
    kept = torch.empty(32 << 20, dtype=torch.uint8, device="cuda")
    step = ebb.torch.compile(model, F.cross_entropy, adam(model), batch)
    assert step.memory().outside_bytes >= kept.numel()
    for _ in range(60):
        step(*batch)
    torch.cuda.synchronize()
    measured = step.report()["measured"]
    assert measured["steps_done"] == 60 and 0 < measured["step_seconds"] < 1
    assert len(step._stopwatch.seconds()) == Stopwatch.LAST
