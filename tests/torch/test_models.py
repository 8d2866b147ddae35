"""Real architectures train with the same bits as eager PyTorch."""

import copy

import pytest
import torch
import torch.nn.functional as F
import torchvision
from same_bits import train_both
from small_models import Experts, Lstm, Transformer, UNet3d, images, sentences, word_loss
from torch import nn

import ebb
import ebb.torch

models = torchvision.models


def sgd(model):
    return torch.optim.SGD(
        model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, nesterov=True
    )


def adamw(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-3)


def cosine(optimizer):
    return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)


def warmup(optimizer):
    """Begins with a learning rate of 0."""
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 3))


def check(step):
    """What holds for every captured graph, and every program."""
    text = step.captured.text
    assert ebb.find_violations(text) == []
    assert str(ebb.parse(text)) == text
    memory = step.memory()
    assert memory.bound_bytes <= memory.peak_bytes <= 1.03 * memory.bound_bytes


def test_resnet_50_with_a_scheduler():
    batches = [images(2, 64) for _ in range(2)]
    check(train_both(models.resnet50, F.cross_entropy, sgd, batches, scheduler=cosine))


def test_mobilenet_v3_with_clipping():
    batches = [images(4, 64) for _ in range(2)]
    step = train_both(
        models.mobilenet_v3_small, F.cross_entropy, sgd, batches, clip_grad_norm=1.0
    )
    check(step)


def test_densenet_121():
    check(train_both(models.densenet121, F.cross_entropy, adamw, [images(2, 32)]))


def test_vit_b_16_with_dropout():
    def vit():
        return models.VisionTransformer(
            image_size=32,
            patch_size=16,
            num_layers=12,
            num_heads=12,
            hidden_dim=768,
            mlp_dim=3072,
            dropout=0.1,
        )

    check(train_both(vit, F.cross_entropy, sgd, [images(2, 32)], scheduler=warmup))


def test_unet_3d():
    batches = [(torch.randn(1, 1, 16, 16, 16), torch.randint(0, 3, (1, 16, 16, 16)))]
    check(train_both(UNet3d, F.cross_entropy, adamw, batches))


def test_transformer_with_dropout_and_tied_embeddings():
    batches = [sentences(2, 16, 100) for _ in range(3)]
    step = train_both(
        Transformer, word_loss, adamw, batches, scheduler=cosine, clip_grad_norm=1.0
    )
    check(step)
    assert "head.weight" not in step.captured.state, "tied: one parameter"


def test_lstm():
    batches = [sentences(2, 8, 50) for _ in range(2)]
    check(train_both(Lstm, word_loss, adamw, batches, scheduler=cosine))


@pytest.mark.parametrize("options", [{}, {"autocast": torch.bfloat16}], ids=["f32", "bf16"])
def test_channels_last_resnet_18(options):
    def resnet():
        return models.resnet18().to(memory_format=torch.channels_last)

    batches = [(x.to(memory_format=torch.channels_last), y) for x, y in [images(2, 64)]]
    check(train_both(resnet, F.cross_entropy, sgd, batches, steps=3, **options))



def experts(dtype=torch.float32):
    return nn.Sequential(*[Experts(dtype=dtype) for _ in range(3)], nn.Linear(16, 5, dtype=dtype))


def tokens(dtype=torch.float32):
    return torch.randn(64, 16, dtype=dtype), torch.randint(0, 5, (64,))


def loss_in_f32(output, target):
    return F.cross_entropy(output.float(), target)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_mixture_of_experts(dtype):
    check(train_both(lambda: experts(dtype), loss_in_f32, sgd, [tokens(dtype), tokens(dtype)]))


def test_a_product_that_needs_memory_as_its_data_have_it_is_refused():
    model = experts(torch.bfloat16)
    before = copy.deepcopy(model.state_dict())
    step = ebb.torch.compile(model, loss_in_f32, sgd(model), tokens(torch.bfloat16))
    with pytest.raises(ebb.Error, match="what it needs depends on its data.*the state is as before.*aten::_grouped_mm"):
        step(*tokens(torch.bfloat16))
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
