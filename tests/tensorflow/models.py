"""Small models of well-known kinds for both generations of Keras, and the way they are trained here.

Every function takes `keras`: the module `keras` (Keras 3) or `tf_keras` (Keras 2). All data come from fixed seeds, and
`train` sets TensorFlow's, so that two trainings of one model end with the same bits.
"""

import dataclasses
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import tensorflow as tf

Data = tuple[np.ndarray, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Trained:
    """What came out of a training: the loss after each step (each epoch's running mean) and all weights."""

    losses: list[float]
    weights: list[np.ndarray]


@dataclasses.dataclass(frozen=True)
class Case:
    """A model, what it is trained on and how."""

    build: Callable[[ModuleType], Any]
    data: Callable[[], Data]
    batch: int
    optimizer: str = "Adam"
    policy: str = "float32"
    steps_per_execution: int = 1
    custom_loop: Callable[[ModuleType, Any, Data], list[float]] | None = None  # instead of `fit`


def images(count: int, size: int) -> Data:
    random = np.random.default_rng(1)
    return random.random((count, size, size, 3), np.float32), random.integers(0, 10, (count,))


def volumes() -> Data:
    random = np.random.default_rng(2)
    return random.random((8, 8, 8, 8, 2), np.float32), random.integers(0, 3, (8, 8, 8, 8))


def tokens(count: int = 32) -> Data:
    random = np.random.default_rng(3)
    return random.integers(0, 50, (count, 12)), random.integers(0, 10, (count,))


def vectors() -> Data:
    random = np.random.default_rng(4)
    return random.random((32, 16), np.float32), random.integers(0, 10, (32,))


def resnet50(keras: ModuleType) -> Any:
    return keras.applications.ResNet50(weights=None, input_shape=(32, 32, 3), classes=10)


def unet3d(keras: ModuleType) -> Any:
    layers = keras.layers

    def twice(x: Any, width: int) -> Any:
        for _ in range(2):
            x = layers.Conv3D(width, 3, padding="same", use_bias=False)(x)
            x = layers.BatchNormalization()(x)
            x = layers.ReLU()(x)
        return x

    x = volume = keras.Input((8, 8, 8, 2))
    skipped = []
    for width in (4, 8):
        x = twice(x, width)
        skipped.append(x)
        x = layers.MaxPooling3D()(x)
    x = twice(x, 16)
    for width in (8, 4):
        x = layers.Conv3DTranspose(width, 2, strides=2)(x)
        x = layers.Concatenate()([x, skipped.pop()])
        x = twice(x, width)
    return keras.Model(volume, layers.Conv3D(3, 1, activation="softmax")(x))


def transformer(keras: ModuleType) -> Any:
    layers = keras.layers
    sequence = keras.Input((12,), dtype="int32")
    x = layers.Embedding(50, 16)(sequence)
    for _ in range(2):
        normal = layers.LayerNormalization()(x)
        x = layers.Add()([x, layers.MultiHeadAttention(2, 8, dropout=0.1)(normal, normal)])
        inner = layers.Dense(32, activation="gelu")(layers.LayerNormalization()(x))
        x = layers.Add()([x, layers.Dropout(0.1)(layers.Dense(16)(inner))])
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(sequence, layers.Dense(10, activation="softmax")(x))


def lstm(keras: ModuleType, unroll: bool = False) -> Any:
    layers = keras.layers
    sequence = keras.Input((12,), dtype="int32")
    x = layers.Embedding(50, 16)(sequence)
    x = layers.LSTM(16, return_sequences=True, unroll=unroll)(x)
    x = layers.Dense(16, activation="relu")(x)
    x = layers.LSTM(16, unroll=unroll)(x)
    return keras.Model(sequence, layers.Dense(10, activation="softmax", dtype="float32")(x))


def lstm_unrolled(keras: ModuleType) -> Any:
    return lstm(keras, unroll=True)


def conditional(keras: ModuleType) -> Any:
    """A layer computes one of two things, as its input has it: `tf.cond` in the step."""

    class Either(keras.layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.one = keras.layers.Dense(16, activation="tanh")
            self.other = keras.layers.Dense(16, activation="relu")

        def build(self, shape: Any) -> None:
            self.one.build(shape)
            self.other.build(shape)
            self.built = True

        def call(self, x: Any) -> Any:
            return tf.cond(
                tf.reduce_mean(x[:, 0]) > tf.reduce_mean(x[:, 1]),
                lambda: self.other(self.one(x)),
                lambda: self.one(self.other(x)),
            )

        def compute_output_shape(self, shape: Any) -> Any:
            return shape

    x = vector = keras.Input((16,))
    for _ in range(2):
        x = keras.layers.Dense(16, activation="relu")(x)
        x = Either()(x)
    return keras.Model(vector, keras.layers.Dense(10, activation="softmax")(x))


def mlp(keras: ModuleType) -> Any:
    layers = keras.layers
    x = vector = keras.Input((16,))
    for _ in range(4):
        x = layers.Dense(32, activation="relu")(x)
        x = layers.Dropout(0.2)(x)
    return keras.Model(vector, layers.Dense(10, activation="softmax", dtype="float32")(x))


def convolutions(keras: ModuleType) -> Any:
    layers = keras.layers
    x = image = keras.Input((16, 16, 3))
    for width in (4, 8):
        x = layers.Conv2D(width, 3, padding="same")(x)
        x = layers.BatchNormalization()(x)
        x = layers.ReLU()(x)
        x = layers.MaxPooling2D()(x)
    x = layers.Flatten()(x)
    return keras.Model(image, layers.Dense(10, activation="softmax", dtype="float32")(x))


def swish(keras: ModuleType) -> Any:
    """TensorFlow's optimizers fuse it into an operator that gives other bits, where they can."""
    layers = keras.layers
    x = image = keras.Input((8, 8, 3))
    for _ in range(3):
        x = layers.Conv2D(4, 3, padding="same", activation="swish")(x)
    x = layers.Flatten()(x)
    return keras.Model(image, layers.Dense(10, activation="softmax")(x))


def accumulate(keras: ModuleType, model: Any, data: Data, in_graph_loop: bool = False) -> list[float]:
    """Four parts of a batch after each other, their gradients added up, one update: the user's own `tf.function`."""
    optimizer = keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)
    loss_of = keras.losses.SparseCategoricalCrossentropy()
    parts = 4

    def gradients(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        return loss, tape.gradient(loss, model.trainable_variables)

    @tf.function(jit_compile=False)
    def step(xs: tf.Tensor, ys: tf.Tensor) -> tf.Tensor:
        xs, ys = tf.split(xs, parts), tf.split(ys, parts)
        if in_graph_loop:
            xs, ys = tf.stack(xs), tf.stack(ys)
        loss = tf.constant(0.0)
        sums = [tf.zeros(variable.shape) for variable in model.trainable_variables]
        for part in tf.range(parts) if in_graph_loop else range(parts):
            # Or losses differ now and then, without Ebb too: iterations may draw their dropout in another order.
            tf.autograph.experimental.set_loop_options(parallel_iterations=1)
            more, new = gradients(xs[part], ys[part])
            loss += more
            sums = [old + each for old, each in zip(sums, new)]
        optimizer.apply_gradients(zip(sums, model.trainable_variables))
        return loss

    x, y = (tf.constant(each) for each in data)
    return [float(step(x, y)) for _ in range(4)]


def accumulate_in_graph(keras: ModuleType, model: Any, data: Data) -> list[float]:
    return accumulate(keras, model, data, in_graph_loop=True)


CASES = {
    "resnet50": Case(resnet50, lambda: images(6, 32), 2, optimizer="SGD"),
    "unet3d": Case(unet3d, volumes, 2),
    "transformer": Case(transformer, tokens, 8),
    "smaller_last_batch": Case(transformer, lambda: tokens(20), 8),
    "lstm": Case(lstm, tokens, 8),
    "lstm_unrolled": Case(lstm_unrolled, tokens, 8),
    "conditional": Case(conditional, vectors, 8),
    "accumulation": Case(mlp, vectors, 32, custom_loop=accumulate),
    "accumulation_in_graph": Case(mlp, vectors, 32, custom_loop=accumulate_in_graph),
    "steps_per_execution": Case(mlp, vectors, 8, steps_per_execution=4),
    "mixed_bfloat16": Case(convolutions, lambda: images(16, 16), 4, policy="mixed_bfloat16"),
    "mixed_float16": Case(convolutions, lambda: images(16, 16), 4, policy="mixed_float16"),
    "mlp": Case(mlp, vectors, 8),
    "swish": Case(swish, lambda: images(16, 8), 4),
}


def compiled(keras: ModuleType, case: Case, **options: Any) -> Any:
    """The model, ready for `fit`; as the tests run it, unless `options` of `compile` say otherwise."""
    model = case.build(keras)
    optimizer = getattr(keras.optimizers, case.optimizer)(0.01)
    settings = {"steps_per_execution": case.steps_per_execution, "jit_compile": False} | options
    model.compile(optimizer=optimizer, loss="sparse_categorical_crossentropy", **settings)
    return model


def train(keras: ModuleType, case: Case, epochs: int = 2, **options: Any) -> Trained:
    """Trains a new model from the same seeds as every time; `options` are `compile`'s."""

    class Losses(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
            losses.append(float(logs["loss"]))

    losses: list[float] = []
    keras.backend.clear_session()
    keras.utils.set_random_seed(7)
    keras.mixed_precision.set_global_policy(case.policy)
    try:
        model = compiled(keras, case, **options)
        x, y = case.data()
        if case.custom_loop is not None:
            losses = case.custom_loop(keras, model, (x, y))
        else:
            model.fit(x, y, batch_size=case.batch, epochs=epochs, shuffle=False, verbose=0, callbacks=[Losses()])
        return Trained(losses, [np.array(weight) for weight in model.get_weights()])
    finally:
        keras.mixed_precision.set_global_policy("float32")
