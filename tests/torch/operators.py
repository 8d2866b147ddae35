#!/usr/bin/env python3
"""Every operator that PyTorch has examples for, with its derivative: eagerly and by Ebb. Says where bits differ, or what is
refused. By hand; needs PyPI's expecttest, and takes minutes.

    PYTHONPATH=build/ci/python build/venv/bin/python tests/torch/operators.py [--only REGEX] [--samples N] [--json FILE]

Status 1 where bits differ or something else than an ebb.Error ends a step.
"""

from __future__ import annotations

import argparse
import collections
import functools
import json
import os
import pathlib
import re
import sys
import warnings

os.environ["EBB_CACHE"] = "off"

import torch  # noqa: E402
import torch.utils._pytree as pytree  # noqa: E402
from own_process import in_own_process  # noqa: E402
from same_bits import bits  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

import ebb  # noqa: E402
import ebb.torch  # noqa: E402

STEPS = 2


def channels_last(tensor):
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return tensor.contiguous(memory_format=formats.get(tensor.dim(), torch.contiguous_format))


def make_step(op, sample, lies=torch.clone):
    """Trains all floating tensors of a sample by what the operator makes of them; they are real parameters then."""
    parameters = []

    def own(tensor):
        if not tensor.is_floating_point():
            return lies(tensor.detach().clone())
        parameters.append(lies(tensor.detach().clone()).requires_grad_())
        return parameters[-1]

    args, kwargs = pytree.tree_map_only(torch.Tensor, own, ((sample.input, *sample.args), sample.kwargs))
    optimizer = torch.optim.SGD(parameters, lr=0.01, momentum=0.9) if parameters else None

    def step(weight):
        optimizer.zero_grad()
        # Products, so that results and gradients have other bits where anything was computed otherwise.
        inputs, options = pytree.tree_map_only(
            torch.Tensor, lambda t: t * 1.0 if t.is_floating_point() else t, (args, kwargs)
        )
        made = [t for t in pytree.tree_leaves(op(*inputs, **options)) if isinstance(t, torch.Tensor)]
        made = [t for t in made if t.is_floating_point() and t.requires_grad]
        loss = sum((t.float() * weight * (i + 1) - t.float() * 0.3).sum() for i, t in enumerate(made))
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, optimizer


def trained(run, optimizer):
    """Losses, parameters and their momentum, which has the gradients' bits."""
    torch.manual_seed(3)
    losses = [bits(run(torch.tensor(0.7))) for _ in range(STEPS)]
    parameters = optimizer.param_groups[0]["params"]
    momentum = [optimizer.state[p].get("momentum_buffer") for p in parameters if p in optimizer.state]
    return losses + [bits(each) for each in [*parameters, *momentum] if each is not None]


def compare(op, sample, lies):
    eager = []
    for _ in range(2):
        step, optimizer = make_step(op, sample, lies)
        if optimizer is None:
            return "nothing to train", ""
        try:
            eager.append(trained(step, optimizer))
        except Exception as error:  # the example does not train
            return "nothing to train", f"{type(error).__name__}: {error}"
    if eager[0] != eager[1]:
        return "nothing to compare", "eager differs from eager"
    step, optimizer = make_step(op, sample, lies)
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            with ebb.torch.compile_step(step, (torch.tensor(0.7),)) as compiled:
                ours = trained(compiled, optimizer)
    except ebb.Error as error:
        return "refused", f"{error.kind}: {error.message}"
    except Exception as error:
        return "FAILED", f"{type(error).__name__}: {error}"
    notes = [str(each.message) for each in said if str(each.message).startswith("ebb: ")]
    if ours != eager[0]:
        return "OTHER BITS", "; ".join(notes)
    return ("same bits with a note", notes[0]) if notes else ("same bits", "")


def try_all(op, count, lies):
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    found = collections.Counter()
    words = {}
    try:
        samples = list(op.sample_inputs("cpu", torch.float32, requires_grad=False))
    except Exception as error:
        return {"nothing to train": 1}, {"nothing to train": str(error)}
    if lies is channels_last:
        leaves = [(each, pytree.tree_leaves((each.input, each.args, each.kwargs))) for each in samples]
        samples = [each for each, parts in leaves if any(isinstance(p, torch.Tensor) and p.dim() in (4, 5) for p in parts)]
    stride = max(1, len(samples) // count)
    for number, sample in list(enumerate(samples))[::stride][:count]:
        outcome, why = compare(op, sample, lies)
        found[outcome] += 1
        words.setdefault(outcome, f"example {number}: {why}"[:400])
    return dict(found), words


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="REGEX", help="operators whose name has this in it")
    parser.add_argument("--samples", type=int, default=6, help="examples of each")
    parser.add_argument("--channels-last", action="store_true", help="with tensors that lie so, where they have four or five dimensions")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write all of it here")
    options = parser.parse_args()
    counts, results = collections.Counter(), {}
    for op in op_db:
        name = f"{op.name} {op.variant_test_name}".strip()
        if not op.supports_autograd or torch.float32 not in op.dtypes or not re.search(options.only, name):
            continue
        lies = channels_last if options.channels_last else torch.clone
        done, why = in_own_process(functools.partial(try_all, op, options.samples, lies), limit=120)
        found, words = done or ({"FAILED": 1}, {"FAILED": why})
        counts.update(found)
        results[name] = {"outcomes": found, "why": words}
        for outcome in ("OTHER BITS", "FAILED", "refused", "same bits with a note"):
            if outcome in found:
                print(f"{name:44} {found[outcome]} {outcome}: {words[outcome]}", flush=True)
    print(f"{len(results)} operators: " + ", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 1 if counts["OTHER BITS"] or counts["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main())
