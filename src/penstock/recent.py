"""What happened lately: the sum, the number and the maximum of values over a window of time, in constant space.

The window is divided into slices, as in Kafka's SampledStat, and a value is added to the slice of its moment. What is
reported covers the running slice and the full ones before it, so it looks back over between five sixths of the window
and all of it, however many values there are. Whoever records hands in the time.
"""

from __future__ import annotations

_SLICES = 6
_SHORTEST_SECONDS = 1.0


class Recent:
    __slots__ = ("_began", "_counts", "_highest", "_slice", "_slice_seconds", "_sums")

    def __init__(self, now: float, window_seconds: float = 30.0) -> None:
        self._began = now
        self._slice_seconds = window_seconds / _SLICES
        self._slice = int(now / self._slice_seconds)
        self._sums = [0.0] * _SLICES
        self._counts = [0] * _SLICES
        self._highest = [0.0] * _SLICES

    def add(self, value: float, now: float, times: int = 1) -> None:
        """Add a value, or several whose sum it is."""
        self._move_on(now)
        at = self._slice % _SLICES
        if not self._counts[at] or value > self._highest[at]:
            self._highest[at] = value
        self._sums[at] += value
        self._counts[at] += times

    def sum(self, now: float) -> float:
        self._move_on(now)
        return sum(self._sums)

    def count(self, now: float) -> int:
        self._move_on(now)
        return sum(self._counts)

    def maximum(self, now: float) -> float | None:
        """The largest value; None without one."""
        self._move_on(now)
        return max((high for high, count in zip(self._highest, self._counts, strict=True) if count), default=None)

    def average(self, now: float) -> float | None:
        count = self.count(now)
        return sum(self._sums) / count if count else None

    def rate(self, now: float) -> float:
        """The sum per second; what is younger than the window is measured by its own age."""
        self._move_on(now)
        since = max(self._began, (self._slice - _SLICES + 1) * self._slice_seconds)
        return sum(self._sums) / max(_SHORTEST_SECONDS, now - since)

    def _move_on(self, now: float) -> None:
        """Empty the slices that have left the window."""
        slice_ = int(now / self._slice_seconds)
        for passed in range(max(self._slice + 1, slice_ - _SLICES + 1), slice_ + 1):
            at = passed % _SLICES
            self._sums[at] = self._highest[at] = 0.0
            self._counts[at] = 0
        if slice_ > self._slice:
            self._slice = slice_
