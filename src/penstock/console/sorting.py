"""The order of a table: a column that its reader has chosen, or the one that the page begins with.

`sort=lag` puts numbers with the largest first and words in the order of the alphabet; `sort=-lag` is the reverse. What
is not known comes last, either way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

Row = TypeVar("Row", bound=Mapping[str, Any])


def ordered(rows: Sequence[Row], requested: str, columns: Sequence[str], default: str) -> tuple[list[Row], str]:
    """The rows in order, and the order that it is; `wanted` comes from an address and may be anything."""
    order = requested if requested.removeprefix("-") in columns else default
    column, is_reverse = order.removeprefix("-"), order.startswith("-")
    known = [row for row in rows if not _is_unknown(row[column])]
    known.sort(key=lambda row: _key(row[column]), reverse=is_reverse)
    return known + [row for row in rows if _is_unknown(row[column])], order


def reverse_of(order: str, column: str) -> str:
    """What a click on a column's head asks for."""
    return f"-{column}" if order == column else column


def _is_unknown(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and value < 0)


def _key(value: object) -> Any:
    return -value if isinstance(value, int | float) else value
