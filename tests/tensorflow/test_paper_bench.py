"""bench/paper runs, on two logical devices of the CPU, and goes on where it was."""

import importlib
import json
import pathlib
import subprocess
import sys

import pytest

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


@pytest.fixture
def matrix(monkeypatch):
    """run.py as a module."""
    monkeypatch.syspath_prepend(PROGRAM.parent)
    return importlib.import_module("run")


@pytest.mark.parametrize(("state", "status"), [("trained", 0), ("out of memory", 0), ("cut off", 1), ("failed", 1)])
def test_a_batch_that_was_cut_off_or_failed_is_not_done(tmp_path, matrix, state, status):
    cell = matrix.small(matrix.CELLS["resnet50-plain"])
    out = tmp_path / "paper.json"
    batches = [{"batch": 2, "state": "trained"}, {"batch": 4, "state": state}]
    out.write_text(json.dumps({"resnet50-plain": {"cell": cell, "batches": batches}}))
    done = run("--out", out, "--cells", "resnet50-plain", "--limit", "-1")
    assert done.returncode == status
    assert f"{1 - status} of 1 cells" in done.stdout
    assert ("not done: resnet50-plain" in done.stdout) == bool(status)


def test_what_was_stopped_sooner_replaces_nothing(tmp_path, matrix):
    cell = matrix.small(matrix.CELLS["resnet50-plain"]) | {"steps": 7}  # by other settings
    batches = [{"batch": 2, "state": "trained"}, {"batch": 4, "state": "cut off"}]
    out = tmp_path / "paper.json"
    out.write_text(json.dumps({"resnet50-plain": {"cell": cell, "batches": batches}}))
    done = run("--out", out, "--cells", "resnet50-plain", "--cell-limit", "0.01")
    assert done.returncode == 1 and "batch 2: cut off" in done.stdout
    assert json.loads(out.read_text())["resnet50-plain"]["batches"] == batches


def test_only_what_is_missing_of_a_cell_runs(tmp_path, matrix):
    cell = matrix.small(matrix.CELLS["resnet50-plain"])
    known = {"batch": 2, "state": "trained", "images_per_second": 7.0}
    out = tmp_path / "paper.json"
    for before in [[known], [known, {"batch": 4, "state": "cut off"}]]:
        out.write_text(json.dumps({"resnet50-plain": {"cell": cell, "batches": before}}))
        done = run("--out", out, "--cells", "resnet50-plain", "--cell-limit", "0.01")
        assert done.returncode == 1 and done.stdout.startswith("resnet50-plain, batch 4: cut off")
        [first, second] = json.loads(out.read_text())["resnet50-plain"]["batches"]
        assert first == known and (second["batch"], second["state"]) == (4, "cut off")
    other = known | {"batch": 4}  # of fewer batches, and not the first
    out.write_text(json.dumps({"resnet50-plain": {"cell": cell | {"batches": [4]}, "batches": [other]}}))
    run("--out", out, "--cells", "resnet50-plain", "--limit", "-1")
    assert matrix.missing_batches(cell, json.loads(out.read_text())["resnet50-plain"]) == [2]
    ended = {"cell": cell, "batches": [{"batch": 2, "state": "out of memory"}]}
    assert matrix.missing_batches(cell, ended) == []
    large_alone = {"cell": cell | {"batches": [4]}, "batches": [{"batch": 4, "state": "out of memory"}]}
    assert matrix.missing_batches(cell, large_alone) == [2]
    both = matrix.joined(cell, large_alone, {"batches": [known]})
    assert [each["batch"] for each in both["batches"]] == [2, 4]


def test_cells_of_which_least_is_known_come_first(matrix):
    cells = {name: {"batches": [2, 4]} for name in ("changed", "cut", "done", "short", "missing")}
    results = {
        "changed": {"batches": [{"batch": 2, "state": "trained"}, {"batch": 4, "state": "trained"}]},
        "cut": {"batches": [{"batch": 2, "state": "trained"}, {"batch": 4, "state": "cut off"}]},
        "done": {"batches": [{"batch": 2, "state": "out of memory"}]},  # 4 would not train either
        "short": {"batches": [{"batch": 2, "state": "trained"}]},
    }
    assert matrix.by_need([*cells], cells, results) == ["short", "missing", "cut", "changed", "done"]


def test_of_several_budgets_the_first_that_trains_counts(matrix, monkeypatch):
    program = importlib.import_module("cell")

    def measure(cell, machine, profile):
        return {"state": "trained" if cell["budget"] == "12GiB" else "out of memory", "error": cell["budget"]}

    monkeypatch.setattr(program, "measure", measure)
    seen = program.measure_budgets({"budget": ["13GiB", "12GiB", "11GiB"]}, None, None)
    assert (seen["state"], seen["budget"]) == ("trained", "12GiB")
    assert [(each["budget"], each["state"]) for each in seen["before"]] == [("13GiB", "out of memory")]
    last = program.measure_budgets({"budget": ["14GiB", "13GiB"]}, None, None)
    assert (last["state"], last["budget"], len(last["before"])) == ("out of memory", "13GiB", 1)


def test_what_ended_replaces_nothing_when_it_is_cut_off(tmp_path, matrix):
    cell = matrix.small(matrix.CELLS["resnet50-plain"]) | {"steps": 7}  # by other settings
    batches = [{"batch": 2, "state": "out of memory"}]
    out = tmp_path / "paper.json"
    out.write_text(json.dumps({"resnet50-plain": {"cell": cell, "batches": batches}}))
    done = run("--out", out, "--cells", "resnet50-plain", "--cell-limit", "0.01")
    assert done.returncode == 1 and "batch 2: cut off" in done.stdout
    assert json.loads(out.read_text())["resnet50-plain"]["batches"] == batches


@pytest.mark.parametrize(
    ("kind", "message", "state", "line"),
    [
        ("ResourceExhaustedError", "Graph execution error:\nOOM when allocating tensor", "out of memory", "OOM when"),
        ("ResourceExhaustedError", "no more", "out of memory", "no more"),
        ("UnknownError", "2 root errors\nCUDNN failed to allocate the scratch space for", "out of memory", "CUDNN failed"),
        ("InternalError", "allocated\nelsewhere", "failed", "allocated"),
        ("OutOfRangeError", None, "failed", ""),
    ],
)
def test_what_failed_for_want_of_memory_is_told_from_the_rest(matrix, kind, message, state, line):
    import tensorflow as tf

    seen = importlib.import_module("cell").what_failed(getattr(tf.errors, kind)(None, None, message))
    assert seen["state"] == state and seen["error"].startswith(line)


def test_cells_by_parameters_share_a_process(tmp_path):
    out = tmp_path / "paper.json"
    names = ["unet3d-all", "unet3d-all-branches"]
    done = run("--out", out, "--together", "--cells", ",".join(names))
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads(out.read_text())
    for name in names:
        [seen] = results[name]["batches"]
        assert seen["state"] == "trained" and seen["ebb"]["problem"] is None, seen
        assert 0 < seen["ebb"]["tensors_swapped"] <= seen["ebb"]["swap_outs"] <= seen["ebb"]["swap_ins"]
    swapped = [results[name]["batches"][0]["ebb"]["tensors_swapped"] for name in names]
    assert swapped[0] < swapped[1]  # branches are more


@pytest.mark.parametrize("content", ["{", "[1]", '{"resnet50-plain": 3}'])
def test_another_file_is_refused_before_anything_runs(tmp_path, content):
    out = tmp_path / "paper.json"
    out.write_text(content)
    done = run("--out", out, "--cells", "resnet50-plain")
    assert done.returncode == 2 and "is none of this program's files" in done.stderr
    assert out.read_text() == content
    assert "none of this program's files" in run("--out", tmp_path, "--cells", "resnet50-plain").stderr


def test_a_folder_is_made_before_anything_runs(tmp_path):
    run("--out", tmp_path / "new" / "paper.json", "--cells", "resnet50-plain", "--limit", "-1")
    assert (tmp_path / "new").is_dir()


def test_a_cell_that_there_is_not_is_named(tmp_path):
    done = run("--out", tmp_path / "paper.json", "--cells", "resnet50-193")
    assert done.returncode == 2 and "there is no cell resnet50-193" in done.stderr
