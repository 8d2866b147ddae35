"""Which training functions TensorFlow has traced, and so may have optimised, in this process."""

from __future__ import annotations

import re

from tensorflow.python.eager import context

_GRADIENTS = re.compile(r"(^|/)(gradients|gradient_tape)(_\d+)?/")
_TRACED = re.compile(r"^__(?:inference|forward|backward)_(?P<name>.+)_\d+$")


def traced_training_functions() -> list[str]:
    """The names of functions with a backward phase, as the user gave them, sorted.

    TensorFlow optimises a function at its first call, and drops it with its last reference: what is
    listed may be called, and probably was.
    """
    in_process = context.context_safe()
    # Asking would start TensorFlow, and then its devices can be configured no more.
    if in_process is None or not getattr(in_process, "_initialized", True):
        return []
    found = set()
    for name in in_process.list_function_names():
        match = _TRACED.match(name)
        if match is None:
            continue
        try:
            definition = in_process.get_function_def(name)
        except Exception:  # it has just been dropped
            continue
        if any(_GRADIENTS.search(node.name) for node in definition.node_def):
            found.add(match["name"])
    return sorted(found)
