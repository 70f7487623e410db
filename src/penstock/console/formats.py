"""Numbers, times and bytes as people read them. Pure functions; the templates' filters."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def count(value: int | float | None) -> str:
    """A number with separators; a dash where it is not known (None, or Kafka's -1)."""
    if value is None or value < 0:
        return "–"
    return f"{value:,.0f}" if float(value).is_integer() or value >= 100 else f"{value:,.1f}"


def size(value: int | None) -> str:
    if value is None or value < 0:
        return "–"
    amount = float(value)
    for unit in _UNITS[:-1]:
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} {_UNITS[-1]}"


def moment(milliseconds: int | None) -> str:
    """A timestamp of a record, in UTC."""
    if milliseconds is None or milliseconds < 0:
        return "–"
    try:
        at = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(milliseconds)
    return at.strftime("%Y-%m-%d %H:%M:%S.") + f"{milliseconds % 1000:03d}"


def span(seconds: float | None) -> str:
    """A length of time in its two largest units."""
    if seconds is None or seconds < 0:
        return "–"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for unit, length, below, small in (("d", 86_400, "h", 3_600), ("h", 3_600, "min", 60), ("min", 60, "s", 1)):
        if whole >= length:
            rest = whole % length // small
            return f"{whole // length} {unit} {rest} {below}" if rest else f"{whole // length} {unit}"
    return f"{whole} s"


def about(seconds: float) -> str:
    """A length of time in its largest unit alone."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{round(seconds / length):,} {unit}"
    return f"{max(1, round(seconds))} s"


def meaning(config: str, value: str) -> str:
    """What the value of a config of milliseconds or bytes stands for, where a person would have to count digits."""
    number = int(value) if value.lstrip("-").isdecimal() else 0
    if number >= (1 << 63) - 1:
        return "no limit"
    if config.endswith(".ms") and number >= 1_000:
        return span(number / 1000)
    return size(number) if config.endswith(".bytes") and number >= 1_024 else ""


def plural(number: int, word: str) -> str:
    return f"{count(number)} {word}" if number == 1 else f"{count(number)} {word}s"


def trend(lag: int | float | None, per_second: float | None) -> str:
    """Where a lag is going, in words."""
    if not lag or lag < 0:
        return "–" if lag is None or lag < 0 else "caught up"
    if per_second is None:
        return "…"
    if abs(per_second) < 0.05:
        return "does not move"
    if per_second > 0:
        return f"grows by {count(round(per_second, 1))}/s"
    return f"caught up in {about(lag / -per_second)}"


FILTERS: dict[str, Callable[..., str]] = {
    "count": count,
    "size": size,
    "moment": moment,
    "span": span,
    "plural": plural,
    "trend": trend,
}
