"""Rewritten steps compute what the captured ones do, bit for bit, in a smaller arena."""

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
STEPS = 3


def tool(*args):
    done = subprocess.run(
        [TOOL, *map(str, args)], capture_output=True, text=True, env=ENVIRONMENT, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class Run:
    """What came of a graph, started with the state of the captured step."""

    def __init__(self, graph, state):
        after = graph.with_suffix(".after.safetensors")
        report = json.loads(
            tool("run", graph, "--state", state, "--steps", STEPS, "-o", after, "--json")
        )
        self.outputs = [step["outputs"] for step in report["steps"]]
        self.state = after.read_bytes()  # with the random number generator
        self.arena = report["arena_bytes"]
        self.host = report["host_bytes"]
        after.unlink()


class Step:
    """A captured step on disk, and what it computes as it is."""

    def __init__(self, folder, model, loss_fn, optimizer, batch):
        self.path = folder / "step.ebb"
        self.state = folder / "step.safetensors"
        captured = ebb.torch.capture(model, loss_fn, optimizer, batch)
        torch.manual_seed(7)
        captured.save(self.path)
        self.plain = Run(self.path, self.state)
        assert self.plain.host == 0
        assert len({str(outputs) for outputs in self.plain.outputs}) == STEPS, "it learns"

    def run_rewritten(self, graph):
        """Asserts that a rewritten graph computes the same."""
        tool("verify", self.path, graph)
        run = Run(graph, self.state)
        assert run.outputs == self.plain.outputs
        assert run.state == self.plain.state
        return run


def resnet_50(folder):
    model = torchvision.models.resnet50()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    return Step(folder, model, F.cross_entropy, optimizer, images(2, 64))


def unet(folder):
    model = UNet3d()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    batch = torch.randn(1, 1, 16, 16, 16), torch.randint(0, 3, (1, 16, 16, 16))
    return Step(folder, model, F.cross_entropy, optimizer, batch)


def transformer(folder):
    model = Transformer()  # with dropout: random operations stay where they are
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    return Step(folder, model, word_loss, optimizer, sentences(8, 16, 100))


@pytest.fixture(scope="module", params=[resnet_50, unet, transformer], ids=lambda make: make.__name__)
def step(request, tmp_path_factory):
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(0)
    return request.param(tmp_path_factory.mktemp(request.param.__name__))


def rewrite(step, *options):
    graph = step.path.with_name("rewritten.ebb")
    report = json.loads(tool("rewrite", step.path, "-o", graph, "--json", *options))
    assert report["tensors_swapped"] > 0
    return graph, report


def test_swapping_all_that_backward_reads_needs_a_smaller_arena(step):
    graph, report = rewrite(step)
    run = step.run_rewritten(graph)
    assert run.arena < step.plain.arena
    assert run.host > 0
    assert report["swap_ins"] >= report["swap_outs"] >= report["tensors_swapped"]


@pytest.mark.parametrize(
    "options",
    [
        ["--ctrld-strategy", "direct_order", "--lb", "3"],
        ["--fuse-swapins"],
        ["--swap-branches"],
        ["--n-tensors", "5"],
        ["--whole-graph", "--alpha", "5"],
    ],
    ids=lambda options: options[0],
)
def test_every_setting_of_the_paper_computes_the_same(step, options):
    graph, _ = rewrite(step, *options)
    step.run_rewritten(graph)
