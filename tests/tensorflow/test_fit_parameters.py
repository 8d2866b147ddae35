"""Whatever its parameters, Ebb leaves the bits of a training alone."""

import keras
import pytest
from same_training import train_both

PARAMETERS = {
    "the_paper_s": {},
    "direct_order": {"ctrld_strategy": "direct_order"},
    "direct_order_far": {"ctrld_strategy": "direct_order", "lb": 3, "ub": 8},
    "chain_rule_far": {"lb": 2, "ub": 5},
    "fuse": {"fuse_swapins": True},
    "fuse_near": {"fuse_swapins": True, "fuse_distance": 2},
    "branches": {"swap_branches": True},
    "branches_fused": {"swap_branches": True, "branch_threshold": 3, "fuse_swapins": True},
    "whole_graph": {"whole_graph": True, "alpha": 3},
    "sync_1": {"sync": 1},
    "sync_2_fused": {"sync": 2, "fuse_swapins": True, "ctrld_strategy": "direct_order"},
    "two_tensors": {"n_tensors": 2},
    "excluded_types": {"excl_types": ["Relu"]},
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_same_bits_and_something_swapped(name):
    graphs = train_both(keras, "mlp", **PARAMETERS[name])
    assert sum(graph.tensors_swapped for graph in graphs) > 0


def test_computed_again_instead_of_swapped():
    plainly = train_both(keras, "mlp")
    graphs = train_both(keras, "mlp", recompute_types=["Relu"])
    assert sum(graph.tensors_swapped for graph in graphs) < sum(graph.tensors_swapped for graph in plainly)


def test_no_tensor_is_none():
    graphs = train_both(keras, "mlp", n_tensors=0)
    assert [graph.tensors_swapped for graph in graphs] == [0] * len(graphs)
