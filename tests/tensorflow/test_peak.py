"""The first steps are watched: what took more than its budget is said, planned again once, or fails.

TensorFlow counts the bytes of GPUs alone, so here the numbers come from the tests; bench/paper reads real ones.
"""

import os
import types
import warnings

os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # or there is no budget on a CPU (docs/tensorflow.md)

import numpy as np
import pytest
import same_training  # two logical devices
import tensorflow as tf
from tensorflow.python.eager import context

import ebb
import ebb.tensorflow
from ebb.tensorflow import _peak
from ebb.tensorflow._library import loaded

STEPS = 12
MUCH = 1 << 30


class Allocator:
    """Has a peak as one of a GPU has, and whoever runs raises it.

    A step takes so many bytes more than its plan is for as the next number of its name says; the last one stays. What
    is not named takes more than any budget.
    """

    def __init__(self, **misses):
        self.misses = {name: list(each) for name, each in misses.items()}
        self.taken = {}
        self.peak = 0
        self.resets = 0
        self.fails = {}  # the error, by name

    def run(self, call, run):
        name = "session" if call.fetched else call.runner.name.decode().rpartition("_")[0].removeprefix("__inference_")
        result = run()
        if name in self.fails:
            raise self.fails[name]
        graphs = ebb.tensorflow.last_report().graphs
        if name not in self.misses:
            self.peak = max(self.peak, MUCH)
        elif graphs:
            if call.runner not in self.taken:
                misses = self.misses[name]
                miss = misses.pop(0) if len(misses) > 1 else misses[0]
                self.taken[call.runner] = (graphs[-1].budget_bytes or 0) + miss
            self.peak = max(self.peak, self.taken[call.runner])
        return result

    def read(self, _pattern):
        return self.peak

    def reset(self, _pattern):
        self.peak = 0
        self.resets += 1


@pytest.fixture
def counting(monkeypatch):
    def count(**misses):
        allocator = Allocator(**misses)
        follow = _peak.Watch.follow
        monkeypatch.setattr(
            _peak.Watch, "follow", lambda self, call, run: follow(self, call, lambda: allocator.run(call, run))
        )
        monkeypatch.setattr(_peak, "read_peak", allocator.read)
        monkeypatch.setattr(_peak, "forget_peak", allocator.reset)
        return allocator

    loaded().forget_reports()
    yield count
    ebb.tensorflow.disable()


def data(rows=64):
    with tf.device("/device:CPU:0"):
        return tf.random.normal((rows, 32), seed=9)


def make(name="step", layers=6):
    """A training step of a few layers; reports call all of them 'a function'."""
    tf.keras.utils.set_random_seed(1)
    with tf.device("/device:CPU:0"):
        weights = [tf.Variable(tf.random.normal((32, 32), stddev=0.2, seed=layer)) for layer in range(layers)]

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

    step.__name__ = name
    return tf.function(step, jit_compile=False)


def train(step, *others, steps=STEPS):
    """The losses of a step; others are called between."""
    x = data()
    losses = []
    for _ in range(steps):
        losses.append(float(step(x)).hex())
        for other in others:
            other(x)
    return losses


def helpers(count):
    """Functions that train nothing."""

    def beside(x):
        return x + 1

    return [tf.function(beside) for _ in range(count)]


def enable(budget="70%", **more):
    with warnings.catch_warnings():  # others have trained before
        warnings.filterwarnings("ignore", "Ebb was turned on after TensorFlow traced")
        ebb.tensorflow.enable(budget=budget, **same_training.DEVICES, **more)


def graphs():
    return ebb.tensorflow.last_report().graphs


@pytest.fixture(scope="module")
def alone():
    return train(make())


@pytest.fixture(scope="module")
def budgets():
    """In bytes, of functions with 6 and 8 layers."""
    loaded().forget_reports()
    enable()
    for layers in (6, 8):
        train(make(layers=layers), steps=1)
    found = [graph.budget_bytes for graph in graphs()]
    ebb.tensorflow.disable()
    return found


def test_what_stays_inside_is_reported_with_what_was_measured(counting, alone, capfd):
    allocator = counting(step=[-1])
    enable()
    step = make()
    assert train(step) == alone
    (graph,) = graphs()
    assert graph.measured_bytes == graph.budget_bytes - 1
    assert "measured: " in str(graph)
    assert allocator.resets == 2  # and then the statistics are the user's again
    assert step.experimental_get_tracing_count() == 1
    assert "planned again" not in capfd.readouterr().err


def test_what_other_functions_took_before_does_not_count(counting, alone):
    allocator = counting(step=[-1])
    enable()
    allocator.peak = MUCH
    assert train(make()) == alone
    (graph,) = graphs()
    assert graph.measured_bytes == graph.budget_bytes - 1


@pytest.mark.parametrize("beside", [0, 1, 2, 3])
def test_a_miss_is_said_and_planned_again_with_so_much_less(counting, alone, capfd, beside):
    counting(step=[1000, -2000])
    enable()
    step, others = make(), helpers(beside)
    assert train(step, *others) == alone
    first, second = graphs()
    assert first.measured_bytes == first.budget_bytes + 1000
    assert second.budget_bytes == first.budget_bytes - 1000
    assert second.measured_bytes == second.budget_bytes - 2000
    assert step.experimental_get_tracing_count() == 1  # the first one was forgotten
    said = capfd.readouterr().err
    assert said.count("It is planned again") == 1
    assert "Over its budget" not in said


def test_a_function_beside_the_step_is_not_traced_again(counting):
    counting(step=[1000, -2000])
    enable()
    traced = []

    @tf.function
    def beside(x):
        traced.append(x)
        return x + 1

    train(make(), beside, beside)
    assert len(graphs()) == 2 and len(traced) == 1


def test_a_second_miss_is_said_and_training_goes_on(counting, alone, capfd):
    counting(step=[1000, 3000])
    enable()
    assert train(make()) == alone
    assert len(graphs()) == 2
    assert "Over its budget it goes on; give a smaller one" in capfd.readouterr().err


@pytest.mark.parametrize("beside", [0, 2, 3])
def test_strict_fails_a_step_that_stays_over_its_budget(counting, beside):
    counting(step=[1000, 3000])
    enable(strict=True)
    with pytest.raises(ebb.Error, match="strict: .* took .* were planned; give a smaller budget"):
        train(make(), *helpers(beside))


def test_strict_fails_where_no_plan_fits(counting):
    counting()
    enable(budget="1KiB", strict=True)
    with pytest.raises(ebb.Error, match="strict: .*the least budget found is"):
        train(make())


def test_strict_fails_a_second_model_that_no_plan_fits(counting):
    counting(small=[-1])
    enable(budget="60KiB", strict=True)
    train(make("small", layers=3))
    with pytest.raises(ebb.Error, match="strict: .*the least budget found is"):
        train(make("large", layers=40))


def test_strict_fails_a_second_model_that_stays_over_its_budget(counting):
    counting(one=[-1], other=[1000, 3000])
    enable(strict=True)
    train(make("one"))
    with pytest.raises(ebb.Error, match="strict: .* took .*give a smaller budget"):
        train(make("other", layers=8))


def test_without_strict_nothing_fails_where_no_plan_fits(counting, alone):
    counting()
    enable(budget="1KiB")
    assert train(make()) == alone


def test_every_model_is_measured_by_itself_and_planned_again(counting, capfd):
    counting(one=[1000, -1], other=[500, -2])
    enable()
    train(make("one"), make("other", layers=8))
    assert [graph.measured_bytes - graph.budget_bytes for graph in graphs()] == [1000, 500, -1, -2]
    assert {graph.name for graph in graphs()} == {"a function"}
    assert capfd.readouterr().err.count("It is planned again") == 2


def test_a_graph_that_nobody_measured_has_no_number(counting):
    counting(one=[-1], other=[-1])
    enable()
    train(make("one"))
    train(make("other", layers=8), steps=1)
    first, second = graphs()
    assert first.measured_bytes == first.budget_bytes - 1
    assert second.measured_bytes is None


def test_numbers_stay_when_ebb_is_turned_on_again(counting):
    counting(one=[-1], other=[-2])
    enable()
    train(make("one"))
    enable()
    train(make("other", layers=8))
    assert [graph.measured_bytes - graph.budget_bytes for graph in graphs()] == [-1, -2]


@pytest.mark.parametrize("steps", [3, STEPS])  # before the first one is traced again, and after that
def test_a_later_function_gets_the_budget_that_the_user_gave(counting, budgets, capfd, steps):
    counting(one=[1000, -1], other=[-1])
    enable()
    train(make("one"), steps=steps)
    assert "It is planned again" in capfd.readouterr().err
    assert ebb.tensorflow.last_report().parameters["budget"] == "70%"
    train(make("other", layers=8))
    assert graphs()[0].budget_bytes == budgets[0]
    assert graphs()[-1].budget_bytes == budgets[1]


def test_a_function_is_planned_again_for_the_arguments_with_which_it_took_more(counting, capfd):
    counting(step=[1000, -1, -1])
    enable()
    step, whole, rest = make(), data(64), data(56)
    for _ in range(STEPS):
        step(whole)
        step(rest)
    first, of_rest, second = graphs()
    assert second.budget_bytes == first.budget_bytes - 1000
    assert of_rest.budget_bytes < second.budget_bytes  # 70 % of less
    assert [graph.measured_bytes - graph.budget_bytes for graph in graphs()] == [1000, -1, -1]
    assert step.experimental_get_tracing_count() == 2
    assert capfd.readouterr().err.count("It is planned again") == 1


def test_where_nothing_fits_into_less_the_first_plan_comes_back(counting, alone, budgets, capfd):
    counting(step=[budgets[0] - 100])
    enable()
    assert train(make()) == alone
    first, last = graphs()
    assert last.problem is None and last.budget_bytes == first.budget_bytes
    said = capfd.readouterr().err
    assert "runs as it was: no plan fits into 100 B" in said
    assert said.count("It is planned again") == 1
    assert "Over its budget it goes on" in said


def test_a_trace_that_is_called_directly_is_not_planned_again(counting, capfd):
    counting(step=[1000])
    enable()
    x = data()
    traced = make().get_concrete_function(x)
    for _ in range(STEPS):
        traced(x)
    assert len(graphs()) == 1
    assert "Over its budget it goes on" in capfd.readouterr().err


def test_in_a_session_a_miss_is_said_and_nothing_is_planned_again(counting, capfd):
    allocator = counting(session=[1000])
    tf1 = tf.compat.v1
    graph = tf1.Graph()
    with graph.as_default(), tf1.device("/device:CPU:0"):
        tf1.set_random_seed(1)
        x = tf.constant(np.ones((64, 32), np.float32))
        weights = [tf1.get_variable(f"w{i}", (32, 32), use_resource=True) for i in range(6)]
        h = x
        for weight in weights:
            h = tf.tanh(h @ weight)
        train_step = tf1.train.GradientDescentOptimizer(0.01).minimize(tf.reduce_sum(h * h))
        start = tf1.global_variables_initializer()
    enable()
    with tf1.Session(graph=graph, config=tf1.ConfigProto(device_count={"CPU": 2})) as session:
        session.run(start)
        session.run(train_step)
        for _ in range(STEPS):
            session.run(h)  # is no step
        assert allocator.resets == 0
        for _ in range(STEPS):
            session.run(train_step)
    assert len(graphs()) == 1
    assert "Over its budget it goes on" in capfd.readouterr().err


ASYNC = {"TF_GPU_ALLOCATOR": "cuda_malloc_async"}
NO_TENSOR = tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")
# As TensorFlow 2.21 says it on a GPU.
NO_WORKSPACE = tf.errors.UnknownError(
    None, None, "CUDNN failed to allocate the scratch space for the runner or to find a working no-scratch runner."
)


@pytest.mark.parametrize(
    ("steps", "environment", "hint"),
    [
        (0, {}, "TF_GPU_ALLOCATOR=cuda_malloc_async in the environment, or a smaller budget, helps"),
        (1, {}, "TF_GPU_ALLOCATOR=cuda_malloc_async in the environment, or a smaller budget, helps"),
        (0, ASYNC, "TF_CUDNN_USE_AUTOTUNE=0 in the environment, or a smaller budget, helps"),
        (0, ASYNC | {"TF_CUDNN_USE_AUTOTUNE": "1"}, "TF_CUDNN_USE_AUTOTUNE=0 in the environment, or a smaller budget, helps"),
        (0, ASYNC | {"TF_CUDNN_USE_AUTOTUNE": "0"}, "were planned: a smaller budget helps"),
        (0, ASYNC | {"TF_CUDNN_USE_AUTOTUNE": "False"}, "were planned: a smaller budget helps"),
        (1, ASYNC, "were planned: a smaller budget helps"),
        (STEPS, ASYNC, "were planned: a smaller budget helps"),
    ],
)
@pytest.mark.parametrize("error", [NO_TENSOR, NO_WORKSPACE])
def test_memory_that_is_not_there_though_planned_is_explained(
    counting, capfd, monkeypatch, steps, environment, hint, error
):
    for name in ("TF_GPU_ALLOCATOR", "TF_CUDNN_USE_AUTOTUNE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    allocator = counting(step=[-1])
    enable()
    step = make()
    train(step, steps=steps)
    allocator.fails["step"] = error
    with pytest.raises(type(error)):
        train(step, steps=1)
    (said,) = [line for line in capfd.readouterr().err.splitlines() if "ran out of memory" in line]
    assert said.startswith("ebb: a function ran out of memory, though ")
    assert said.endswith(hint)


@pytest.mark.parametrize("message", ["something else", None])
def test_an_error_that_is_not_of_memory_is_not_explained(counting, capfd, message):
    allocator = counting(step=[-1])
    enable()
    allocator.fails["step"] = tf.errors.UnknownError(None, None, message)
    with pytest.raises(tf.errors.UnknownError):
        train(make(), steps=1)
    assert "ran out of memory" not in capfd.readouterr().err


@pytest.mark.parametrize("budget", ["70%", "1KiB"])
def test_memory_that_nobody_planned_is_not_explained(counting, capfd, budget):
    allocator = counting(step=[-1])
    enable(budget)
    (helper,) = helpers(1)
    train(make(), steps=1)
    allocator.fails["beside"] = NO_TENSOR
    with pytest.raises(tf.errors.ResourceExhaustedError):
        helper(data())
    assert "ran out of memory" not in capfd.readouterr().err


def test_without_a_counter_nothing_is_measured(alone):
    loaded().forget_reports()
    enable()
    losses = train(make())
    ebb.tensorflow.disable()
    (graph,) = graphs()
    assert losses == alone and graph.measured_bytes is None


@pytest.fixture
def two_gpus(monkeypatch):
    """Their names, and numbers as TensorFlow gives them."""
    peaks = {"GPU:0": 10, "GPU:1": 20}
    devices = [types.SimpleNamespace(name=f"/device:{name}") for name in peaks]
    started = types.SimpleNamespace(_initialized=True, list_logical_devices=lambda _: devices)
    monkeypatch.setattr(context, "context_safe", lambda: started)
    experimental = tf.config.experimental
    monkeypatch.setattr(experimental, "get_memory_info", lambda name: {"current": 1, "peak": peaks[name]})
    monkeypatch.setattr(experimental, "reset_memory_stats", lambda name: peaks.update({name: 1}))
    return started


@pytest.mark.parametrize(
    ("pattern", "largest", "after"),
    [
        ("/device:GPU:*", 20, 1),
        ("GPU", 20, 1),
        ("/device:GPU:0", 10, 1),
        ("/job:localhost/replica:0/task:0/device:gpu:1", 20, 1),
        ("/device:GPU:2", None, None),
        ("/device:CPU:0", None, None),
    ],
)
def test_the_peak_is_the_largest_of_the_accelerators_that_are_meant(two_gpus, pattern, largest, after):
    assert _peak.read_peak(pattern) == largest
    _peak.forget_peak(pattern)
    assert _peak.read_peak(pattern) == after


def test_accelerators_that_nobody_started_are_not_started_to_ask_them(two_gpus):
    two_gpus._initialized = False
    assert _peak.read_peak("/device:GPU:*") is None


def test_an_allocator_that_does_not_count_is_no_error(two_gpus, monkeypatch):
    def refuse(name):
        raise ValueError(f"Allocator stats not available for device '{name}'")

    monkeypatch.setattr(tf.config.experimental, "get_memory_info", refuse)
    monkeypatch.setattr(tf.config.experimental, "reset_memory_stats", refuse)
    assert _peak.read_peak("/device:GPU:*") is None
    _peak.forget_peak("/device:GPU:*")
