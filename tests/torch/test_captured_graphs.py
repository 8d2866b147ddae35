"""The graphs under captured/ are what capture makes today, and the tools can read them.

To accept a change, run the tests with EBB_UPDATE=1 and read the difference.
"""

import os
import pathlib

import pytest
from captured_steps import STEPS

import ebb

FOLDER = pathlib.Path(__file__).parent / "captured"


@pytest.mark.parametrize("name", STEPS)
def test_capture_makes_the_graph_that_is_checked_in(name):
    text = STEPS[name]().text
    file = FOLDER / f"{name}.ebb"
    if os.environ.get("EBB_UPDATE"):
        file.write_text(text, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.ebb")), ids=lambda file: file.stem)
def test_a_graph_that_is_checked_in_is_valid_and_canonical(file):
    text = file.read_text(encoding="utf-8")
    assert ebb.find_violations(text) == []
    assert str(ebb.parse(text)) == text


def test_no_other_graph_is_checked_in():
    assert {file.stem for file in FOLDER.iterdir()} == set(STEPS)
