"""`ebb run` is the program ebb-run: it is found, becomes the process, or is said to be missing.

What it does is tested beside PyTorch, in tests/torch/test_run.py.
"""

import os
import shutil
import subprocess

import pytest


@pytest.fixture
def alone(tmp_path):
    """A copy of the tool with nothing beside it: runs `ebb run ARGS` with a PATH of its own."""
    tool = shutil.copy(os.environ["EBB_TOOL"], tmp_path / "ebb")

    def run(*args, path="/nowhere"):
        return subprocess.run(
            [tool, "run", *args], capture_output=True, text=True, timeout=60, check=False,
            env={**os.environ, "PATH": str(path)},
        )  # fmt: skip

    return run


def write_program(folder, script):
    """A program ebb-run that says which it is."""
    folder.mkdir(exist_ok=True)
    path = folder / "ebb-run"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


SAY_ARGUMENTS = 'for word in "$@"; do echo "[$word]"; done; exit 7'


def test_without_the_program_it_says_how_to_get_it(alone, tmp_path):
    done = alone("step.ebb")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"ebb: there is no ebb-run in {tmp_path} nor on the PATH: this ebb was built without PyTorch; "
        "'ebb run' needs one built with it (cmake -DEBB_BUILD_TORCH=ON)\n"
    )


def test_arguments_and_exit_status_go_through_unchanged(alone, tmp_path):
    write_program(tmp_path, SAY_ARGUMENTS)
    done = alone("--help", "a b", "-o", "show", "--", "ä*")
    assert (done.returncode, done.stderr) == (7, "")
    assert done.stdout == "[--help]\n[a b]\n[-o]\n[show]\n[--]\n[ä*]\n"


def test_the_program_beside_the_tool_comes_before_one_on_the_path(alone, tmp_path):
    write_program(tmp_path / "elsewhere", "echo from the PATH")
    assert alone(path=tmp_path / "elsewhere").stdout == "from the PATH\n"
    write_program(tmp_path, "echo from beside")
    assert alone(path=tmp_path / "elsewhere").stdout == "from beside\n"


def test_it_is_found_beside_the_tool_behind_a_link(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "real").mkdir()
    shutil.copy(os.environ["EBB_TOOL"], tmp_path / "real" / "ebb")
    write_program(tmp_path / "real", "echo found")
    (tmp_path / "bin" / "ebb").symlink_to(tmp_path / "real" / "ebb")
    done = subprocess.run(
        [tmp_path / "bin" / "ebb", "run"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "found\n"


def test_a_program_that_cannot_be_started_is_named(alone, tmp_path):
    write_program(tmp_path, "echo never")
    (tmp_path / "ebb-run").chmod(0o644)
    done = alone()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"ebb: cannot start {tmp_path / 'ebb-run'}: Permission denied\n"


def test_the_process_is_replaced_not_kept_waiting(alone, tmp_path):
    write_program(tmp_path, 'tr "\\0" " " < /proc/$PPID/cmdline')
    assert "ebb run" not in alone(path=os.environ["PATH"]).stdout


def test_the_help_lists_run(ebb):
    assert "\n  run  " in ebb("--help").stdout
