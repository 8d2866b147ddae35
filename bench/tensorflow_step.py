#!/usr/bin/env python3
"""Ebb's plug-in in TensorFlow, on two logical devices of the CPU: what it takes, and what a swapped step takes.

    PYTHONPATH=build/release/python build/venv/bin/python bench/tensorflow_step.py resnet50 long nothing

resnet50   Keras' ResNet-50: the plug-in's time for its training graph; steps with and without Ebb take turns, each on a
           model of its own, medians are compared, and the losses must be equal to the bit
long       the plug-in's time for a training graph of --nodes operations or a little more
nothing    the plug-in's time where there is nothing to swap, by n_tensors=0 (off) or because no tensor is so large
           (none), against the time TensorFlow needs to trace the function

One JSON object a measurement.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np  # noqa: E402 (TensorFlow reads the environment when it is imported)
import tensorflow as tf  # noqa: E402

import ebb.tensorflow  # noqa: E402
from ebb.tensorflow._library import loaded  # noqa: E402

DEVICES = {"accelerator": "/device:CPU:0", "host": "/device:CPU:1"}


def seconds(function: Callable[..., Any], *args: Any) -> tuple[float, Any]:
    begin = time.perf_counter()
    result = function(*args)
    return time.perf_counter() - begin, result


def with_ebb(function: Callable[..., Any], *args: Any, **parameters: Any) -> tuple[Any, ebb.tensorflow.GraphReport]:
    """What the function returns while Ebb is on, and what Ebb says of the largest graph it met there."""
    loaded().forget_reports()
    ebb.tensorflow.enable(**DEVICES, **parameters)
    try:
        result = function(*args)
        graphs = ebb.tensorflow.last_report().graphs
    finally:
        ebb.tensorflow.disable()
    if not graphs:
        raise SystemExit("Ebb met no training graph")
    return result, max(graphs, key=lambda graph: graph.nodes)


def resnet50(arguments: argparse.Namespace) -> dict[str, Any]:
    keras = importlib.import_module(arguments.keras)
    random = np.random.default_rng(0)
    x = random.random((arguments.batch, arguments.size, arguments.size, 3), np.float32)
    y = random.integers(0, 1000, (arguments.batch,))

    def compiled() -> Any:
        keras.utils.set_random_seed(0)
        model = keras.applications.ResNet50(weights=None, input_shape=x.shape[1:])
        optimizer = keras.optimizers.SGD(0.01)
        model.compile(optimizer=optimizer, loss="sparse_categorical_crossentropy", jit_compile=False)
        return model

    plain, swapped = compiled(), compiled()
    expected = plain.train_on_batch(x, y)  # both first steps are traced and optimised, one without Ebb
    loss, graph = with_ebb(swapped.train_on_batch, x, y)
    times: dict[str, list[float]] = {"plain": [], "ebb": []}
    for _ in range(arguments.rounds):
        if np.float32(loss) != np.float32(expected):
            raise SystemExit(f"a loss of {loss} instead of {expected}")
        plain_time, expected = seconds(plain.train_on_batch, x, y)
        ebb_time, loss = seconds(swapped.train_on_batch, x, y)
        times["plain"].append(plain_time)
        times["ebb"].append(ebb_time)
    plain_median, ebb_median = (statistics.median(times[which]) for which in ("plain", "ebb"))
    return {
        "keras": f"{arguments.keras} {keras.__version__}",
        "batch": arguments.batch,
        "size": arguments.size,
        "nodes": graph.nodes,
        "plugin_seconds": round(graph.seconds, 4),
        "of_these_shape_inference": round(graph.shape_seconds, 4),
        "tensors_swapped": graph.tensors_swapped,
        "problem": graph.problem,
        "rounds": arguments.rounds,
        "plain_seconds": round(plain_median, 4),
        "ebb_seconds": round(ebb_median, 4),
        "ratio": round(ebb_median / plain_median, 4),
    }


def chain(length: int) -> tuple[Callable[..., Any], tf.Tensor]:
    """A training step of so many small layers, a few operations each."""
    weight = tf.Variable(tf.eye(4) * 0.5)

    @tf.function(jit_compile=False)
    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            for _ in range(length):
                x = tf.tanh(tf.matmul(x, weight))
            loss = tf.reduce_sum(x)
        weight.assign_sub(0.01 * tape.gradient(loss, weight))
        return loss

    return step, tf.ones((4, 4))


def long(arguments: argparse.Namespace) -> dict[str, Any]:
    # How many operations of a layer are left when TensorFlow's own optimizer is done is asked of two short ones.
    counts = []
    for length in (50, 150):
        step, x = chain(length)
        counts.append(with_ebb(step, x)[1].nodes)
    per_layer = (counts[1] - counts[0]) / 100
    step, x = chain(round(arguments.nodes / per_layer) + 1)
    trace_seconds, _ = seconds(step.get_concrete_function, x)
    _, graph = with_ebb(step, x)
    return {
        "nodes": graph.nodes,
        "trace_seconds": round(trace_seconds, 2),
        "plugin_seconds": round(graph.seconds, 4),
        "of_these_shape_inference": round(graph.shape_seconds, 4),
        "tensors_swapped": graph.tensors_swapped,
        "problem": graph.problem,
    }


def nothing(arguments: argparse.Namespace) -> dict[str, Any]:
    keras = importlib.import_module(arguments.keras)
    model = keras.applications.ResNet50(weights=None, input_shape=(32, 32, 3), classes=10)
    loss_of = keras.losses.SparseCategoricalCrossentropy()

    def step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        for variable, gradient in zip(model.trainable_variables, tape.gradient(loss, model.trainable_variables)):
            variable.assign_sub(0.01 * gradient)
        return loss

    x, y = tf.ones((2, 32, 32, 3)), tf.zeros((2,), tf.int32)
    result: dict[str, Any] = {"keras": f"{arguments.keras} {keras.__version__}"}
    # Told to swap nothing, and asked to look for what is not there.
    for name, parameters in {"off": {"n_tensors": 0}, "none": {"min_bytes": "1TiB"}}.items():
        traced = tf.function(step, jit_compile=False)
        trace_seconds, _ = seconds(traced.get_concrete_function, x, y)
        _, graph = with_ebb(traced, x, y, **parameters)
        result |= {
            f"{name}_nodes": graph.nodes,
            f"{name}_trace_seconds": round(trace_seconds, 3),
            f"{name}_plugin_seconds": round(graph.seconds, 4),
            f"{name}_of_these_shape_inference": round(graph.shape_seconds, 4),
            f"{name}_plugin_over_trace": round(graph.seconds / trace_seconds, 5),
        }
    return result


MEASUREMENTS = {"resnet50": resnet50, "long": long, "nothing": nothing}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measurements", nargs="+", choices=MEASUREMENTS, metavar="MEASUREMENT", help=", ".join(MEASUREMENTS))
    parser.add_argument("--keras", choices=["keras", "tf_keras"], default="keras")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--size", type=int, default=128, help="of images")
    parser.add_argument("--rounds", type=int, default=7, help="steps of each")
    parser.add_argument("--nodes", type=int, default=50_000)
    arguments = parser.parse_args()
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * len(DEVICES)
    )
    tf.config.experimental.enable_op_determinism()
    tf.random.set_seed(0)
    for name in arguments.measurements:
        print(json.dumps({"measurement": name, "tensorflow": tf.__version__} | MEASUREMENTS[name](arguments)), flush=True)


if __name__ == "__main__":
    main()
