"""Keras while Ebb is on: XLA only for those who ask for it, and they are told."""

import sys
import warnings

import numpy as np
import pytest
from small_step import DEVICES

import ebb.tensorflow


@pytest.fixture(autouse=True, scope="session")
def deterministic():
    """Not here: Keras does without XLA where it is on."""


def on():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Ebb was turned on after TensorFlow traced")
        ebb.tensorflow.enable(**DEVICES)


@pytest.fixture(autouse=True)
def off_afterwards():
    yield
    ebb.tensorflow.disable()


@pytest.fixture
def keras():
    import keras

    return keras


@pytest.fixture
def tf_keras():
    import tf_keras

    return tf_keras


def model_of(keras):
    return keras.Sequential([keras.layers.Dense(4, "tanh"), keras.layers.Dense(1)])


def fit(model):
    model.fit(np.ones([8, 3], "f4"), np.ones([8, 1], "f4"), verbose=0)


def lines(capfd):
    said = capfd.readouterr().err.splitlines()
    return [line for line in said if line.startswith("ebb: jit_compile")]


def test_a_keras_that_is_imported_later_is_hooked():
    assert "tf_keras" not in sys.modules, "this test must be the first that needs it"
    on()
    import tf_keras

    model = model_of(tf_keras)
    with pytest.warns(UserWarning, match="jit_compile=True: XLA compiles the training step"):
        model.compile("sgd", "mse", jit_compile=True)
    assert model.jit_compile


def test_auto_means_no_and_one_line_says_so(keras, capfd):
    on()
    models = [model_of(keras), model_of(keras)]
    for model in models:
        model.compile("sgd", "mse")
        assert model.jit_compile is False
        fit(model)
    assert lines(capfd) == [
        'ebb: jit_compile="auto" means False while Ebb is on: XLA would hide the step'
    ]
    assert ebb.tensorflow.last_report().graphs[-1].name == "one_step_on_data"


def test_auto_given_by_position_means_no_too(keras, capfd):
    on()
    model = model_of(keras)
    model.compile("sgd", "mse", None, None, None, False, 1, "auto")
    assert model.jit_compile is False
    assert len(lines(capfd)) == 1


def test_who_asks_for_xla_gets_it_with_a_warning(keras, capfd):
    on()
    model = model_of(keras)
    with pytest.warns(UserWarning, match="Ebb cannot see into it") as caught:
        model.compile("sgd", "mse", jit_compile=True)
    assert caught[0].filename == __file__
    assert model.jit_compile is True
    assert not lines(capfd)


def test_a_model_that_was_compiled_before_is_resolved_when_it_trains(keras, capfd):
    model = model_of(keras)
    model.compile("sgd", "mse", jit_compile=True)  # what "auto" means on a GPU
    on()
    fit(model)
    assert model.jit_compile is False
    [line] = lines(capfd)
    assert "compiled before" in line


def test_a_keras_2_model_that_was_compiled_with_xla_before_is_warned_about(tf_keras):
    model = model_of(tf_keras)
    model.compile("sgd", "mse", jit_compile=True)
    on()
    with pytest.warns(UserWarning, match="Ebb cannot see into it"):
        fit(model)
    assert model.jit_compile is True


def test_keras_2_without_xla_needs_no_words(tf_keras, capfd):
    on()
    model = model_of(tf_keras)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "jit_compile")
        model.compile("sgd", "mse")
        fit(model)
    assert not lines(capfd)


def test_turned_off_keras_is_as_it_was(keras, tf_keras, capfd):
    from keras.src.backend.tensorflow.trainer import TensorFlowTrainer
    from keras.src.trainers.trainer import Trainer

    names = [
        (Trainer, "compile"),
        (TensorFlowTrainer, "make_train_function"),
        (tf_keras.Model, "compile"),
        (tf_keras.Model, "make_train_function"),
    ]
    before = [getattr(owner, name) for owner, name in names]
    on()
    on()
    during = [getattr(owner, name) for owner, name in names]
    ebb.tensorflow.disable()
    assert [getattr(owner, name) for owner, name in names] == before
    assert not any(one is other for one, other in zip(before, during, strict=True))
    model_of(keras).compile("sgd", "mse")
    assert not lines(capfd)
