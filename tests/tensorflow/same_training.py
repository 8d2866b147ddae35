"""Trains a model with TensorFlow alone and with Ebb, and compares everything bit for bit.

Two logical devices of the CPU play accelerator and host. Whoever imports this module gets them, so it must be imported
before TensorFlow computes anything.
"""

import functools
import math
import warnings
from types import ModuleType
from typing import Any

import models
import tensorflow as tf

import ebb.tensorflow
from ebb.tensorflow import GraphReport
from ebb.tensorflow._library import loaded

DEVICES = {"accelerator": "/device:CPU:0", "host": "/device:CPU:1"}

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * len(DEVICES)
)
tf.config.experimental.enable_op_determinism()


@functools.cache
def plain(keras: ModuleType, name: str) -> models.Trained:
    """What TensorFlow computes alone, in a training that does something."""
    trained = models.train(keras, models.CASES[name])
    assert all(math.isfinite(loss) for loss in trained.losses)
    assert len(set(trained.losses)) == len(trained.losses) > 1
    return trained


def with_ebb(keras: ModuleType, name: str, **parameters: Any) -> tuple[models.Trained, list[GraphReport]]:
    """What comes out while Ebb is on, and what it reports of the graphs that it met."""
    loaded().forget_reports()
    with warnings.catch_warnings():  # others have trained before: of what Ebb does not see, nothing is asked here
        warnings.filterwarnings("ignore", "Ebb was turned on after TensorFlow traced")
        ebb.tensorflow.enable(**DEVICES, **parameters)
    try:
        trained = models.train(keras, models.CASES[name])
        graphs = list(ebb.tensorflow.last_report().graphs)
    finally:
        ebb.tensorflow.disable()
    return trained, graphs


def differences(one: models.Trained, other: models.Trained) -> list[str]:
    """Losses and weights that differ in any bit."""
    assert len(one.losses) == len(other.losses) and len(one.weights) == len(other.weights)
    steps = enumerate(zip(one.losses, other.losses))
    weights = enumerate(zip(one.weights, other.weights))
    return [f"loss {step}: {a.hex()} {b.hex()}" for step, (a, b) in steps if a.hex() != b.hex()] + [
        f"weight {index}: {a.shape}" for index, (a, b) in weights if a.tobytes() != b.tobytes()
    ]


def train_both(keras: ModuleType, name: str, **parameters: Any) -> list[GraphReport]:
    """Asserts that both trainings have the same bits and that Ebb had no problem; returns what it reports."""
    expected = plain(keras, name)
    trained, graphs = with_ebb(keras, name, **parameters)
    assert graphs, "Ebb met no training graph"
    assert [graph.problem for graph in graphs if graph.problem] == []
    assert differences(expected, trained) == []
    return graphs


def swapped(graphs: list[GraphReport]) -> int:
    return sum(graph.tensors_swapped for graph in graphs)


def reasons(graphs: list[GraphReport]) -> set[str]:
    """Why edges were left alone."""
    return {reason for graph in graphs for reason in graph.refused}
