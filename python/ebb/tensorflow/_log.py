"""What Ebb says by itself: records of the logger ``ebb``.

People must see whether swapping is on, so these are shown on standard error unless the program
has set up logging of its own, which then decides. ``logging.getLogger("ebb").setLevel("WARNING")``
silences them.
"""

from __future__ import annotations

import logging
import sys

logger = logging.getLogger("ebb")


class _OnStandardError(logging.Handler):
    """Shows a record where nobody else would."""

    def emit(self, record: logging.LogRecord) -> None:
        others = [each for each in logger.handlers if each is not self]
        if logger.propagate:
            others += logging.getLogger().handlers
        if not others:
            sys.stderr.write(f"ebb: {record.getMessage()}\n")


if logger.level == logging.NOTSET:
    logger.setLevel(logging.INFO)
if not any(isinstance(each, _OnStandardError) for each in logger.handlers):
    logger.addHandler(_OnStandardError())
