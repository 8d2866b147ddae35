"""Larger architectures inside byte budgets, as those of test_budget.py."""

import pytest
import torch
import torch.nn.functional as F
import torchvision
from small_models import images
from test_budget import Pair, adamw, sgd
from torch import nn

models = torchvision.models


def channels_last(batch):
    x, y = batch
    return x.to(memory_format=torch.channels_last), y


def vit():
    return models.VisionTransformer(
        image_size=32, patch_size=8, num_layers=3, num_heads=12, hidden_dim=192, mlp_dim=768, dropout=0.1
    )


MODELS = {
    "resnet_50": (models.resnet50, F.cross_entropy, sgd, lambda: images(4, 64)),
    "channels_last_bf16": (
        lambda: models.resnet18().to(memory_format=torch.channels_last),
        F.cross_entropy,
        sgd,
        lambda: channels_last(images(16, 64)),
        {"autocast": torch.bfloat16},
    ),
    "mobilenet": (models.mobilenet_v3_small, F.cross_entropy, sgd, lambda: images(8, 64)),
    "densenet": (models.densenet121, F.cross_entropy, adamw, lambda: images(8, 32)),
    "vit": (vit, F.cross_entropy, sgd, lambda: images(16, 32)),
}


@pytest.fixture(autouse=True)
def one_thread():
    """Where others want the processors, threads that wait for each other take many times as long."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", MODELS)
def test_with_all_memory_half_of_it_and_the_least(name, tmp_path, monkeypatch):
    monkeypatch.setenv("EBB_CACHE", str(tmp_path))  # what is measured for one budget is known for the next
    pair = Pair(name, MODELS)
    with pair.compile("100%") as step:
        pair.check(step, steps=2)
        assert step.plan == ""
        half = step.memory().peak_bytes // 2

    pair = Pair(name, MODELS)
    with pair.compile_least("50%") as step:
        pair.check(step, steps=2)
        assert step.plan != ""
        is_least = step.memory().budget_bytes > half + 1

    if not is_least:
        pair = Pair(name, MODELS)
        with pair.compile_least() as step:
            pair.check(step, steps=2)
            assert step.memory().budget_bytes < half


def after_linear(norm):
    return lambda: nn.Sequential(nn.Linear(64, 128), norm(128), nn.GELU(), nn.Linear(128, 64), norm(64), nn.GELU(), nn.Linear(64, 10))


def after_convolution(norm):
    return lambda: nn.Sequential(nn.Conv2d(3, 16, 3), norm(16), nn.GELU(), nn.Conv2d(16, 16, 3), nn.Flatten(), nn.Linear(16 * 12 * 12, 10))


def numbers():
    return torch.randn(512, 64), torch.randint(0, 10, (512,))


# Right after a layer that autocast computes in half precision, with weights that stay f32.
NORMALISED = {
    "layer": (after_linear(nn.LayerNorm), numbers),
    "layer_without_bias": (after_linear(lambda n: nn.LayerNorm(n, bias=False)), numbers),
    "layer_without_weight": (after_linear(lambda n: nn.LayerNorm(n, elementwise_affine=False)), numbers),
    "group": (after_convolution(lambda n: nn.GroupNorm(4, n)), lambda: images(16, 16)),
    "group_without_weight": (after_convolution(lambda n: nn.GroupNorm(4, n, affine=False)), lambda: images(16, 16)),
    "batch_without_weight": (after_convolution(lambda n: nn.BatchNorm2d(n, affine=False)), lambda: images(16, 16)),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
@pytest.mark.parametrize("name", NORMALISED)
def test_normalisation_in_half_precision_with_weights_in_f32(name, dtype):
    make_model, make_batch = NORMALISED[name]
    models = {name: (make_model, F.cross_entropy, sgd, make_batch, {"autocast": dtype})}
    pair = Pair(name, models)
    with pair.compile("100%") as step:
        pair.check(step)
        assert step.plan == ""
    pair = Pair(name, models)
    with pair.compile_least("70%") as step:
        pair.check(step)
        assert step.plan != ""
