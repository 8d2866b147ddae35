"""Training GraphDefs as TensorFlow itself writes them, and how to run such a file again.

``python graphdefs.py FOLDER`` writes all of them.
"""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
import sys
from collections.abc import Callable

import numpy as np
import tensorflow as tf
import training_graphs
from training_graphs import digits

tf1 = tf.compat.v1

STEPS = 4
_RUNS = itertools.count()


@dataclasses.dataclass
class Written:
    graphdef: bytes
    options: list[str]
    """How ``ebb rewrite`` is told where the backward phase is."""
    run: Callable[[bytes], list[bytes]]
    """Some steps of a GraphDef, this or a rewritten one: the losses and the variables at the end, in
    all their bits."""


def of_version_1(make: Callable[[], training_graphs.Training]) -> Written:
    """A graph for sessions, with its initializer."""
    with tf.Graph().as_default() as graph:
        tf1.set_random_seed(7)
        training = make()
        init = tf1.global_variables_initializer().name
        values = [tf.identity(each).name for each in tf1.global_variables()]
    loss, train_step = training.loss.name, training.train_step.name

    def run(graphdef: bytes) -> list[bytes]:
        with tf.Graph().as_default() as imported, tf1.Session() as session:
            tf.graph_util.import_graph_def(tf1.GraphDef.FromString(graphdef), name="")
            session.run(imported.get_operation_by_name(init))
            step = imported.get_operation_by_name(train_step)
            results = [session.run([loss, step], training.batch(n))[0] for n in range(STEPS)]
            results += session.run(values)
        return [np.asarray(each).tobytes() for each in results]

    graphdef = graph.as_graph_def(add_shapes=True).SerializeToString(deterministic=True)
    return Written(graphdef, ["--optimizer-scopes", training_graphs.SCOPE], run)


def _with_functions_of_its_own(graphdef: bytes) -> tf1.GraphDef:
    """Under names that the process has not seen: TensorFlow keeps one body for each."""
    graph = tf1.GraphDef.FromString(graphdef)
    names = {each.signature.name for each in graph.library.function}
    suffix = f"_in_run_{next(_RUNS)}"
    for function in graph.library.function:
        function.signature.name += suffix
    bodies = [graph.node, *(each.node_def for each in graph.library.function)]
    for node in (node for body in bodies for node in body):
        for value in node.attr.values():
            kind = value.WhichOneof("value")
            callees = [value.func] if kind == "func" else value.list.func if kind == "list" else []
            for callee in callees:
                if callee.name in names:
                    callee.name += suffix
    return graph


def of_function(make: Callable[[], tuple[Callable, list[tf.Variable]]]) -> Written:
    """The body of a tf.function, whose variables come in as handles."""
    step, variables = make()
    signature = (tf.TensorSpec([8, 784], name="x"), tf.TensorSpec([8, 10], name="labels"))
    function = tf.function(step).get_concrete_function(*signature)
    feeds = [each.name for each in function.graph.inputs]
    fetches = [each.name for each in function.graph.outputs]
    effects = [each.name for each in function.graph.control_outputs]
    start = [each.numpy() for each in variables]

    def run(graphdef: bytes) -> list[bytes]:
        for variable, value in zip(variables, start, strict=True):
            variable.assign(value)
        graph = _with_functions_of_its_own(graphdef)
        wrapped = tf1.wrap_function(lambda: tf.graph_util.import_graph_def(graph, name=""), [])
        call = wrapped.prune(
            [wrapped.graph.get_tensor_by_name(name) for name in feeds],
            (
                [wrapped.graph.get_tensor_by_name(name) for name in fetches],
                [wrapped.graph.get_operation_by_name(name) for name in effects],
            ),
        )
        bits = []
        for n in range(STEPS):
            batch = [tf.constant(each) for each in digits(n).values()]
            bits.append(call(*batch, *function.captured_inputs)[0][0].numpy().tobytes())
        return bits + [each.numpy().tobytes() for each in variables]

    graphdef = function.graph.as_graph_def(add_shapes=True)
    return Written(graphdef.SerializeToString(deterministic=True), [], run)


def _weights(*shapes: list[int]) -> list[tf.Variable]:
    random = np.random.default_rng(7)
    return [tf.Variable(random.standard_normal(each, np.float32) * 0.1) for each in shapes]


def _cross_entropy(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels, logits))


def function_with_descent():
    """A training loop of one's own, without any optimizer."""
    weights = _weights([784, 64], [64, 64], [64, 64], [64, 10])

    def step(x, labels):
        with tf.GradientTape() as tape:
            hidden = x
            for weight in weights[:-1]:
                hidden = tf.nn.softplus(tf.matmul(hidden, weight))
            loss = _cross_entropy(tf.matmul(hidden, weights[-1]), labels)
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(0.1 * gradient)
        return loss

    return step, weights


def function_with_loop():
    """A recurrent network over the image's rows, between two dense layers."""
    weights = _weights([784, 784], [28, 32], [32, 32], [32, 10])
    wide, enter, again, out = weights

    def step(x, labels):
        with tf.GradientTape() as tape:
            rows = tf.transpose(
                tf.reshape(tf.nn.softplus(tf.matmul(x, wide)), [8, 28, 28]), [1, 0, 2]
            )
            state = tf.zeros([8, 32])
            for row in tf.range(28):
                state = tf.tanh(tf.matmul(rows[row], enter) + tf.matmul(state, again))
            loss = _cross_entropy(tf.matmul(tf.nn.softplus(state), out), labels)
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(0.1 * gradient)
        return loss

    return step, weights


def function_with_keras():
    """A convolutional model of Keras with batch normalisation and its Adam."""
    import keras

    keras.utils.set_random_seed(7)
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((784,), batch_size=8),
            layers.Reshape((28, 28, 1)),
            layers.Conv2D(8, 5, padding="same"),
            layers.BatchNormalization(),
            layers.Activation("relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(16, 5, padding="same", activation="relu"),
            layers.Flatten(),
            layers.Dense(10),
        ]
    )
    optimizer = keras.optimizers.Adam(1e-3)
    optimizer.build(model.trainable_variables)

    def step(x, labels):
        with tf.GradientTape() as tape:
            loss = _cross_entropy(model(x, training=True), labels)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    return step, [each.value for each in [*model.variables, *optimizer.variables]]


WRITERS: dict[str, Callable[[], Written]] = {
    **{
        f"v1_{name.removeprefix('with_')}": lambda make=make: of_version_1(make)
        for name, make in training_graphs.ALL.items()
    },
    **{
        name: lambda make=make: of_function(make)
        for name, make in list(globals().items())
        if name.startswith("function_with_")
    },
}


if __name__ == "__main__":
    for name, write in WRITERS.items():
        pathlib.Path(sys.argv[1], f"{name}.pb").write_bytes(write().graphdef)
