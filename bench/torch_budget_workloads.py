"""What bench/torch_budget.py trains: models of the size that people train, with synthetic data on the device."""

from __future__ import annotations

import dataclasses
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
import torchvision
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests" / "torch"))
from small_models import Transformer, word_loss  # noqa: E402

Settings = dict[str, Any]
Batch = tuple[torch.Tensor, ...]


class UNet3d(nn.Module):
    """The 3D U-Net of Çiçek et al. 2016: each level doubles the channels within itself, 32-64 to 256-512."""

    def __init__(self, width: int, levels: int = 4, classes: int = 3) -> None:
        super().__init__()
        widths = [width << level for level in range(levels)]
        self.down = nn.ModuleList()
        channels = 1
        for each in widths:
            self.down.append(self._block(channels, each, 2 * each))
            channels = 2 * each
        self.up = nn.ModuleList()
        self.merge = nn.ModuleList()
        for each in reversed(widths[1:]):
            self.up.append(nn.ConvTranspose3d(channels, channels, 2, stride=2))
            self.merge.append(self._block(channels + each, each, each))
            channels = each
        self.head = nn.Conv3d(channels, classes, 1)

    @staticmethod
    def _block(*channels: int) -> nn.Sequential:
        layers: list[nn.Module] = []
        for first, second in zip(channels, channels[1:], strict=False):
            layers += [nn.Conv3d(first, second, 3, padding=1), nn.BatchNorm3d(second), nn.ReLU(inplace=True)]
        return nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skips = []
        for i, block in enumerate(self.down):
            x = block(F.max_pool3d(x, 2) if i > 0 else x)
            skips.append(x)
        skips.pop()
        for up, merge in zip(self.up, self.merge, strict=True):
            x = merge(torch.cat([up(x), skips.pop()], dim=1))
        return self.head(x)


@dataclasses.dataclass(frozen=True)
class Workload:
    unit: str
    model: Callable[[], nn.Module]
    loss: Callable[..., torch.Tensor]
    optimizer: Callable[[nn.Module], torch.optim.Optimizer]
    batch: Callable[[int], Batch]


def resnet50(settings: Settings) -> Workload:
    device, side = settings["device"], settings["extent"]

    def batch(count: int) -> Batch:
        images = torch.randn(count, 3, side, side, device=device)
        return images.contiguous(memory_format=torch.channels_last), torch.randint(0, 1000, (count,), device=device)

    return Workload(
        unit="images",
        model=lambda: torchvision.models.resnet50().to(device, memory_format=torch.channels_last),
        loss=F.cross_entropy,
        optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9),
        batch=batch,
    )


def voxel_loss(output: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """cross_entropy of volumes adds in no fixed order; the mean of single losses does."""
    return F.cross_entropy(output, targets, reduction="none").mean()


def unet3d(settings: Settings) -> Workload:
    device, side = settings["device"], settings["extent"]
    return Workload(
        unit="volumes",
        model=lambda: UNet3d(4 if settings["small"] else 32).to(device, memory_format=torch.channels_last_3d),
        loss=voxel_loss,
        optimizer=lambda model: torch.optim.Adam(model.parameters(), lr=1e-4, fused=True),
        batch=lambda count: (
            torch.randn(count, 1, side, side, side, device=device).contiguous(memory_format=torch.channels_last_3d),
            torch.randint(0, 3, (count, side, side, side), device=device),
        ),
    )


def gpt2(settings: Settings) -> Workload:
    device, length = settings["device"], settings["extent"]
    words, width, heads, blocks = (100, 32, 4, 2) if settings["small"] else (50257, 1024, 16, 24)
    return Workload(
        unit="sequences",
        model=lambda: Transformer(words, width, heads, blocks, length, settings["dropout"]).to(device),
        loss=word_loss,
        optimizer=lambda model: torch.optim.Adam(model.parameters(), lr=1e-4, fused=True),
        batch=lambda count: tuple(torch.randint(0, words, (count, length), device=device) for _ in range(2)),
    )


WORKLOADS = {"resnet50": resnet50, "unet3d": unet3d, "gpt2": gpt2}
