#!/usr/bin/env python3
"""Trains Keras' ResNet-50 twice, by TensorFlow alone and with Ebb, and shows that both compute the same bits.

    examples/tensorflow/train_keras.py --batch 8 --size 64 --steps 4 --sync 2

On a machine without GPU two logical devices of the CPU play accelerator and host, so that there is something to swap.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras  # noqa: E402 (TensorFlow reads the environment when it is imported)
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

import ebb.tensorflow  # noqa: E402


def devices() -> dict[str, str]:
    """From where to where. With a GPU, nothing need be said."""
    if tf.config.list_physical_devices("GPU"):
        return {}
    [cpu] = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    return {"accelerator": "/device:CPU:0", "host": "/device:CPU:1"}


def train(x: np.ndarray, y: np.ndarray, batch: int) -> list[float]:
    """What everybody writes; the loss of every step."""
    keras.utils.set_random_seed(0)
    model = keras.applications.ResNet50(weights=None, input_shape=x.shape[1:], classes=10)
    model.compile(optimizer=keras.optimizers.SGD(0.01), loss="sparse_categorical_crossentropy", jit_compile=False)
    losses: list[float] = []
    keep = keras.callbacks.LambdaCallback(on_train_batch_end=lambda _, logs: losses.append(logs["loss"]))
    model.fit(x, y, batch_size=batch, shuffle=False, verbose=0, callbacks=[keep])
    return losses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--size", type=int, default=64, help="of images")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--n-tensors", type=int, default=-1, help="how many to swap; -1: all")
    parser.add_argument("--sync", type=int, default=0, help="let the forward phase wait for copies")
    arguments = parser.parse_args()

    where = devices()
    tf.config.experimental.enable_op_determinism()
    random = np.random.default_rng(0)
    count = arguments.batch * arguments.steps
    x = random.random((count, arguments.size, arguments.size, 3), np.float32)
    y = random.integers(0, 10, (count,))

    plain = train(x, y, arguments.batch)
    # Before the first step of what is to be rewritten: a function that has run keeps its graph.
    keras.backend.clear_session()
    ebb.tensorflow.enable(n_tensors=arguments.n_tensors, sync=arguments.sync, **where)
    swapped = train(x, y, arguments.batch)

    print(ebb.tensorflow.last_report())
    for step, (a, b) in enumerate(zip(plain, swapped, strict=True)):
        print(f"step {step}: loss {a:.6f}, with Ebb {b:.6f}: {'the same bits' if a == b else 'DIFFERENT'}")
    if plain != swapped:
        raise SystemExit("the losses differ")


if __name__ == "__main__":
    main()
