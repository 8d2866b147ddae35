"""``ebb rewrite`` and ``ebb verify`` on GraphDefs that TensorFlow wrote; TensorFlow runs the result."""

import functools
import json
import os
import pathlib
import subprocess

import graphdefs
import pytest
import tensorflow as tf
import training_graphs

tf1 = tf.compat.v1

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


def mark(node: tf1.NodeDef) -> bytes:
    """What ``_ebb`` says. To index attributes would add one to the node."""
    return node.attr["_ebb"].s if "_ebb" in node.attr else b""


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
    swap_ins = [node for node in graph.node if mark(node) == b"swap_in"]
    reader = next(node for node in graph.node if swap_ins[0].name in node.input)
    source = next(node for node in graph.node if node.name == swap_ins[0].input[0])
    other = next(node for node in graph.node if node.name == source.input[0]).input[0]
    reader.input[list(reader.input).index(swap_ins[0].name)] = other
    out.write_bytes(graph.SerializeToString(deterministic=True))
    done = ebb("verify", file, out)
    assert (done.returncode, done.stdout) == (5, "")
    assert f"'{reader.name}' reads %{other}" in done.stderr


def test_to_ebb_and_back_no_byte_is_lost_before_nor_after_rewriting(one):
    made, file = one
    out, _ = rewrite(file, *made.options)
    for each in (file, out):
        there, back = each.with_suffix(".ebb"), each.with_name("back.pb")
        assert ebb("convert", each, there).returncode == 0
        assert ebb("convert", there, back).returncode == 0
        assert back.read_bytes() == each.read_bytes()


def test_rewriting_twice_changes_nothing(one):
    made, file = one
    once, _ = rewrite(file, *made.options)
    twice = file.with_name("z.pb")
    done = ebb("rewrite", once, "-o", twice, *made.options)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("Rewritten before: ")
    assert twice.read_bytes() == once.read_bytes()


def test_a_saved_model_is_rewritten_in_its_place_and_trains_the_same(tmp_path):
    folder = tmp_path / "model"
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.set_random_seed(7)
        training = training_graphs.with_fixed_batch()
        session.run(tf1.global_variables_initializer())
        builder = tf1.saved_model.Builder(str(folder))
        builder.add_meta_graph_and_variables(session, ["train"])
        builder.save()

    def losses() -> list[bytes]:
        with tf.Graph().as_default(), tf1.Session() as session:
            tf1.saved_model.load(session, ["train"], str(folder))
            fetches = [training.loss.name, training.train_step.name]
            return [session.run(fetches, training.batch(n))[0].tobytes() for n in range(4)]

    before = losses()
    file = folder / "saved_model.pb"
    original = tmp_path / "original.pb"
    original.write_bytes(file.read_bytes())
    options = ["--tags", "train", "--optimizer-scopes", training_graphs.SCOPE]
    done = ebb("rewrite", file, "-o", file, *options)
    assert done.returncode == 0, done.stderr
    assert b"swap_in" in file.read_bytes()
    assert ebb("verify", original, file, "--tags", "train").returncode == 0
    assert losses() == before
