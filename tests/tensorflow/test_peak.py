"""The first steps are watched: what took more than its budget is said, planned again once, or fails.

TensorFlow counts the bytes of GPUs alone, so here the numbers come from the tests; bench/paper reads real ones.
"""

import warnings

import numpy as np
import pytest
import same_training  # two logical devices
import tensorflow as tf

import ebb
import ebb.tensorflow
from ebb.tensorflow import _peak
from ebb.tensorflow._library import loaded

STEPS = 12


class Counter:
    """An allocator's peak: as many bytes above what each new plan predicts as `misses` says, first of them first."""

    def __init__(self, *misses):
        self.misses = list(misses)
        self.resets = 0

    def peak(self, _pattern):
        graphs = ebb.tensorflow.last_report().graphs
        miss = self.misses[min(len(graphs), len(self.misses)) - 1]
        return graphs[-1].budget_bytes + miss if graphs else None

    def reset(self, _pattern):
        self.resets += 1


@pytest.fixture
def counting(monkeypatch):
    def count(*misses):
        counter = Counter(*misses)
        monkeypatch.setattr(_peak, "read_peak", counter.peak)
        monkeypatch.setattr(_peak, "forget_peak", counter.reset)
        return counter

    loaded().forget_reports()
    yield count
    ebb.tensorflow.disable()


def training():
    """A step of a few layers, and its losses."""
    tf.keras.utils.set_random_seed(1)
    with tf.device("/device:CPU:0"):
        weights = [tf.Variable(tf.random.normal((32, 32), stddev=0.2, seed=layer)) for layer in range(6)]
        x = tf.random.normal((64, 32), seed=9)

    @tf.function(jit_compile=False)
    def step(x):
        with tf.device("/device:CPU:0"), tf.GradientTape() as tape:
            h = x
            for weight in weights:
                h = tf.tanh(h @ weight)
            loss = tf.reduce_sum(h * h)
        with tf.device("/device:CPU:0"):
            for weight, gradient in zip(weights, tape.gradient(loss, weights)):
                weight.assign_sub(0.001 * gradient)
        return loss

    return step, [float(step(x)).hex() for _ in range(STEPS)]


def enable(budget="70%", **more):
    with warnings.catch_warnings():  # others have trained before
        warnings.filterwarnings("ignore", "Ebb was turned on after TensorFlow traced")
        ebb.tensorflow.enable(budget=budget, **same_training.DEVICES, **more)


@pytest.fixture(scope="module")
def alone():
    return training()[1]


def test_what_stays_inside_is_reported_with_what_was_measured(counting, alone, capfd):
    counter = counting(-1)
    enable()
    step, losses = training()
    (graph,) = ebb.tensorflow.last_report().graphs
    assert graph.measured_bytes == graph.budget_bytes - 1
    assert "measured: " in str(graph)
    assert losses == alone
    assert counter.resets == 0
    assert step.experimental_get_tracing_count() == 1
    assert "planned again" not in capfd.readouterr().err


def test_a_miss_is_said_and_planned_again_with_so_much_less(counting, alone, capfd):
    counter = counting(1000, -2000)
    enable()
    step, losses = training()
    first, second = ebb.tensorflow.last_report().graphs
    assert second.budget_bytes == first.budget_bytes - 1000
    assert second.measured_bytes == second.budget_bytes - 2000
    assert losses == alone
    assert counter.resets == 1
    assert step.experimental_get_tracing_count() == 1  # the first one was forgotten
    said = capfd.readouterr().err
    assert said.count("It is planned again") == 1
    assert "Over its budget" not in said


def test_a_second_miss_is_said_and_training_goes_on(counting, alone, capfd):
    counting(1000, 3000)
    enable()
    _, losses = training()
    assert losses == alone
    assert len(ebb.tensorflow.last_report().graphs) == 2
    assert "Over its budget it goes on; give a smaller one" in capfd.readouterr().err


def test_strict_fails_a_step_that_stays_over_its_budget(counting):
    counting(1000, 3000)
    enable(strict=True)
    with pytest.raises(ebb.Error, match="strict: .* took .* were planned; give a smaller budget"):
        training()


def test_strict_fails_where_no_plan_fits(counting):
    counting(0)
    enable(budget="1KiB", strict=True)
    with pytest.raises(ebb.Error, match="strict: .*the least budget found is"):
        training()


def test_without_strict_nothing_fails_where_no_plan_fits(counting, alone):
    counting(0)
    enable(budget="1KiB")
    assert training()[1] == alone


def test_in_a_session_a_miss_is_said_and_nothing_is_planned_again(counting, capfd):
    counting(1000)
    tf1 = tf.compat.v1
    graph = tf1.Graph()
    with graph.as_default(), tf1.device("/device:CPU:0"):
        tf1.set_random_seed(1)
        x = tf.constant(np.ones((64, 32), np.float32))
        weights = [tf1.get_variable(f"w{i}", (32, 32), use_resource=True) for i in range(6)]
        h = x
        for weight in weights:
            h = tf.tanh(h @ weight)
        train = tf1.train.GradientDescentOptimizer(0.01).minimize(tf.reduce_sum(h * h))
        start = tf1.global_variables_initializer()
    enable()
    with tf1.Session(graph=graph, config=tf1.ConfigProto(device_count={"CPU": 2})) as session:
        session.run(start)
        for _ in range(STEPS):
            session.run(train)
    assert len(ebb.tensorflow.last_report().graphs) == 1
    assert "Over its budget it goes on" in capfd.readouterr().err


def test_without_a_counter_nothing_is_measured(alone):
    loaded().forget_reports()
    enable()
    _, losses = training()
    ebb.tensorflow.disable()
    (graph,) = ebb.tensorflow.last_report().graphs
    assert losses == alone and graph.measured_bytes is None
