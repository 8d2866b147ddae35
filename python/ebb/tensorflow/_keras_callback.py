"""LMS for Keras models that train in graph mode."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ..error import Error
from ._lms import LMS

try:
    from tf_keras.callbacks import Callback
except ImportError:  # the models that it is for are not there either; others are told so
    from keras.callbacks import Callback


class LMSKerasCallback(Callback):
    """Rewrites the training graph when ``fit`` begins.

    ::

        tf.compat.v1.disable_eager_execution()
        ...
        model.fit(x, y, callbacks=[LMSKerasCallback(n_tensors=10)])

    Takes what ``LMS`` takes, and finds the optimizer's scope by itself. ``callback.lms.report`` says
    what was done. Where ``fit`` runs the session earlier, as it does for a validation dataset,
    call ``callback.set_model(model)`` before it.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self.lms = LMS(*args, **kwargs)

    def set_model(self, model: Any) -> None:
        super().set_model(model)
        if tf.compat.v1.executing_eagerly_outside_functions() or not hasattr(
            model, "_make_train_function"
        ):
            raise Error(
                "LMSKerasCallback is for tf_keras in graph mode, and this model trains in a "
                "tf.function; call ebb.tensorflow.enable() before fit instead of the callback",
                kind="refused",
            )
        # Without it there is no backward phase yet. Keras makes it once.
        model._make_train_function()
        try:
            self.lms.run(_graph_of(model))
        except Error as refused:
            if "a session has already run this graph" not in str(refused):
                raise
            raise Error(
                "Keras has run its session before it calls callbacks, as it does for a validation "
                "dataset, and then these changes come too late; call callback.set_model(model) "
                "before fit, right after compile",
                kind="refused",
            ) from refused


def _graph_of(model: Any) -> tf.Graph:
    return model.total_loss.graph
