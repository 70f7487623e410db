"""Moments as people write them: a time, in UTC unless it says otherwise, or how long ago it was."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

_AGO = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)\s*([smhd])(?:\s+ago)?")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


class MalformedMoment(ValueError):
    """A text is not a moment; it says what one looks like."""


def milliseconds(text: str, now: float | None = None) -> int:
    """A moment as a record's timestamp; `now` in seconds since 1970."""
    ago = _AGO.fullmatch(text.strip())
    if ago is not None:
        return int(((time.time() if now is None else now) - float(ago[1]) * _SECONDS[ago[2]]) * 1000)
    try:
        at = datetime.fromisoformat(text.strip())
        return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise MalformedMoment(
            f"{text[:40]!r} is not a time; it must look like 2026-08-01T12:00:00, or like 15m, 2h or 1d for so long ago"
        ) from None
