"""The plug-in in TensorFlow's process: on and off, what it reports, and when something is wrong."""

import concurrent.futures
import json
import math
import re
import warnings

import numpy as np
import pytest
import tensorflow as tf
from small_step import DEVICES, LAYERS, Step, executed_graphs

import ebb
import ebb.tensorflow
from ebb.tensorflow import _devices, _library
from ebb.tensorflow._library import loaded


@pytest.fixture(autouse=True)
def off_afterwards():
    yield
    ebb.tensorflow.disable()


@pytest.fixture
def enable():
    """Turns it on for the two devices. Steps of other tests may still be there, so no warnings."""

    def turn_on(**parameters):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Ebb was turned on after TensorFlow traced")
            ebb.tensorflow.enable(**DEVICES, **parameters)

    return turn_on


def swapped_by(step):
    executed = executed_graphs(lambda: step.train(step.batch))
    return len(executed.ours("swap_out"))


def test_it_is_off_until_it_is_turned_on():
    before = ebb.tensorflow.last_report()
    assert before.parameters is None
    assert swapped_by(Step()) == 0
    after = ebb.tensorflow.last_report()
    assert after.calls > before.calls  # it was asked, and declined
    assert after.graphs == before.graphs


def test_a_step_computes_the_same_bits_with_it(enable):
    plain = Step().bits_after()
    enable()
    step = Step()
    assert swapped_by(step) == LAYERS
    assert Step().bits_after() == plain


def test_turned_off_it_leaves_new_functions_alone(enable):
    enable()
    ebb.tensorflow.disable()
    assert ebb.tensorflow.last_report().parameters is None
    assert swapped_by(Step()) == 0


def test_a_function_is_rewritten_once_though_grappler_calls_twice(enable):
    enable()
    before = ebb.tensorflow.last_report()
    step = Step()
    executed = executed_graphs(lambda: step.train(step.batch))
    after = ebb.tensorflow.last_report()
    assert after.calls == before.calls + 2
    assert len(after.graphs) == len(before.graphs) + 1
    [graph] = after.graphs[len(before.graphs) :]
    assert len(executed.ours("swap_out")) == graph.details["swap_outs"]
    assert len(executed.ours("swap_in")) == graph.details["swap_ins"]


def test_a_function_without_a_backward_phase_is_left_alone(enable):
    enable()
    before = ebb.tensorflow.last_report()
    step = Step()
    executed = executed_graphs(lambda: step.forward(step.batch))
    after = ebb.tensorflow.last_report()
    assert not executed.ours("swap_out")
    assert after.calls_without_backward == before.calls_without_backward + 2
    assert after.graphs == before.graphs


def test_the_report_says_what_was_swapped_and_what_was_not(enable):
    enable()
    step = Step()

    @tf.function
    def outer(batch):
        return step.train(batch)

    outer(step.batch)
    report = ebb.tensorflow.last_report()
    graph = report.graphs[-1]
    assert graph.name == "_train"
    assert graph.tensors_swapped == LAYERS
    assert graph.bytes_swapped == LAYERS * step.batch.numpy().nbytes
    assert graph.problem is None
    assert sum(graph.refused.values()) == len(graph.details["refused"]) > 0
    text = str(report)
    assert text.startswith("Ebb is on; ")
    assert f"  {LAYERS} tensors swapped" in text
    assert all(f"left alone: {reason}" in text for reason in graph.refused)
    assert json.loads(json.dumps(report.to_dict())) == report.to_dict()
    assert report.parameters["accelerator"] == DEVICES["accelerator"]


def test_one_line_says_what_was_done(enable, capfd):
    loaded().forget_reports()  # others have said it before
    enable()
    step = Step()
    step.train(step.batch)
    said = [line for line in capfd.readouterr().err.splitlines() if line.startswith("ebb: ")]
    assert len(said) == 1 and f"{LAYERS} tensors swapped" in said[0]
    again = Step()
    again.train(again.batch)  # the same line is not said again for an equal function
    assert "ebb: " not in capfd.readouterr().err


def test_parameters_count(enable):
    enable(n_tensors=2)
    assert swapped_by(Step()) == 2
    enable(n_tensors=0)
    assert swapped_by(Step()) == 0
    enable(incl_types={"Tanh"}, excl_scopes=["gradient_tape"])
    assert swapped_by(Step()) == LAYERS - 1  # all but the input
    enable(min_bytes="1MiB")
    assert swapped_by(Step()) == 0


def test_shapes_come_from_tensorflow(enable):
    enable(min_bytes=8 * 16 * 4 + 1)
    assert swapped_by(Step()) == 0
    enable(min_bytes=8 * 16 * 4)
    assert swapped_by(Step()) == LAYERS


def test_batches_of_unknown_size_are_swapped_too(enable):
    enable()
    signature = [tf.TensorSpec([None, 16], tf.float32)]
    assert swapped_by(Step(input_signature=signature)) == LAYERS


NUMBERS = ["n_tensors", "lb", "ub", "branch_threshold", "fuse_distance", "alpha", "min_bytes", "sync", "batch_size"]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_tensor": 3}, "there is no parameter 'n_tensor'; did you mean 'n_tensors'?"),
        ({"lb": 0}, "lb is 0"),
        ({"budget": "16 bananas"}, "budget: "),
        ({"budget": ""}, "the budget is empty"),
        ({"budget": "60%", "host_budget": ""}, "host_budget is empty"),
        ({"budget": "60%", "profile": ""}, "profile is empty"),
        ({"host": DEVICES["accelerator"]}, "are the same device, .* name the second as the host"),
        ({"budget": "60%", "lb": 3}, "lb and budget exclude each other"),
        ({"budget": "60%", "device": "h2000"}, "device: "),
        ({"batch_size": 8}, "batch_size goes with a budget"),
        ({"budget": "60%", "batch_size": -8}, "batch_size is -8"),
        ({"budget": math.nan}, "budget is nan, which is no value that a parameter can have"),
        ({"budget": -math.inf}, "budget is -inf, "),
        ({"budget": "60%", "host_budget": np.float64("nan")}, r"host_budget is np.float64\(nan\), "),
        ({"budget": "60%", "batch_size": np.float32("inf")}, r"batch_size is np.float32\(inf\), "),
        *(({name: math.inf}, f"{name} is inf, ") for name in NUMBERS),
        ({"budget": 10**400}, "budget is a number of 1329 bits, and 64 is the most"),
        ({"excl_types": [math.nan]}, r"excl_types is \[nan\], "),
        ({"budget": "60%", "profile": "\udcff.json"}, "profile is .*json', "),
        ({"excl_types": "Relu"}, "excl_types is the text 'Relu'"),
        ({"host": "/device:CPU:x"}, "host"),
    ],
)
def test_a_wrong_parameter_raises_and_changes_nothing(enable, monkeypatch, parameters, message):
    monkeypatch.setattr(_devices, "_fuses_late", lambda: False)
    enable(n_tensors=2)
    before = ebb.tensorflow.last_report().parameters
    with pytest.raises(ebb.Error, match="(?s)" + message.replace("?", "[?]")) as caught:
        ebb.tensorflow.enable(**{**DEVICES, **parameters})
    assert caught.value.kind == "usage"
    assert ebb.tensorflow.last_report().parameters == before


@pytest.mark.parametrize(
    ("cache", "command"),
    [(True, "cmake --preset release && cmake --build --preset release"), (False, "pip install .")],
)
def test_what_was_built_without_tensorflow_says_how_it_is_built_again(monkeypatch, tmp_path, cache, command):
    if cache:
        (tmp_path / "CMakeCache.txt").touch()
    monkeypatch.setattr(_library, "PATH", tmp_path / "python/ebb/tensorflow/libebb_grappler.so")
    with pytest.raises(ebb.Error, match="was built without TensorFlow: .* by '" + re.escape(command) + "' in Ebb's source"):
        _library._opened.__wrapped__()


def test_what_does_not_apply_to_a_graph_is_said_once_and_the_original_runs(enable, capfd):
    plain = Step().bits_after()
    enable(incl_types=["Tanhh"])
    assert Step().bits_after() == plain
    assert Step().bits_after() == plain
    said = [line for line in capfd.readouterr().err.splitlines() if line.startswith("ebb: ")]
    assert len(said) == 1
    assert "runs as it was" in said[0] and "did you mean 'Tanh'?" in said[0]
    graph = ebb.tensorflow.last_report().graphs[-1]
    assert "did you mean 'Tanh'?" in graph.problem
    assert graph.tensors_swapped == 0


def test_an_exclusion_that_a_graph_does_not_need_is_said_and_the_rest_is_done(enable, capfd):
    plain = Step().bits_after()
    enable(excl_types=["Tanhh"], n_tensors=2)
    assert Step().bits_after() == plain
    said = [line for line in capfd.readouterr().err.splitlines() if "did you mean 'Tanh'?" in line]
    assert len(said) == 1 and "runs as it was" not in said[0]
    assert ebb.tensorflow.last_report().graphs[-1].tensors_swapped == 2


def test_a_graph_that_writes_into_what_it_reads_is_left_as_it_was(enable):
    weight = tf.Variable(tf.eye(16))

    @tf.function(jit_compile=False)
    def train(x):
        with tf.GradientTape() as tape:
            h = tf.parallel_stack([tf.cos(x), tf.sin(x)]) @ weight
            for _ in range(4):
                h = tf.tanh(h)
            loss = tf.reduce_sum(h)
        weight.assign_sub(0.1 * tape.gradient(loss, weight))
        return loss

    enable()
    with tf.device(DEVICES["accelerator"]):
        train(tf.ones((16, 16)))
    assert "writes into a tensor" in ebb.tensorflow.last_report().graphs[-1].problem


def test_where_tensorflow_optimises_once_ebb_says_that_it_does_nothing(enable):
    enable()
    with tf.Graph().as_default() as graph, tf.device(DEVICES["accelerator"]):
        w = tf.compat.v1.get_variable("w", initializer=tf.ones((8, 8)))
        loss = tf.reduce_sum(tf.tanh(tf.tanh(tf.tanh(w) @ w)))
        train = tf.compat.v1.train.GradientDescentOptimizer(0.1).minimize(loss)
        start = tf.compat.v1.global_variables_initializer()
    once = tf.compat.v1.ConfigProto(device_count={"CPU": 2})
    once.graph_options.rewrite_options.meta_optimizer_iterations = 1
    with tf.compat.v1.Session(graph=graph, config=once) as session:
        session.run(start)
        session.run(train)
    assert "meta_optimizer_iterations" in ebb.tensorflow.last_report().graphs[-1].problem


def test_a_step_on_no_accelerator_is_said_to_be_so(enable, capfd):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ebb.tensorflow.enable(accelerator="/device:TPU:0")
    assert swapped_by(Step()) == 0
    assert "none of its operations is on the accelerator, '/device:TPU:0'" in capfd.readouterr().err


def test_turning_it_on_after_a_step_was_traced_warns():
    step = Step()
    step.train(step.batch)
    with pytest.warns(UserWarning, match="after TensorFlow traced .*_train.*before the first step"):
        ebb.tensorflow.enable(**DEVICES)


def test_a_call_that_xla_compiles_is_noticed(enable, capfd):
    enable()
    step = Step(jit_compile=True)

    @tf.function
    def opaque(batch):
        return step.train(batch)

    opaque(step.batch)
    said = [line for line in capfd.readouterr().err.splitlines() if line.startswith("ebb: ")]
    assert len(said) == 1
    assert said[0].startswith("ebb: _train is compiled by XLA as a whole")


def test_functions_are_optimised_on_several_threads(enable):
    plain = Step().bits_after()
    enable()
    steps = [Step() for _ in range(8)]
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        assert list(threads.map(Step.bits_after, steps)) == [plain] * len(steps)
    graphs = ebb.tensorflow.last_report().graphs[-len(steps) :]
    assert [graph.tensors_swapped for graph in graphs] == [LAYERS] * len(steps)


def test_reports_of_many_functions_are_bounded(enable):
    enable()
    for size in range(140):
        weight = tf.Variable(1.0)

        @tf.function
        def descend(weight=weight, size=size):
            with tf.GradientTape() as tape:
                loss = tf.tanh(tf.fill([size + 1], weight) * weight)
            weight.assign_sub(tape.gradient(loss, weight))

        descend()
    assert len(ebb.tensorflow.last_report().graphs) <= 128


def test_a_budget_for_a_cpu_is_refused_where_tensorflow_fuses_later(monkeypatch):
    monkeypatch.setattr(_devices, "_fuses_late", lambda: True)
    with pytest.raises(ebb.Error, match="TF_ENABLE_ONEDNN_OPTS=0"):
        ebb.tensorflow.enable(budget="60%", **DEVICES)
    assert ebb.tensorflow.last_report().parameters is None


@pytest.mark.parametrize("host", ["/device:CPU:7", "/device:TPU:0", "bogus", "/device:CPU:x"])
def test_a_host_that_is_not_there_is_refused_before_tensorflow_would_end_the_process(host):
    with pytest.raises(ebb.Error, match="host = "):
        ebb.tensorflow.enable(accelerator="/device:CPU:0", host=host)
    assert ebb.tensorflow.last_report().parameters is None


def test_copy_kernels_that_this_tensorflow_lacks_are_a_problem_not_a_success(enable, capfd):
    if tf.test.is_built_with_cuda():
        pytest.skip("this TensorFlow has them")
    enable(swap_nodes="copy_kernels")
    step = Step()
    assert swapped_by(step) == 0
    assert "no copy kernels" in ebb.tensorflow.last_report().graphs[-1].problem
