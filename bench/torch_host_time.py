#!/usr/bin/env python3
"""Where the host's time goes while a step is put into the streams of a GPU: does anything wait for the device?

    scripts/device run python3 bench/torch_host_time.py [CASE]

Prints how long a call of the step takes the host, how long the step takes the device, and the calls of the CUDA runtime
that took the host longest.
"""

from __future__ import annotations

import sys
import time

import torch
from torch_budget import CASES
from torch_budget_workloads import WORKLOADS

import ebb.torch

case = CASES[sys.argv[1] if len(sys.argv) > 1 else "resnet50-bf16"]
torch.backends.cuda.matmul.allow_tf32 = True
settings = {"device": "cuda", "extent": case.extent, "small": False, "dropout": 0.0}
work = WORKLOADS[case.workload](settings)
model = work.model()
batch = work.batch(case.batch)
autocast = getattr(torch, case.autocast) if case.autocast else None
step = ebb.torch.compile(model, work.loss, work.optimizer(model), batch, budget=case.budget, autocast=autocast)
for _ in range(6):
    step(*batch)
torch.cuda.synchronize()
begin = time.perf_counter()
calls = []
for _ in range(6):
    before = time.perf_counter()
    step(*batch)
    calls.append(time.perf_counter() - before)
torch.cuda.synchronize()
print("device", (time.perf_counter() - begin) / 6, "host", [round(call, 4) for call in calls])
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]) as profile:
    for _ in range(2):
        step(*batch)
    torch.cuda.synchronize()
print(profile.key_averages().table(sort_by="self_cpu_time_total", row_limit=12, max_name_column_width=40)[:4000])
