"""LMS in monitored sessions and in Keras' fit."""

import ebb
import numpy as np
import pytest
import sessions
import tensorflow as tf
import tf_keras
import training_graphs
from ebb.tensorflow import LMS, LMSKerasCallback, LMSSessionRunHook
from training_graphs import SCOPE

tf1 = tf.compat.v1


def monitored(hooks):
    """The losses' bits of some steps in a monitored session, and what TensorFlow ran."""
    with tf.Graph().as_default():
        tf1.set_random_seed(7)
        with tf1.device(sessions.ACCELERATOR):
            tf1.train.get_or_create_global_step()
            training = training_graphs.with_branches()
        losses = []
        metadata = tf1.RunMetadata()
        with tf1.train.MonitoredTrainingSession(hooks=hooks, config=sessions.config()) as session:
            for step in range(5):
                options = tf1.RunOptions(output_partition_graphs=True)
                loss, _ = session.run(
                    [training.loss, training.train_step], training.batch(step), options, metadata
                )
                losses.append(np.asarray(loss).tobytes())
            with pytest.raises(ebb.Error, match="finalized"):
                LMS({SCOPE}).run()
    return losses, sessions.added(metadata.partition_graphs)


def test_a_hook_rewrites_the_graph_of_a_monitored_session():
    plain, added = monitored([])
    assert not added
    hook = LMSSessionRunHook({SCOPE}, **sessions.PLACES)
    losses, added = monitored([hook])
    assert losses == plain
    swap_outs = [node for node in added if sessions.role(node) == "swap_out"]
    assert len(swap_outs) == hook.lms.report["tensors_swapped"] > 0


def small_model():
    tf_keras.utils.set_random_seed(7)
    model = tf_keras.Sequential(
        [
            tf_keras.layers.Dense(64, "relu", input_shape=(784,)),
            tf_keras.layers.Dense(64, "softplus"),
            tf_keras.layers.Dense(10),
        ]
    )
    loss = tf_keras.losses.CategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss)
    return model


def arrays():
    return tuple(training_graphs.digits(0, 64).values())


def fit(callbacks, **options):
    """The losses and weights after fit in graph mode, and the model's graph."""
    with tf.Graph().as_default() as graph, tf1.Session(config=sessions.config()).as_default():
        with tf1.device(sessions.ACCELERATOR):
            model = small_model()
            before = options.pop("before", None)
            if before:
                before(model)
            validation = options.pop("validation", None)
            if validation:
                options["validation_data"] = validation()  # which belongs to this graph
            history = model.fit(
                *arrays(), batch_size=16, epochs=2, verbose=0, callbacks=callbacks, **options
            )
        weights = [weight.tobytes() for weight in model.get_weights()]
    return history.history["loss"], weights, graph


def test_a_callback_rewrites_the_graph_of_a_keras_model_and_finds_its_optimizer():
    plain_loss, plain_weights, _ = fit([])
    callback = LMSKerasCallback(**sessions.PLACES)
    loss, weights, graph = fit([callback])
    assert callback.lms.report["tensors_swapped"] > 0
    assert len(sessions.added_operations(graph, "swap_out")) > 0
    assert (loss, weights) == (plain_loss, plain_weights)


def test_weights_may_be_set_before_fit():
    def double(model):
        model.set_weights([2.0 * weight for weight in model.get_weights()])

    plain_loss, plain_weights, _ = fit([], before=double)
    callback = LMSKerasCallback(**sessions.PLACES)
    loss, weights, _ = fit([callback], before=double)
    assert callback.lms.report["tensors_swapped"] > 0
    assert (loss, weights) == (plain_loss, plain_weights)


def test_where_keras_has_run_its_session_before_the_callback_says_what_to_do():
    def validated(callback, before=None):
        def dataset():
            return tf.data.Dataset.from_tensor_slices(arrays()).batch(16)

        return fit([callback], before=before, validation=dataset, validation_steps=1)

    with pytest.raises(ebb.Error, match=r"call callback.set_model\(model\) before fit"):
        validated(LMSKerasCallback(**sessions.PLACES))
    callback = LMSKerasCallback(**sessions.PLACES)
    _, _, graph = validated(callback, before=callback.set_model)
    assert len(sessions.added_operations(graph, "swap_out")) > 0


def test_fit_may_be_called_again():
    callback = LMSKerasCallback(**sessions.PLACES)
    with tf.Graph().as_default():
        model = small_model()
        model.fit(*arrays(), verbose=0, callbacks=[callback])
        model.fit(*arrays(), verbose=0, callbacks=[callback])


def test_in_eager_mode_the_callback_says_what_to_do():
    with pytest.raises(ebb.Error, match=r"ebb\.tensorflow\.enable\(\) before fit"):
        small_model().fit(*arrays(), verbose=0, callbacks=[LMSKerasCallback()])


def test_a_keras_3_model_s_user_is_told_what_to_do():
    import keras

    model = keras.Sequential([keras.layers.Dense(10)])
    model.compile("sgd", "mse")
    with pytest.raises(ebb.Error, match=r"ebb\.tensorflow\.enable\(\) before fit"):
        model.fit(*arrays(), verbose=0, callbacks=[LMSKerasCallback()])
