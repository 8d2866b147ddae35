"""What LMS refuses, with the graph as it was; what it says; and that it does its work once."""

import logging
import subprocess
import sys

import ebb
import pytest
import sessions
import tensorflow as tf
import training_graphs
from ebb.tensorflow import LMS
from training_graphs import SCOPE

tf1 = tf.compat.v1


@pytest.fixture
def step():
    return sessions.build(training_graphs.with_branches)


def lms(**options) -> LMS:
    return LMS({SCOPE}, **sessions.PLACES, **options)


def refuses(graph, match, kind="refused", by=None):
    """LMS raises ebb.Error and leaves the graph alone."""
    before = graph.as_graph_def().SerializeToString(deterministic=True)
    with pytest.raises(ebb.Error, match=match) as caught:
        (by or lms()).run(graph)
    assert caught.value.kind == kind
    assert graph.as_graph_def().SerializeToString(deterministic=True) == before


def initialize(session):
    session.run(session.graph.get_operation_by_name("init"))


def test_a_graph_that_a_session_has_run_is_refused(step):
    graph, _ = step
    with tf1.Session(graph=graph) as session:
        initialize(session)
        refuses(graph, "session has already run this graph.*before the first run.*make a new one")


@pytest.mark.parametrize("kind", [tf1.Session, tf1.InteractiveSession])
def test_every_kind_of_session_is_noticed(step, kind):
    graph, _ = step
    session = kind(graph=graph)
    try:
        initialize(session)
        refuses(graph, "session has already run")
    finally:
        session.close()


def test_a_session_that_has_made_a_callable_has_taken_the_graph(step):
    graph, training = step
    with tf1.Session(graph=graph) as session:
        session.make_callable(training.loss)
        refuses(graph, "session has already run")


def test_a_session_that_was_only_made_runs_the_rewritten_graph(step):
    graph, training = step
    with tf1.Session(graph=graph, config=sessions.config()) as session:
        assert lms().run(graph)["tensors_swapped"] > 0
        initialize(session)
        metadata = tf1.RunMetadata()
        options = tf1.RunOptions(output_partition_graphs=True)
        session.run(training.train_step, training.batch(0), options, metadata)
    assert sessions.added(metadata.partition_graphs)


def test_a_graph_whose_sessions_are_closed_is_rewritten_for_the_next(step):
    graph, training = step
    with tf1.Session(graph=graph) as session:
        initialize(session)
    assert lms().run(graph)["tensors_swapped"] > 0
    fetches = [training.loss, training.train_step]
    assert sessions.added(sessions.executed(graph, fetches, training.batch(0)))


def test_a_session_of_another_graph_does_not_matter(step):
    graph, _ = step
    other, _ = sessions.build(training_graphs.with_branches)
    with tf1.Session(graph=other) as session:
        initialize(session)
        assert lms().run(graph)["tensors_swapped"] > 0


def test_a_session_that_has_run_before_the_step_was_built_runs_the_rewritten_step():
    graph = tf.Graph()
    with graph.as_default(), tf1.Session(graph=graph, config=sessions.config()) as session:
        session.run(tf.constant(1.0) + 1.0)
        tf1.set_random_seed(7)
        with tf1.device(sessions.ACCELERATOR):
            training = training_graphs.with_branches()
        assert lms().run(graph)["tensors_swapped"] > 0
        session.run(tf1.global_variables_initializer())
        metadata = tf1.RunMetadata()
        options = tf1.RunOptions(output_partition_graphs=True)
        session.run(training.train_step, training.batch(0), options, metadata)
    assert sessions.added(metadata.partition_graphs)


def test_a_finalized_graph_is_refused_with_the_remedy(step):
    graph, _ = step
    graph.finalize()
    refuses(graph, "finalized.*before that.*LMSSessionRunHook")


def test_the_graph_of_a_function_is_refused_with_the_remedy():
    @tf.function
    def double(x):
        return x * 2.0

    graph = double.get_concrete_function(tf.TensorSpec([4])).graph
    with pytest.raises(ebb.Error, match=r"tf\.function.*ebb\.tensorflow\.enable\(\)"):
        lms().run(graph)


def test_without_a_graph_eager_programs_are_told_what_to_do():
    with pytest.raises(ebb.Error, match=r"no operations.*ebb\.tensorflow\.enable\(\)"):
        lms().run()


def test_what_is_no_graph_is_refused():
    with pytest.raises(ebb.Error, match="rewrites a tf.Graph, not str"):
        lms().run("graph")
    with pytest.raises(ebb.Error, match="optimizer_scopes.*not Graph; the graph is given as graph="):
        LMS(tf.Graph())


def test_an_unknown_scope_is_refused_with_the_name_that_was_meant(step):
    graph, _ = step
    by = LMS({"optimiser"}, **sessions.PLACES)
    refuses(graph, f"optimiser.*{SCOPE}", kind="usage", by=by)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"ctrld_strategy": "chain"}, "chain_rule"),
        ({"lb": 0}, "lb"),
        ({"lb": 5, "ub": 4}, "lb"),
        ({"n_tensors": -2}, "n_tensors"),
        ({"starting_op_names": {"nobody"}}, "nobody"),
    ],
)
def test_wrong_parameters_are_refused(step, options, match):
    graph, _ = step
    refuses(graph, match, kind="usage", by=lms(**options))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"lb": "one"}, "lb cannot be 'one'"),
        ({"fuse_swapins": 1.5}, "fuse_swapins cannot be 1.5"),
        ({"excl_types": 3}, "excl_types is a name or a set of names, not int"),
        ({"excl_types": [3]}, "excl_types is a set of names, and 3 is none"),
        ({"min_bytes": "much"}, "'much' is not a number of bytes"),
        ({"min_bytes": 1.5}, "min_bytes cannot be 1.5"),
    ],
)
def test_parameters_of_a_wrong_type_are_refused_at_once(options, match):
    with pytest.raises(ebb.Error, match=match):
        lms(**options)


def test_unknown_swap_nodes_are_refused(step):
    graph, _ = step
    refuses(graph, "identity.*copy_kernels", kind="usage", by=lms(swap_nodes="magic"))


def test_a_second_run_changes_nothing_and_says_so(step, caplog):
    graph, _ = step
    lms().run(graph)
    once = graph.as_graph_def().SerializeToString(deterministic=True)
    caplog.clear()
    lms(lb=3).run(graph)
    assert graph.as_graph_def().SerializeToString(deterministic=True) == once
    [record] = caplog.records
    assert "rewritten before; nothing was changed" in record.getMessage()


def test_a_second_run_after_a_session_has_run_is_fine(step):
    graph, _ = step
    lms().run(graph)
    with tf1.Session(graph=graph, config=sessions.config()) as session:
        initialize(session)
        lms().run(graph)


def test_a_graph_without_a_backward_phase_stays_as_it_is(caplog):
    graph = tf.Graph()
    with graph.as_default():
        tf.nn.relu(tf1.placeholder(tf.float32, [8]))
    before = graph.as_graph_def()
    report = LMS().run(graph)
    assert graph.as_graph_def() == before
    assert report["tensors_swapped"] == 0
    assert "nothing to swap" in caplog.records[-1].getMessage()


def test_one_line_says_what_was_done(step, caplog):
    graph, _ = step
    one = lms()
    assert one.report is None
    report = one.run(graph)
    assert one.report is report
    [record] = caplog.records
    assert (record.name, record.levelno) == ("ebb", logging.INFO)
    text = record.getMessage()
    assert f"{report['tensors_swapped']} tensors" in text
    assert f"{report['swap_ins']} swap-ins" in text
    assert f"left alone: {len(report['refused'])} uses" in text


SCRIPT = """
import logging, sys, tensorflow as tf
if "configured" in sys.argv:
    logging.basicConfig(format="mine: %(message)s", level="WARNING")
from ebb.tensorflow import LMS
with tf.Graph().as_default() as graph:
    x = tf.compat.v1.placeholder(tf.float32, [8])
    LMS().run()
"""


@pytest.mark.parametrize(("setup", "prefix"), [("plain", "ebb: "), ("configured", "mine: ")])
def test_the_line_is_seen_once_whether_or_not_the_program_has_set_up_logging(setup, prefix):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, setup], capture_output=True, text=True, check=True
    )
    lines = [line for line in done.stderr.splitlines() if "LMS" in line]
    assert lines == [f"{prefix}LMS: nothing to swap in this graph"]


def test_importing_ebb_does_not_import_tensorflow():
    script = "import sys, ebb; sys.exit('tensorflow' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize(
    ("places", "words"),
    [
        ({"accelerator": 3}, "accelerator cannot be 3"),
        ({"host": None}, "host cannot be None"),
    ],
)
def test_places_that_are_no_names_are_refused(places, words):
    with pytest.raises(ebb.Error, match=words):
        LMS({SCOPE}, **places)


def test_swaps_to_where_tensors_come_from_are_refused(step):
    graph, _ = step
    same = LMS({SCOPE}, accelerator="/cpu:0", host="/device:CPU:0")
    refuses(graph, "are the same device, .* the second as the host", kind="usage", by=same)
