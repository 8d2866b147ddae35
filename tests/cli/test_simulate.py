"""`ebb simulate`: time and memory of a step as it stands."""

import json
import pathlib

import pytest
from test_tune import SLOW, STEP

HERE = pathlib.Path(__file__).parent

TEXT = """step:   16.0 us; nothing waits
busy:   16.0 us with computing, 0 ns with copies to the host, 0 ns with copies back
memory: 4.9 KiB on the device, 0 B on the host
"""


@pytest.fixture
def step(tmp_path):
    path = tmp_path / "step.ebb"
    path.write_text(STEP)
    (tmp_path / "slow.json").write_text(SLOW)
    return path


def simulated(ebb, *arguments):
    done = ebb("simulate", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_step_that_nobody_rewrote_computes_and_waits_for_nothing(ebb, step):
    done = ebb("simulate", step, "--model", "slow.json")
    assert (done.returncode, done.stdout, done.stderr) == (0, TEXT, "")


# `ebb tune` says the same of it: 19 us, and 3000 bytes.
def test_a_rewritten_step_copies_and_waits(ebb, step, tmp_path):
    assert ebb("rewrite", step, "-o", "swapped.ebb").returncode == 0
    said = simulated(ebb, "swapped.ebb", "--model", "slow.json", "--trace", "trace.json")
    assert said["step_seconds"] == pytest.approx(19e-6)
    assert said["compute_seconds"] == pytest.approx(16e-6)
    assert said["to_host_seconds"] == said["to_device_seconds"] == pytest.approx(3e-6)
    assert sum(said["stalled_seconds"].values()) == pytest.approx(3e-6)
    assert said["peak_bytes"] == 3000
    assert said["host_bytes"] == 3000
    assert "traceEvents" in json.loads((tmp_path / "trace.json").read_text())


def test_an_open_batch_is_given(ebb, tmp_path):
    (tmp_path / "open.ebb").write_text("graph g {\n  input %x: f32[?,10]\n  %y: f32[?,10] = tf::Relu(%x)\n  return %y\n}\n")
    done = ebb("simulate", "open.ebb")
    assert done.returncode == 3 and "how large %x is, is not known" in done.stderr
    assert simulated(ebb, "open.ebb", "--batch-size", "25")["peak_bytes"] == 2000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--json", "--trace", "-"], "both want standard output"),
        (["--trace", "step.ebb"], "would overwrite the graph"),
        (["--model", "slow.json", "--trace", "slow.json"], "would be overwritten"),
        (["--trace", "step.safetensors"], "'step.safetensors' is called as the state of a step is"),
        (["--batch-size", "4"], "--batch-size is for TensorFlow's files, which leave sizes open; "),
        (["--batch-size", "0"], "--batch-size"),
        (["--batch-size", "99999999999999999999999"], "--batch-size"),
    ],
)
def test_wrong_usage_is_said_and_nothing_is_written(ebb, step, tmp_path, arguments, words):
    done = ebb("simulate", step, *arguments)
    assert done.returncode == 2 and words in done.stderr
    assert step.read_text() == STEP and (tmp_path / "slow.json").read_text() == SLOW


def test_memory_of_a_tensorflow_file_is_counted_as_its_executor_has_it(ebb, tmp_path):
    """Without an edge that holds it, it enqueues everything before the first copy has ended."""
    (tmp_path / "slow.json").write_text(SLOW)
    swapped = ["rewrite", HERE / "training.pbtxt", "-o"]
    assert ebb(*swapped, "free.pbtxt").returncode == 0
    assert ebb("convert", "free.pbtxt", "free.ebb").returncode == 0
    free = simulated(ebb, "free.pbtxt", "--model", "slow.json")
    text = simulated(ebb, "free.ebb", "--model", "slow.json")
    assert free["peak_bytes"] >= text["peak_bytes"] > 0
