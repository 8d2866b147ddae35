"""TensorFlow's files, binary and text, become each other as protobuf's own library has it."""

import os
import pathlib
import subprocess
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.framework import (
    attr_value_pb2,
    graph_pb2,
    node_def_pb2,
    tensor_pb2,
    types_pb2,
)
from tensorflow.core.protobuf import saved_model_pb2

tf1 = tf.compat.v1
ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def convert(tmp_path):
    """`convert(content, ".pbtxt")`: what `ebb convert` makes of a file of this content."""

    def run(content, suffix):
        source = tmp_path / "in"
        target = tmp_path / f"out{suffix}"
        source.write_bytes(content)
        done = subprocess.run([os.environ["TOOL"], "convert", source, target],
                              capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return target.read_bytes()

    return run


def control_flow_graph():
    """A version-1 graph with a loop, a conditional, variables, and Adam under a scope."""
    graph = tf1.Graph()
    with graph.as_default():
        tf1.disable_control_flow_v2()
        tf1.set_random_seed(1)
        x = tf1.placeholder(tf.float32, [None, 4], name="x")
        w = tf1.get_variable("w", [4, 3], use_resource=False)
        v = tf1.get_variable("v", [3, 1], use_resource=True)
        y = tf1.while_loop(lambda i, _: i < 3, lambda i, h: (i + 1, tf.nn.relu(h)),
                           [0, tf.matmul(x, w)])[1]
        z = tf1.cond(tf.reduce_sum(y) > 0, lambda: tf.matmul(y, v), lambda: tf.zeros([1, 1]))
        with tf1.name_scope("adam"):
            tf1.train.AdamOptimizer().minimize(tf.reduce_mean(z))
        tf1.train.Saver()
    return graph


def constants_graph():
    """Constants of every type numpy has, with the numbers at the ends of their ranges."""
    graph = tf1.Graph()
    with graph.as_default():
        for dtype in (np.float16, np.float32, np.float64):
            limits = np.finfo(dtype)
            tf.constant([0.0, -0.0, 0.1, np.inf, -np.inf, np.nan, limits.max, limits.min,
                         limits.tiny, limits.smallest_subnormal, 1 / 3], dtype)
        for dtype in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32,
                      np.uint64):
            tf.constant([np.iinfo(dtype).min, 0, 1, np.iinfo(dtype).max], dtype)
        tf.constant([True, False])
        tf.constant(np.array([1 + 2j, complex(np.nan, -np.inf)], np.complex64))
        tf.constant([1 + 2j], tf.complex128)
        tf.constant([1.5, -2], tf.bfloat16)
        tf.constant([b"", b"plain", b"\x00\xff\n\t\r'\"\\\x7f", "größer Ж 😀".encode()])
        tf.constant(3.5, shape=[1000])
        tf.constant(np.arange(256, dtype=np.uint8))
    return graph


class Doubler(tf.Module):
    """Something to save."""

    def __init__(self):
        super().__init__()
        self.factor = tf.Variable([2.0, 3.0], name="factor")

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="rows")])
    def __call__(self, x):
        if tf.reduce_sum(x) > 0:
            return {"out": x * self.factor}
        return {"out": tf.map_fn(lambda row: row + 1, x)}


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    tf.saved_model.save(Doubler(), str(folder))
    return saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())


def training_function_graph():
    """A training step as tf.function traces it, with its library of functions."""
    variable = tf.Variable(tf.ones([4, 2]))

    @tf.function
    def branch(x):
        return tf.cond(tf.reduce_sum(x) > 1, lambda: tf.tanh(x), lambda: x)

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(branch(tf.matmul(x, variable)) ** 2)
        variable.assign_sub(0.1 * tape.gradient(loss, variable))
        return loss

    return step.get_concrete_function(tf.TensorSpec([8, 4])).graph


def random_floats_graph():
    """Floats and doubles of random bits, which have long texts; a NaN's bits have none."""
    random = np.random.default_rng(20260101)
    node = node_def_pb2.NodeDef(name="numbers", op="Const")
    tensor = node.attr["value"].tensor
    tensor.dtype = types_pb2.DT_FLOAT
    floats = random.integers(0, 2**32, 3000, dtype=np.uint32).view(np.float32)
    doubles = random.integers(0, 2**64, 3000, dtype=np.uint64).view(np.float64)
    tensor.float_val.extend(floats[~np.isnan(floats)])
    tensor.float_val.extend(np.arange(1, 400, dtype=np.uint32).view(np.float32))  # subnormal
    tensor.float_val.extend(np.float32(2.0) ** np.arange(-149, 128, dtype=np.float32))
    tensor.float_val.extend(np.float32(10.0) ** np.arange(-45, 39, dtype=np.float32))
    tensor.double_val.extend(doubles[~np.isnan(doubles)])
    tensor.double_val.extend(10.0 ** np.arange(-323, 309))
    tensor.double_val.extend(2.0 ** np.arange(-1074, 1024))
    tensor.dcomplex_val.extend([0.1, -0.0])
    tensor.uint64_val.append(2**64 - 1)
    tensor.int64_val.extend([-(2**63), 2**63 - 1])
    tensor.int_val.extend([-1, -(2**31)])
    tensor.bool_val.extend([True, False])
    return graph_pb2.GraphDef(node=[node])


def odd_graph():
    """Fields that are there and hold nothing, keys that begin each other, numbers without names."""
    graph = graph_pb2.GraphDef()
    node = graph.node.add(name="odd", op="Odd", input=["a", "", "^b"])
    for key in ("", "T", "Tidx", "a", "A", "é", "key\nwith lines"):
        node.attr[key].SetInParent()
    node.attr["zero"].i = 0
    node.attr["false"].b = False
    node.attr["type"].type = 77
    node.attr["minus"].type = -5
    node.attr["list"].list.SetInParent()
    node.attr["list of lists"].list.shape.add()
    node.attr["list of lists"].list.type.extend([1, 3, 101, 99])
    node.attr["func"].func.attr["inner"].func.attr["more"].placeholder = "deep"
    node.experimental_type.type_id = 1000
    node.experimental_type.args.add().s = "x"
    graph.library.function.add().resource_arg_unique_id.update({0: 0, 7: 0, 3: 9})
    graph.library.function[0].ret.update({"": "", "x": "y"})
    graph.debug_info.frames_by_id[0].line = 0
    graph.debug_info.frames_by_id[2**64 - 1].func = "größer"
    graph.debug_info.name_to_trace_id[""] = 0
    graph.versions.SetInParent()
    return graph


def real_messages():
    for make in (control_flow_graph, constants_graph, training_function_graph):
        yield pytest.param(lambda make=make: make().as_graph_def(add_shapes=True), id=make.__name__)
    for make in (random_floats_graph, odd_graph):
        yield pytest.param(make, id=make.__name__)

    def meta_graph():
        graph = control_flow_graph()
        with graph.as_default():
            return tf1.train.export_meta_graph(graph=graph)

    yield pytest.param(meta_graph, id="meta_graph")


def check_both_ways(message, convert):
    text = text_format.MessageToString(message).encode()
    assert convert(message.SerializeToString(), ".pbtxt") == text

    binary = convert(text, ".pb")
    again = type(message).FromString(binary)
    # Bytes, since NaN is not equal to itself.
    assert again.SerializeToString(deterministic=True) == message.SerializeToString(
        deterministic=True)
    # Nothing twice, nothing unpacked, no default written out.
    assert len(binary) == len(message.SerializeToString())
    assert convert(binary, ".pbtxt") == text


@pytest.mark.parametrize("make", real_messages())
def test_text_and_binary_are_those_of_protobuf(make, convert):
    check_both_ways(make(), convert)


def test_a_saved_model_is_converted_whole(saved_model, convert):
    # Python spells out an Any whose type it knows; that form is not read.
    for meta_graph in saved_model.meta_graphs:
        meta_graph.meta_info_def.ClearField("any_info")
    check_both_ways(saved_model, convert)


def test_binary_fields_stand_in_order_of_number(convert):
    """Without maps the bytes are protobuf's own, whatever order the text has."""
    text = """
      versions { min_consumer: 12 producer: 1882 bad_consumers: [7] bad_consumers: 8 }
      node { op: "Const" input: "b" name: "a" input: 'c' "d" device: "/cpu:0" }
      library: < gradient { gradient_func: 'g' function_name: "f" } > # a comment
      version: 0x15, node { name: "b" };
    """
    message = text_format.Parse(text, graph_pb2.GraphDef())
    assert convert(text.encode(), ".pb") == message.SerializeToString()


@pytest.mark.parametrize("value", [
    "f: -0", "f: 1e400", "f: -nan", "f: nan", "f: 3.4028236e38", "f: 3.4028235e38", "f: 1.f",
    "f: .5", "f: 1e3f", "f: infinity", "f: -Infinity", "f: 1F", "f: 1e-46", "f: 7e-46", "f: 1",
    "f: 16777217", "f: 0.1", "f: 1.00000017881393432617187499", "i: 0x10", "i: 010", "i: -0x8",
    "i: -9223372036854775808", "b: t", "b: 1", "b: False", "type: 77", "type: -1", "type: DT_HALF",
    "s: 'a' \"b\"", r's: "\u00e9\U0001F600\x9\'\"\a\b\f\n\r\t\v\\\1\22\377\x41\xff"',
    's: ""', "list { i: [1, 2], i: 3 }", "list { i: [] }", "list: < i: 1; i: 2, >",
    "list { shape [{}, {}] }", "list { shape: [<>] f: [1, -2.5] }", "list { b: [true, f] }",
    "func { attr { value { i: 1 } key: 'x' } }", "func { attr: [{}] }", "func { attr {} }",
    "tensor { uint32_val: 4294967295 }", "i\t:\r1\f\v", "b: true# x\n", "placeholder: ''", "i: -0",
    "tensor { int_val: 2147483647 dtype: 0 tensor_shape {} }",
])
def test_values_are_read_as_protobuf_reads_them(value, convert):
    text = f"node {{ attr {{ key: 'k' value {{ {value} }} }} }}"
    message = text_format.Parse(text, graph_pb2.GraphDef())
    assert convert(text.encode(), ".pb") == message.SerializeToString(deterministic=True)


def test_values_that_protobuf_merges_are_merged(convert):
    """Concatenated messages are one; the last of what can be there once counts."""
    parts = [
        graph_pb2.GraphDef(version=1, node=[node_def_pb2.NodeDef(name="a")]),
        graph_pb2.GraphDef(version=2, node=[node_def_pb2.NodeDef(name="b")]),
    ]
    parts[0].library.function.add().signature.name = "f"
    parts[1].library.function.add().signature.name = "g"
    parts[0].versions.producer = 5
    parts[1].versions.min_consumer = 6
    attribute = attr_value_pb2.AttrValue
    values = [attribute(i=3), attribute(s=b"x"), attribute(tensor=tensor_pb2.TensorProto(dtype=1)),
              attribute(tensor=tensor_pb2.TensorProto(int_val=[4, 5]))]
    merged_value = b"".join(value.SerializeToString() for value in values)
    node = node_def_pb2.NodeDef(name="c")
    node.attr["k"].MergeFromString(merged_value)
    entry = b"\x0a\x01k\x12" + bytes([len(merged_value)]) + merged_value
    first = b"\x0a\x01k\x12\x02\x18\x09"  # the same key before: {i: 9}
    bytes_of_node = (b"\x0a\x01c" + b"\x2a" + bytes([len(first)]) + first +
                     b"\x2a" + bytes([len(entry)]) + entry)
    content = b"".join(part.SerializeToString() for part in parts)
    content += b"\x0a" + bytes([len(bytes_of_node)]) + bytes_of_node
    message = graph_pb2.GraphDef.FromString(content)
    assert message.node[2] == node
    assert convert(content, ".pbtxt") == text_format.MessageToString(message).encode()


def test_the_tables_are_those_of_this_tensorflow():
    done = subprocess.run([sys.executable, ROOT / "scripts/list-tensorflow-messages", "--check"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
