"""Ctrl-C and other signals: nothing is half done, and handlers may use PyTorch."""

import collections
import contextlib
import copy
import gc
import signal
import threading

import pytest
import torch
import torch.nn.functional as F
from same_bits import bits, differences
from small_models import convolutional, images, perceptron, vectors
from test_faults import MIB, Untouched, address_space, check_trains, noisy, noisy_batch, sgd, trainer
from torch import nn

import ebb.torch
from ebb.torch._program import Program
from ebb.torch._progress import Progress
from ebb.torch._state import State
from ebb.torch._step_function import Task
from ebb.torch._uninterrupted import uninterrupted

# Ctrl-C.


def interrupt_at(monkeypatch, stage):
    """Ctrl-C when it is told that this is being done."""

    def told(self, what, done, total):
        if what == stage:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Progress, "__call__", told)


STAGES = ["measuring operations", "timing operations", "planning", "allocating GiB of host memory"]


@pytest.mark.parametrize("stage", STAGES)
def test_ctrl_c_while_compiling_leaves_the_model_as_it_was(stage, monkeypatch):
    model, optimizer = trainer()
    batch = noisy_batch()
    untouched = Untouched(model, optimizer)
    with monkeypatch.context() as patch:
        interrupt_at(patch, stage)
        for _ in range(3):
            with pytest.raises(KeyboardInterrupt):
                noisy(model, optimizer, batch)
            untouched.check()
    check_trains(model, optimizer, batch)


def test_ctrl_c_while_compiling_gives_the_arena_back(monkeypatch):
    model, optimizer = trainer()
    batch = noisy_batch(12 * MIB)
    arena = noisy(model, optimizer, batch).memory().budget_bytes
    interrupt_at(monkeypatch, "allocating GiB of host memory")  # there is an arena by then
    before = address_space()
    for _ in range(4):
        with pytest.raises(KeyboardInterrupt):
            noisy(model, optimizer, batch)
        gc.collect()
    # What four times is not given back would be four arenas; threads and allocators have some besides.
    assert address_space() - before < 2 * arena


class InterruptedWhenAsked(collections.defaultdict):
    """An optimizer's state: Ctrl-C comes when it is looked up."""

    is_armed = False

    def __getitem__(self, key):
        if self.is_armed:
            signal.raise_signal(signal.SIGINT)
        return super().__getitem__(key)


def test_ctrl_c_while_the_state_moves_in_waits_until_it_has_and_all_is_given_back(monkeypatch):
    torch.manual_seed(0)
    model = perceptron()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    optimizer.state = InterruptedWhenAsked(dict)
    really_give_back = State.give_back
    monkeypatch.setattr(Progress, "__call__", lambda *_: setattr(optimizer.state, "is_armed", True))
    given_back = []

    def give_back(state):
        really_give_back(state)
        given_back.append(True)

    monkeypatch.setattr(State, "give_back", give_back)
    batch = vectors()
    values = [bits(p) for p in model.parameters()]
    with pytest.raises(KeyboardInterrupt):
        ebb.torch.compile(model, F.cross_entropy, optimizer, batch)
    optimizer.state.is_armed = False
    gc.collect()
    assert [bits(p) for p in model.parameters()] == values
    assert all(set(optimizer.state[p]) == {"step", "exp_avg", "exp_avg_sq"} for p in model.parameters())
    assert given_back == [True]
    twin, twin_optimizer = copy.deepcopy((model, optimizer))
    with ebb.torch.compile(model, F.cross_entropy, optimizer, batch) as step:
        assert torch.equal(step(*batch), Task(twin, F.cross_entropy, twin_optimizer).step(*batch))
        assert differences(twin, twin_optimizer, model, optimizer) == []


class InterruptedAtTheEnd:
    """A runtime in which Ctrl-C comes when a step is done, and before Python goes on."""

    def __init__(self, runtime):
        self._runtime = runtime

    def __getattr__(self, name):
        return getattr(self._runtime, name)

    def run(self, *args):
        self._runtime.run(*args)
        signal.raise_signal(signal.SIGINT)


def test_ctrl_c_that_comes_when_the_step_is_done_leaves_a_step_that_was_done():
    torch.manual_seed(0)
    model = convolutional()  # dropout draws numbers
    optimizer = sgd(model)
    twin, twin_optimizer = copy.deepcopy((model, optimizer))
    eager = Task(twin, F.cross_entropy, twin_optimizer)
    batch = images(4, 8)
    with ebb.torch.compile(model, F.cross_entropy, optimizer, batch) as step:
        first = step._programs.first
        runtime, first.runtime = first.runtime, InterruptedAtTheEnd(first.runtime)
        version = next(model.parameters())._version
        torch.manual_seed(1)
        with pytest.raises(KeyboardInterrupt):
            step(*batch)
        assert next(model.parameters())._version > version
        first.runtime = runtime
        step(*batch)
        after = torch.get_rng_state()
        torch.manual_seed(1)
        eager.step(*batch)
        eager.step(*batch)
        assert torch.equal(torch.get_rng_state(), after)
        assert differences(twin, twin_optimizer, model, optimizer) == []


# Other signals.


@pytest.fixture
def handled():
    """Installs a handler of SIGUSR1, and sends it all the time while a step runs."""
    before = signal.getsignal(signal.SIGUSR1)

    @contextlib.contextmanager
    def sending(handler):
        is_handling = False

        def once_at_a_time(_, frame):
            nonlocal is_handling
            if not is_handling:
                is_handling = True
                handler(frame)
                is_handling = False

        signal.signal(signal.SIGUSR1, once_at_a_time)
        main, is_over = threading.get_ident(), threading.Event()

        def send():
            while not is_over.wait(0.01):
                signal.pthread_kill(main, signal.SIGUSR1)

        sender = threading.Thread(target=send)
        sender.start()
        try:
            yield
        finally:
            is_over.set()
            sender.join()

    yield sending
    signal.signal(signal.SIGUSR1, before)


def slow_step():
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(512, 512), nn.Tanh()) for _ in range(8)]
    model = nn.Sequential(*layers, nn.Linear(512, 10))
    return model, sgd(model), (torch.randn(1024, 512), torch.randint(0, 10, (1024,)))


def test_a_handler_of_signals_may_make_tensors_in_the_middle_of_a_step(handled):
    model, optimizer, batch = slow_step()
    twin, twin_optimizer = copy.deepcopy((model, optimizer))
    kept, interrupted = [], []

    def save(frame):
        kept.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
        kept.append(torch.full((1000,), 3.25))
        interrupted.append(frame.f_code)

    with ebb.torch.compile(model, F.cross_entropy, optimizer, batch, budget="80%") as step:
        with handled(save):
            for _ in range(3):
                step(*batch)
        assert Program._run.__code__ in interrupted, "which calls the runtime"
        assert kept and all(bool((each == 3.25).all()) for each in kept[1::2])
        eager = Task(twin, F.cross_entropy, twin_optimizer)
        states = [copy.deepcopy(twin.state_dict())]
        for _ in range(3):
            eager.step(*batch)
            states.append(copy.deepcopy(twin.state_dict()))
        assert differences(twin, twin_optimizer, model, optimizer) == []
        for saved in kept[::2]:  # of some step, and whole
            assert any(all(torch.equal(saved[name], state[name]) for name in state) for state in states)


class Signalling(nn.Module):
    """A signal comes in its forward pass, which runs while it is captured."""

    def __init__(self):
        super().__init__()
        self.layers = perceptron()

    def forward(self, x):
        signal.raise_signal(signal.SIGUSR1)
        return self.layers(x)


def test_handlers_of_signals_wait_while_a_step_is_captured():
    torch.manual_seed(0)
    model, batch, kept = Signalling(), vectors(), []
    optimizer = sgd(model)

    def save(*_):
        kept.append([each.clone() for each in model.state_dict().values()] + [torch.ones(3)])

    before = signal.signal(signal.SIGUSR1, save)
    try:
        with ebb.torch.compile(model, F.cross_entropy, optimizer, batch) as step:
            step(*batch)
            assert signal.getsignal(signal.SIGUSR1) is save
            seen = len(kept)
            step(*(each[:3] for each in batch))
            assert seen > 0 and len(kept) > seen
    finally:
        signal.signal(signal.SIGUSR1, before)
    for each in kept:
        assert {type(tensor) for tensor in each} == {torch.Tensor} and torch.equal(each[-1], torch.ones(3))


def test_a_handler_that_raises_where_signals_had_to_wait_stops_no_other():
    ran = []

    def fail(*_):
        ran.append("fails")
        raise ValueError

    handlers = {signal.SIGUSR1: fail, signal.SIGUSR2: lambda *_: ran.append("works")}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        with pytest.raises(ValueError), uninterrupted():
            for number in (signal.SIGUSR2, signal.SIGUSR1, signal.SIGUSR2):
                signal.raise_signal(number)
            assert ran == []
        assert sorted(ran) == ["fails", "works"]
        assert {number: signal.getsignal(number) for number in handlers} == handlers
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_handler_that_raises_while_handlers_are_put_back_stops_no_other(monkeypatch):
    """It is put back before the other, and its signal comes at that moment."""
    ran = []

    def fail(*_):
        raise ValueError

    handlers = {signal.SIGUSR1: fail, signal.SIGUSR2: lambda *_: ran.append("works")}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    put = signal.signal

    def put_and_send(number, handler):
        put(number, handler)
        if handler is fail:
            signal.raise_signal(number)

    try:
        with pytest.raises(ValueError), uninterrupted():
            signal.raise_signal(signal.SIGUSR2)
            monkeypatch.setattr(signal, "signal", put_and_send)
        monkeypatch.undo()
        assert ran == ["works"]
        assert {number: signal.getsignal(number) for number in handlers} == handlers
        signal.raise_signal(signal.SIGUSR2)
        assert ran == ["works", "works"]
    finally:
        monkeypatch.undo()
        for number, handler in before.items():
            signal.signal(number, handler)


def test_handlers_answer_in_the_order_in_which_signals_came_and_new_ones_stay():
    ran = []

    def answer(number, _):
        ran.append(number)

    numbers = (signal.SIGUSR2, signal.SIGUSR1)
    before = {number: signal.signal(number, answer) for number in (*numbers, signal.SIGALRM)}

    def new(*_):
        pass

    try:
        with uninterrupted():
            for number in numbers:
                signal.raise_signal(number)
            signal.signal(signal.SIGALRM, new)
        assert ran == list(numbers)
        assert signal.getsignal(signal.SIGALRM) is new
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_handler_that_compiles_while_a_step_is_compiled_is_refused(monkeypatch):
    model, batch, said = perceptron(), vectors(), []
    optimizer = sgd(model)

    def compile_it(*_):
        with pytest.raises(ebb.Error, match="a step is running on this very thread, or compiled"):
            ebb.torch.compile(model, F.cross_entropy, optimizer, batch)
        said.append(True)

    before = signal.signal(signal.SIGUSR1, compile_it)
    monkeypatch.setattr(Progress, "__call__", lambda *_: signal.raise_signal(signal.SIGUSR1))
    try:
        ebb.torch.compile(model, F.cross_entropy, optimizer, batch)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert said


def test_a_handler_that_had_to_wait_for_a_capture_may_capture():
    batch, said = vectors(), []

    def capture(*_):
        model = perceptron()
        said.append(ebb.torch.capture(model, F.cross_entropy, sgd(model), batch).text)

    before = signal.signal(signal.SIGUSR1, capture)
    try:
        model = Signalling()
        ebb.torch.capture(model, F.cross_entropy, sgd(model), batch)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert said and said[0].startswith("graph step {")


def test_a_handler_of_signals_that_asks_for_the_step_it_interrupts_is_refused(handled):
    model, optimizer, batch = slow_step()
    step = ebb.torch.compile(model, F.cross_entropy, optimizer, batch)
    said = []

    def ask(_):
        for call in (step.close, lambda: step(*batch)):
            try:
                call()
            except ebb.Error as error:
                said.append(str(error))

    with handled(ask):
        with contextlib.suppress(ebb.Error):  # closed between two steps
            for _ in range(3):
                step(*batch)
    assert any("is running on this very thread" in each for each in said)


def test_a_handler_that_has_another_step_train_the_same_model_is_refused_and_nothing_is_lost(handled):
    model, optimizer, batch = slow_step()
    twin, twin_optimizer = copy.deepcopy((model, optimizer))
    step = ebb.torch.compile(model, F.cross_entropy, optimizer, batch)
    few = tuple(each[:16] for each in batch)
    other = ebb.torch.compile(model, F.cross_entropy, optimizer, few)
    calls = [lambda: other(*few), lambda: other.evaluate(*few), lambda: ebb.torch.compile(model, F.cross_entropy, optimizer, few)]
    said = [0] * len(calls)

    def ask(frame):
        if frame.f_code is not Program._run.__code__:
            return
        for i, call in enumerate(calls):
            with pytest.raises(ebb.Error, match="a step is running on this very thread"):
                call()
            said[i] += 1

    eager = Task(twin, F.cross_entropy, twin_optimizer)
    with handled(ask):
        for _ in range(3):
            assert torch.equal(step(*batch), eager.step(*batch))
    assert all(said)
    assert differences(twin, twin_optimizer, model, optimizer) == []
    assert torch.equal(other(*few), eager.step(*few)), "between two steps it may"
