"""Training steps as people write them with tf.compat.v1, small and on made-up data.

Each function builds into the default graph, the optimizer under a scope of its own as in the
paper's Listing 1. Equal calls build equal graphs, and equal graphs compute equal bits.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1

SCOPE = "optimizer"


@dataclasses.dataclass
class Training:
    loss: tf.Tensor
    train_step: tf.Operation
    batch: Callable[[int], dict[str, np.ndarray]]
    """What to feed in a step, by the names of placeholders."""


def digits(step: int, size: int = 8) -> dict[str, np.ndarray]:
    """As MNIST: images of 784 points in 0..1, and one of ten classes each."""
    random = np.random.default_rng(step)
    classes = random.integers(0, 10, size)
    images = random.random((size, 784), np.float32) * 0.5
    images[np.arange(size), classes * 70] = 1.0
    return {"x:0": images, "labels:0": np.eye(10, dtype=np.float32)[classes]}


def variable(name: str, shape: list[int], use_resource: bool | None = None) -> tf.Variable:
    with tf1.variable_scope("weights", reuse=tf1.AUTO_REUSE, use_resource=use_resource):
        return tf1.get_variable(name, shape, initializer=tf1.truncated_normal_initializer(0, 0.1))


def placeholders(size: int | None = None) -> tuple[tf.Tensor, tf.Tensor]:
    x = tf1.placeholder(tf.float32, [size, 784], name="x")
    return x, tf1.placeholder(tf.float32, [size, 10], name="labels")


def loss_of(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    losses = tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return tf.reduce_mean(losses, name="loss")


def minimize(optimizer: tf1.train.Optimizer, loss: tf.Tensor) -> Training:
    with tf1.name_scope(SCOPE):
        return Training(loss, optimizer.minimize(loss), digits)


def _convolutions(x: tf.Tensor, use_resource: bool | None) -> tf.Tensor:
    """Two convolutional layers and a dense one."""
    images = tf.reshape(x, [-1, 28, 28, 1])
    for number, shape in enumerate([[5, 5, 1, 8], [5, 5, 8, 16]], 1):
        with tf1.name_scope(f"conv{number}"):
            filters = variable(f"filters{number}", shape, use_resource)
            bias = variable(f"bias{number}", shape[-1:], use_resource)
            images = tf.nn.relu(tf.nn.conv2d(images, filters, 1, "SAME") + bias)
            images = tf.nn.max_pool2d(images, 2, 2, "SAME")
    with tf1.name_scope("dense"):
        flat = tf.reshape(images, [-1, 7 * 7 * 16])
        weights = variable("dense", [7 * 7 * 16, 64], use_resource)
        return tf.nn.relu(tf.matmul(flat, weights) + variable("bias3", [64], use_resource))


def mnist(
    optimizer: tf1.train.Optimizer | None = None,
    use_resource: bool | None = None,
    drop: float = 0.0,
    size: int | None = None,
) -> Training:
    """The network of the paper's Listing 1, with Adam unless another optimizer is given."""
    x, labels = placeholders(size)
    hidden = _convolutions(x, use_resource)
    if drop:
        hidden = tf1.nn.dropout(hidden, rate=drop)
    logits = tf.matmul(hidden, variable("out", [64, 10], use_resource))
    return minimize(optimizer or tf1.train.AdamOptimizer(1e-3), loss_of(logits, labels))


def with_adam() -> Training:
    return mnist()


def with_momentum() -> Training:
    return mnist(tf1.train.MomentumOptimizer(0.05, 0.9))


def with_reference_variables() -> Training:
    return mnist(tf1.train.MomentumOptimizer(0.05, 0.9), use_resource=False)


def with_reference_variables_and_adam() -> Training:
    return mnist(use_resource=False)


def with_fixed_batch() -> Training:
    """All sizes are known."""
    return mnist(size=8)


def with_dropout() -> Training:
    return mnist(drop=0.3)


@contextlib.contextmanager
def _control_flow_of_version_1() -> Iterator[None]:
    """Switch and Merge in the graph itself, instead of one operation with functions."""
    tf1.disable_control_flow_v2()
    try:
        yield
    finally:
        tf1.enable_control_flow_v2()


def with_condition_in_functions() -> Training:
    """Two ways through the network, by what is fed."""
    x, labels = placeholders()
    hidden = tf.nn.relu(tf.matmul(x, variable("in", [784, 64])))
    middle = variable("middle", [64, 64])
    hidden = tf1.cond(
        tf.reduce_sum(labels[:, 0]) > 0.0,
        lambda: tf.nn.sigmoid(tf.nn.relu(tf.matmul(hidden, middle))),
        lambda: tf.nn.tanh(tf.nn.tanh(tf.matmul(hidden, middle) * 0.5)),
    )
    hidden = tf.nn.softplus(tf.nn.relu(tf.matmul(hidden, variable("last", [64, 64]))))
    logits = tf.matmul(hidden, variable("out", [64, 10]))
    return minimize(tf1.train.AdamOptimizer(1e-3), loss_of(logits, labels))


def with_condition() -> Training:
    with _control_flow_of_version_1():
        return with_condition_in_functions()


def with_loop_in_functions() -> Training:
    """A recurrent network over the image's rows, between two dense layers."""
    x, labels = placeholders()
    wide = tf.nn.relu(tf.matmul(x, variable("wide", [784, 784])))
    rows = tf.reshape(tf.nn.softplus(wide), [-1, 28, 28])
    rows = tf.transpose(rows, [1, 0, 2])
    enter, again = variable("enter", [28, 32]), variable("again", [32, 32])

    def step(row: tf.Tensor, state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return row + 1, tf.tanh(tf.matmul(rows[row], enter) + tf.matmul(state, again))

    start = tf.zeros([tf.shape(x)[0], 32])
    _, state = tf1.while_loop(
        lambda row, _: row < 28,
        step,
        [tf.constant(0), start],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, 32])],
    )
    hidden = tf.nn.softplus(tf.nn.relu(tf.matmul(state, variable("last", [32, 64]))))
    logits = tf.matmul(hidden, variable("out", [64, 10]))
    return minimize(tf1.train.AdamOptimizer(1e-3), loss_of(logits, labels))


def with_loop() -> Training:
    with _control_flow_of_version_1():
        return with_loop_in_functions()


def with_branches() -> Training:
    """A skip connection over the whole network, for swap_branches."""
    x, labels = placeholders()
    first = tf.nn.relu(tf.matmul(x, variable("in", [784, 64])), name="first")
    hidden = first
    for number in range(4):
        hidden = tf.nn.relu(tf.matmul(hidden, variable(f"dense{number}", [64, 64])))
    logits = tf.matmul(tf.concat([hidden, first], 1), variable("out", [128, 10]))
    return minimize(tf1.train.AdamOptimizer(1e-3), loss_of(logits, labels))


ALL: dict[str, Callable[[], Training]] = {
    name: value for name, value in globals().items() if name.startswith("with_")
}
