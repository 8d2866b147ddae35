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


@pytest.mark.parametrize("options", WAYS.values(), ids=WAYS)
def test_a_step_runs_every_swap_on_the_host_after_its_trigger(options):
    graph, training = rewritten(training_graphs.with_branches, **options)
    fetches = [training.loss, training.train_step]
    graphs = sessions.executed(graph, fetches, training.batch(0), optimized=False)
    for purpose in ("swap_out", "swap_in"):
        expected = sessions.added_operations(graph, purpose)
        found = {node.name: node for node in sessions.added(graphs, purpose)}
        assert found.keys() == {each.name for each in expected} != set()
        for operation in expected:
            node = found[operation.name]
            assert node.device.endswith(sessions.HOST)
            triggers = {each.name for each in operation.control_inputs}
            assert sessions.waits_for(node, graphs) == triggers
            assert len(triggers) == (purpose == "swap_in")


@pytest.mark.parametrize("options", WAYS.values(), ids=WAYS)
def test_what_tensorflow_s_own_passes_do_leaves_swaps_and_triggers_there(options):
    graph, training = rewritten(training_graphs.with_branches, **options)
    graphs = sessions.executed(graph, [training.loss, training.train_step], training.batch(0))
    assert {node.name for node in sessions.added(graphs)} == {
        each.name for each in sessions.added_operations(graph)
    }
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
    assert {node.input[0] for node in sessions.added(graphs, "swap_out")} >= {"first"}


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
