"""Tables and picture of the paper's experiments say what bench/paper/run.py wrote, and leave empty what it did not."""

import json
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLES = ROOT / "bench" / "paper" / "tables.py"
PICTURE = ROOT / "docs" / "pictures" / "draw_throughput.py"
SVG = "{http://www.w3.org/2000/svg}"
GIB = 1 << 30
RESNET = {"network": "resnet50", "side": 224, "limit": "16GiB", "batches": [384, 832]}
UNET = {"network": "unet3d", "side": 128, "limit": "16GiB", "batches": [2, 3, 4]}
BUDGET = {"budget": "14GiB"}
# No measurements: numbers that are easily divided.
PLANNED = {"tensors_swapped": 40, "peak_bytes": 10 * GIB, "measured_bytes": 12 * GIB, "step_seconds": 0.5}


NO_PLAN = f"no plan fits into 14.0 GiB (42 %); the least budget found is {16 * GIB}B (50 %); it needs most at 'x'"


def trained(batch, speed, **more):
    times = [batch / speed, batch / speed, 9.0]
    return {"batch": batch, "state": "trained", "images_per_second": speed, "step_seconds": times,
            "peak_bytes": 11 * GIB, "machine": "A GPU", "tensorflow": "2.0"} | more


def swapping(count, **more):
    planned = {"peak_bytes": None, "measured_bytes": None, "step_seconds": None}
    return {"ebb": {"tensors_swapped": count} | planned | more}


def out_of_memory(batch, **more):
    return {"batch": batch, "state": "out of memory"} | more


RESULTS = {
    "resnet50-plain": (RESNET | {"batches": [192, 256]}, [trained(192, 1000), out_of_memory(256)]),
    "resnet50-no-limit": (RESNET | {"limit": None}, [trained(384, 1200), trained(832, 1600)]),
    "resnet50-budget": (RESNET | BUDGET, [trained(384, 600, ebb=PLANNED),
                                          trained(832, 416, ebb=PLANNED | {"measured_bytes": 9 * GIB})]),
    "resnet50-copy-kernels-budget": (
        RESNET | {"batches": [832], "budget": ["13GiB", "12GiB"], "options": {"swap_nodes": "copy_kernels"}},
        [trained(832, 800, ebb=PLANNED, budget="12GiB")]),
    "resnet50-all-lb1": (RESNET | {"parameters": {"lb": 1}},
                         [trained(384, 500, **swapping(7)), trained(832, 300, **swapping(7, swap_outs=7, swap_ins=9))]),
    "resnet50-200-lb5": (RESNET | {"parameters": {"lb": 5, "n_tensors": 200}},
                         [trained(384, 700, **swapping(6, swap_outs=6, swap_ins=8)),
                          out_of_memory(832, **swapping(6, swap_outs=6, swap_ins=8))]),
    "resnet50-100-lb1": (RESNET | {"parameters": {"lb": 1, "n_tensors": 100}}, [out_of_memory(384, **swapping(5))]),
    "unet3d-plain": (UNET | {"batches": [1, 2]}, [trained(1, 8), out_of_memory(2)]),
    "unet3d-budget": (UNET | BUDGET, [trained(2, 4, ebb=PLANNED), trained(3, 2, ebb=PLANNED),
                                     out_of_memory(4, ebb={"tensors_swapped": 0, "problem": NO_PLAN})]),
}


def run(program, path, results):
    path.write_text(json.dumps({name: {"cell": cell, "batches": seen} for name, (cell, seen) in results.items()}))
    command = [sys.executable, program, path]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=60, check=False)


@pytest.fixture
def tables(tmp_path):
    done = run(TABLES, tmp_path / "paper.json", RESULTS)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def picture(tmp_path):
    done = run(PICTURE, tmp_path / "paper.json", RESULTS)
    assert done.returncode == 0, done.stderr
    return ElementTree.fromstring(done.stdout)


def rows_of(tables, heading):
    section = tables.split(f"### {heading}\n")[1].split("\n### ")[0]
    rows = [[column.strip() for column in line.split("|")[1:-1]] for line in section.splitlines() if line[:2] == "| "]
    assert len(rows) > 1
    return rows


def test_the_largest_batches_stand_beside_the_paper_s(tables):
    assert tables.startswith("A GPU, TensorFlow 2.0.\n")
    assert rows_of(tables, "Largest batch")[1:] == [
        ["ResNet-50 224²", "176 → 832", "192, 1000 images/s (256: out of memory)", "832, 300 images/s (all, lb 1)",
         "832, 800 images/s (copy kernels)"],
        ["3D U-Net 128³", "2 → 4", "1, 8 images/s (2: out of memory)", "", "3, 2 images/s (4: no plan fits; least 16.0 GiB)"],
        ["3D U-Net 192³", "out of memory → 1, 0.17 images/s", "-", "", ""],
    ]
    assert "¹ Of those tried" in tables and "ResNet-50 224² plain 192, 256; by parameters" in tables
    assert "of which 8 were not run" in tables


def test_every_cell_by_parameters_has_its_row(tables):
    rows = rows_of(tables, "By parameters")
    shown = [rows[0].index(name) for name in ("tensors swapped", "images/s at 384", "images/s at 832")]
    assert [row[:5] + [row[column] for column in shown] for row in rows[1:8]] == [
        ["all", "1", "chain_rule", "", "", "7 (7 + 9)", "500", "300"],
        ["all", "5", "chain_rule", "", "", "", "", ""],
        ["200", "1", "chain_rule", "", "", "", "", ""],
        ["100", "1", "chain_rule", "", "", "5", "out of memory", "-"],
        ["all", "1", "direct_order", "", "", "", "", ""],
        ["all", "1", "chain_rule", "yes", "", "", "", ""],
        ["200", "5", "chain_rule", "", "", "6 (6 + 8)", "700", "out of memory"],  # the file has it, the matrix does not
    ]
    assert ["all", "1", "chain_rule", "", "over 20 levels", "2", "", "", "", ""] in rows
    assert [row[rows[0].index("sync")] for row in rows[1:8]] == ["0", "2", "2", "0", "1", "2", "0"]
    assert "In brackets: the operations that were added, swap-outs and swap-ins." in tables


def test_predictions_stand_beside_what_was_measured(tables):
    rows = {(row[0], row[1]): row[2:] for row in rows_of(tables, "By budget")}
    peaks = ["10.00 GiB", "12.00 GiB", "+20.0 %", "0.5 s"]
    assert rows["`resnet50-budget`, 14 GiB", "384"] == ["600", "50 %", *peaks, "0.64 s"]
    assert rows["`resnet50-budget`, 14 GiB", "832"] == [
        "416", "26 %", "10.00 GiB", "11.00 GiB", "+10.0 %", "0.5 s", "2 s"]
    assert rows["`unet3d-budget`, 14 GiB", "2"] == ["4", "", *peaks, "0.5 s"]
    assert rows["`unet3d-budget`, 14 GiB", "4"] == ["no plan fits; least 16.0 GiB", *[""] * 6]
    assert rows["`keras3-resnet50-budget`, 12 GiB or 11 GiB", "832"] == [""] * 7
    assert rows["`resnet50-copy-kernels-budget`, 12 GiB", "832"][:2] == ["800", "50 %"]


def test_the_picture_names_every_configuration_and_where_it_ended(picture):
    texts = ["".join(text.itertext()) for text in picture.iter(f"{SVG}text")]
    of_resnet = ["without limit", "plain, in 16 GiB; 256: out of memory", "by budget, 14 GiB",
                 "by budget, 13 GiB or 12 GiB, copy kernels",
                 "by parameters: all, lb 1", "by parameters: all, lb 5; not measured",
                 "by parameters: 200, lb 1; not measured", "by parameters: 200, lb 5; 832: out of memory",
                 "by parameters: 100, lb 1; 384: out of memory",
                 "by parameters: all, lb 1, direct_order, sync 1; not measured"]
    of_unet = ["plain, in 16 GiB; 2: out of memory", "by budget, 14 GiB; 4: no plan fits; least 16.0 GiB",
               "by parameters: all, lb 1; not measured", "by parameters: all, lb 5; not measured",
               "by parameters: all, lb 1, branches; not measured"]
    named = [text for text in texts if re.match("without|plain|by ", text)]
    assert named == of_resnet + of_unet
    assert "Speed of training against the batch: A GPU, TensorFlow 2.0" in texts


def test_marks_are_hollow_where_the_next_batch_did_not_train(picture):
    marks = list(picture.iter(f"{SVG}path"))
    hollow = [mark for mark in marks if mark.get("fill") == "#ffffff"]
    # In the panels, and once more in the legend: plain twice, 200 with lb 5, the 3D U-Net by budget. One explains them.
    assert len(hollow) == 2 * 4 + 1
    by_budget = [mark.get("fill") for mark in marks if mark.get("stroke") == "#1f6fa8"]
    full = "#1f6fa8"
    # Two batches and the legend, copy kernels' batch and theirs; then the other panel.
    assert by_budget == [full, full, full, full, full, full, "#ffffff", "#ffffff"]


@pytest.mark.parametrize("program", [TABLES, PICTURE], ids=["tables", "picture"])
def test_nothing_run_is_no_error(tmp_path, program):
    done = run(program, tmp_path / "paper.json", {})
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("program", [TABLES, PICTURE], ids=["tables", "picture"])
def test_small_sizes_are_not_taken_for_the_paper_s(tmp_path, program):
    done = run(program, tmp_path / "small.json", {"resnet50-plain": (RESNET | {"side": 32}, [trained(192, 1000)])})
    assert done.returncode == 1 and "resnet50-plain is of side 32" in done.stderr
