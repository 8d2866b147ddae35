"""Which operations of a graph a session has already taken over.

A session takes a graph's operations over when it runs: later changes to those have no effect in it
and make its next run fail. TensorFlow does not tell who was taken over, neither the graph nor the
session. But a session that is asked to make a callable for targets that it does not have answers
with their names, and changes nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence

import tensorflow as tf
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.client import pywrap_tf_session as c_api
from tensorflow.python.client import session as sessions

# Not a name that an operation can have.
_NOBODY = "-nobody-"


def open_sessions(graph: tf.Graph) -> Iterator[sessions.BaseSession]:
    """The sessions that may still run ``graph``."""
    # Nobody keeps a list of them. By type, not isinstance: other people's objects may answer that
    # with code of theirs.
    for each in gc.get_objects():
        if not issubclass(type(each), sessions.BaseSession):
            continue
        # A session whose making failed lacks some of these.
        members = vars(each)
        if (
            members.get("_graph") is graph
            and members.get("_session") is not None
            and not members.get("_closed")
        ):
            yield each


def taken_over(session: sessions.BaseSession, names: Sequence[str]) -> list[str]:
    """Those of the operations ``names`` that ``session`` will not look at again."""
    options = config_pb2.CallableOptions(target=[_NOBODY, *names])
    buffer = c_api.TF_NewBufferFromString(options.SerializeToString())
    try:
        handle = c_api.TF_SessionMakeCallable(session._session, buffer)
    except tf.errors.OpError as error:
        message = error.message
    else:
        c_api.TF_SessionReleaseCallable(session._session, handle)
        message = ""
    finally:
        c_api.TF_DeleteBuffer(buffer)
    if "was not created with a graph" in message or "session is not created yet" in message:
        return []  # it has never run
    words = set(message.split())
    if _NOBODY not in words:
        return list(names)  # an answer that we do not understand: be careful
    return [name for name in names if name not in words]
