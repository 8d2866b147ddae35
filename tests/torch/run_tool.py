"""Calls `ebb run`, on small steps that were saved."""

import json
import os
import pathlib
import subprocess

import pytest
import torch
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import save_file
from small_models import Transformer, convolutional, images, sentences, word_loss

import ebb.torch
from ebb.torch._step_function import step_function

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = pathlib.Path(os.environ.get("EBB_TOOL", "nowhere"))
if not TOOL.with_name("ebb-run").exists():
    pytest.skip("built without the command line tool", allow_module_level=True)
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}


def ebb_run(*args, stdin=""):
    return subprocess.run(
        [TOOL, "run", *map(str, args)],
        input=stdin, capture_output=True, text=True, env=ENVIRONMENT, timeout=120, check=False,
    )  # fmt: skip


def run_well(*args, **options):
    done = ebb_run(*args, **options)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def losses_of(*args):
    report = json.loads(run_well(*args, "--json"))
    return [step["outputs"][0] for step in report["steps"]]


def metadata_of(path):
    with safe_open(path, "pt") as file:
        return file.metadata()


class Training:
    """A model in training, saved as a step before its first."""

    def __init__(self, folder, model, loss_fn, optimizer, batch):
        self.model, self.optimizer, self.batch = model, optimizer, batch
        self.train = step_function(model, loss_fn, optimizer)
        self.captured = ebb.torch.capture(model, loss_fn, optimizer, batch)
        self.path = folder / "step.ebb"
        torch.manual_seed(7)
        self.captured.save(self.path)
        self.start = torch.get_rng_state()

    def eager_losses(self, steps):
        torch.set_rng_state(self.start)
        return [self.train(*self.batch).item() for _ in range(steps)]

    def state(self):
        """Parameters, buffers and optimizer state as they are now, by the graph's names."""
        state = {**dict(self.model.named_parameters()), **dict(self.model.named_buffers())}
        for name, parameter in self.model.named_parameters():
            for key, value in self.optimizer.state[parameter].items():
                if isinstance(value, torch.Tensor):
                    state[f"{name}.{key}"] = value
        return state


def cnn(folder):
    torch.manual_seed(0)
    model = convolutional()
    optimizer = torch.optim.SGD(
        model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4
    )
    return Training(folder, model, F.cross_entropy, optimizer, images(4, 12))


def transformer(folder):
    torch.manual_seed(0)
    model = Transformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    return Training(folder, model, word_loss, optimizer, sentences(3, 16, 100))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A saved convolutional network, for tests that do not train it eagerly."""
    return cnn(tmp_path_factory.mktemp("saved"))


SMALL = """graph g {
  input %x: f32[2]
  param %w: f32[2]
  scalar $lr: f64
  %y: f32[2] = aten::mul.Tensor(%x, %w)
  %s: f32[] = aten::sum(%y)
  $half: f64 = scalar::mul(0.5, $lr)
  %w.1: f32[2] ~ %w = aten::add_.Tensor(%w!, %x) {alpha = $half}
  return %s, %y
}
"""


@pytest.fixture
def small(tmp_path):
    """A step written by hand, x = [1, 2], w = [3, 4], lr = 1: returns 11 first."""
    (tmp_path / "small.ebb").write_text(SMALL, encoding="utf-8")
    write_small_state(tmp_path / "small.safetensors")
    return tmp_path / "small.ebb"


def write_small_state(path, metadata=None, **tensors):
    content = {"x": torch.tensor([1.0, 2.0]), "w": torch.tensor([3.0, 4.0]), **tensors}
    content = {name: tensor for name, tensor in content.items() if tensor is not None}
    if metadata is None:
        metadata = {"format": "ebb-step-1", "scalar.lr": (1.0).hex()}
    save_file(content, path, metadata)


def refused(status, *args, **options):
    done = ebb_run(*args, **options)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.startswith("ebb: ")
    return done.stderr.removeprefix("ebb: ").rstrip("\n")
