"""Steps that look at their batch to choose what to do: each choice has its own program, with the bits of eager."""

import copy
import weakref

import pytest
import torch
import torch.nn.functional as F
from same_bits import bits, differences
from torch import nn

import ebb
import ebb.torch
from ebb.torch._batch import is_same_value
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


def trained_alike(make_model, batches, other_batches="compile", **options):
    """Returns how many programs there are besides the first."""
    torch.manual_seed(0)
    model = make_model()
    other = copy.deepcopy(model)
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.1, momentum=0.9) for each in (model, other)]
    eager = Task(model, F.cross_entropy, optimizers[0], **options)
    with ebb.torch.compile(
        other, F.cross_entropy, optimizers[1], batches[0], other_batches=other_batches, **options
    ) as step:
        for each in batches:
            assert bits(step(*each)) == bits(eager.step(*each))
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
    """In bfloat16 the sum would be 2.406."""

    def hides(mask):
        with torch.autocast("cpu", enabled=False):
            counts = mask.float() @ torch.full((6, 1), 0.1)
        assert counts.dtype == torch.float32
        return bool(counts.sum() < 2.403)

    batches = [batch(WHOLE), batch(PADDED), batch(WHOLE)]
    assert trained_alike(lambda: Masked(hides), batches, autocast=torch.bfloat16) == 0


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


# Outcomes.


def test_numbers_of_a_list_are_read_in_every_step(tmp_path):
    x = torch.ones(3)
    with ebb.torch.compile_step(lambda x, s: x * s.tolist()[0][1], (x, torch.zeros(1, 2))) as step:
        for value in (0.0, -0.0, float("nan"), 2.5):
            s = torch.tensor([[value, value]])
            assert bits(step(x, s)) == bits(x * s[0, 1])
            assert bits(step.trace(tmp_path / "trace.json", x, s)) == bits(x * s[0, 1])


def test_outcomes_are_compared_by_their_bits():
    nan = [float("nan"), float("nan")]
    assert is_same_value([0.0, (nan[0],)], [0.0, (nan[1],)])
    assert not is_same_value([0.0], [-0.0])
    assert not is_same_value([0.0], [0.0, 0.0])


def test_what_is_read_of_constants_alone_is_no_condition():
    def step(x):
        return x * 2 if torch.tensor([1, 2]).sum() == 3 else x

    assert ebb.torch.capture_step(step, (torch.ones(3),)).decisions._calls == []


@pytest.mark.parametrize("tensor", [torch.tensor([1, 2, 3]), torch.tensor([True, False]), torch.tensor([0.5, 1.5])])
def test_one_number_of_several_is_refused_as_in_an_eager_step(tensor):
    with pytest.raises(ebb.Error, match=r"\.item\(\) of a tensor of \d elements, at .*test_decisions.py:\d+"):
        ebb.torch.capture_step(lambda x, n: x * n.item(), (torch.ones(3), tensor))


def test_what_fails_when_it_is_read_fails_with_the_line():
    def step(x, i):
        return x * int(x.long()[i].sum())

    x, i = torch.tensor([1.0, 2.0]), torch.tensor([0])
    with ebb.torch.compile_step(step, (x, i)) as run:
        with pytest.raises(ebb.Error, match=r"out of (range|bounds).*test_decisions.py:\d+, in step: return x"):
            run(x, torch.tensor([7]))
        assert torch.equal(run(x, i), x)
    with pytest.raises(ebb.Error, match=r"out of (range|bounds).*test_decisions.py:\d+, in step: return x"):
        ebb.torch.capture_step(step, (x, torch.tensor([7])))


@torch.library.custom_op("ebb_test::first_seen", mutates_args=())
def first_seen(x: torch.Tensor) -> torch.Tensor:
    made = x + 1
    SEEN.append(weakref.ref(made))
    return made


@torch.library.custom_op("ebb_test::then_seen", mutates_args=())
def then_seen(x: torch.Tensor) -> torch.Tensor:
    ALIVE.append(sum(made() is not None for made in SEEN))
    return x + 1


first_seen.register_fake(torch.empty_like)
then_seen.register_fake(torch.empty_like)
SEEN, ALIVE = [], []


def test_what_decisions_share_is_computed_once_and_dropped_when_it_was_read():
    def step(x):
        total = then_seen(first_seen(x).cos()).sum()
        return x * 2 if total > 30 else x * 3 if total > 20 else x * 4 if total > 10 else x

    x = torch.arange(6.0)
    decisions = ebb.torch.capture_step(step, (x,)).decisions
    assert [each.outcome for each in decisions] == [False, False, False]
    SEEN.clear(), ALIVE.clear()
    assert decisions.otherwise([x]) is None
    assert len(SEEN) == 1
    assert ALIVE == [0]


# Where a message must say by what a step decides.


def test_messages_say_by_what_the_step_decides(tmp_path):
    def step(x, mask):
        if mask.all():
            return x * 2
        return x[mask] if mask.any() else x  # the first cannot be captured

    x, whole = torch.ones(3), torch.tensor([True, True, True])
    with ebb.torch.compile_step(step, (x, whole)) as run:
        words = r"decides by the value of a tensor .* at .*test_decisions.py:\d+, in step: if mask.all\(\):\)"
        with pytest.raises(ebb.Error, match=f"trace takes .*{words}$"):
            run.trace(tmp_path / "trace.json", x, ~whole)
        with pytest.raises(ebb.Error, match=f"(?s)a batch of .*{words} cannot run in the compiled step"):
            run(x, torch.tensor([True, False, True]))


def test_too_many_outcomes_are_noted_with_the_line():
    x = torch.ones(3)
    with ebb.torch.compile_step(lambda x, n: x * int(n), (x, torch.tensor(0))) as step:
        with pytest.warns(UserWarning, match=r"ebb: batches of more than 8 .*test_decisions.py:\d+, in <lambda>") as caught:
            for n in range(1, 12):
                step(x, torch.tensor(n))
        assert [warning.filename for warning in caught] == [__file__]


def test_a_number_that_decides_is_refused_with_what_may_decide():
    with pytest.raises(ebb.Error, match=r"without \.item\(\)"):
        ebb.torch.capture_step(lambda x: x * 2 if x.max().item() > 3 else x, (torch.ones(3),))


# What forward keeps in Python.


class Remembering(nn.Module):
    def __init__(self, remembers):
        super().__init__()
        self.remembers = remembers
        self.linear = nn.Linear(4, 2)
        self.longest = 0
        self.calls = 0
        self.is_warm = False

    def forward(self, x, lengths):
        self.calls += 1
        self.is_warm = self.is_warm or True
        n = int(lengths.max())
        if self.remembers and n > self.longest:
            self.longest = n
        return self.linear(x) * max(n, self.longest)


def remembering(remembers):
    model = Remembering(remembers)
    batch = ((torch.randn(3, 4), torch.tensor([1, 5, 2])), torch.tensor([0, 1, 0]))
    return model, F.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1), batch


def test_what_forward_remembers_of_its_decisions_is_refused():
    """Each outcome has a program of its own, which would know nothing of the others."""
    model, *rest = remembering(True)
    words = r"Remembering has longest = 0 and makes it 5 .* at .*test_decisions.py:\d+, in forward: n = int"
    with pytest.raises(ebb.Error, match=words):
        ebb.torch.compile(model, *rest)
    assert (model.longest, model.calls) == (0, 0)


def test_flags_and_counters_are_not_refused():
    ebb.torch.compile(*remembering(False)).close()
