"""Models of several kinds, small enough for tests."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class UNet3d(nn.Module):
    """A 3D U-Net: convolutions, batch normalisation, skip connections over the whole network."""

    def __init__(self, channels: tuple[int, ...] = (4, 8, 16)) -> None:
        super().__init__()
        self.down = nn.ModuleList()
        width = 1
        for out in channels:
            self.down.append(self._block(width, out))
            width = out
        self.up = nn.ModuleList()
        self.merge = nn.ModuleList()
        for out in reversed(channels[:-1]):
            self.up.append(nn.ConvTranspose3d(width, out, 2, stride=2))
            self.merge.append(self._block(2 * out, out))
            width = out
        self.head = nn.Conv3d(width, 3, 1)

    @staticmethod
    def _block(width: int, out: int) -> nn.Sequential:
        layers: list[nn.Module] = []
        for first in (width, out):
            layers += [
                nn.Conv3d(first, out, 3, padding=1),
                nn.BatchNorm3d(out),
                nn.ReLU(inplace=True),
            ]
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


class Block(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.ln_2 = nn.LayerNorm(width)
        self.fc = nn.Linear(width, 4 * width)
        self.out = nn.Linear(4 * width, width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.ln_1(x)).split(width, dim=2)
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (part.view(shape).transpose(1, 2) for part in parts)
        dropout = self.drop.p if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=dropout)
        x = x + self.drop(self.proj(y.transpose(1, 2).reshape(batch, length, width)))
        return x + self.drop(self.out(F.gelu(self.fc(self.ln_2(x)), approximate="tanh")))


class Transformer(nn.Module):
    """In the style of GPT-2: dropout, and one matrix for the words going in and coming out."""

    def __init__(
        self,
        words: int = 100,
        width: int = 32,
        heads: int = 4,
        blocks: int = 2,
        length: int = 16,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.wte = nn.Embedding(words, width)
        self.wpe = nn.Embedding(length, width)
        self.drop = nn.Dropout(dropout)
        self.h = nn.ModuleList(Block(width, heads, dropout) for _ in range(blocks))
        self.ln_f = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.drop(self.wte(tokens) + self.wpe(torch.arange(tokens.size(1), device=tokens.device)))
        for block in self.h:
            x = block(x)
        return self.head(self.ln_f(x))


class Lstm(nn.Module):
    def __init__(self, words: int = 50) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, 16)
        self.lstm = nn.LSTM(16, 32, num_layers=2, batch_first=True, dropout=0.2)
        self.head = nn.Linear(32, words)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(self.embedding(tokens))[0])


class Noisy(nn.Module):
    """Noise is never computed again: where there is little memory it is swapped out."""

    def __init__(self, layers: int = 8) -> None:
        super().__init__()
        self.layers = layers
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x * self.weight
        for _ in range(self.layers):
            x = x * torch.rand_like(x)
        return x


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(8, 10),
    )


def word_loss(output: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(output.flatten(0, 1), targets.flatten())


def vectors(count: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(count, 6), torch.randint(0, 3, (count,))


def images(count: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(count, 3, size, size), torch.randint(0, 10, (count,))


def sentences(count: int, length: int, words: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randint(0, words, (count, length)), torch.randint(0, words, (count, length))


class Experts(nn.Module):
    """Each token goes to the two experts that it scores highest, sorted by expert, in one product."""

    def __init__(self, width=16, hidden=32, experts=4, dtype=torch.float32):
        super().__init__()
        self.router = nn.Linear(width, experts, dtype=dtype)
        self.up = nn.Parameter(0.1 * torch.randn(experts, width, hidden, dtype=dtype))
        self.down = nn.Parameter(0.1 * torch.randn(experts, width, hidden, dtype=dtype))

    def forward(self, x):
        weights, chosen = self.router(x).softmax(-1).topk(2)
        order = chosen.flatten().argsort(stable=True)
        counts = F.one_hot(chosen.flatten(), self.up.size(0)).sum(0)
        ends = counts.cumsum(0).to(torch.int32)
        tokens = x[order // 2]
        hidden = F.relu(F.grouped_mm(tokens, self.up, offs=ends))
        out = F.grouped_mm(hidden, self.down.transpose(1, 2), offs=ends)
        return x + torch.zeros_like(x).index_add(0, order // 2, out * weights.flatten()[order, None])


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1)
