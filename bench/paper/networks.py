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
