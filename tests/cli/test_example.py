"""`ebb-example`: what is no model is wrong usage."""

import os
import pathlib
import subprocess

import pytest


def example(*arguments):
    tool = pathlib.Path(os.environ["EBB_TOOL"]).parents[2] / "examples/ebb-example"
    return subprocess.run([tool, *arguments], capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("resnet --batch 99999999999999", "batch is 99999999999999, and must be at most 1099511627776"),
        ("mlp --layers 100000000", "layers is 100000000, and must be at most 1000000"),
        ("resnet --blocks 999999,2", "blocks add up to more than 1000000, the most there can be"),
        ("mlp --nodes 0", "--nodes is 0, and must be at least 1"),
        ("mlp --nodes 99999999999", "--nodes is 99999999999, which takes 8333333333 layers; at most 1000000 can be"),
        ("resnet --nodes 99999999999", "--nodes is 99999999999, which takes 1408450702 blocks; at most 1000000 can be"),
        ("transformer --nodes 99999999999", "--nodes is 99999999999, which takes 469483568 layers; at most 1000000 can be"),
        ("mlp --nodes 9000000000000000000", "--nodes is 9000000000000000000, and must be at most 1099511627776"),
        ("mlp --nodes 100 --width 0", "width is 0, and must be at least 1"),
    ],
)
def test_sizes_out_of_range_are_wrong_usage_of_the_option_that_was_given(arguments, message):
    done = example(*arguments.split())
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"ebb-example: {message}\n")


def test_sizes_that_do_not_fit_together_are_bad_input():
    done = example("resnet", "--image", "1000000000000", "--batch", "1000000000000")
    assert (done.returncode, done.stdout) == (3, "")
