"""Ebb for TensorFlow: models larger than the accelerator's memory, by rewriting the training graph.

``tf.function`` and Keras: nothing else to change.

>>> import ebb.tensorflow
>>> ebb.tensorflow.enable(n_tensors=20)
>>> # model.fit(...) as always
>>> print(ebb.tensorflow.last_report())  # doctest: +ELLIPSIS
Ebb is on...
>>> ebb.tensorflow.disable()

The same by environment alone: ``EBB_ENABLE=1``, or any parameter, as ``EBB_N_TENSORS=20``.

Graphs of ``tf.compat.v1`` are rewritten in place, before a session runs them::

    from ebb.tensorflow import LMS

    LMS({"adam_optimizer"}).run(graph=tf.compat.v1.get_default_graph())

``LMSSessionRunHook`` does so in a monitored session, ``LMSKerasCallback`` in the ``fit`` of a tf_keras
model in graph mode.
"""

from __future__ import annotations

from typing import Any

from ._hook import LMSSessionRunHook
from ._lms import LMS
from ._measure import measure
from ._plugin import disable, enable, obey_environment
from ._report import GraphReport, Report, last_report

__all__ = [
    "LMS",
    "GraphReport",
    "LMSKerasCallback",
    "LMSSessionRunHook",
    "Report",
    "disable",
    "enable",
    "last_report",
    "measure",
]


def __getattr__(name: str) -> Any:
    # Keras takes seconds to import, and only its callback needs it.
    if name == "LMSKerasCallback":
        from ._keras_callback import LMSKerasCallback

        return LMSKerasCallback
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


obey_environment()
