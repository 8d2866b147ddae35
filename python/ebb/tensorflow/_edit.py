"""Makes a live graph what a rewritten GraphDef of it says.

``find_edit`` compares the two, ``check`` sees that it can be done, ``apply`` creates the new
operations and rewires the others. Nothing is changed before everything was checked: TensorFlow
itself has made the new operations once, in a graph of their own.
"""

from __future__ import annotations

import dataclasses
import graphlib
from collections.abc import Iterable

import tensorflow as tf
from tensorflow.core.framework import node_def_pb2

from ..error import Error
from ._sessions import open_sessions, taken_over

GraphDef = tf.compat.v1.GraphDef
NodeDef = node_def_pb2.NodeDef


@dataclasses.dataclass(frozen=True)
class Rewiring:
    """What changes at an operation that is there."""

    name: str
    inputs: dict[int, str]
    """By index, the tensors that it reads instead."""
    waits_for: list[str]
    """The operations that it waits for in addition."""


@dataclasses.dataclass(frozen=True)
class Edit:
    """The difference between a graph and its rewritten form."""

    added: list[NodeDef]
    """Each after those that it needs."""
    rewired: list[Rewiring]


def find_edit(before: GraphDef, after: GraphDef) -> Edit:
    """What makes ``before`` into ``after``.

    Rewriting adds nodes and gives others new inputs; what differs otherwise is a bug.
    """
    if before.library != after.library:
        raise _bug("rewriting changed a function that the graph calls, which cannot be done in place")
    old = {node.name: node for node in before.node}
    new = {node.name for node in after.node}
    if missing := old.keys() - new:
        raise _bug(f"rewriting lost the operation '{min(missing)}'")
    rewired = [
        _compare(old[node.name], node)
        for node in after.node
        if node.name in old and node != old[node.name]
    ]
    return Edit(_in_order([node for node in after.node if node.name not in old]), rewired)


def check(edit: Edit, graph: tf.Graph) -> None:
    """Raises ebb.Error where the edit would fail or have no effect."""
    names = [each.name for each in edit.rewired]
    for session in open_sessions(graph):
        if taken := taken_over(session, names):
            raise Error(
                f"a session has already run this graph, and changes to it would have no effect "
                f"there (the first of {len(taken)} operations: '{taken[0]}'); rewrite the graph "
                f"before the first run, or close the session and make a new one",
                kind="refused",
            )
    try:
        made = _rehearse(edit, graph)
    except (ValueError, tf.errors.OpError) as error:
        raise _bug(f"TensorFlow does not take what rewriting added: {error}") from error
    added = {node.name for node in edit.added}
    for rewiring in edit.rewired:
        reads = graph.get_operation_by_name(rewiring.name).inputs
        for index, name in rewiring.inputs.items():
            new = made[name] if name in made else _tensor(name, graph)
            if new.dtype.base_dtype != reads[index].dtype.base_dtype:
                raise _bug(
                    f"'{rewiring.name}' would read {new.dtype.name} from '{name}' instead of "
                    f"{reads[index].dtype.name}"
                )
        for name in rewiring.waits_for:
            if name not in added:
                graph.get_operation_by_name(name)


def apply(edit: Edit, graph: tf.Graph) -> None:
    """Changes the graph. ``check`` has said yes."""
    # Whatever scopes the caller is in are not meant for these operations.
    with (
        graph.as_default(),
        graph.control_dependencies(None),
        graph.device(None),
        graph.colocate_with(None, ignore_existing=True),
        graph._mutation_lock(),
    ):
        for node in edit.added:
            _create(node, graph)
        for rewiring in edit.rewired:
            operation = graph.get_operation_by_name(rewiring.name)
            for index, name in rewiring.inputs.items():
                operation._update_input(index, _tensor(name, graph))
            operation._add_control_inputs(
                [graph.get_operation_by_name(name) for name in rewiring.waits_for]
            )
        # What is made again for some readers is made from what it was made from: they would not get
        # what a session feeds in its place. TensorFlow refuses that then.
        for node in edit.added:
            if "_ebb_of" in node.attr:
                original = graph.get_operation_by_name(node.attr["_ebb_of"].s.decode())
                for tensor in original.outputs:
                    graph.prevent_feeding(tensor)


def _rehearse(edit: Edit, graph: tf.Graph) -> dict[str, tf.Tensor]:
    """Creates the new operations in a graph of their own; what they make, by name."""
    added = {node.name for node in edit.added}
    alone = GraphDef()
    outside = {}
    for node in edit.added:
        data, control = _inputs(node)
        for name in [*(each.rpartition(":")[0] for each in data), *control]:
            if name not in added:
                graph.get_operation_by_name(name)
        outside |= {name: None for name in data if name.rpartition(":")[0] not in added}
        copy = alone.node.add()
        copy.CopyFrom(node)
        copy.input[:] = data
        copy.attr.pop("_output_shapes", None)
        copy.attr.pop("_class", None)  # beside operations that are not in this graph
    with tf.Graph().as_default() as rehearsal:
        stands_for = {}
        for name in outside:
            tensor = _tensor(name, graph)
            stands_for[name] = tf.compat.v1.placeholder(tensor.dtype.base_dtype, tensor.shape)
        tf.graph_util.import_graph_def(alone, input_map=stands_for, name="")
    made = (rehearsal.get_operation_by_name(name) for name in added)
    return {tensor.name: tensor for operation in made for tensor in operation.outputs}


def _compare(old: NodeDef, new: NodeDef) -> Rewiring:
    (old_inputs, old_control), (new_inputs, new_control) = _inputs(old), _inputs(new)
    rest_of_old, rest_of_new = NodeDef(), NodeDef()
    rest_of_old.CopyFrom(old)
    rest_of_new.CopyFrom(new)
    del rest_of_old.input[:], rest_of_new.input[:]
    if (
        rest_of_old != rest_of_new
        or len(old_inputs) != len(new_inputs)
        or not set(old_control) <= set(new_control)
    ):
        raise _bug(f"rewriting changed more of '{old.name}' than what it reads and waits for")
    return Rewiring(
        name=old.name,
        inputs={
            index: name
            for index, (was, name) in enumerate(zip(old_inputs, new_inputs, strict=True))
            if was != name
        },
        waits_for=[name for name in new_control if name not in old_control],
    )


def _inputs(node: NodeDef) -> tuple[list[str], list[str]]:
    """The tensors that it reads, and the operations that it waits for."""
    data = [_with_index(name) for name in node.input if not name.startswith("^")]
    return data, [name[1:] for name in node.input if name.startswith("^")]


def _with_index(name: str) -> str:
    return name if ":" in name else f"{name}:0"


def _needs(node: NodeDef) -> Iterable[str]:
    data, control = _inputs(node)
    return [*(name.rpartition(":")[0] for name in data), *control]


def _in_order(nodes: list[NodeDef]) -> list[NodeDef]:
    """The nodes, each after those of them that it needs."""
    added = {node.name: node for node in nodes}
    needs = {node.name: [name for name in _needs(node) if name in added] for node in nodes}
    try:
        return [added[name] for name in graphlib.TopologicalSorter(needs).static_order()]
    except graphlib.CycleError as error:
        raise _bug(f"the operation '{error.args[1][0]}', which rewriting added, needs itself") from error


def _create(node: NodeDef, graph: tf.Graph) -> None:
    data, control = _inputs(node)
    inputs = [_tensor(name, graph) for name in data]
    definition = NodeDef()
    definition.CopyFrom(node)
    del definition.input[:]
    definition.attr.pop("_output_shapes", None)  # written by as_graph_def, not the operation's
    operation = graph._create_op_from_tf_operation(
        tf.__internal__.create_c_op(
            graph, definition, inputs, [graph.get_operation_by_name(name) for name in control]
        ),
        compute_device=False,
    )
    # It stands where what it reads does: in the same loop or branch. The context is only noted. To
    # have it take the operation in, as it does with users' operations, might add others.
    if inputs:
        operation._set_control_flow_context(inputs[0].op._get_control_flow_context())


def _tensor(name: str, graph: tf.Graph) -> tf.Tensor:
    operation, _, index = name.rpartition(":")
    return graph.get_operation_by_name(operation).outputs[int(index)]


def _bug(message: str) -> Error:
    return Error(f"{message}; this is a bug in Ebb, please report it", kind="internal")
