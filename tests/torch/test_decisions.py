"""Steps that look at their batch to choose what to do: each choice has its own program, with the bits of eager."""

import copy

import pytest
import torch
import torch.nn.functional as F
from same_bits import differences
from torch import nn

import ebb
import ebb.torch
from ebb.torch._step_function import Task


class Masked(nn.Module):
    """Attention that leaves the mask out where nothing is hidden, as well-known libraries do."""

    def __init__(self, hides=lambda mask: not mask.all()):
        super().__init__()
        self.hides = hides
        self.project = nn.Linear(16, 48)
        self.out = nn.Linear(16, 4)

    def forward(self, x, mask):
        q, k, v = self.project(x).view(*x.shape[:2], 3, 2, 8).permute(2, 0, 3, 1, 4)
        hidden = mask[:, None, None, :] if self.hides(mask) else None
        return self.out(F.scaled_dot_product_attention(q, k, v, attn_mask=hidden).transpose(1, 2).flatten(2).mean(1))


def batch(lengths, width=16, longest=6):
    mask = torch.arange(longest) < torch.tensor(lengths)[:, None]
    return (torch.randn(len(lengths), longest, width), mask), torch.randint(0, 4, (len(lengths),))


WHOLE = [6, 6, 6, 6]
PADDED = [6, 3, 5, 6]

READ_BY = {
    "bool": lambda mask: not mask.all(),
    "item": lambda mask: not mask.all().item(),
    "int": lambda mask: int(mask.sum()) < mask.numel(),
    "tolist": lambda mask: False in mask.flatten().tolist(),
    "equal": lambda mask: not torch.equal(mask, torch.ones_like(mask)),
    "in": lambda mask: False in mask,
    "with a constant": lambda mask: bool((mask.sum() < torch.tensor(24)).any()),
    "through views": lambda mask: bool((~mask[:, 3:]).t().contiguous().any()),
}


def trained_alike(make_model, batches, **options):
    """Returns the compiled step, closed."""
    torch.manual_seed(0)
    model = make_model()
    other = copy.deepcopy(model)
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.1, momentum=0.9) for each in (model, other)]
    eager = Task(model, F.cross_entropy, optimizers[0])
    with ebb.torch.compile(other, F.cross_entropy, optimizers[1], batches[0], **options) as step:
        for each in batches:
            assert torch.equal(step(*each), eager.step(*each))
        others = len(step._programs._others)
    assert not differences(model, optimizers[0], other, optimizers[1])
    return others


@pytest.mark.parametrize("hides", READ_BY.values(), ids=READ_BY)
def test_each_choice_gets_a_program_of_its_own(hides):
    batches = [batch(lengths) for lengths in (WHOLE, PADDED, WHOLE, PADDED, [1, 2, 3, 4])]
    others = trained_alike(lambda: Masked(hides), batches)
    assert others == (1 if hides not in (READ_BY["int"], READ_BY["tolist"]) else 2), "more where more is read than decided"


def test_batches_of_another_choice_may_be_trained_eagerly():
    assert trained_alike(Masked, [batch(lengths) for lengths in (WHOLE, PADDED, WHOLE)], other_batches="eager") == 0


def test_evaluation_chooses_by_its_own_batch():
    model = Masked()
    with ebb.torch.compile(model, F.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1), batch(WHOLE)) as step:
        for lengths in (PADDED, WHOLE, PADDED):
            x, y = batch(lengths)
            with torch.no_grad():
                assert torch.equal(step.evaluate(x, y), F.cross_entropy(model(*x), y))
                assert torch.equal(step.predict(*x), model(*x))


def test_parts_of_a_batch_choose_each_for_itself():
    torch.manual_seed(0)
    model = Masked()
    other = copy.deepcopy(model)
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (model, other)]
    batches = [batch(lengths) for lengths in ([6, 6, 6, 3], [6, 3, 6, 6], [6, 6, 6, 6], [6, 6, 6, 3])]
    eager = Task(model, F.cross_entropy, optimizers[0], accumulate=2)
    with ebb.torch.compile(other, F.cross_entropy, optimizers[1], batches[0], accumulate=2) as step:
        for each in batches:
            assert torch.equal(step(*each), eager.step(*each))
        assert len(step._programs._others) == 2
    assert not differences(model, optimizers[0], other, optimizers[1])


def test_what_is_read_is_the_batch_and_not_what_is_on_around_the_step():
    """Autocast around the reading would make another product of it."""

    def hides(mask):
        counts = mask.float() @ torch.full((6, 1), 1 / 3)
        return bool(counts.sum() < 8 - 1e-4)

    assert trained_alike(lambda: Masked(hides), [batch(WHOLE), batch(PADDED), batch(WHOLE)]) == 1


class Choosy(nn.Module):
    def __init__(self, chooses):
        super().__init__()
        self.chooses = chooses
        self.linear = nn.Linear(4, 2)
        self.register_buffer("limit", torch.tensor(0.5))

    def forward(self, x):
        return self.linear(x) * 2 if self.chooses(self, x) else self.linear(x)


def written(self, x):
    mask = x > 0
    mask[0] = True
    return bool(mask.all())


@pytest.mark.parametrize(
    "chooses",
    [
        lambda self, x: self.linear(x).sum() > 0,
        lambda self, x: x.sum() > self.limit,
        lambda self, x: torch.rand(()) > 0.5,
        lambda self, x: (x + torch.rand_like(x)).sum() > 0,
        lambda self, x: (x / x.abs().max().item()).sum() > 0.5,
        lambda self, x: (x * self.rates[0].param_groups[0]["lr"]).sum() > 0,
        written,
    ],
    ids=["parameters", "buffers", "random numbers", "random numbers added", "numbers read", "learning rates", "what was written"],
)
def test_what_does_not_follow_from_the_batch_alone_is_refused(chooses):
    model = Choosy(chooses)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.rates = [optimizer]
    with pytest.raises(ebb.Error, match="decides by the value of a tensor .* it may decide by its batch alone"):
        ebb.torch.compile(model, F.cross_entropy, optimizer, (torch.randn(3, 4), torch.tensor([0, 1, 0])))


def test_a_library_is_not_told_of_fakes(monkeypatch):
    """Transformers asks, and computes another way then."""
    import sys
    import types

    library = types.ModuleType("transformers.utils.import_utils")

    def is_fake_tensor(x):
        return isinstance(x, torch._subclasses.FakeTensor)

    library.is_fake_tensor = is_fake_tensor
    monkeypatch.setitem(sys.modules, "transformers.utils.import_utils", library)
    asked = []

    def chooses(self, x):
        asked.append(library.is_fake_tensor(x))
        return False

    model = Choosy(chooses)
    ebb.torch.capture(model, F.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1), (torch.randn(3, 4), torch.tensor([0, 1, 0])))
    assert asked == [False]
    assert library.is_fake_tensor is is_fake_tensor
