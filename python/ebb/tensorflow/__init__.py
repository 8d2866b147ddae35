"""Ebb for TensorFlow: large models in ``tf.function`` and Keras, by rewriting the training graph.

>>> import ebb.tensorflow
>>> ebb.tensorflow.enable(n_tensors=20)
>>> # model.fit(...) as always
>>> print(ebb.tensorflow.last_report())  # doctest: +ELLIPSIS
Ebb is on...
>>> ebb.tensorflow.disable()

The same by environment alone: ``EBB_ENABLE=1``, or any parameter, as ``EBB_N_TENSORS=20``.
"""

from ._plugin import disable, enable, obey_environment
from ._report import GraphReport, Report, last_report

__all__ = ["GraphReport", "Report", "disable", "enable", "last_report"]

obey_environment()
