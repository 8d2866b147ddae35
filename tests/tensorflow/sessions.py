"""Runs training steps in sessions, with two logical CPUs as accelerator and host."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import tensorflow as tf
from training_graphs import Training

tf1 = tf.compat.v1

ACCELERATOR = "/device:CPU:0"
HOST = "/device:CPU:1"
PLACES = {"accelerator": ACCELERATOR, "host": HOST}


def config(optimized: bool = True) -> tf1.ConfigProto:
    """Two CPUs; not optimized, TensorFlow runs the graph as it is."""
    made = tf1.ConfigProto(device_count={"CPU": 2})
    made.graph_options.rewrite_options.disable_meta_optimizer = not optimized
    return made


def build(make, device: str | None = ACCELERATOR) -> tuple[tf.Graph, Training]:
    """The training step in a graph of its own; with no device, nothing in it has one."""
    graph = tf.Graph()
    with graph.as_default(), tf1.device(device):
        tf1.set_random_seed(7)
        training = make()
        tf1.global_variables_initializer()
    return graph, training


def train(graph: tf.Graph, training: Training, steps: int) -> list[bytes]:
    """The losses of the steps and then all variables, in all their bits."""
    with tf1.Session(graph=graph, config=config()) as session:
        session.run(graph.get_operation_by_name("init"))
        bits = []
        for step in range(steps):
            feeds = training.batch(step)
            loss, _ = session.run([training.loss, training.train_step], feeds)
            bits.append(np.asarray(loss).tobytes())
        with graph.as_default():
            values = session.run(tf1.global_variables())
        return bits + [np.asarray(value).tobytes() for value in values]


def executed(
    graph: tf.Graph, fetches: object, feeds: dict, optimized: bool = True
) -> list[tf1.GraphDef]:
    """The graphs that TensorFlow runs for the fetches, one for each device."""
    metadata = tf1.RunMetadata()
    with tf1.Session(graph=graph, config=config(optimized)) as session:
        session.run(graph.get_operation_by_name("init"))
        options = tf1.RunOptions(output_partition_graphs=True)
        session.run(fetches, feeds, options=options, run_metadata=metadata)
    return list(metadata.partition_graphs)


def role(node) -> str:
    """What Ebb added the node for; empty for others."""
    return node.attr["_ebb"].s.decode() if "_ebb" in node.attr else ""


def added_operations(graph: tf.Graph, which: str | None = None) -> list[tf.Operation]:
    """The operations that Ebb added to a live graph, all or those for one purpose."""
    found = [(each, role(each.node_def)) for each in graph.get_operations()]
    return [each for each, its in found if its and which in (None, its)]


def added(graphs: Iterable[tf1.GraphDef], which: str | None = None) -> list:
    """The nodes that Ebb added, all or those for one purpose."""
    nodes = [node for graph in graphs for node in graph.node]
    return [node for node in nodes if role(node) and which in (None, role(node))]


def comes_from(name: str, graphs: Iterable[tf1.GraphDef]) -> str:
    """The operation behind an input of an executed node, across devices too."""
    nodes = {node.name: node for graph in graphs for node in graph.node}
    node = nodes[name.removeprefix("^").partition(":")[0]]
    # A control edge between devices is a number that is sent and read by an Identity.
    if node.op == "Identity" and not role(node) and nodes[node.input[0]].op == "_Recv":
        node = nodes[node.input[0]]
    if node.op == "_Recv":
        key = node.attr["tensor_name"].s.decode()
        return re.fullmatch(r"edge_\d+_(.+?)(/_\d+)?", key)[1]
    return node.name


def waits_for(node, graphs: Iterable[tf1.GraphDef]) -> frozenset[str]:
    """The operations that control edges make an executed node wait for."""
    return frozenset(comes_from(name, graphs) for name in node.input if name.startswith("^"))
