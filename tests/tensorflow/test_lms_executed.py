"""The graphs that TensorFlow finally runs have what LMS added, where and when it should run."""

import pytest
import sessions
import tensorflow as tf
import training_graphs
from ebb.tensorflow import LMS
from training_graphs import SCOPE

tf1 = tf.compat.v1

WAYS = {
    "chain_rule": {},
    "direct_order": {"ctrld_strategy": "direct_order"},
    "fused": {"fuse_swapins": True},
    "branches": {"swap_branches": True},
}


def rewritten(make, **options):
    graph, training = sessions.build(make)
    LMS({SCOPE}, **sessions.PLACES, **options).run(graph)
    return graph, training


def expected(graph, purpose):
    """What each operation that was added reads and waits for. Equal ones TensorFlow runs once."""
    return {
        (each.inputs[0].op.name, frozenset(other.name for other in each.control_inputs))
        for each in sessions.added_operations(graph, purpose)
    }


def found(graphs, purpose):
    return {
        (sessions.comes_from(node.input[0], graphs), sessions.waits_for(node, graphs))
        for node in sessions.added(graphs, purpose)
    }


@pytest.mark.parametrize("options", WAYS.values(), ids=WAYS)
def test_a_step_runs_every_swap_on_the_host_after_its_trigger(options):
    graph, training = rewritten(training_graphs.with_branches, **options)
    fetches = [training.loss, training.train_step]
    graphs = sessions.executed(graph, fetches, training.batch(0), optimized=False)
    for node in sessions.added(graphs, "swap_out") + sessions.added(graphs, "swap_in"):
        assert node.device.endswith(sessions.HOST)
    assert found(graphs, "swap_in") == expected(graph, "swap_in") != set()
    assert all(len(triggers) == 1 for _, triggers in found(graphs, "swap_in"))
    tensors = {name for name, _ in found(graphs, "swap_out")}
    assert len(tensors) == len(expected(graph, "swap_out")) > 0


@pytest.mark.parametrize("options", WAYS.values(), ids=WAYS)
def test_what_tensorflow_s_own_passes_do_leaves_swaps_and_triggers_there(options):
    graph, training = rewritten(training_graphs.with_branches, **options)
    graphs = sessions.executed(graph, [training.loss, training.train_step], training.batch(0))
    assert len(found(graphs, "swap_in")) == len(expected(graph, "swap_in"))
    assert len(found(graphs, "swap_out")) == len(expected(graph, "swap_out"))
    for node in sessions.added(graphs, "swap_in"):
        assert node.device.endswith(sessions.HOST)
        assert sessions.waits_for(node, graphs)


@pytest.mark.parametrize("name", training_graphs.ALL)
def test_a_forward_only_run_executes_nothing_that_was_added(name):
    graph, training = rewritten(training_graphs.ALL[name])
    assert sessions.added_operations(graph)
    assert not sessions.added(sessions.executed(graph, training.loss, training.batch(0)))


def test_with_branches_a_forward_only_run_swaps_what_waits_in_the_forward_phase():
    graph, training = rewritten(training_graphs.with_branches, swap_branches=True)
    graphs = sessions.executed(graph, training.loss, training.batch(0))
    assert "first" in {name for name, _ in found(graphs, "swap_out")}


def syncs(graph):
    """Who waits for which swap-out in a live graph."""
    return {
        (each.name, other.name)
        for each in graph.get_operations()
        for other in each.control_inputs
        if sessions.role(other.node_def) == "swap_out"
    }


@pytest.mark.parametrize("sync", [0, 2])
def test_with_sync_a_step_runs_later_operations_after_earlier_swap_outs(sync):
    graph, training = rewritten(training_graphs.with_branches, sync=sync)
    fetches = [training.loss, training.train_step]
    graphs = sessions.executed(graph, fetches, training.batch(0), optimized=False)
    swap_outs = {node.name for node in sessions.added(graphs, "swap_out")}
    waiting = {
        (node.name, other)
        for each in graphs
        for node in each.node
        for other in sessions.waits_for(node, graphs) & swap_outs
        if node.op not in ("Const", "_Send")
    }
    assert waiting == syncs(graph)
    assert bool(waiting) == bool(sync)


@pytest.mark.parametrize("name", ["with_adam", "with_condition", "with_loop"])
def test_with_sync_losses_and_variables_are_the_same(name):
    make = training_graphs.ALL[name]
    plain = sessions.train(*sessions.build(make), steps=3)
    graph, training = rewritten(make, sync=1)
    assert syncs(graph)
    assert sessions.train(graph, training, steps=3) == plain


def test_what_is_computed_again_is_neither_swapped_nor_merged_with_its_original():
    make = training_graphs.with_adam
    plain = sessions.train(*sessions.build(make), steps=3)
    graph, training = rewritten(make, recompute_types="Relu")
    clones = {
        each.name
        for each in sessions.added_operations(graph, "recompute")
        if each.type == "Relu"
    }
    graphs = sessions.executed(graph, [training.loss, training.train_step], training.batch(0))
    executed = {node.name for node in sessions.added(graphs, "recompute")}
    assert set() != clones <= executed
    swapped = sessions.added_operations(graph, "swap_out")
    assert "Relu" not in {each.inputs[0].op.type for each in swapped}
    assert not sessions.added(sessions.executed(graph, training.loss, training.batch(0)))
    assert sessions.train(graph, training, steps=3) == plain


def test_fused_swap_ins_are_fewer_and_serve_several_readers():
    counts = {}
    for fuse in (False, True):
        graph, _ = rewritten(training_graphs.with_branches, fuse_swapins=fuse)
        swap_ins = sessions.added_operations(graph, "swap_in")
        counts[fuse] = len(swap_ins)
        readers = max(len(each.outputs[0].consumers()) for each in swap_ins)
        assert (readers > 1) == fuse
    assert counts[True] < counts[False]


def test_two_runs_make_the_same_graph():
    graphs = []
    for _ in range(2):
        graph, _ = rewritten(training_graphs.with_adam)
        graphs.append(graph.as_graph_def().SerializeToString(deterministic=True))
    assert graphs[0] == graphs[1]


def test_operations_that_are_neither_new_nor_read_a_copy_stay_as_they_were():
    before = {node.name: node for node in build_graphdef(None).node}
    after = build_graphdef({SCOPE})
    changed = 0
    for node in after.node:
        if sessions.role(node):
            continue
        old = before.pop(node.name)
        assert (node.op, node.device, node.attr) == (old.op, old.device, old.attr)
        changed += list(node.input) != list(old.input)
    assert not before
    assert changed > 0


def build_graphdef(scopes) -> tf1.GraphDef:
    graph, _ = sessions.build(training_graphs.with_adam)
    if scopes:
        LMS(scopes, **sessions.PLACES).run(graph)
    return graph.as_graph_def()
