"""A histogram of durations that is cheap enough to be filled with every request."""

from __future__ import annotations

_BUCKETS = 27

BOUNDS_MS: tuple[float, ...] = tuple(2**power / 1000 for power in range(_BUCKETS))
"""Each bucket is twice as wide as the one below it: from 0.001 ms to 67 s."""


class Histogram:
    """Counts durations by the power of two of their microseconds: finding the bucket is one shift, not a search."""

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        self.counts = [0] * (_BUCKETS + 1)  # the last one holds what is longer than every bound
        self.seconds = 0.0

    def add(self, seconds: float, times: int = 1) -> None:
        """Count a duration, which may stand for several like it."""
        bucket = int(seconds * 1e6).bit_length() if seconds > 0 else 0
        self.counts[bucket if bucket < _BUCKETS else _BUCKETS] += times
        self.seconds += seconds * times

    @property
    def count(self) -> int:
        return sum(self.counts)

    @property
    def milliseconds(self) -> float:
        return self.seconds * 1000
