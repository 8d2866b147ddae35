"""Budgets as the runtime reads them."""

from __future__ import annotations

import operator
from typing import Any

from ebb import Error


def as_budget(budget: Any) -> str:
    """What the step may use on its device; an Error for what cannot be a budget at all."""
    text = _text(budget)
    if text is None:
        raise Error(f"a budget is written '16GiB', '60%' or 'auto', and this is {budget!r}")
    return text


def as_host_budget(budget: Any) -> str:
    """What may be on the host at a time: bytes alone, as there is nothing that per cent could be of."""
    text = _text(budget)
    if not text or text.endswith("%") or text == "auto":
        raise Error(f"a host budget is written '64GiB', and this is {budget!r}")
    return text


def _text(budget: Any) -> str | None:
    if isinstance(budget, str):
        return budget.strip()
    try:
        number = operator.index(budget)
    except TypeError:
        return None
    return None if isinstance(budget, bool) or number < 0 else f"{number}B"
