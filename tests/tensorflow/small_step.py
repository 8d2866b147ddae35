"""A small training step in a tf.function, and the graphs that TensorFlow executes for it.

Two logical devices of the CPU play accelerator and host. Whoever imports this module gets them, so
it must be imported before TensorFlow computes anything.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2, node_def_pb2
from tensorflow.python.eager import context

DEVICES = {"accelerator": "/device:CPU:0", "host": "/device:CPU:1"}
LAYERS = 6
WIDTH = 16

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * len(DEVICES),
)


class Step:
    """Gradient descent on a chain of layers; ``forward`` is its forward phase alone."""

    def __init__(self, **function_options: object) -> None:
        random = np.random.default_rng(0)
        shape = [WIDTH, WIDTH]
        self.weights = [tf.Variable(random.normal(size=shape).astype("f4")) for _ in range(LAYERS)]
        self.batch = tf.constant(random.normal(size=[8, WIDTH]).astype("f4"))
        self.train = tf.function(self._train, **function_options)
        self.forward = tf.function(self._forward, **function_options)

    def _forward(self, batch: tf.Tensor) -> tf.Tensor:
        for weight in self.weights:
            batch = tf.nn.tanh(tf.matmul(batch, weight))
        return tf.reduce_mean(batch)

    def _train(self, batch: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = self._forward(batch)
        for weight, gradient in zip(self.weights, tape.gradient(loss, self.weights), strict=True):
            weight.assign_sub(0.1 * gradient)
        return loss

    def bits_after(self, steps: int = 3) -> list[bytes]:
        """Every loss and, in the end, every weight."""
        losses = [self.train(self.batch) for _ in range(steps)]
        return [tensor.numpy().tobytes() for tensor in [*losses, *self.weights]]


@dataclasses.dataclass
class Executed:
    """What TensorFlow executes: one graph a device, sends and receives between them."""

    partitions: list[graph_pb2.GraphDef]
    before_partitioning: graph_pb2.GraphDef

    def ours(self, kind: str) -> list[node_def_pb2.NodeDef]:
        """Nodes that Ebb added: ``swap_out``, ``swap_in``."""
        nodes = [node for graph in self.partitions for node in graph.node]
        return [node for node in nodes if node.attr["_ebb"].s.decode() == kind]

    def control_edges(self) -> set[tuple[str, str]]:
        """From whom to whom."""
        nodes = self.before_partitioning.node
        return {(i[1:], node.name) for node in nodes for i in node.input if i.startswith("^")}


def executed_graphs(call: Callable[[], object]) -> Executed:
    """Of the function that ``call`` calls for the first time; single operations have small ones."""
    in_process = context.context()
    in_process.enable_run_metadata()
    in_process.export_run_metadata()  # of what ran since the last time
    try:
        call()
        metadata = in_process.export_run_metadata()
    finally:
        in_process.disable_run_metadata()
    graphs = max(metadata.function_graphs, key=lambda each: len(each.post_optimization_graph.node))
    return Executed(list(graphs.partition_graphs), graphs.post_optimization_graph)
