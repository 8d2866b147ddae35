"""Rewritten steps compute what the captured ones do, bit for bit, in a smaller arena."""

import json
import os
import pathlib
import subprocess

import pytest
import torch
import torch.nn.functional as F
import torchvision
from safetensors.torch import save_file
from small_models import Transformer, UNet3d, images, sentences, word_loss
from torch import nn

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


# Decisions by hand.


def apply(graph, *decisions):
    """The graph after the decisions, which must all apply."""
    plan, rewritten = graph.with_suffix(".plan"), graph.with_name("applied.ebb")
    tool("rewrite", graph, "-o", rewritten, "--n-tensors", 0, "--save-plan", plan)
    head = plan.read_text(encoding="utf-8").removesuffix("end\n")  # with the graph's fingerprint
    plan.write_text(head + "".join(f"{line}\n" for line in decisions) + "end\n", encoding="utf-8")
    tool("apply", graph, plan, "-o", rewritten)
    return rewritten


def test_recomputes_swaps_and_delays_written_by_hand_compute_the_same(tmp_path):
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    step = Step(tmp_path, model, F.cross_entropy, optimizer, images(4, 12))
    graph = apply(
        step.path,
        "recompute %1/relu for gradients/2/convolution_backward, gradients/1/threshold_backward "
        "after gradients/3/threshold_backward",
        "swap %0/convolution for 1/relu.again after gradients/5/mm",
        "swap %3/relu for gradients/5/mm_2 after gradients/nll_loss_backward "
        "for gradients/3/threshold_backward after gradients/5/mm",
        "delay gradients/5/mm_2 after gradients/5/sum",
    )
    text = graph.read_text(encoding="utf-8")
    assert text.count("ebb::swap_out(") == 2
    assert text.count("ebb::swap_in(") == 3
    assert "%1/relu.again" in text and "%4/view.back" in text
    run = step.run_rewritten(graph)
    assert run.host == 4 * (4 * 16 * 10 * 10) + 4 * (4 * 8 * 8 * 8), "both wait at the same time"


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=["first", "last"])
def test_split_derivatives_of_convolutions_compute_the_same(tmp_path, layout):
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(),
        nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.ReLU(),
        nn.ConvTranspose2d(16, 8, 2, stride=2, bias=False), nn.ReLU(),
        nn.Conv2d(8, 8, 3, dilation=2), nn.Flatten(), nn.Linear(8 * 20 * 20, 10),
    ).to(memory_format=layout)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    pictures, labels = images(4, 12)
    step = Step(tmp_path, model, F.cross_entropy, optimizer, (pictures.to(memory_format=layout), labels))
    calls = [f"gradients/{layer}/convolution_backward" for layer in (2, 4, 6)]
    graph = apply(step.path, *(f"split {call}" for call in calls))
    text = graph.read_text(encoding="utf-8")
    assert text.count("output_mask = [true, false, false]") == 3
    run = step.run_rewritten(graph)
    assert run.arena <= step.plain.arena
    again = apply(step.path, f"split {calls[2]}", f"recompute %{calls[2]} for {reader_of(text, calls[2])} after {calls[2]}")
    step.run_rewritten(again)


def reader_of(text, tensor):
    """The name of the first operation that reads it."""
    line = next(line for line in text.splitlines() if "=" in line and f"%{tensor}" in line.split("=", 1)[1])
    return line.split("%")[1].split(":")[0]


UPDATED = """graph g {
  input %x: f32[1000]
  param %w: f32[1000]
  %y: f32[1000] = aten::mul.Tensor(%x, %w)
  %b: f32[1000] = aten::sigmoid(%y)
  %w.1: f32[1000] ~ %w = aten::add_.Tensor(%w!, %b)
  %c: f32[1000] = aten::mul.Tensor(%b, %y)
  %s: f32[] = aten::sum(%c)
  return %s
}
"""


def test_what_is_recomputed_after_an_update_reads_the_value_from_before(tmp_path):
    graph = tmp_path / "step.ebb"
    graph.write_text(UPDATED, encoding="utf-8")
    state = tmp_path / "step.safetensors"
    save_file({"x": torch.randn(1000), "w": torch.randn(1000)}, state)
    rewritten = apply(graph, "recompute %y for c after b")
    assert "%w.kept: f32[1000] = ebb::snapshot(%w)" in rewritten.read_text(encoding="utf-8")
    plain, run = Run(graph, state), Run(rewritten, state)
    assert run.outputs == plain.outputs
    assert len({str(outputs) for outputs in run.outputs}) == STEPS
    assert run.state == plain.state


# What is printed.


def test_the_host_memory_is_printed_beside_the_arena(tmp_path):
    graph = tmp_path / "step.ebb"
    graph.write_text(UPDATED, encoding="utf-8")
    save_file({"x": torch.randn(1000), "w": torch.randn(1000)}, tmp_path / "step.safetensors")
    rewritten = apply(graph, "swap %y for c after b")
    head = tool("run", rewritten, "--state", tmp_path / "step.safetensors").splitlines()[0]
    assert head.startswith("arena ") and head.endswith("; host 3.9 KiB"), head
    program = tool("run", rewritten, "--program")
    assert ", host 4032 (bound 4032), " in program
    assert "%y.host 0..4000 @host = ebb::swap_out(%y " in program


def test_codecs_are_refused_by_name(tmp_path):
    graph = tmp_path / "step.ebb"
    graph.write_text(UPDATED, encoding="utf-8")
    save_file({"x": torch.randn(1000), "w": torch.randn(1000)}, tmp_path / "step.safetensors")
    rewritten = apply(graph, "swap %y for c after b as bf16")
    done = subprocess.run(
        [TOOL, "run", rewritten, "--program"], capture_output=True, text=True, env=ENVIRONMENT, check=False
    )
    assert done.returncode == 3
    assert "there are no kernels for codecs yet; swap without one" in done.stderr
