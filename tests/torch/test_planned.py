"""Captured steps, planned for a budget: they run in an arena of the predicted size, and compute the same bits."""

import json
import os
import pathlib
import subprocess

import pytest
import torch
import torch.nn.functional as F
import torchvision
from small_models import Transformer, UNet3d, images, sentences, word_loss

import ebb.torch

TOOL = pathlib.Path(os.environ.get("EBB_TOOL", "nowhere"))
if not TOOL.with_name("ebb-run").exists():
    pytest.skip("built without the command line tool", allow_module_level=True)
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
STEPS = 2


def tool(*args):
    return subprocess.run(
        [TOOL, *map(str, args)], capture_output=True, text=True, env=ENVIRONMENT, timeout=300, check=False
    )


def run_tool(*args):
    done = tool(*args)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Step:
    """A captured step on disk, its measured profile, and what it computes as it is."""

    def __init__(self, folder, model, loss_fn, optimizer, batch):
        self.path = folder / "step.ebb"
        self.state = folder / "step.safetensors"
        self.profile = folder / "profile.json"
        torch.manual_seed(7)
        ebb.torch.capture(model, loss_fn, optimizer, batch).save(self.path)
        self.outputs, self.after, self.report = self.run(self.path, "--save-profile", self.profile)

    def run(self, graph, *options):
        after = graph.with_suffix(".after.safetensors")
        report = json.loads(
            run_tool("run", graph, "--state", self.state, "--steps", STEPS, "-o", after, "--json", *options)
        )
        state = after.read_bytes()
        after.unlink()
        return [step["outputs"] for step in report["steps"]], state, report

    def plan(self, budget, *options):
        return tool("plan", self.path, "--budget", budget, "--model", "cpu", "--profile", self.profile, *options)


def resnet_50(folder):
    model = torchvision.models.resnet50()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    return Step(folder, model, F.cross_entropy, optimizer, images(4, 64))


def unet(folder):
    model = UNet3d()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    batch = torch.randn(1, 1, 32, 32, 32), torch.randint(0, 3, (1, 32, 32, 32))
    return Step(folder, model, F.cross_entropy, optimizer, batch)


def transformer(folder):
    model = Transformer(blocks=4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    return Step(folder, model, word_loss, optimizer, sentences(32, 16, 100))


@pytest.fixture(scope="module", params=[resnet_50, unet, transformer], ids=lambda make: make.__name__)
def step(request, tmp_path_factory):
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(0)
    return request.param(tmp_path_factory.mktemp(request.param.__name__))


def test_the_arena_of_the_step_as_it_is_is_predicted_to_the_byte(step):
    report = json.loads(step.plan("100%", "--json").stdout)
    assert report["decisions"] == []
    assert report["peak_bytes"] == report["unconstrained_bytes"] == step.report["arena_bytes"]


@pytest.mark.parametrize("budget", ["60%", "40%", "30%"])
def test_it_runs_in_the_predicted_arena_with_the_same_bits_or_it_is_said_what_would_fit(step, budget, tmp_path):
    plan, rewritten = tmp_path / "step.plan", tmp_path / "rewritten.ebb"
    planned = step.plan(budget, "-o", plan, "--json")
    report = json.loads(planned.stdout)
    if planned.returncode == 4:
        assert not plan.exists()
        assert "the least budget found is" in planned.stderr
        budget = f"{report['least_budget_bytes']}B"
        planned = step.plan(budget, "-o", plan, "--json")
        report = json.loads(planned.stdout)
    assert planned.returncode == 0, planned.stderr
    run_tool("apply", step.path, plan, "-o", rewritten)
    run_tool("verify", step.path, rewritten)
    outputs, after, measured = step.run(rewritten, "--as-is", "--budget", f"{report['budget_bytes']}B")
    assert outputs == step.outputs
    assert after == step.after
    assert measured["arena_bytes"] == report["peak_bytes"] <= report["budget_bytes"]
    assert measured["host_bytes"] == report["host_bytes"]


@pytest.mark.parametrize("means", ["--no-swap", "--no-recompute"])
def test_one_means_alone_gives_the_same_bits(step, means, tmp_path):
    plan, rewritten = tmp_path / "step.plan", tmp_path / "rewritten.ebb"
    planned = step.plan("85%", "-o", plan, means, "--json")
    if planned.returncode == 4:
        least = json.loads(planned.stdout)["least_budget_bytes"]
        planned = step.plan(f"{least}B", "-o", plan, means, "--json")
    assert planned.returncode == 0, planned.stderr
    run_tool("apply", step.path, plan, "-o", rewritten)
    outputs, after, _ = step.run(rewritten)
    assert (outputs, after) == (step.outputs, step.after)
