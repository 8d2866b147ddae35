"""ebb.tensorflow.LMS on live graphs: the same numbers, bit for bit, with tensors swapped."""

import numpy as np
import pytest
import sessions
import tensorflow as tf
import training_graphs
from ebb.tensorflow import LMS
from training_graphs import SCOPE

tf1 = tf.compat.v1


def rewritten(make, device=sessions.ACCELERATOR, **options):
    """The training step after LMS, and its report."""
    graph, training = sessions.build(make, device)
    places = {} if device is None else sessions.PLACES
    return graph, training, LMS({SCOPE}, **places, **options).run(graph)


def listing_1(with_lms: bool) -> list[bytes]:
    """The paper's Listing 1 and the network around it, on made-up digits: the losses' bits."""
    losses = []
    with tf.Graph().as_default():
        tf1.set_random_seed(7)
        x = tf1.placeholder(tf.float32, [None, 784])
        y_ = tf1.placeholder(tf.float32, [None, 10])
        image = tf.reshape(x, [-1, 28, 28, 1])
        w1 = tf1.get_variable("w1", [5, 5, 1, 8])
        h1 = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(image, w1, 1, "SAME")), 2, 2, "SAME")
        w2 = tf1.get_variable("w2", [14 * 14 * 8, 64])
        h2 = tf.nn.relu(tf.matmul(tf.reshape(h1, [-1, 14 * 14 * 8]), w2))
        y = tf.matmul(h2, tf1.get_variable("w3", [64, 10]))
        cross_entropy = tf.reduce_mean(
            tf1.nn.softmax_cross_entropy_with_logits_v2(labels=y_, logits=y)
        )

        # define a scope for the optimizer/solver
        with tf1.name_scope("adam_optimizer"):
            opt = tf1.train.AdamOptimizer(1e-4)
            train_step = opt.minimize(cross_entropy)

        # define a LMS instance and run it
        if with_lms:
            lms_obj = LMS({"adam_optimizer"})
            lms_obj.run(graph=tf1.get_default_graph())
            assert lms_obj.report["tensors_swapped"] > 0

        with tf1.Session() as sess:
            sess.run(tf1.global_variables_initializer())
            for step in range(20):
                batch = list(training_graphs.digits(step, 50).values())
                feed_dict = {x: batch[0], y_: batch[1]}
                losses.append(np.asarray(cross_entropy.eval(feed_dict)).tobytes())
                train_step.run(feed_dict=feed_dict)
    return losses


def test_listing_1_of_the_paper_computes_the_same_20_losses_with_and_without_lms():
    plain = listing_1(with_lms=False)
    assert listing_1(with_lms=True) == plain
    assert len(set(plain)) == 20


@pytest.mark.parametrize("name", training_graphs.ALL)
def test_a_rewritten_graph_computes_the_same_losses_and_variables(name):
    make = training_graphs.ALL[name]
    plain = sessions.train(*sessions.build(make), steps=5)
    graph, training, report = rewritten(make)
    assert report["tensors_swapped"] == len(sessions.added_operations(graph, "swap_out")) > 0
    assert report["swap_ins"] == len(sessions.added_operations(graph, "swap_in")) > 0
    assert sessions.train(graph, training, steps=5) == plain


def test_a_graph_without_devices_is_one_on_the_accelerator():
    plain = sessions.train(*sessions.build(training_graphs.with_adam, None), steps=5)
    graph, training, report = rewritten(training_graphs.with_adam, None)
    assert report["tensors_swapped"] > 0
    swaps = [
        each
        for purpose in ("swap_out", "swap_in")
        for each in sessions.added_operations(graph, purpose)
    ]
    assert {each.device for each in swaps} == {"/device:CPU:0"}
    assert sessions.train(graph, training, steps=5) == plain


@pytest.mark.parametrize("fuse_swapins", [False, True])
@pytest.mark.parametrize("ctrld_strategy", ["chain_rule", "direct_order"])
def test_every_way_to_find_triggers_computes_the_same(ctrld_strategy, fuse_swapins):
    make = training_graphs.with_branches
    plain = sessions.train(*sessions.build(make), steps=3)
    graph, training, report = rewritten(
        make, ctrld_strategy=ctrld_strategy, fuse_swapins=fuse_swapins, swap_branches=True, lb=2
    )
    assert report["tensors_swapped"] > 0
    assert sessions.train(graph, training, steps=3) == plain


def test_views_that_stand_beside_other_operations_are_made_again_on_a_copy():
    graph, training = sessions.build(training_graphs.with_adam)
    expected = sessions.train(graph, training, 2)
    graph, training, report = rewritten(training_graphs.with_adam, whole_graph=True, alpha=1)
    beside = [each for each in sessions.added_operations(graph) if "_class" in each.node_def.attr]
    assert beside, "no view with a colocation was made again"
    assert sessions.train(graph, training, 2) == expected


def test_n_tensors_is_how_many_tensors_are_swapped():
    graph, _, report = rewritten(training_graphs.with_adam, n_tensors=2)
    assert report["tensors_swapped"] == len(sessions.added_operations(graph, "swap_out")) == 2


def test_excluded_types_are_not_swapped_and_included_ones_alone_are():
    graph, _, _ = rewritten(training_graphs.with_adam, excl_types={"Relu"})
    made_by = {each.inputs[0].op.type for each in sessions.added_operations(graph, "swap_out")}
    assert made_by and "Relu" not in made_by
    graph, _, _ = rewritten(training_graphs.with_adam, incl_types="Relu")
    made_by = {each.inputs[0].op.type for each in sessions.added_operations(graph, "swap_out")}
    assert made_by == {"Relu"}


def test_names_are_given_one_by_one_or_in_any_collection_with_or_without_a_slash():
    reports = []
    for scopes in (SCOPE, {SCOPE}, [SCOPE], (SCOPE,), f"{SCOPE}/", frozenset([SCOPE])):
        graph, _ = sessions.build(training_graphs.with_branches)
        report = LMS(scopes, **sessions.PLACES).run(graph)
        reports.append(report["swap_ins"])
    assert len(set(reports)) == 1


def test_without_scopes_the_gradients_are_found():
    graph, _ = sessions.build(training_graphs.with_branches)
    assert LMS(**sessions.PLACES).run(graph)["tensors_swapped"] > 0


def test_small_tensors_stay_when_asked_to():
    graph, _ = sessions.build(training_graphs.with_fixed_batch)
    all_of_them = LMS({SCOPE}, **sessions.PLACES).run(graph)["tensors_swapped"]
    graph, _ = sessions.build(training_graphs.with_fixed_batch)
    large_ones = LMS({SCOPE}, min_bytes="100KiB", **sessions.PLACES).run(graph)
    assert 0 < large_ones["tensors_swapped"] < all_of_them


def test_the_scopes_that_the_caller_is_in_do_not_reach_the_new_operations():
    graph, training = sessions.build(training_graphs.with_branches)
    with (
        graph.as_default(),
        tf1.name_scope("around"),
        tf1.device("/device:CPU:0"),
        tf.control_dependencies([training.loss]),
        tf1.colocate_with(training.loss.op),
    ):
        LMS({SCOPE}, **sessions.PLACES).run(graph)
    for operation in sessions.added_operations(graph):
        assert not operation.name.startswith("around")
        assert operation.device == sessions.HOST
        assert training.loss.op not in operation.control_inputs
        assert operation.colocation_groups() == [f"loc:@{operation.name}".encode()]


def test_a_rewritten_graph_can_be_built_further():
    graph, training, _ = rewritten(training_graphs.with_branches)
    name = sessions.added_operations(graph)[0].name
    with graph.as_default():
        assert tf.identity(training.loss, name=name).op.name != name
        tf1.gradients(training.loss, tf1.trainable_variables())


def test_a_python_function_in_the_graph_is_no_obstacle():
    def make():
        x, labels = training_graphs.placeholders()
        hidden = tf.nn.relu(tf.matmul(x, training_graphs.variable("in", [784, 64])))
        hidden = tf1.py_func(lambda a: a, [hidden], tf.float32, stateful=False)
        hidden.set_shape([None, 64])
        hidden = tf.nn.softplus(tf.matmul(hidden, training_graphs.variable("mid", [64, 64])))
        logits = tf.matmul(hidden, training_graphs.variable("out", [64, 10]))
        return training_graphs.minimize(
            tf1.train.GradientDescentOptimizer(0.1), training_graphs.loss_of(logits, labels)
        )

    plain = sessions.train(*sessions.build(make), steps=2)
    graph, training, report = rewritten(make)
    assert report["tensors_swapped"] > 0
    assert sessions.train(graph, training, steps=2) == plain
