"""How many bytes TensorFlow's executor held on a device, by brute force over what it traced.

A traced step says of every executed operation when it started, when it was done, and which bytes it
made. A tensor is there from the start of its maker to the end of the last operation of the executed
graph that reads it. Who makes nothing new hands on bytes: they are known by their address. What another
device sends is there from the moment it is sent.
"""

from __future__ import annotations

import collections
import dataclasses

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1


@dataclasses.dataclass
class Held:
    bytes: int
    start: int
    end: int


def _made(stats) -> dict[str, list[tuple[int, int]]]:
    """By operation: the address and the size of each of its outputs."""
    made = collections.defaultdict(list)
    for each in stats.node_stats:
        for output in each.output:
            allocation = output.tensor_description.allocation_description
            made[each.node_name].append((allocation.ptr, allocation.requested_bytes))
    return made


def _times(stats) -> dict[str, tuple[int, int]]:
    """By operation: its start and its end, in nanoseconds."""
    return {
        each.node_name: (each.all_start_nanos, each.all_start_nanos + max(each.all_end_rel_nanos, 1))
        for each in stats.node_stats
    }


def _received(metadata: tf1.RunMetadata) -> dict[str, tuple[int, int, int]]:
    """By the name of an edge between devices: address and size of what is sent along it, and when."""
    received = {}
    for stats in metadata.step_stats.dev_stats:
        made, times = _made(stats), _times(stats)
        for graph in metadata.partition_graphs:
            if graph.node[0].device != stats.device:
                continue
            for node in graph.node:
                if node.op != "_Send" or node.input[0].startswith("^"):
                    continue
                maker, _, output = node.input[0].partition(":")
                if maker in times and len(made[maker]) > int(output or 0):  # `_Send` itself is not always traced
                    received[node.attr["tensor_name"].s] = (*made[maker][int(output or 0)], times[maker][1])
    return received


def peak(metadata: tf1.RunMetadata, device: str) -> int:
    """What the device held at most of what operations of the step made there; variables not."""
    (stats,) = [each for each in metadata.step_stats.dev_stats if each.device.endswith(device)]
    (graph,) = [each for each in metadata.partition_graphs if each.node[0].device.endswith(device)]
    made, times = _made(stats), _times(stats)
    received = _received(metadata)
    for number, node in enumerate(graph.node, start=1):
        if node.op == "_Recv" and node.attr["tensor_name"].s in received:
            address, size, start = received[node.attr["tensor_name"].s]
            made[node.name] = [(address or -number, size)]  # of what is fed no address is traced
            times[node.name] = (start, start + 1)
    variables = {address for node in graph.node if node.op in ("ReadVariableOp", "VariableV2", "Const", "_Arg") for address, _ in made[node.name]}
    held: dict[int, list[Held]] = collections.defaultdict(list)  # by address, in the order of time
    current: dict[tuple[str, int], Held] = {}
    for node in sorted((node for node in graph.node if node.name in times), key=lambda node: times[node.name]):
        start, end = times[node.name]
        read = []
        for name in node.input:
            if name.startswith("^"):
                continue
            maker, _, output = name.partition(":")
            tensor = current.get((maker, int(output or 0)))
            if tensor is not None:
                read.append(tensor)
                tensor.end = max(tensor.end, end)
        for index, (address, size) in enumerate(made[node.name]):
            if address in variables or size == 0:
                continue
            shared = [tensor for tensor in read if held[address] and tensor is held[address][-1]]
            tensor = shared[0] if shared else Held(size, start, end)
            if not shared:
                held[address].append(tensor)
            current[node.name, index] = tensor
    changes = [(each.start, each.bytes) for them in held.values() for each in them]
    changes += [(each.end, -each.bytes) for them in held.values() for each in them]
    return int(np.cumsum([size for _, size in sorted(changes, key=lambda change: (change[0], change[1]))]).max())
