"""Durations are counted in buckets whose bounds hold."""

from __future__ import annotations

from bisect import bisect_left

from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.histogram import BOUNDS_MS, Histogram


@given(st.floats(min_value=0, max_value=1000))
def test_a_duration_is_in_the_bucket_of_its_bound(seconds: float) -> None:
    histogram = Histogram()
    histogram.add(seconds)
    bucket = histogram.counts.index(1)
    microseconds = int(seconds * 1e6)
    assert bucket == len(BOUNDS_MS) or microseconds <= BOUNDS_MS[bucket] * 1000
    assert bucket == 0 or microseconds >= BOUNDS_MS[bucket - 1] * 1000
    assert abs(bucket - bisect_left(BOUNDS_MS, seconds * 1000)) <= 1


def test_counts_and_sums_add_up() -> None:
    histogram = Histogram()
    for seconds in (0.001, 0.25, 0.0, -0.5, 1e9):
        histogram.add(seconds)
    assert histogram.count == 5
    assert histogram.counts[0] == 2
    assert histogram.counts[-1] == 1
