"""Ctrl-C while a step is captured, and while it runs."""

import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

import ebb.torch

INTERRUPTED = """
import os, signal, sys, threading
import torch, torch.nn.functional as F
import ebb.torch
from torch import nn

layers = [nn.Linear(800, 800) for _ in range(12)]
device, budget = sys.argv[1:]
model = nn.Sequential(*layers, nn.Linear(800, 10)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
batch = (torch.randn(1000, 800, device=device), torch.randint(0, 10, (1000,), device=device))
step = ebb.torch.compile(model, F.cross_entropy, optimizer, batch, budget=budget)
step(*batch)


def state():
    return [*model.parameters(), *(s["momentum_buffer"] for s in optimizer.state.values())]


before = [tensor.detach().clone() for tensor in state()]
returned = 1
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    for _ in range(1000):
        step(*batch)
        before, returned = [tensor.detach().clone() for tensor in state()], returned + 1
except KeyboardInterrupt:
    print("interrupted", flush=True)
changed = [not torch.equal(now, then) for now, then in zip(state(), before)]
print("all" if all(changed) else "none" if not any(changed) else "half")
print("counted" if step.report()["measured"]["steps_done"] == returned + all(changed) else "miscounted")
print("finite" if torch.isfinite(step(*batch)) else "broken")
"""


def check_interrupted(device, budget):
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, device, budget], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    interrupted, changed, counted, after = done.stdout.split()
    assert interrupted == "interrupted"
    assert changed in ("none", "all")
    assert counted == "counted"
    assert after == "finite"


INTERRUPTED_CAPTURE = """
import random, signal, sys
import torch, torch.nn.functional as F
from torch import nn
import ebb.torch

layers = [layer for _ in range(9) for layer in (nn.Linear(64, 64), nn.ReLU())]
model = nn.Sequential(*layers, nn.Linear(64, 10))
optimizer = torch.optim.AdamW(model.parameters())
batch = torch.randn(32, 64), torch.randint(0, 10, (32,))
ebb.torch.capture(model, F.cross_entropy, optimizer, batch)
interrupted = 0
signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
for _ in range(40):
    signal.setitimer(signal.ITIMER_REAL, random.uniform(0.005, 0.12))
    try:
        ebb.torch.capture(model, F.cross_entropy, optimizer, batch)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        interrupted += 1
    model(batch[0]).sum()
print(interrupted)
"""


def test_ctrl_c_while_a_step_is_captured_leaves_pytorch_as_it_was():
    command = [sys.executable, "-c", INTERRUPTED_CAPTURE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0


@pytest.mark.parametrize("budget", ["100%", "80%"])
def test_ctrl_c_stops_a_step_and_leaves_no_half_updated_state(budget):
    check_interrupted("cpu", budget)


@pytest.mark.parametrize(("moment", "done"), [("fill", 0), ("clone", 1)])
def test_a_step_counts_where_it_was_done_before_ctrl_c(moment, done, monkeypatch):
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = torch.randn(8, 4), torch.randint(0, 2, (8,))
    step = ebb.torch.compile(model, F.cross_entropy, optimizer, batch)
    step(*batch)
    before = model.weight.detach().clone()

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        where = (ebb.torch._program, "fill") if moment == "fill" else (torch.Tensor, "clone")
        patched.setattr(*where, interrupt)
        with pytest.raises(KeyboardInterrupt):
            step(*batch)
    assert step.report()["measured"]["steps_done"] == 1 + done
    assert torch.equal(model.weight, before) == (done == 0)
    step(*batch)
    assert step.report()["measured"]["steps_done"] == 2 + done
