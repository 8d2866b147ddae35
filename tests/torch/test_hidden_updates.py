"""Operators write what we say they write, and nothing else: watched in eager steps.

Schemas are not to be trusted (batch norm writes its statistics without saying so), so every operator
of these steps runs on arguments that are compared afterwards with copies made before.
"""

import pytest
import torch
import torch.nn.functional as F
import torchvision
from same_bits import bits
from small_models import (
    Lstm,
    Transformer,
    UNet3d,
    convolutional,
    images,
    perceptron,
    sentences,
    vectors,
    word_loss,
)
from torch import nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from ebb.torch import _operators
from ebb.torch._step_function import step_function


class Watch(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = set()
        self.wrong = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        bound = _operators.bind(func, args, kwargs)
        written = _operators.written_arguments(func, bound)
        read = {
            name: [t for t in pytree.tree_leaves(value) if isinstance(t, torch.Tensor)]
            for name, value in bound.items()
            if name not in written
        }
        targets = {
            t.untyped_storage().data_ptr()
            for name in written
            for t in pytree.tree_leaves(bound[name])
            if isinstance(t, torch.Tensor)
        }
        before = {name: [bits(t) for t in tensors] for name, tensors in read.items()}
        out = func(*args, **kwargs)
        self.seen.add(_operators.name_of(func))
        for name, tensors in read.items():
            for tensor, old in zip(tensors, before[name], strict=True):
                shares = tensor.untyped_storage().data_ptr() in targets
                if not shares and bits(tensor) != old:
                    self.wrong.append(f"{_operators.name_of(func)} writes {name}")
        return out


def recurrent(kind):
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = kind(6, 8, batch_first=True)
            self.head = nn.Linear(8, 3)

        def forward(self, x):
            return self.head(self.layer(x.unsqueeze(1))[0][:, 0])

    return Recurrent


STEPS = {
    "perceptron": (perceptron, F.cross_entropy, vectors),
    "convolutional": (convolutional, F.cross_entropy, lambda: images(2, 8)),
    "resnet": (torchvision.models.resnet18, F.cross_entropy, lambda: images(2, 32)),
    "mobilenet": (torchvision.models.mobilenet_v3_small, F.cross_entropy, lambda: images(2, 32)),
    "unet": (
        lambda: UNet3d((2, 4)),
        F.cross_entropy,
        lambda: (torch.randn(1, 1, 8, 8, 8), torch.randint(0, 3, (1, 8, 8, 8))),
    ),
    "transformer": (Transformer, word_loss, lambda: sentences(2, 16, 100)),
    "lstm": (Lstm, word_loss, lambda: sentences(2, 8, 50)),
    "gru": (recurrent(nn.GRU), F.cross_entropy, vectors),
    "rnn": (recurrent(nn.RNN), F.cross_entropy, vectors),
}
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adam foreach": lambda p: torch.optim.Adam(p, foreach=True),
    "adamw fused": lambda p: torch.optim.AdamW(p, fused=True),
}


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_no_operator_writes_what_it_only_reads(name, optimizer):
    if name != "perceptron" and optimizer == "adam foreach":
        pytest.skip("seen once is enough")
    make, loss_fn, batch = STEPS[name]
    model = make()
    step = step_function(model, loss_fn, OPTIMIZERS[optimizer](model.parameters()))
    step(*batch())
    with Watch() as watch:
        step(*batch())
    assert watch.wrong == []
    assert len(watch.seen) > 10


def test_the_watch_sees_hidden_updates(monkeypatch):
    monkeypatch.setattr(_operators, "_HIDDEN_UPDATES", {})
    model = nn.BatchNorm1d(6)
    with Watch() as watch:
        model(vectors()[0])
    assert "aten::native_batch_norm writes running_mean" in watch.wrong
