"""What a step leaves behind when memory is short, a kernel throws, or the process forks."""

import copy
import os
import pathlib
import re
import resource
import subprocess
import sys
import threading

import pytest
import torch
import torch.nn.functional as F
from refusing import refusing_library
from same_bits import bits, differences
from small_models import Noisy
from torch import nn

import ebb.torch
from ebb.torch._load import _runtime
from ebb.torch._step_function import Task

MIB = 1 << 20


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def sum_of(output, targets):
    return (output * targets).sum()


def address_space():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def noisy_batch(elements=1 << 16):
    return torch.randn(elements), torch.randn(elements)


def noisy(model, optimizer, batch, budget="60%"):
    """A step that must swap."""
    step = ebb.torch.compile(model, sum_of, optimizer, batch, budget=budget)
    assert step.report()["plan"]["tensors_swapped"] > 0
    return step


def trainer(layers=8, make=Noisy):
    torch.manual_seed(0)
    model = make(layers)
    return model, sgd(model)


class Untouched:
    """What a user's model, optimizer and generator are before something that must not touch them."""

    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        self.before = self.now()

    def now(self):
        return (
            [(p.data_ptr(), bits(p), p.grad) for p in self.model.parameters()],
            list(self.optimizer.state),
            torch.get_rng_state().tolist(),
        )

    def check(self):
        assert self.now() == self.before


def check_trains(model, optimizer, batch):
    """A step that is compiled now has the bits of an eager twin."""
    twin, twin_optimizer = copy.deepcopy((model, optimizer))
    eager = Task(twin, sum_of, twin_optimizer)
    with noisy(model, optimizer, batch) as step:
        for i in range(3):
            torch.manual_seed(i)
            loss = eager.step(*batch)
            torch.manual_seed(i)
            assert torch.equal(step(*batch), loss)
        assert differences(twin, twin_optimizer, model, optimizer) == []


# Host memory is short.


def test_more_host_memory_than_is_available_is_refused_before_it_is_taken():
    layers, available = 256, _runtime.available_host_bytes()
    elements = int(1.5 * available) // layers // 4
    model = Noisy(layers)
    optimizer = sgd(model)
    untouched = Untouched(model, optimizer)
    batch = torch.empty(elements), torch.empty(elements)  # never written: no pages are taken for it
    with pytest.raises(ebb.Error) as caught:
        ebb.torch.compile(model, sum_of, optimizer, batch, budget=elements * 4 * 8)
    assert caught.value.kind == "infeasible"
    message = str(caught.value)
    assert "what is swapped out needs" in message and "GiB of host memory" in message
    assert "are available; give a host budget below that" in message and "or a larger budget" in message
    untouched.check()
    del batch
    check_trains(model, optimizer, noisy_batch())


SHORT = """
import resource, sys
sys.path.insert(0, sys.argv[1])
import torch
import ebb
from test_faults import MIB, Untouched, address_space, check_trains, noisy, noisy_batch, trainer

torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)
noisy(*trainer(), noisy_batch()).close()  # whatever libraries set up, they have
model, optimizer = trainer(48)
batch = noisy_batch(8 * MIB)  # 32 MiB each; the arena has sixteen of these, and the host slab the rest
untouched = Untouched(model, optimizer)
without_limit = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
for more in range(64, 4096, 96):
    resource.setrlimit(resource.RLIMIT_AS, (address_space() + more * MIB, resource.RLIM_INFINITY))
    try:
        noisy(model, optimizer, batch, 512 * MIB).close()
        break
    except ebb.Error as error:
        refused = error
    finally:
        resource.setrlimit(resource.RLIMIT_AS, without_limit)
    assert refused.kind == "infeasible", refused
    print(refused)
    untouched.check()
check_trains(*trainer(), noisy_batch())
print("trains")
"""


def test_memory_that_the_system_refuses_is_named_in_bytes_with_a_remedy_wherever_it_ends():
    program = [sys.executable, "-c", SHORT, os.path.dirname(__file__)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    *refused, last = done.stdout.splitlines()
    assert last == "trains"
    kinds = [
        r"can't allocate memory: you tried to allocate \d+ bytes.*; when measuring '",
        r"^512 MiB of host memory cannot be had: .*; give a smaller budget",
        r"^for what is swapped out, [\d.]+ GiB of host memory cannot be had: .*; give a host budget below that",
    ]
    for kind in kinds:
        assert any(re.search(kind, line) for line in refused), (kind, refused)
    kinds.append(r"^the system has no host memory left for what the step needs besides")  # if a limit is met just there
    assert all(any(re.search(kind, line) for kind in kinds) for line in refused)


def test_no_memory_beside_the_arena_is_said_with_a_remedy_and_nothing_has_moved(monkeypatch):
    def nothing_left(self):
        raise MemoryError("std::bad_alloc")

    model, optimizer = trainer()
    batch = noisy_batch()
    untouched = Untouched(model, optimizer)
    with monkeypatch.context() as short:
        short.setattr(_runtime.Step, "program", nothing_left)
        with pytest.raises(ebb.Error, match="no host memory left .* give a smaller budget or host budget") as caught:
            noisy(model, optimizer, batch)
    assert caught.value.kind == "infeasible"
    untouched.check()
    check_trains(model, optimizer, batch)


# A kernel throws.

MOOD = {"bad": False}


@torch.library.custom_op("ebb_faults::moody", mutates_args=())
def moody(x: torch.Tensor) -> torch.Tensor:
    if MOOD["bad"]:
        raise ValueError("not in the mood")
    return x.clone()


@moody.register_fake
def _(x):
    return torch.empty_like(x)


moody.register_autograd(lambda ctx, gradient: gradient)


@pytest.fixture
def bad_mood():
    yield lambda: MOOD.update(bad=True)
    MOOD["bad"] = False


class Moody(Noisy):
    def forward(self, x):
        return moody(super().forward(x))


def test_a_kernel_that_throws_while_copies_are_under_way_leaves_a_step_that_runs(bad_mood):
    model, optimizer = trainer(make=Moody)
    twin, twin_optimizer = copy.deepcopy((model, optimizer))
    eager = Task(twin, sum_of, twin_optimizer)
    batch = noisy_batch()
    with noisy(model, optimizer, batch) as step:
        torch.manual_seed(1)
        bad_mood()
        for _ in range(3):
            with pytest.raises(ebb.Error) as caught:
                step(*batch)
            message = str(caught.value)
            assert "not in the mood" in message and "in ebb_faults::moody, from torch/test_faults.py:" in message
            assert "the state is as before the step" in message
        MOOD["bad"] = False
        losses = [step(*batch) for _ in range(3)]
        torch.manual_seed(1)
        assert [eager.step(*batch).item() for _ in range(3)] == [loss.item() for loss in losses]
        assert differences(twin, twin_optimizer, model, optimizer) == []


def test_a_kernel_that_throws_after_the_updates_says_so_and_loaded_state_trains_on(bad_mood):
    model, optimizer = trainer()
    twin, twin_optimizer = copy.deepcopy((model, optimizer))
    eager = Task(twin, sum_of, twin_optimizer)
    batch = noisy_batch()

    def function(x, targets):
        optimizer.zero_grad()
        loss = sum_of(model(x), targets)
        loss.backward()
        optimizer.step()
        return moody(loss.detach())

    with ebb.torch.compile_step(function, batch, modules=model, optimizers=optimizer, budget="60%") as step:
        torch.manual_seed(1)
        loss = step(*batch)
        torch.manual_seed(1)
        assert torch.equal(loss, eager.step(*batch))
        saved = copy.deepcopy((model.state_dict(), optimizer.state_dict(), torch.get_rng_state()))
        bad_mood()
        with pytest.raises(ebb.Error, match=r"(\d+) of \1 updates of the state had been done, %\S+ first: load it again"):
            step(*batch)
        MOOD["bad"] = False
        model.load_state_dict(saved[0])
        optimizer.load_state_dict(saved[1])
        torch.set_rng_state(saved[2])
        loss = step(*batch)
        torch.set_rng_state(saved[2])
        assert torch.equal(loss, eager.step(*batch))
        assert differences(twin, twin_optimizer, model, optimizer) == []


@pytest.mark.parametrize("is_packed", [False, True], ids=["compiled", "packed"])
def test_the_library_that_refuses_to_pin_is_found_and_comes_before_others(is_packed, tmp_path, monkeypatch):
    """What tests on a GPU load it for needs one (test_cuda_faults.py)."""
    monkeypatch.delenv("EBB_TEST_LIBRARIES", raising=False)
    library = refusing_library(tmp_path)
    if is_packed:
        monkeypatch.setenv("EBB_TEST_LIBRARIES", str(tmp_path))
        monkeypatch.setenv("PATH", "")
        assert refusing_library(tmp_path / "nowhere") == library
    ask = "import ctypes; print(ctypes.CDLL(None).cudaHostRegister(None, ctypes.c_size_t(1), 0))"
    environment = {**os.environ, "LD_PRELOAD": str(library)}
    done = subprocess.run([sys.executable, "-c", ask], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "304\n"


# Threads and processes.


def test_steps_are_compiled_and_run_with_swaps_on_two_threads_at_once():
    # Noise comes from one generator for all threads, so these have none.
    pairs = []
    for seed in range(2):
        torch.manual_seed(seed)
        layers = [nn.Sequential(nn.Linear(64, 64), nn.Tanh()) for _ in range(8)]
        model = nn.Sequential(*layers, nn.Linear(64, 10))
        pairs.append((model, sgd(model), *copy.deepcopy((model,))))
    batch = torch.randn(512, 64), torch.randint(0, 10, (512,))
    errors, plans = [], []

    def train(model, optimizer):
        try:
            with ebb.torch.compile(model, F.cross_entropy, optimizer, batch, budget="60%") as step:
                plans.append(step.plan)
                for _ in range(10):
                    step(*batch)
        except BaseException as error:  # noqa: BLE001: reported below
            errors.append(error)

    threads = [threading.Thread(target=train, args=pair[:2]) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == [] and len(plans) == 2 and all(plans)
    for model, optimizer, twin in pairs:
        twin_optimizer = sgd(twin)
        eager = Task(twin, F.cross_entropy, twin_optimizer)
        for _ in range(10):
            eager.step(*batch)
        assert differences(twin, twin_optimizer, model, optimizer) == []


CAPTURED_FIRST_BY_A_THREAD_THAT_HAS_ENDED = """
import threading, torch, ebb.torch

model = torch.nn.Linear(6, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
steps = []

def compile_it():
    batch = torch.randn(8, 6), torch.randn(8, 3)
    steps.append(ebb.torch.compile(model, torch.nn.functional.mse_loss, optimizer, batch))

with torch.no_grad():
    try:
        compile_it()
    except ebb.Error:
        pass  # refused, before there are fake tensors
thread = threading.Thread(target=compile_it)
thread.start()
thread.join()
for n in (8, 7):  # the second is captured by this thread
    print(steps[0](torch.randn(n, 6), torch.randn(n, 3)).isfinite().item())
"""


def test_a_thread_that_captured_first_may_end():
    program = [sys.executable, "-c", CAPTURED_FIRST_BY_A_THREAD_THAT_HAS_ENDED]
    done = subprocess.run(program, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "True\nTrue\n"), done.stderr


def test_workers_of_a_data_loader_may_be_forked_beside_a_step_that_swaps():
    model, optimizer = trainer()
    twin, twin_optimizer = copy.deepcopy((model, optimizer))
    eager = Task(twin, sum_of, twin_optimizer)
    data = [noisy_batch() for _ in range(6)]
    with noisy(model, optimizer, data[0]) as step:
        torch.manual_seed(1)
        eager.step(*data[0])
        torch.manual_seed(1)
        step(*data[0])  # its lanes have threads now
        losses = []
        for batch in torch.utils.data.DataLoader(data, batch_size=None, num_workers=2, multiprocessing_context="fork"):
            torch.manual_seed(len(losses))
            losses.append(step(*batch))
        for i, batch in enumerate(data):
            torch.manual_seed(i)
            assert torch.equal(eager.step(*batch), losses[i])
    assert differences(twin, twin_optimizer, model, optimizer) == []


FORKED = """
import os, sys
sys.path.insert(0, sys.argv[1])
import torch
from same_bits import bits
from test_faults import noisy, noisy_batch, trainer

torch.set_num_threads(1)  # a fork has none of the others
model, optimizer = trainer()
batch = noisy_batch()
step = noisy(model, optimizer, batch)
step(*batch)
before = bits(model.weight)
child = os.fork()
torch.manual_seed(1)
if child == 0:
    print(step(*batch).item(), flush=True)
    sys.exit()  # the ordinary end of an interpreter, with a step that is still there
status = os.waitpid(child, 0)[1]
print(os.waitstatus_to_exitcode(status), bits(model.weight) == before, flush=True)
print(step(*batch).item())
"""


def test_a_forked_process_has_a_step_of_its_own_and_ends():
    program = [sys.executable, "-c", FORKED, os.path.dirname(__file__)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    of_child, end_of_child, of_parent = done.stdout.splitlines()
    assert end_of_child == "0 True"
    assert of_child == of_parent
