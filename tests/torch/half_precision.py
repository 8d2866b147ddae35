"""Ends normally where PyTorch's own kernels for bfloat16 run on this CPU. Virtual machines may announce AMX and trap on it."""

import torch

network = torch.nn.Sequential(torch.nn.Conv2d(64, 64, 3), torch.nn.Flatten(), torch.nn.Linear(64 * 36, 512))
with torch.autocast("cpu", dtype=torch.bfloat16):
    network(torch.ones(4, 64, 8, 8)).sum().backward()
