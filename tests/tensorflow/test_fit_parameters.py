"""Whatever its parameters, Ebb leaves the bits of a training alone."""

import keras
import pytest
from same_training import reasons, swapped, train_both

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
    "excluded_types": {"excl_types": ["_FusedMatMul"]},  # TensorFlow has made them of MatMul, BiasAdd and Relu
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_same_bits_and_something_swapped(name):
    assert swapped(train_both(keras, "mlp", **PARAMETERS[name])) > 0


@pytest.mark.parametrize("parameters", [{"sync": 1}, {"recompute_types": ["Mul", "Sigmoid"]}, {"whole_graph": True}], ids=str)
def test_what_tensorflow_fuses_it_fuses_with_ebb_too(parameters):
    assert swapped(train_both(keras, "swish", **parameters)) > 0


@pytest.mark.parametrize("parameters", [{"sync": 1}, {"swap_branches": True}, {"whole_graph": True}], ids=str)
@pytest.mark.parametrize("name", ["conditional", "lstm"])
def test_through_control_flow(name, parameters):
    train_both(keras, name, **parameters)


def test_computed_again():
    graphs = train_both(keras, "mlp", recompute_types=["SelectV2"])
    assert sum(graph.details["tensors_recomputed"] for graph in graphs) > 0


def test_of_what_is_left_alone_it_is_said_why():
    graphs = train_both(keras, "mlp")
    assert any("follows too closely" in reason for reason in reasons(graphs))


@pytest.mark.parametrize("parameters", [{"n_tensors": 0}, {"min_bytes": "1GiB"}], ids=str)
def test_nothing_is_swapped(parameters):
    assert swapped(train_both(keras, "mlp", **parameters)) == 0
