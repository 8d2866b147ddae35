"""What TensorFlow took for a step becomes a profile, and plans are made with it."""

import json

import pytest
import tensorflow as tf
from small_step import DEVICES, Step

import ebb
import ebb.tensorflow
from ebb.tensorflow import _devices
from ebb.tensorflow._library import loaded

tf1 = tf.compat.v1


@pytest.fixture(autouse=True)
def disabled_afterwards(monkeypatch):
    # These steps have nothing that oneDNN would fuse across edges, and workspaces are oneDNN's.
    monkeypatch.setattr(_devices, "_fuses_late", lambda: False)
    loaded().forget_reports()
    yield
    ebb.tensorflow.disable()


def enable(**parameters):
    ebb.tensorflow.enable(budget="80%", device="cpu", **DEVICES, **parameters)


def measured(path):
    return json.loads(path.read_text())["operations"]


def losses(step, count=3):
    with tf.device(DEVICES["accelerator"]):
        return [float(step.train(step.batch)).hex() for _ in range(count)]


def test_a_function_is_measured_and_planned_with_what_it_took(tmp_path):
    enable()
    step = Step()
    without = losses(step)
    with ebb.tensorflow.measure(tmp_path / "step.json"):
        losses(step, 2)
    operations = measured(tmp_path / "step.json")
    products = [each for each in operations if each["signature"].startswith("tf::MatMul")]
    assert products and all(0 < each["seconds"] < 1 for each in products)

    for each in operations:
        each["seconds"] = 1
    slow = {"version": 1, "device": "cpu", "operations": operations}
    (tmp_path / "slow.json").write_text(json.dumps(slow))
    loaded().forget_reports()
    enable(profile=tmp_path / "slow.json")
    assert losses(Step()) == without
    [graph] = ebb.tensorflow.last_report().graphs
    assert graph.problem is None and graph.step_seconds > len(operations)


def session_step():
    """A convolution and its gradients, which take scratch memory on CPUs too."""
    graph = tf1.Graph()
    with graph.as_default(), tf1.device(DEVICES["accelerator"]):
        tf1.set_random_seed(1)
        weights = [tf1.get_variable(f"w{layer}", (3, 3, 8, 8)) for layer in range(3)]
        images = tf1.get_variable("images", (4, 32, 32, 8), trainable=False)
        hidden = tf.identity(images)
        for weight in weights:
            hidden = tf.tanh(tf.nn.conv2d(hidden, weight, 1, "SAME"))
        loss = tf.reduce_sum(hidden * hidden)
        train = tf1.train.GradientDescentOptimizer(0.01).minimize(loss)
        start = tf1.global_variables_initializer()
    return graph, [loss, train], start


def test_a_step_of_a_session_is_measured_with_its_workspaces(tmp_path):
    enable()
    graph, fetches, start = session_step()
    config = tf1.ConfigProto(allow_soft_placement=True)
    config.device_count["CPU"] = 2
    with tf1.Session(graph=graph, config=config) as session:
        session.run(start)
        session.run(fetches)
        with ebb.tensorflow.measure(tmp_path / "step.json"):
            session.run(fetches)
        trace = tf1.RunMetadata()
        full = tf1.RunOptions(trace_level=tf1.RunOptions.SOFTWARE_TRACE)
        session.run(fetches, options=full, run_metadata=trace)
    nodes = [node for device in trace.step_stats.dev_stats for node in device.node_stats]
    taken = {node.node_name: sum(each.peak_bytes - each.live_bytes for each in node.memory) for node in nodes}
    convolutions = [each for each in measured(tmp_path / "step.json") if "::Conv2D(" in each["signature"]]
    assert convolutions
    assert max(each["workspace"] for each in convolutions) > 0
    assert max(each["workspace"] for each in convolutions) == max(
        count for name, count in taken.items() if name.split("/")[-1].startswith("Conv2D") and "gradients" not in name
    )


def test_what_was_not_planned_is_no_profile(tmp_path):
    step = Step()
    losses(step)
    enable()
    with pytest.raises(ebb.Error, match="nothing that was measured"), ebb.tensorflow.measure(tmp_path / "step.json"):
        losses(step)
    assert not list(tmp_path.iterdir())


def test_nothing_is_measured_where_ebb_is_off(tmp_path):
    step = Step()
    losses(step)
    ebb.tensorflow.disable()
    with pytest.raises(ebb.Error, match="not enabled"), ebb.tensorflow.measure(tmp_path / "step.json"):
        losses(step)
    assert not list(tmp_path.iterdir())


def test_a_step_that_fails_leaves_nothing_and_the_next_is_measured(tmp_path):
    enable()
    step = Step()
    losses(step)
    with pytest.raises(KeyError), ebb.tensorflow.measure(tmp_path / "step.json"):
        raise KeyError
    assert not list(tmp_path.iterdir())
    with ebb.tensorflow.measure(tmp_path / "step.json"):
        losses(step)
    assert measured(tmp_path / "step.json")


def test_one_at_a_time_and_into_a_folder_that_is_there(tmp_path):
    enable()
    with pytest.raises(ebb.Error, match="there is no folder"), ebb.tensorflow.measure(tmp_path / "no" / "step.json"):
        pass
    step = Step()
    losses(step)
    with ebb.tensorflow.measure(tmp_path / "step.json"):
        losses(step)
        with pytest.raises(ebb.Error, match="measured already"), ebb.tensorflow.measure(tmp_path / "second.json"):
            pass
    assert [each.name for each in tmp_path.iterdir()] == ["step.json"]
    tf.profiler.experimental.start(str(tmp_path / "logs"))
    try:
        with pytest.raises(ebb.Error, match="profiler"), ebb.tensorflow.measure(tmp_path / "second.json"):
            pass
    finally:
        tf.profiler.experimental.stop(save=False)
