"""`ebb run` and Ctrl-C."""

import pathlib
import re
import signal
import subprocess
import time

import torch
from run_tool import ENVIRONMENT, TOOL
from safetensors.torch import load_file, save_file

SLOW = "\n".join(f"  %y{i + 1}: f32[900,900] = aten::mm(%y{i}, %x)" for i in range(60))
UPDATE = "  %w.1: f32[1] ~ %w = aten::add_.Scalar(%w!) {other = 1}"
SLOW_THEN_UPDATE = f"""graph g {{
  input %x: f32[900,900]
  param %w: f32[1]
  %y0: f32[900,900] = aten::mm(%x, %x)
{SLOW}
{UPDATE}
  return %y60
}}
"""
UPDATE_THEN_SLOW = f"""graph g {{
  input %x: f32[900,900]
  param %w: f32[1]
{UPDATE}
  %y0: f32[900,900] = aten::mm(%x, %x)
{SLOW}
  return %y60
}}
"""


def interrupt(path, steps, *args):
    """Runs a slow step, presses Ctrl-C within the second; gives back status, lines and messages."""
    save_file({"x": torch.zeros(900, 900), "w": torch.zeros(1)}, path.with_suffix(".safetensors"))
    process = subprocess.Popen(
        [TOOL, "run", path, "--steps", str(steps), "--threads", "1", *args],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    lines = [process.stdout.readline(), process.stdout.readline()]
    assert lines[1].startswith("step 1: ")
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    return process.returncode, "".join(lines) + out, err


def test_ctrl_c_stops_a_step_that_has_not_changed_the_state(tmp_path):
    (tmp_path / "slow.ebb").write_text(SLOW_THEN_UPDATE, encoding="utf-8")
    after = tmp_path / "after.safetensors"
    status, lines, messages = interrupt(tmp_path / "slow.ebb", 2, "-o", str(after))
    assert status == 130
    assert messages == f"ebb: interrupted after step 1 of 2; {after} is not written\n"
    assert "step 2" not in lines
    assert not after.exists()


def test_ctrl_c_lets_a_step_finish_that_has_begun_to_change_the_state(tmp_path):
    (tmp_path / "slow.ebb").write_text(UPDATE_THEN_SLOW, encoding="utf-8")
    after = tmp_path / "after.safetensors"
    status, lines, messages = interrupt(tmp_path / "slow.ebb", 3, "-o", str(after))
    assert status == 130
    assert messages == f"ebb: interrupted after step 2 of 3; {after} is not written\n"
    assert "step 2: " in lines
    assert not after.exists()


def test_ctrl_c_in_a_last_step_that_is_finished_loses_nothing(tmp_path):
    (tmp_path / "slow.ebb").write_text(UPDATE_THEN_SLOW, encoding="utf-8")
    after = tmp_path / "after.safetensors"
    status, _, messages = interrupt(tmp_path / "slow.ebb", 2, "-o", str(after))
    assert status == 130
    assert messages == f"ebb: interrupted when all steps were done; {after} is written\n"
    assert load_file(after)["w"].item() == 2.0


def test_ctrl_c_while_operations_are_measured_ends_at_once(tmp_path):
    lines = [f"  %y{n}: f32[{n},900] = aten::mm(%x{n}, %x)" for n in range(800, 900)]  # all different
    inputs = [f"  input %x{n}: f32[{n},900]" for n in range(800, 900)]
    text = ["graph g {", "  input %x: f32[900,900]", *inputs, *lines, "  return %y899", "}", ""]
    (tmp_path / "slow.ebb").write_text("\n".join(text), encoding="utf-8")
    process = subprocess.Popen(
        [TOOL, "run", tmp_path / "slow.ebb", "--program", "--threads", "1"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    status = pathlib.Path(f"/proc/{process.pid}/status")
    for _ in range(6000):  # until it watches for the signal
        caught = int(re.search(r"SigCgt:\s*(\w+)", status.read_text())[1], 16)
        if caught >> (signal.SIGINT - 1) & 1:
            break
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "ebb: interrupted\n")
