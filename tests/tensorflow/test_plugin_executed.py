"""The graph that TensorFlow finally executes has Ebb's nodes and control edges."""

import warnings

import pytest
from small_step import DEVICES, LAYERS, Step, executed_graphs

import ebb.tensorflow

HOST = "/job:localhost/replica:0/task:0/device:CPU:1"


@pytest.fixture
def executed():
    """What is executed for a step with these parameters."""

    def run(**parameters):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Ebb was turned on after TensorFlow traced")
            ebb.tensorflow.enable(**DEVICES, **parameters)
        step = Step()
        return executed_graphs(lambda: step.train(step.batch))

    yield run
    ebb.tensorflow.disable()


@pytest.mark.parametrize("strategy", ["chain_rule", "direct_order"])
def test_swaps_survive_and_wait_for_their_triggers(executed, strategy):
    graphs = executed(ctrld_strategy=strategy)
    outs, backs = graphs.ours("swap_out"), graphs.ours("swap_in")
    assert len(outs) == LAYERS
    assert len(backs) >= LAYERS
    assert {node.device for node in outs + backs} == {HOST}
    assert {node.op for node in outs + backs} == {"Identity"}
    waiting = {reader for _, reader in graphs.control_edges()}
    assert waiting >= {node.name for node in backs}


def test_both_strategies_choose_other_triggers(executed):
    chain = executed(ctrld_strategy="chain_rule")
    direct = executed(ctrld_strategy="direct_order", lb=3)
    assert chain.control_edges() != direct.control_edges()


def test_fused_swap_ins_are_fewer(executed):
    apart, fused = executed(), executed(fuse_swapins=True)
    assert len(fused.ours("swap_out")) == len(apart.ours("swap_out")) == LAYERS
    assert len(fused.ours("swap_in")) == LAYERS < len(apart.ours("swap_in"))


def test_with_sync_forward_operations_wait_for_swap_outs(executed):
    graphs = executed(sync=2)
    outs = {node.name for node in graphs.ours("swap_out")}
    waiting = {reader for source, reader in graphs.control_edges() if source in outs}
    assert waiting
    assert not any("gradient_tape" in reader for reader in waiting)


def test_without_sync_nobody_waits_for_swap_outs(executed):
    graphs = executed(sync=0)
    outs = {node.name for node in graphs.ours("swap_out")}
    assert not [source for source, _ in graphs.control_edges() if source in outs]


def test_branches_are_swapped_in_the_forward_phase_too(executed):
    graphs = executed(swap_branches=True, branch_threshold=1)
    assert len(graphs.ours("swap_out")) >= LAYERS


def test_devices_are_the_two_that_were_named(executed):
    graphs = executed()
    devices = {node.device for graph in graphs.partitions for node in graph.node}
    assert devices == {HOST, HOST.replace("CPU:1", "CPU:0")}
