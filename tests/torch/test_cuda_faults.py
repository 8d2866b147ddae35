"""Faults on a GPU: memory that is short, kernels that throw, Ctrl-C. Skipped where there is none; scripts/device takes them to one."""

import copy
import gc
import os
import subprocess
import sys
import threading

import pytest
import torch
import torch.nn.functional as F
from refusing import refusing_library
from same_bits import differences
from small_models import Noisy, perceptron, vectors
from test_faults import MIB, MOOD, bad_mood, moody, sgd, sum_of  # noqa: F401: a fixture
from test_interrupted import check_interrupted
from test_signals import STAGES, interrupt_at
from torch import nn

import ebb.torch
from ebb.torch._load import _runtime
from ebb.torch._step_function import Task

pytestmark = pytest.mark.cuda


def cuda(batch):
    return tuple(tensor.cuda() for tensor in batch)


def noisy_on_gpu(layers=8, elements=1 << 20):
    """A step that must swap: model, optimizer, batch, budget."""
    torch.manual_seed(0)
    model = Noisy(layers).cuda()
    batch = torch.randn(elements, device="cuda"), torch.randn(elements, device="cuda")
    return model, sgd(model), batch, 8 * elements * 4


def compiled(model, optimizer, batch, budget):
    step = ebb.torch.compile(model, sum_of, optimizer, batch, budget=budget)
    assert step.memory().host_bytes > 0
    return step


def check_trains(model, optimizer, batch, budget):
    """A step that is compiled now has the bits of an eager twin."""
    twin, twin_optimizer = copy.deepcopy((model, optimizer))
    eager = Task(twin, sum_of, twin_optimizer)
    with compiled(model, optimizer, batch, budget) as step:
        for i in range(3):
            torch.manual_seed(i)
            loss = eager.step(*batch)
            torch.manual_seed(i)
            assert torch.equal(step(*batch), loss)
        assert differences(twin, twin_optimizer, model, optimizer) == []


def free_memory():
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return torch.cuda.mem_get_info()[0]


# Memory is short.


def test_more_host_memory_than_is_available_is_refused_and_the_arena_given_back():
    check_trains(*noisy_on_gpu())  # whatever libraries keep, they have
    elements = int(1.5 * _runtime.available_host_bytes()) // 64 // 4
    if free_memory() < 16 * elements * 4:
        pytest.skip("the host has too much memory for this GPU")
    model, optimizer, batch, budget = noisy_on_gpu(64, elements)
    before = free_memory()
    with pytest.raises(ebb.Error, match=r"what is swapped out needs \S+ GiB of host memory, and .* are available") as caught:
        compiled(model, optimizer, batch, budget)
    assert caught.value.kind == "infeasible"
    assert abs(free_memory() - before) < 64 * MIB
    del model, optimizer, batch
    free_memory()
    check_trains(*noisy_on_gpu())


PINNED = """
import sys
sys.path.insert(0, sys.argv[1])
import torch
import ebb
from test_cuda_faults import compiled, free_memory, noisy_on_gpu

model, optimizer, batch, budget = noisy_on_gpu()
before = [p.data_ptr() for p in model.parameters()]
free = []
for _ in range(2):
    try:
        compiled(model, optimizer, batch, budget)
    except ebb.Error as error:
        print(error.kind, str(error).splitlines()[0])
    free.append(free_memory())
assert free[1] >= free[0], free
assert [p.data_ptr() for p in model.parameters()] == before and not optimizer.state
with ebb.torch.compile(model, lambda x, y: (x * y).sum(), optimizer, batch) as step:  # nothing is swapped in it
    print(bool(torch.isfinite(step(*batch))))
"""


def test_pinning_that_is_refused_is_said_with_a_remedy_and_all_is_given_back(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PINNED, os.path.dirname(__file__)],
        env={**os.environ, "LD_PRELOAD": str(refusing_library(tmp_path))}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    *refused, last = done.stdout.splitlines()
    assert last == "True"
    assert len(refused) == 2
    for line in refused:
        assert line.startswith("infeasible ") and "of host memory cannot be pinned: " in line
        assert "; end what else uses it, or let the container have more" in line


def test_an_arena_that_somebody_else_left_no_room_for_is_refused_and_auto_takes_what_is_left():
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(1024, 1024), nn.ReLU()) for _ in range(20)]
    model = nn.Sequential(*layers).cuda()
    batch = torch.randn(16384, 1024, device="cuda"), torch.randn(16384, 1024, device="cuda")
    ebb.torch.compile(model, F.mse_loss, sgd(model), batch).close()  # whatever libraries keep, they have
    blocker = torch.empty(free_memory() - 768 * MIB, dtype=torch.uint8, device="cuda")
    places = [p.data_ptr() for p in model.parameters()]
    optimizer = sgd(model)
    with pytest.raises(ebb.Error, match=r"an arena of \S+ GiB cannot be had on .* are free; give a smaller budget") as caught:
        ebb.torch.compile(model, F.mse_loss, optimizer, batch)
    assert caught.value.kind == "infeasible"
    assert [p.data_ptr() for p in model.parameters()] == places and not optimizer.state
    with ebb.torch.compile(model, F.mse_loss, optimizer, batch, budget="auto") as step:
        assert step.memory().budget_bytes < 768 * MIB
        assert torch.isfinite(step(*batch))
    del blocker


# A kernel throws.


class MoodyPerceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = perceptron()

    def forward(self, x):
        return moody(self.inner(x))


def moody_pair():
    torch.manual_seed(0)
    model = MoodyPerceptron().cuda()
    optimizer = sgd(model)
    return (model, optimizer, *copy.deepcopy((model, optimizer)))


def test_a_kernel_that_throws_is_named_and_the_step_runs_again(bad_mood):  # noqa: F811
    model, optimizer, twin, twin_optimizer = moody_pair()
    eager = Task(twin, F.cross_entropy, twin_optimizer)
    batch = cuda(vectors())
    step = ebb.torch.compile(model, F.cross_entropy, optimizer, batch)
    losses = [step(*batch) for _ in range(2)]
    bad_mood()
    for _ in range(2):
        with pytest.raises(ebb.Error) as caught:
            step(*batch)
        assert "not in the mood" in str(caught.value) and "in ebb_faults::moody, from " in str(caught.value)
        assert "the state is as before the step" in str(caught.value)
    MOOD["bad"] = False
    losses += [step(*batch) for _ in range(6)]
    assert not step._programs.first.runtime.is_kept, "an operator that is not PyTorch's may run Python"
    assert [loss.item() for loss in losses] == [eager.step(*batch).item() for _ in losses]
    assert differences(twin, twin_optimizer, model, optimizer) == []


ASSERTING = """
import torch
from torch import nn
import ebb, ebb.torch

model = nn.Embedding(10, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
tokens = torch.zeros(8, dtype=torch.int64, device="cuda")
step = ebb.torch.compile(model, lambda output, _: output.sum(), optimizer, (tokens, tokens))
try:
    step(tokens + 1000, tokens)
except Exception:  # it may be PyTorch that hears of it first
    pass
try:
    step._programs.first.runtime.settle()
except ebb.Error as error:
    print(error)
"""


def test_a_fault_on_the_device_says_that_the_process_must_start_again():
    done = subprocess.run([sys.executable, "-c", ASSERTING], capture_output=True, text=True, timeout=120, check=False)
    assert "this process can use the GPU no more" in done.stdout, done.stdout + done.stderr


# Ctrl-C.


# The optimizer updates all parameters together on a GPU, so gradients wait for each other: 80 % is too little.
@pytest.mark.parametrize("budget", ["100%", "90%"])
def test_ctrl_c_stops_a_step_and_leaves_no_half_updated_state(budget):
    check_interrupted("cuda", budget)


@pytest.mark.parametrize("stage", STAGES)
def test_ctrl_c_while_compiling_gives_everything_back(stage, monkeypatch):
    check_trains(*noisy_on_gpu())  # whatever libraries keep, they have
    model, optimizer, batch, budget = noisy_on_gpu(elements=16 * MIB)
    places = [p.data_ptr() for p in model.parameters()]
    before = free_memory()
    with monkeypatch.context() as patch:
        interrupt_at(patch, stage)
        with pytest.raises(KeyboardInterrupt):
            compiled(model, optimizer, batch, budget)
    assert abs(free_memory() - before) < 64 * MIB
    assert [p.data_ptr() for p in model.parameters()] == places and not optimizer.state
    check_trains(model, optimizer, batch, budget)


# Threads and processes.


def test_two_steps_that_swap_run_on_two_threads_at_once():
    pairs = []
    for seed in range(2):
        torch.manual_seed(seed)
        layers = [nn.Sequential(nn.Linear(256, 256), nn.Tanh()) for _ in range(8)]
        model = nn.Sequential(*layers, nn.Linear(256, 10)).cuda()
        pairs.append((model, sgd(model), copy.deepcopy(model)))
    batch = torch.randn(4096, 256, device="cuda"), torch.randint(0, 10, (4096,), device="cuda")
    errors, plans = [], []

    def train(model, optimizer):
        try:
            step = ebb.torch.compile(model, F.cross_entropy, optimizer, batch, budget="70%")
            plans.append(step.plan)
            for _ in range(20):
                step(*batch)
            torch.cuda.synchronize()
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
        for _ in range(20):
            eager.step(*batch)
        assert differences(twin, twin_optimizer, model, optimizer) == []


def test_workers_of_a_data_loader_may_be_forked_beside_a_step():
    model, optimizer, batch, budget = noisy_on_gpu()
    data = [tuple(tensor.cpu() for tensor in batch) for _ in range(4)]
    loader = torch.utils.data.DataLoader(data, batch_size=None, num_workers=2, multiprocessing_context="fork")
    with compiled(model, optimizer, batch, budget) as step:
        expected = [step(*batch) for _ in range(2)]
        losses = [step(*cuda(each)) for each in loader]
        assert all(torch.isfinite(loss) for loss in expected + losses) and len(losses) == 4
