"""Steps on a GPU. Where there is none, these are skipped; scripts/device takes them to one."""

import copy
import json
import os
import re
import shutil
import subprocess

import pytest
import torch
import torch.nn.functional as F
import torchvision
from same_bits import differences, train_both
from small_models import Transformer, UNet3d, convolutional, images, perceptron, sentences, vectors, word_loss

import ebb.torch
from ebb.torch._step_function import step_function

pytestmark = pytest.mark.cuda

MODELS = {
    "perceptron": (perceptron, F.cross_entropy, lambda: vectors()),
    "convolutional": (convolutional, F.cross_entropy, lambda: images(4, 16)),
    "transformer": (Transformer, word_loss, lambda: sentences(2, 16, 100)),
}
OPTIMIZERS = {
    "sgd": lambda model: torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9),
    "adam": lambda model: torch.optim.Adam(model.parameters(), lr=1e-3, fused=True),
}


@pytest.fixture(autouse=True)
def deterministic():
    # The derivative of max_pool3d has no deterministic kernel; windows that do not overlap need none.
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)


def train_on_gpu(model, optimizer, **options):
    make_model, loss_fn, make_batch = MODELS[model]
    batch = tuple(tensor.cuda() for tensor in make_batch())
    return train_both(lambda: make_model().cuda(), loss_fn, OPTIMIZERS[optimizer], [batch], **options)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("model", MODELS)
def test_a_step_on_the_gpu_has_eagers_bits(model, optimizer):
    memory = train_on_gpu(model, optimizer).memory()
    assert memory.peak_bytes <= memory.budget_bytes


def least_budget(make):
    """The least budget that there is a plan for, and the step that was made for it."""
    with pytest.raises(ebb.Error) as caught:
        make(budget="1KiB")
    return re.search(r"the least budget found is (\d+[KMG]?i?B)", str(caught.value))[1]


def voxel_loss(output, targets):
    """The mean of losses has a fixed order of additions; cross_entropy's own on volumes has none."""
    return F.cross_entropy(output, targets, reduction="none").mean()


def larger(name):
    """Sizes at which activations count, as they do in practice."""
    if name == "resnet":
        model = torchvision.models.resnet18(num_classes=10).cuda().to(memory_format=torch.channels_last)
        batch = tuple(tensor.cuda() for tensor in images(64, 64))
        return model, F.cross_entropy, (batch[0].contiguous(memory_format=torch.channels_last), batch[1] % 10)
    if name == "unet":
        batch = torch.randn(2, 1, 32, 32, 32).cuda(), torch.randint(0, 3, (2, 32, 32, 32)).cuda()
        return UNet3d().cuda(), voxel_loss, batch
    batch = tuple(tensor.cuda() for tensor in sentences(32, 64, 100))
    return Transformer(length=64, blocks=4).cuda(), word_loss, batch


@pytest.mark.parametrize("budget", ["50%", "least"])
@pytest.mark.parametrize("name", ["resnet", "unet", "transformer"])
def test_a_step_inside_a_budget_has_the_bits_of_the_step_as_it_is(name, budget):
    torch.manual_seed(0)
    model, loss_fn, batch = larger(name)
    other = copy.deepcopy(model)
    optimizers = [OPTIMIZERS["adam"](each) for each in (model, other)]

    def make(budget):
        return ebb.torch.compile(other, loss_fn, optimizers[1], batch, budget=budget)

    plain = ebb.torch.compile(model, loss_fn, optimizers[0], batch)
    if budget == "50%":
        try:
            step = make("50%")
        except ebb.Error:
            step = make(least_budget(make))
    else:
        step = make(least_budget(make))
    plan = step.report()["plan"]
    assert plan["tensors_swapped"] + plan["tensors_recomputed"] > 0
    assert step.memory().peak_bytes == plan["peak_bytes"] <= step.memory().budget_bytes
    for _ in range(4):
        torch.manual_seed(1)
        loss = plain(*batch)
        torch.manual_seed(1)
        assert step(*batch).item() == loss.item()
    assert differences(model, optimizers[0], other, optimizers[1]) == []


def test_state_on_the_host_is_refused_with_a_remedy():
    model = perceptron().cuda()
    with pytest.raises(ebb.Error, match="fused=True"):
        ebb.torch.compile(model, F.cross_entropy, torch.optim.Adam(model.parameters()), vectors_on_gpu())


def vectors_on_gpu():
    return tuple(tensor.cuda() for tensor in vectors())


def test_steps_follow_what_the_callers_stream_does():
    """A batch that is made in a stream of the caller's is there when the step reads it."""
    model = perceptron().cuda()
    other = copy.deepcopy(model)
    batch = vectors_on_gpu()
    eager = step_function(other, F.cross_entropy, OPTIMIZERS["sgd"](other))
    expected = [eager(*batch).item() for _ in range(3)]
    step = ebb.torch.compile(model, F.cross_entropy, OPTIMIZERS["sgd"](model), batch)
    stream = torch.cuda.Stream()
    big = torch.randn(4096, 4096, device="cuda")
    torch.cuda.synchronize()
    losses = []
    with torch.cuda.stream(stream):
        for _ in expected:
            late = torch.zeros_like(batch[0])
            for _ in range(10):
                big = big @ big / 4096  # takes a while
            late += batch[0]
            losses.append(step(late, batch[1]))
    stream.synchronize()
    assert [loss.item() for loss in losses] == expected


def test_memory_that_somebody_else_has_is_said_to_be_missing():
    layers = torch.nn.Sequential(*[torch.nn.Linear(4096, 4096) for _ in range(2)]).cuda()
    batch = (torch.zeros(60_000, 4096, device="cuda"), torch.zeros(60_000, 4096, device="cuda"))
    free, _ = torch.cuda.mem_get_info()
    blocker = torch.empty(free - 2**29, dtype=torch.uint8, device="cuda")
    with pytest.raises(ebb.Error) as caught:
        ebb.torch.compile(layers, F.mse_loss, OPTIMIZERS["sgd"](layers), batch)
    assert caught.value.kind == "infeasible"
    del blocker
    torch.cuda.empty_cache()
    step = ebb.torch.compile(layers, F.mse_loss, OPTIMIZERS["sgd"](layers), batch)
    assert torch.isfinite(step(*batch))


def test_a_saved_step_runs_without_python(tmp_path):
    tool = os.environ.get("EBB_TOOL") or shutil.which("ebb")
    model, loss_fn, batch = larger("resnet")
    optimizer = OPTIMIZERS["adam"](model)
    ebb.torch.capture(model, loss_fn, optimizer, batch).save(tmp_path / "step.ebb")
    eager = step_function(model, loss_fn, optimizer)
    losses = [eager(*batch).item() for _ in range(3)]
    for budget in ("100%", "70%"):
        done = subprocess.run(
            [tool, "run", tmp_path / "step.ebb", "--steps", "3", "--json", "--budget", budget,
             "--trace", tmp_path / "trace.json"],
            capture_output=True, text=True, check=False, timeout=120,
        )
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
        assert [step["outputs"][0] for step in report["steps"]] == losses
        assert json.loads((tmp_path / "trace.json").read_text())
