"""Equal input and options give equal bytes, whatever addresses the process was given."""

import hashlib
import os
import pathlib
import subprocess

import pytest

RUNS = int(os.environ.get("EBB_RUNS", "50"))
EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
OPTIONS = {
    "defaults": [],
    "everything": [
        "--swap-branches", "--whole-graph", "--alpha", "3", "--fuse-swapins", "--fuse-distance", "4",
        "--ctrld-strategy", "direct_order", "--codec", "bf16",
    ],
}


@pytest.fixture(scope="module", autouse=True)
def random_addresses():
    """Without them hash tables of pointers would look the same in each run, and the tests below would say nothing."""
    setting = pathlib.Path("/proc/sys/kernel/randomize_va_space")
    if not setting.exists() or int(setting.read_text()) == 0:
        pytest.skip("this machine does not randomise addresses (/proc/sys/kernel/randomize_va_space)")
    places = {
        subprocess.run(["sh", "-c", "grep stack /proc/self/maps"], capture_output=True, text=True, check=True).stdout
        for _ in range(4)
    }
    if len(places) == 1:
        pytest.skip("processes started here all have the same addresses")


def large_graph(blocks: int) -> str:
    """A step of several thousand operations, with skips, views and updates."""
    forward = ["  input %x: f32[64]"]
    backward = []
    last = "x"
    for i in range(blocks):
        forward += [
            f"  param %w{i}: f32[64]",
            f"  %b{i}/conv: f32[64] = my::conv(%{last}, %w{i})",
            f"  %b{i}/relu: f32[64] = my::relu(%b{i}/conv)",
            f"  %b{i}/half: f32[32] ~ %b{i}/relu = my::slice(%b{i}/relu)",
            f"  %b{i}/skip: f32[64] = my::add(%b{i}/relu, %b{max(0, i - 7)}/conv)",
        ]
        last = f"b{i}/skip"
    gradient = last
    for i in reversed(range(blocks)):
        backward += [
            f"  %gradients/b{i}/relu: f32[64] = my::relu_grad(%{gradient}, %b{i}/relu, %b{i}/half)",
            f"  %gradients/b{i}/w: f32[64] = my::conv_grad(%gradients/b{i}/relu, %b{i}/conv)",
            f"  %gradients/b{i}/x: f32[64] = my::conv_grad(%gradients/b{i}/relu, %w{i})",
            f"  %w{i}.1: f32[64] ~ %w{i} = my::sub_(%w{i}!, %gradients/b{i}/w)",
        ]
        gradient = f"gradients/b{i}/x"
    return "\n".join(["graph step {", *forward, *backward, f"  return %{gradient}", "}", ""])


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_rewriting_a_large_graph_gives_the_same_bytes_every_time(ebb, tmp_path, options):
    (tmp_path / "step.ebb").write_text(large_graph(400))
    seen = set()
    for _ in range(RUNS):
        done = ebb("rewrite", "step.ebb", "-o", "out.ebb", "--json", *options)
        assert done.returncode == 0, done.stderr
        without_time = "\n".join(line for line in done.stdout.splitlines() if '"seconds"' not in line)
        written = (tmp_path / "out.ebb").read_text()
        assert written.count("ebb::swap_in") > 400
        seen.add(hashlib.sha256((written + without_time).encode()).hexdigest())
    assert len(seen) == 1
