"""The paper's two networks, for both generations of Keras.

ResNet-50 is that of ``applications``. The 3D U-Net is the one of Çiçek et al. (2016): four resolutions, two
convolutions each, batch normalisation before ReLU, and a transposed convolution on the way up; four channels in and
three labels out, as in the segmentation of brain tumours. The paper does not give the widths of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import ModuleType
from typing import Any

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Network:
    build: Callable[[ModuleType, Any], Any]
    """Of Keras and an input tensor or a shape: a Keras model."""
    image_shape: Callable[[int], tuple[int, ...]]
    """Of a side's length."""
    labels_shape: Callable[[int], tuple[int, ...]]
    loss: Callable[[Any, Any], Any]
    """Of labels and logits or probabilities."""


def _resnet50(keras: ModuleType, images: Any) -> Any:
    return keras.applications.ResNet50(weights=None, input_tensor=images, classes=1000, classifier_activation=None)


def _unet3d(keras: ModuleType, images: Any, width: int = 32) -> Any:
    layers = keras.layers

    def convolved(x: Any, filters: int) -> Any:
        x = layers.Conv3D(filters, 3, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization()(x)
        return layers.ReLU()(x)

    x, skipped = images, []
    for level in range(3):
        x = convolved(convolved(x, width << level), width << (level + 1))
        skipped.append(x)
        x = layers.MaxPooling3D(2)(x)
    x = convolved(convolved(x, width << 3), width << 4)
    for level in reversed(range(3)):
        x = layers.Conv3DTranspose(width << (level + 1), 2, strides=2, padding="same")(x)
        x = layers.Concatenate()([skipped[level], x])
        x = convolved(convolved(x, width << (level + 1)), width << (level + 1))
    return keras.Model(images, layers.Conv3D(3, 1)(x))


def _class_loss(labels: Any, logits: Any) -> Any:
    labels = tf.reshape(tf.cast(labels, tf.int32), [-1])  # Keras gives them as floats, and a dimension more
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))


def _segmentation_loss(labels: Any, logits: Any) -> Any:
    """One minus the Dice coefficient."""
    found = tf.sigmoid(logits)
    return 1 - 2 * tf.reduce_sum(found * labels) / (tf.reduce_sum(found) + tf.reduce_sum(labels) + 1)


NETWORKS = {
    "resnet50": Network(_resnet50, lambda side: (side, side, 3), lambda side: (), _class_loss),
    "unet3d": Network(
        _unet3d, lambda side: (side, side, side, 4), lambda side: (side, side, side, 3), _segmentation_loss
    ),
}


def training_graph(name: str, side: int, batch: int, device: str) -> tuple[Any, Any, Any, Any]:
    """tf_keras in a TensorFlow 1 graph: the graph, its loss, a step of training, and what initialises its variables.

    Images and labels are variables on the device.
    """
    import tf_keras

    tf1 = tf.compat.v1
    network = NETWORKS[name]
    of_classes = network.loss is _class_loss
    graph = tf1.Graph()
    with graph.as_default(), tf1.device(device):
        tf1.set_random_seed(1)
        tf_keras.backend.set_learning_phase(1)
        random_images = tf1.random_uniform((batch, *network.image_shape(side)), seed=2)
        images = tf1.get_variable("images", initializer=random_images, trainable=False)
        shape = (batch, *network.labels_shape(side))
        random_labels = tf1.random_uniform(shape, maxval=1000 if of_classes else 2, dtype=tf.int32, seed=3)
        if not of_classes:
            random_labels = tf.cast(random_labels, tf.float32)
        labels = tf1.get_variable("labels", initializer=random_labels, trainable=False)
        model = network.build(tf_keras, tf_keras.Input(tensor=tf.identity(images), batch_size=batch))
        loss = network.loss(labels, model.output)
        with tf1.name_scope("optimizer"):
            optimizer = tf1.train.MomentumOptimizer(0.01, 0.9) if of_classes else tf1.train.AdamOptimizer(1e-4)
            train = tf.group(optimizer.minimize(loss, var_list=model.trainable_weights), *model.updates)
        start = tf1.global_variables_initializer()
    return graph, loss, train, start
