"""`auto_offset_reset`: where to start in a partition that has no committed offset."""

from __future__ import annotations

import re
import time

from penstock.client.errors import UsageError
from penstock.client.types import OffsetSpec

_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE)


def reset_timestamp(policy: str) -> int | None:
    """The timestamp (or OffsetSpec) to look the position up by; None when the policy is "none"."""
    word = policy.strip().lower()
    if word == "earliest":
        return int(OffsetSpec.EARLIEST)
    if word == "latest":
        return int(OffsetSpec.LATEST)
    if word == "none":
        return None
    if word.startswith("by_duration:"):
        return int(time.time() * 1000) - _milliseconds(policy.strip()[len("by_duration:") :])
    raise UsageError(
        f"auto_offset_reset is {policy!r}; it must be earliest, latest, none, or by_duration: and an ISO 8601 duration "
        "such as by_duration:P1DT2H"
    )


def _milliseconds(duration: str) -> int:
    match = _DURATION.fullmatch(duration)
    if match is None or not any(match.groups()):
        raise UsageError(f"{duration!r} is not an ISO 8601 duration such as P1D, PT2H30M or PT45S")
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)
