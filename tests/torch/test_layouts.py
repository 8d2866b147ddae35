"""Results that lie otherwise in memory than PyTorch announces: what reads them in another order rounds otherwise, so the
step is captured as they lie."""

import functools
import random
import threading

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from same_bits import train_both
from small_models import sgd
from torch import nn

import ebb
import ebb.torch


def loss_of_pixels(output, target):
    return F.cross_entropy(output, target[:, : output.size(2), : output.size(3)])


class Shuffle(nn.Module):
    def forward(self, x):
        return F.channel_shuffle(x, 2)


class Spectrum(nn.Module):
    def forward(self, x):
        return torch.fft.irfft2(torch.fft.rfft2(x, dim=(1, 2)) * 0.5, dim=(1, 2))


LAYERS = {
    "reflection": lambda: nn.ReflectionPad2d(2),
    "replication": lambda: nn.ReplicationPad2d((1, 2, 0, 3)),
    "channel shuffle": Shuffle,
    "glu": lambda: nn.Sequential(nn.Conv2d(8, 16, 1), nn.GLU(dim=1)),
    "spectrum": Spectrum,
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.filterwarnings("error")
def test_results_lie_as_in_an_eager_step(name):
    def model():
        layer = LAYERS[name]
        return nn.Sequential(nn.Conv2d(3, 8, 3), layer(), nn.Conv2d(8, 8, 3), nn.ReLU(), layer(), nn.Conv2d(8, 4, 3)).to(
            memory_format=torch.channels_last
        )

    def batch():
        images = torch.randn(4, 3, 24, 24).contiguous(memory_format=torch.channels_last)
        return images, torch.randint(0, 4, (4, 30, 30))

    train_both(model, loss_of_pixels, sgd, [batch(), batch()])


@pytest.mark.parametrize("first", [nn.Identity, lambda: nn.Conv2d(1, 1, 3)], ids=["the batch has one channel", "a layer has"])
@pytest.mark.filterwarnings("error")
def test_one_channel_lies_as_in_an_eager_step(first):
    """Where a direction has one element, its stride still says which layout the tensor has, and so which kernel runs."""

    def model():
        layers = [first(), nn.ReflectionPad2d(2), nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU()]
        return nn.Sequential(*layers, nn.Conv2d(8, 1, 3), nn.ReplicationPad2d(1), nn.Conv2d(1, 4, 3))

    def batch():
        images = torch.randn(4, 1, 24, 24).to(memory_format=torch.channels_last)
        return images, torch.randint(0, 4, (4, 30, 30))

    train_both(model, loss_of_pixels, sgd, [batch(), batch()])


# Operators of one's own, which say that their results lie row by row.


def operator(name, makes, **options):
    own = torch.library.custom_op(f"ebb_test::{name}", makes, mutates_args=(), schema="(Tensor x) -> Tensor", **options)
    own.register_fake(lambda x: torch.empty(x.size()))


def unless_zero(x):
    if not x.any():
        raise ValueError("zeros")
    return (2 * x).t().contiguous().t()


operator("turned", lambda x: (2 * x).t().contiguous().t())
operator("turned_unless_zero", unless_zero)
operator("turned_by_numpy", lambda x: torch.from_numpy(np.asfortranarray(2 * x.numpy())))
operator("made_by_numpy", lambda x: torch.from_numpy(np.sin((x * 1.0).numpy())))
operator("alike", lambda x: torch.empty_like(x).copy_(x).sin_())
operator(
    "drawn", lambda x: (torch.rand_like(x) + x).t().contiguous().t(), tags=(torch.Tag.nondeterministic_seeded,)
)
operator(
    "turned_by_sign",
    lambda x: torch.empty_strided(x.size(), (1, x.size(0)) if x.sum() > 0 else (x.size(1), 1)).copy_(x),
)


torch.library.custom_op(
    "ebb_test::turned_times", lambda x, s: (s * x).t().contiguous().t(), mutates_args=(),
    schema="(Tensor x, float s) -> Tensor",
).register_fake(lambda x, s: torch.empty(x.size()))  # fmt: skip


class Applied(nn.Module):
    def __init__(self, *operators):
        super().__init__()
        self.operators = operators  # their names
        self.weight = nn.Parameter(torch.linspace(0.1, 3, 6))
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        for name in self.operators:
            x = getattr(torch.ops.ebb_test, name)(x)
        return (x * self.weight).sum()


def line_of(text, op):
    (line,) = [line.strip() for line in text.splitlines() if f"= ebb_test::{op}(" in line]
    return line


@pytest.mark.parametrize("shape", [(8, 6), (2, 6)], ids=["of 192 bytes", "of 48 bytes"])
@pytest.mark.parametrize("own", ["turned", "turned_unless_zero", "turned_by_numpy", "drawn"])
@pytest.mark.filterwarnings("error")
def test_a_result_that_lies_otherwise_than_announced_is_captured_as_it_lies(own, shape):
    step = train_both(lambda: Applied(own), None, sgd, [(torch.rand(shape),)])
    assert f"f32[{shape[0]},6] strides [1,{shape[0]}] = ebb_test::{own}" in line_of(step.captured.text, own)


@pytest.mark.filterwarnings("error")
def test_a_result_that_is_made_elsewhere_and_lies_as_announced_is_captured_once():
    model = Applied("made_by_numpy")
    ebb.torch.compile(model, None, sgd(model), (torch.rand(8, 6),))
    assert model.calls == 1


class Drawing(Applied):
    numbers = random.Random(0)  # not the one that all share, of which it is noticed
    drawn = 0

    def forward(self, x):
        Drawing.drawn += 1
        self.seen = x.size(0)
        return (torch.ops.ebb_test.turned_times(x, self.numbers.random()) * self.weight).sum()


def test_numbers_that_forward_draws_do_not_capture_for_ever():
    """An operator that was given another number is another call, of which nothing was learned."""
    model = Drawing()
    Drawing.drawn = 0
    with pytest.warns(UserWarning, match="1 result lies otherwise in memory"):
        step = ebb.torch.compile(model, None, sgd(model), (torch.rand(8, 6),))
    assert torch.isfinite(step(torch.rand(8, 6))) and Drawing.drawn < 20


@pytest.mark.filterwarnings("error")
def test_where_a_note_is_an_error_the_model_is_as_it_was():
    model = Drawing()
    with pytest.raises(UserWarning, match="1 result lies otherwise in memory"):
        ebb.torch.compile(model, None, sgd(model), (torch.rand(8, 6),))
    assert not hasattr(model, "seen")


@pytest.mark.filterwarnings("error")
def test_other_numbers_of_an_operator_are_learned_one_after_the_other():
    class Scaled(Applied):
        def forward(self, x):
            for i in range(3):
                x = torch.ops.ebb_test.alike(torch.ops.ebb_test.turned_times(x, 0.5 + i))
            return (x * self.weight).sum()

    step = train_both(Scaled, None, sgd, [(torch.rand(8, 6),)])
    assert step.captured.text.count("strides [1,8] = ebb_test::turned_times") == 3


@pytest.mark.filterwarnings("error")
def test_what_follows_a_result_that_lies_otherwise_is_captured_as_it_lies():
    step = train_both(lambda: Applied("turned", "alike", "alike"), None, sgd, [(torch.rand(8, 6),)])
    assert step.captured.text.count("strides [1,8] = ebb_test::alike") == 2


def test_a_step_that_is_captured_anew_leaves_the_model_as_one_capture_does():
    once, again = Applied("alike"), Applied("turned", "alike")
    for model in (once, again):
        ebb.torch.compile(model, None, sgd(model), (torch.rand(8, 6),))
    assert again.calls == once.calls == 1


@pytest.mark.parametrize("operators", [("alike",), ("turned", "alike")], ids=["captured once", "captured anew"])
def test_a_step_that_does_not_fit_leaves_the_model_as_it_was(operators):
    model = Applied(*operators)
    with pytest.raises(ebb.Error) as caught:
        ebb.torch.compile(model, None, sgd(model), (torch.rand(64, 6),), budget="1KiB")
    assert caught.value.kind == "infeasible" and model.calls == 0
    ebb.torch.largest_batch(lambda n: (torch.rand(n, 6),), model, None, sgd(model), budget="20KiB")
    assert model.calls == 0


@pytest.mark.parametrize("operators", [("alike",), ("turned", "alike")], ids=["captured once", "captured anew"])
def test_batches_that_do_not_grow_are_refused(operators):
    model = Applied(*operators)
    with pytest.raises(ebb.Error, match="gives a batch like one of another size"):
        ebb.torch.largest_batch(lambda n: (torch.rand(8, 6),), model, None, sgd(model), budget="20KiB", lowest=1, highest=2)


def test_a_copy_that_is_not_needed_is_not_asked_to_fit():
    """Captured as announced, the result would be there twice."""
    x = torch.rand(1024, 256)
    model = Applied("turned")
    model.weight = nn.Parameter(torch.rand(256))
    with ebb.torch.compile(model, None, sgd(model), (x,)) as step:
        needs = step.report()["unconstrained_bytes"]
    with ebb.torch.compile(model, None, sgd(model), (x,), budget=needs) as step:
        assert not step.plan
    with pytest.raises(ebb.Error) as caught:
        ebb.torch.compile(model, None, sgd(model), (x,), budget=x.nbytes)
    assert caught.value.kind == "infeasible"


def test_what_is_captured_does_not_depend_on_what_was_compiled_before():
    model = Applied("turned")
    batch = (torch.rand(8, 6),)
    texts = []
    for _ in range(2):
        texts.append(ebb.torch.capture(model, None, sgd(model), batch).text)
        ebb.torch.compile(model, None, sgd(model), batch).close()
    assert texts[0] == texts[1]


def test_threads_learn_each_for_itself():
    texts, batch = [], (torch.rand(8, 6),)

    def work():
        model = Applied("turned", "alike")
        with ebb.torch.compile(model, None, sgd(model), batch) as step:
            texts.append(step.captured.text)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(texts) == 3 and all("strides [1,8] = ebb_test::alike" in text for text in texts)


@pytest.mark.filterwarnings("error")
def test_other_batches_are_captured_as_their_results_lie():
    torch.manual_seed(0)
    train_both(lambda: Applied("turned", "alike"), None, sgd, [(torch.rand(8, 6),), (torch.rand(5, 6),)])


def test_the_largest_batch_is_one_whose_results_lie_as_they_do():
    model = Applied("turned", "alike")

    def fits(n, budget):
        try:
            ebb.torch.compile(model, None, sgd(model), (torch.rand(n, 6),), budget=budget).close()
            return True
        except ebb.Error:
            return False

    largest = ebb.torch.largest_batch(lambda n: (torch.rand(n, 6),), model, None, sgd(model), budget="20KiB")
    assert fits(largest, "20KiB") and not fits(largest + 1, "20KiB")


def test_a_step_that_cannot_be_captured_anew_says_why_it_had_to_be():
    @functools.cache
    def numbers(n):
        return torch.arange(n).unsqueeze(1)

    class Cached(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(6))

        def forward(self, x):
            return (torch.ops.ebb_test.turned(x) * self.weight).sum() + numbers(x.size(0)).sum()

    model = Cached()
    with pytest.raises(ebb.Error, match="earlier capture left behind, at .*call the model once before") as caught:
        ebb.torch.compile(model, None, sgd(model), (torch.rand(8, 6),))
    assert "%turned of ebb_test::turned" in caught.value.__notes__[0]
    numbers.cache_clear()
    model(torch.rand(8, 6))
    ebb.torch.compile(model, None, sgd(model), (torch.rand(8, 6),))


def test_a_result_that_lies_otherwise_than_when_it_was_measured_is_refused():
    model = Applied("turned_by_sign")
    x = torch.rand(8, 6)
    with ebb.torch.compile(model, None, sgd(model), (x,)) as step:
        step(-x)
        with pytest.raises(ebb.Error, match="strides"):
            step(x)


def test_how_results_lie_is_kept_for_the_next_process(tmp_path, monkeypatch):
    monkeypatch.setenv("EBB_CACHE", str(tmp_path))

    def text():
        model = Applied("turned", "alike")
        with ebb.torch.compile(model, None, sgd(model), (torch.rand(8, 6),)) as step:
            return step.captured.text

    first = text()
    (path,) = tmp_path.glob("measured-*.json")
    assert '"otherwise": [{"result": 0, "strides": [1, 8]}]' in path.read_text()
    assert text() == first
    path.write_text("{")
    with pytest.warns(UserWarning, match="cannot be used, and operations are measured again"):
        assert text() == first


def test_a_graph_that_nobody_captures_anew_is_noted_with_line_and_remedy():
    from ebb.torch._load import _runtime

    model = Applied("turned")
    captured = ebb.torch.capture(model, None, sgd(model), (torch.rand(8, 6),))
    (note,) = _runtime.Step(captured.text).take_notes()
    assert "1 result lies otherwise in memory" in note and "strides [1,8]" in note
    assert "= ebb_test::turned(" in note and 'ebb.at = "torch/test_layouts.py:' in note and "step.captured" in note
