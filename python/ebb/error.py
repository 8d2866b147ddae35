"""The one exception of Ebb."""

from __future__ import annotations

from typing import Literal

Kind = Literal["usage", "bad_input", "infeasible", "refused", "internal"]


class Error(Exception):
    """What Ebb says no to, and why.

    >>> import ebb
    >>> try:
    ...     ebb.parse("graph g {")
    ... except ebb.Error as error:
    ...     print(error.kind, error.code, error.line)
    bad_input P05 1
    """

    kind: Kind
    """What can be done about it: ``usage``, the call was wrong; ``bad_input``, a text or node was;
    ``infeasible``, the request is clear and impossible; ``refused``, a check said no; ``internal``,
    a bug in Ebb."""

    message: str
    """One line: what is wrong, who is involved, what to do."""

    code: str | None
    """The entry in docs/errors.md, as ``P12``."""

    line: int | None
    column: int | None
    """Where in the text, counted from 1."""

    dump: str | None
    """What Ebb was working on when it met a bug of its own, for the report of it."""

    def __init__(
        self,
        message: str,
        kind: Kind = "usage",
        code: str | None = None,
        line: int | None = None,
        column: int | None = None,
        dump: str | None = None,
    ) -> None:
        super().__init__(message, kind, code, line, column, dump)
        self.kind = kind
        self.message = message
        self.code = code
        self.line = line
        self.column = column
        self.dump = dump

    def __str__(self) -> str:
        place = ":".join(str(part) for part in ("<text>", self.line, self.column) if part)
        parts = [place if self.line else None, self.code, self.message]
        return ": ".join(part for part in parts if part)
