"""LMS for monitored sessions."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ._lms import LMS


class LMSSessionRunHook(tf.compat.v1.train.SessionRunHook):
    """Rewrites the default graph before a monitored session finalizes it.

    ::

        hook = LMSSessionRunHook({"adam_optimizer"}, n_tensors=10)
        with tf.compat.v1.train.MonitoredTrainingSession(hooks=[hook]) as session:
            ...

    Takes what ``LMS`` takes; ``hook.lms.report`` says what was done.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.lms = LMS(*args, **kwargs)

    def begin(self) -> None:
        self.lms.run()
