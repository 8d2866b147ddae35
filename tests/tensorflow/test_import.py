"""What the importer says of graphs that TensorFlow makes, against what TensorFlow says of them."""

import importlib.machinery
import importlib.util
import os
import pathlib
import re
import subprocess

import numpy as np
import pytest
import tensorflow as tf

if "TOOL" not in os.environ:
    pytest.skip("built without the command line tool", allow_module_level=True)

tf1 = tf.compat.v1
ROOT = pathlib.Path(__file__).parents[2]
STEERING = {"Enter", "Exit", "Switch", "Merge", "NextIteration", "LoopCond", "_SwitchN"}


def converted(graphdef: tf1.GraphDef, folder: pathlib.Path) -> str:
    """The graph as text; and the bytes come back from it."""
    file, text, back = (folder / name for name in ("x.pb", "x.ebb", "back.pb"))
    file.write_bytes(graphdef.SerializeToString())
    for source, target in ((file, text), (text, back)):
        command = [os.environ["TOOL"], "convert", source, target]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert back.read_bytes() == file.read_bytes()
    return text.read_text()


def paths(text: str) -> dict[str, list[str]]:
    """The scopes around each node, from the outside in."""
    name = r'("(?:[^"\\]|\\.)*"|[\w./-]+)'
    scopes: dict[str, list[str]] = {}
    for _, scope, outer in re.findall(rf"^  (frame|branch) {name}(?: in {name})?$", text, re.M):
        scopes[scope] = [*scopes.get(outer, []), scope]
    assert all(each for each in scopes.values())
    found = {}
    for line in text.splitlines():
        node = re.match(rf"  (?:(?:input|param|const) )?%?{name}:", line)
        if node is None:
            continue
        scope = re.search(rf" in {name}(?: (?:takes|workspace|after|random|effect|@).*)?(?: #.*)?$", line)
        inside = scopes[scope[1]] if scope and scope[1] in scopes else []
        found[node[1].strip('"')] = [re.sub(r"#\d+$", "", each.strip('"')) for each in inside]
    return found


def contexts(op: tf.Operation) -> list[str]:
    """The same, as TensorFlow's control-flow contexts have it."""
    path = []
    context = op._get_control_flow_context()
    while context is not None:
        if context.IsWhileContext():
            path.append(context.name)
        else:
            pred = context.pred
            while pred.op.type in ("Identity", "Switch"):
                pred = pred.op.inputs[0]
            name = pred.name.removesuffix(":0")
            path.append(f"{name}={'true' if context.branch else 'false'}")
        context = context.outer_context
    return path[::-1]


@pytest.fixture
def version_1():
    """Control flow as TensorFlow 1 built it."""
    tf1.disable_control_flow_v2()
    with tf.Graph().as_default() as graph:
        yield graph
    tf1.enable_control_flow_v2()


def conditionals():
    x = tf1.placeholder(tf.float32, [4], name="x")
    p, q = (tf.reduce_sum(x) > limit for limit in (0.0, 1.0))
    nested = tf1.cond(p, lambda: tf1.cond(q, lambda: tf.tanh(x), lambda: -x), lambda: x * 2.0)
    turned = tf1.cond(q, lambda: tf1.cond(p, lambda: tf.sin(x), lambda: x), lambda: tf.constant([7.0] * 4))
    return tf1.gradients(nested + turned, x)


def loop():
    x = tf1.placeholder(tf.float32, [4], name="x")
    less = lambda i, _: i < 3
    body = lambda i, a: (i + 1, tf.tanh(a) * x)
    return tf1.gradients(tf1.while_loop(less, body, [0, x])[1], x)


def loop_of_loops_with_a_conditional():
    x = tf1.placeholder(tf.float32, [4], name="x")

    def body(i, a):
        a = tf1.while_loop(lambda j, _: j < 2, lambda j, b: (j + 1, tf.sin(b)), [0, a])[1]
        return i + 1, tf1.cond(tf.reduce_sum(a) > 0.0, lambda: tf.tanh(a), lambda: a * 3.0)

    return tf1.gradients(tf1.while_loop(lambda i, _: i < 3, body, [0, x])[1], x)


def loop_in_a_branch():
    x = tf1.placeholder(tf.float32, [4], name="x")
    inside = lambda: tf1.while_loop(lambda i, _: i < 3, lambda i, a: (i + 1, tf.tanh(a)), [0, x])[1]
    return tf1.gradients(tf1.cond(tf.reduce_sum(x) > 0.0, inside, lambda: x), x)


def arrays():
    x = tf1.placeholder(tf.float32, [4, 2], name="x")
    rows = tf.TensorArray(tf.float32, 4).unstack(x)
    out = tf.TensorArray(tf.float32, 4)
    body = lambda i, a: (i + 1, a.write(i, tf.tanh(rows.read(i))))
    return tf1.gradients(tf1.while_loop(lambda i, _: i < 4, body, [0, out])[1].stack(), x)


@pytest.mark.parametrize(
    "make", [conditionals, loop, loop_of_loops_with_a_conditional, loop_in_a_branch, arrays]
)
def test_scopes_are_tensorflows_control_flow_contexts(version_1, tmp_path, make):
    make()
    text = converted(version_1.as_graph_def(add_shapes=True), tmp_path)
    ours = paths(text)
    rounds = {op.name for op in version_1.get_operations() if op.type == "LoopCond"}
    compared = 0
    for op in version_1.get_operations():
        if op.type in STEERING:
            continue
        # A loop's condition and its body are one context in TensorFlow.
        here = [each for each in ours[op.name] if each.removesuffix("=true") not in rounds]
        told = contexts(op)
        # Where it makes zeros for a gradient, TensorFlow switches outside its contexts.
        more = here[len(told) :] if op.name.startswith("gradients/") else []
        assert here == told + more, op.name
        compared += bool(told)
    assert compared > 5


def executed(make) -> tf1.GraphDef:
    """What TensorFlow runs: functions inlined, their control flow lowered."""
    with tf.Graph().as_default(), tf1.Session() as session:
        fetched = make()
        metadata = tf1.RunMetadata()
        options = tf1.RunOptions(output_partition_graphs=True)
        feeds = {"x:0": np.ones([4], np.float32)}
        session.run(fetched, feeds, options, metadata)
    (graph,) = metadata.partition_graphs
    return graph


def cases():
    x = tf1.placeholder(tf.float32, [4], name="x")
    which = tf.cast(tf.reduce_sum(x), tf.int32) % 3
    return tf.gradients(tf.switch_case(which, [lambda: tf.sin(x), lambda: tf.tanh(x), lambda: x * 2.0]), x)


@pytest.mark.parametrize(
    "make", [conditionals, loop, loop_of_loops_with_a_conditional, loop_in_a_branch, cases]
)
def test_lowered_control_flow_joins_all_sides_of_its_conditionals(tmp_path, make):
    graphdef = executed(make)
    found = paths(converted(graphdef, tmp_path))
    steering = {node.op for node in graphdef.node} & STEERING
    assert "Merge" in steering
    conditions = {each for path in found.values() for each in path if "=" in each}
    assert conditions
    frames = {node.attr["frame_name"].s.decode() for node in graphdef.node if node.op == "Enter"}
    # A Merge that does not join all sides would have a branch that is called after it.
    assert {each for path in found.values() for each in path} - conditions <= frames


def test_the_table_of_operators_is_tensorflows_registry():
    path = str(ROOT / "scripts" / "list-tensorflow-ops")
    loader = importlib.machinery.SourceFileLoader("list_tensorflow_ops", path)
    script = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(script)

    def signature(line: str) -> tuple:
        words, *notes = line.split(" ; ")
        here = [note for note in notes if not note.startswith(("host ", "cpu"))]
        return words.replace("@host", ""), sorted(here)

    table = re.findall(r'^"(.*)",$', (ROOT / "ebb/import/tensorflow_ops.inc").read_text(), re.M)
    known = dict((line.split(" ")[0], signature(line)) for line in table)
    ops = [op for op in script.registered_ops() if op.name in known]
    assert len(ops) > 1500
    for op in ops:
        # Kernels for GPUs are in another wheel; what the operators are is in this one.
        assert signature(script.line_of(op, [])) == known[op.name]
