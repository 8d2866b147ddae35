"""``ebb rewrite`` and ``ebb verify`` on GraphDefs that TensorFlow wrote; TensorFlow runs the result."""

import functools
import json
import os
import pathlib
import subprocess

import graphdefs
import pytest
import tensorflow as tf

if "TOOL" not in os.environ:
    pytest.skip("built without the command line tool", allow_module_level=True)

written = functools.cache(lambda name: graphdefs.WRITERS[name]())


def ebb(*arguments: object) -> subprocess.CompletedProcess:
    command = [os.environ["TOOL"], *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(params=graphdefs.WRITERS)
def one(request, tmp_path) -> tuple[graphdefs.Written, pathlib.Path]:
    """A training GraphDef, and a file of it."""
    made = written(request.param)
    file = tmp_path / "x.pb"
    file.write_bytes(made.graphdef)
    return made, file


def rewrite(file: pathlib.Path, *options: object) -> tuple[pathlib.Path, dict]:
    out = file.with_name("y.pb")
    done = ebb("rewrite", file, "-o", out, "--json", *options)
    assert done.returncode == 0, done.stderr
    return out, json.loads(done.stdout)


WAYS = {
    "defaults": [],
    "fused": ["--ctrld-strategy", "direct_order", "--fuse-swapins"],
    "whole": ["--whole-graph", "--sync", 1],
}


@pytest.mark.parametrize("way", WAYS)
def test_a_rewritten_file_is_proved_and_computes_the_same_losses_and_variables(one, way):
    made, file = one
    out, report = rewrite(file, *made.options, *WAYS[way])
    assert report["tensors_swapped"] > 0
    proved = ebb("verify", file, out)
    assert proved.returncode == 0, proved.stderr
    assert made.run(out.read_bytes()) == made.run(made.graphdef)


def test_a_file_to_which_nothing_is_done_stays_as_it_is_byte_for_byte(one):
    made, file = one
    out, report = rewrite(file, *made.options, "--n-tensors", 0)
    assert report["tensors_swapped"] == 0
    assert out.read_bytes() == made.graphdef


def test_only_new_nodes_and_their_readers_differ(one):
    made, file = one
    out, _ = rewrite(file, *made.options)
    before = {node.name: node for node in tf.compat.v1.GraphDef.FromString(made.graphdef).node}
    after = tf.compat.v1.GraphDef.FromString(out.read_bytes())
    changed = 0
    for node in after.node:
        if "_ebb" in node.attr:
            continue
        old = before.pop(node.name)
        changed += node != old
        node.input[:] = old.input
        assert node == old
    assert not before
    assert changed > 0


def test_a_file_that_was_changed_elsewhere_is_not_the_same_computation(tmp_path):
    made = written("v1_adam")
    file = tmp_path / "x.pb"
    file.write_bytes(made.graphdef)
    out, _ = rewrite(file, *made.options)
    graph = tf.compat.v1.GraphDef.FromString(out.read_bytes())
    swap_in = next(node for node in graph.node if node.attr["_ebb"].s == b"swap_in")
    reader = next(node for node in graph.node if swap_in.name in node.input)
    other = next(
        node for node in graph.node if node.attr["_ebb"].s == b"swap_in" and node != swap_in
    )
    reader.input[list(reader.input).index(swap_in.name)] = other.name
    out.write_bytes(graph.SerializeToString())
    assert ebb("verify", file, out).returncode == 5
