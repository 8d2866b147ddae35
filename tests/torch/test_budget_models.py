"""Larger architectures inside byte budgets, as those of test_budget.py."""

import pytest
import torch
import torch.nn.functional as F
import torchvision
from small_models import images
from test_budget import Pair, adamw, sgd

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
