"""Steps that are another one each time, because forward counts or draws numbers in Python, are refused; those that only
do so besides are not."""

import random
import signal

import numpy
import pytest
import torch
import torch.nn.functional as F
from same_bits import train_both
from small_models import sgd
from torch import nn

import ebb
import ebb.torch


class Counting(nn.Module):
    """Its forward counts, and multiplies by what `factor` makes of that."""

    def __init__(self, factor):
        super().__init__()
        self.linear = nn.Linear(6, 4)
        self.factor = factor
        self.n = 0

    def forward(self, x):
        self.n += 1
        return self.linear(x) * self.factor(self.n)


def batch():
    return torch.randn(8, 6), torch.randint(0, 4, (8,))


def compiled(model):
    return ebb.torch.compile(model, F.cross_entropy, sgd(model), batch())


FACTORS = {
    "a number": lambda n: min(1.0, n / 4),
    "a tensor of it": lambda n: torch.tensor(n / 4),
    "an operation more": lambda n: 1 if n % 2 else torch.tensor(2.0).sin(),
}


@pytest.mark.parametrize("factor", FACTORS)
def test_a_step_that_depends_on_what_forward_counts_is_refused_by_name(factor):
    model = Counting(FACTORS[factor])
    words = r"another one each time: it changes Counting.n from 0 to 1, and where one capture has '.*' the next has '.*'.*"
    with pytest.raises(ebb.Error, match=f"(?s){words}keep it in a buffer"):
        compiled(model)
    assert model.n == 0


def test_the_line_of_forward_is_named():
    with pytest.raises(ebb.Error, match=r"{other = 0\.25}' the next has .*{other = 0\.5}', at .*test_repeats.py:\d+\. "):
        compiled(Counting(FACTORS["a number"]))


def another(words):
    return pytest.raises(ebb.Error, match=f"another one each time: it changes Counting.n from .* {words}")


def test_what_decides_by_the_batch_is_no_other_each_time():
    class Deciding(Counting):
        def forward(self, x):
            limit = 5.5 - self.n
            y = super().forward(x)
            return y * 2 if x.abs().max() > limit else y

    with pytest.raises(ebb.Error, match=r"it changes Deciding.n .*gt.Scalar with \[5.5\].*gt.Scalar with \[4.5\]"):
        compiled(Deciding(lambda n: 1.0))


def test_evaluation_is_no_other_each_time():
    class Evaluated(Counting):
        def forward(self, x):
            return self.linear(x) if self.training else super().forward(x)

    examples = batch()
    with compiled(Evaluated(lambda n: torch.tensor(n / 4))) as step:
        with pytest.raises(ebb.Error, match="to evaluate a batch .* it changes Evaluated.n from 0 to 1, and .* = 0.25' .* = 0.5'"):
            step.evaluate(*examples)


def step_of(model, computes):
    optimizer = sgd(model)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        output = computes(loss, model.n, optimizer.param_groups[0]["lr"])
        loss.backward()
        optimizer.step()
        return output

    return step


def test_what_the_step_returns_and_compares_is_no_other_each_time():
    model = Counting(lambda n: 1.0)
    with another("where one capture has 'return 1' the next has 'return 2'"):
        ebb.torch.compile_step(step_of(model, lambda loss, n, rate: (loss, n)), batch())
    with another("where one capture has '.*,1.* the next has '.*,2.*"):
        ebb.torch.compile_step(step_of(model, lambda loss, n, rate: loss * 2 if rate * n > 1e6 else loss), batch())
    assert model.n == 0


@pytest.mark.filterwarnings("error")
def test_the_same_on_another_line_is_the_same():
    class Logging(Counting):
        def forward(self, x):
            self.n += 1
            if self.n == 1:
                return self.linear(x)
            return self.linear(x)

    compiled(Logging(None)).close()


@pytest.mark.filterwarnings("error")
def test_counting_alone_is_no_harm():
    train_both(lambda: Counting(lambda n: 1.0), F.cross_entropy, sgd, [batch(), batch()])


@pytest.mark.filterwarnings("error")
def test_a_counter_in_a_buffer_counts_as_in_an_eager_step():
    class Buffered(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(6, 4)
            self.register_buffer("n", torch.zeros(()))

        def forward(self, x):
            self.n += 1
            return self.linear(x) * torch.clamp(self.n / 4, max=1.0)

    train_both(Buffered, F.cross_entropy, sgd, [batch() for _ in range(6)])


def test_a_step_that_cannot_be_captured_twice_says_why_it_had_to_be():
    cache = {}

    class Cached(Counting):
        def forward(self, x):
            return super().forward(x) + cache.setdefault("ones", torch.ones(4))

    with pytest.raises(ebb.Error) as caught:
        compiled(Cached(lambda n: 1.0))
    assert "captured once more, because it changes Cached.n from 0 to 1" in caught.value.__notes__[0]


class Drawing(nn.Module):
    def __init__(self, draw, uses):
        super().__init__()
        self.linear = nn.Linear(6, 4)
        self.draw = draw
        self.uses = uses

    def forward(self, x):
        number = self.draw()
        return self.linear(x) * (number if self.uses else 1.0)


DRAWS = {"Python": random.random, "NumPy": lambda: float(numpy.random.rand())}


@pytest.fixture
def another_generator():
    before = numpy.random.get_bit_generator()
    numpy.random.set_bit_generator(numpy.random.PCG64(1))
    yield
    numpy.random.set_bit_generator(before)


@pytest.mark.filterwarnings("error")
def test_numpys_generator_may_be_another(another_generator):
    compiled(Counting(lambda n: 1.0)).close()
    with pytest.raises(ebb.Error, match="it draws random numbers of NumPy"):
        compiled(Drawing(DRAWS["NumPy"], uses=True))


@pytest.mark.parametrize("library", DRAWS)
def test_a_step_that_computes_with_drawn_numbers_is_refused(library):
    random.seed(1)
    numpy.random.seed(1)
    before = random.getstate(), str(numpy.random.get_state())
    with pytest.raises(ebb.Error, match=f"it draws random numbers of {library}, and .*; draw numbers by torch.rand$"):
        compiled(Drawing(DRAWS[library], uses=True))
    assert (random.getstate(), str(numpy.random.get_state())) == before


@pytest.mark.parametrize("library", DRAWS)
def test_of_numbers_that_decide_nothing_so_far_there_is_a_warning(library):
    random.seed(1)
    numpy.random.seed(1)
    with pytest.warns(UserWarning, match=f"draws random numbers of {library}, which") as caught:
        compiled(Drawing(DRAWS[library], uses=False)).close()
    assert [warning.filename for warning in caught] == [__file__]
    drawn = DRAWS[library]()
    random.seed(1)
    numpy.random.seed(1)
    DRAWS[library]()  # as one capture does
    assert DRAWS[library]() == drawn


def test_ctrl_c_leaves_what_forward_counts_as_it_was():
    class Interrupted(Counting):
        def forward(self, x):
            signal.raise_signal(signal.SIGINT)
            return super().forward(x)

    model = Interrupted(lambda n: 1.0)
    with pytest.raises(KeyboardInterrupt):
        compiled(model)
    assert model.n == 0
