"""What a session feeds in the place of a tensor reaches all who read it, or is refused."""

import numpy as np
import pytest
import tensorflow as tf
from sessions import ACCELERATOR, PLACES, config

import ebb.tensorflow
from ebb.tensorflow import LMS

tf1 = tf.compat.v1
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)


def losses(kind, rewrite):
    """Of four steps that feed x, which the graph would compute from y."""
    graph = tf.Graph()
    random = np.random.RandomState(2)
    with graph.as_default(), tf1.device(ACCELERATOR):
        y = tf1.placeholder(tf.float32, [16, 16], name="y")
        pipeline = tf.sin(y * 3.0)
        if kind == "default":
            x = tf1.placeholder_with_default(pipeline, [16, 16], name="x")
        elif kind == "constant default":
            x = tf1.placeholder_with_default(tf.ones([16, 16]), [16, 16], name="x")
        elif kind == "view":
            x = tf.identity(pipeline, name="x")
        else:
            x = tf.multiply(pipeline, 2.0, name="x")
        w = tf1.get_variable("w", initializer=random.randn(16, 16).astype("f") * 0.3)
        h = tf.matmul(x, w)
        for _ in range(6):
            h = tf.tanh(h * 1.1)
        loss = tf.reduce_sum((h - y) ** 2)
        with tf1.name_scope("opt"):
            train = tf1.train.GradientDescentOptimizer(0.02).minimize(loss)
        start = tf1.global_variables_initializer()
    rewrite(graph)
    feeds = {y: random.randn(16, 16), x: random.randn(16, 16)}
    with tf1.Session(graph=graph, config=config()) as session:
        session.run(start)
        return [session.run([loss, train], feeds)[0].tobytes() for _ in range(4)]


def nothing(graph):
    pass


def by_lms(**parameters):
    return lambda graph: LMS({"opt"}, graph=graph, **PLACES, **parameters).run()


@pytest.mark.parametrize("kind", ["default", "constant default", "operation"])
def test_what_is_fed_comes_back_from_the_host(kind):
    reports = []

    def rewrite(graph):
        reports.append(by_lms()(graph))

    assert losses(kind, rewrite) == losses(kind, nothing)
    assert reports[0]["tensors_swapped"] > 6


@pytest.mark.parametrize(("kind", "parameters"), [("view", {}), ("operation", {"recompute_types": ["Mul"]})])
def test_what_is_made_again_for_some_readers_cannot_be_fed_any_more(kind, parameters):
    with pytest.raises(ValueError, match="x:0 may not be fed"):
        losses(kind, by_lms(**parameters))


@pytest.mark.parametrize("kind", ["default", "constant default", "view", "operation"])
@pytest.mark.parametrize("parameters", [{}, {"recompute_types": ["Mul"]}])
def test_the_plug_in_knows_what_a_session_feeds(kind, parameters):
    plain = losses(kind, nothing)
    ebb.tensorflow.enable({"opt"}, **PLACES, **parameters)
    try:
        assert losses(kind, nothing) == plain
        assert ebb.tensorflow.last_report().graphs[-1].tensors_swapped > 3
    finally:
        ebb.tensorflow.disable()
