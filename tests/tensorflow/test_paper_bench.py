"""bench/paper runs, on two logical devices of the CPU, and goes on where it was."""

import json
import pathlib
import subprocess
import sys

PROGRAM = pathlib.Path(__file__).parents[2] / "bench" / "paper" / "run.py"


def run(*arguments):
    command = [sys.executable, PROGRAM, "--small", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


def test_a_cell_is_trained_by_budget_once(tmp_path):
    out = tmp_path / "paper.json"
    done = run("--out", out, "--cells", "unet3d-budget")
    assert done.returncode == 0, done.stdout + done.stderr
    [seen] = json.loads(out.read_text())["unet3d-budget"]["batches"]
    assert seen["state"] == "trained", seen
    assert seen["ebb"]["problem"] is None
    assert 0 < seen["ebb"]["peak_bytes"] <= seen["ebb"]["budget_bytes"]
    assert seen["ebb"]["tensors_swapped"] + seen["ebb"]["tensors_recomputed"] > 0
    before = out.stat().st_mtime_ns
    again = run("--out", out, "--cells", "unet3d-budget")
    assert again.returncode == 0 and "1 of 1 cells" in again.stdout
    assert out.stat().st_mtime_ns == before
    results = json.loads(out.read_text())
    results["unet3d-budget"]["cell"]["budget"] = "97%"
    out.write_text(json.dumps(results))
    other = run("--out", out, "--cells", "unet3d-budget", "--limit", "-1")
    assert other.returncode == 1 and "0 of 1 cells" in other.stdout  # by other settings it is another cell


def test_a_cell_that_there_is_not_is_named(tmp_path):
    done = run("--out", tmp_path / "paper.json", "--cells", "resnet50-193")
    assert done.returncode == 2 and "there is no cell resnet50-193" in done.stderr
