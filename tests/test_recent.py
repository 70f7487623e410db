"""Sums, numbers, maxima and rates of what happened lately."""

from __future__ import annotations

import random
from collections import deque

import pytest

from penstock.recent import Recent


def test_a_rate_does_not_depend_on_how_many_values_it_was_recorded_as() -> None:
    one_by_one, in_lumps = Recent(100.0), Recent(100.0)
    for step in range(60_000):
        one_by_one.add(1, 100 + step / 2000)
    for second in range(30):
        in_lumps.add(2000, 100 + second + 0.5)
    assert one_by_one.rate(130) == pytest.approx(2000, rel=0.01)
    assert in_lumps.rate(130) == pytest.approx(2000, rel=0.05)


def test_what_is_younger_than_the_window_is_measured_by_its_own_age() -> None:
    recent = Recent(1003.0)
    recent.add(50, 1004.0)
    assert recent.rate(1005.0) == 25
    assert recent.rate(1003.1) == 50, "a tenth of a second says nothing yet"


def test_what_left_the_window_counts_no_more() -> None:
    recent = Recent(0.0, window_seconds=60)
    recent.add(7, 1.0)
    recent.add(9, 31.0)
    assert (recent.sum(59.0), recent.maximum(59.0)) == (16, 9)
    assert (recent.sum(69.0), recent.count(69.0), recent.maximum(69.0)) == (9, 1, 9)
    assert (recent.sum(1000.0), recent.count(1000.0), recent.maximum(1000.0)) == (0, 0, None)
    assert (recent.rate(1000.0), recent.average(1000.0)) == (0, None)


def test_a_maximum_of_negative_values_is_negative() -> None:
    recent = Recent(0.0)
    recent.add(-3, 1.0)
    assert recent.maximum(2.0) == -3


def test_it_agrees_with_keeping_every_value() -> None:
    chance = random.Random(30)
    now = 12345.0
    recent, kept = Recent(now), deque[tuple[float, float]]()
    for _ in range(3000):
        now += chance.choice((0.0, 0.01, 0.3, 4.0))
        value = chance.uniform(0, 10)
        recent.add(value, now)
        kept.append((now, value))
        since = (int(now / 5) - 5) * 5
        lately = [each for at, each in kept if at >= since]
        assert recent.sum(now) == pytest.approx(sum(lately))
        assert recent.count(now) == len(lately)
        assert recent.maximum(now) == max(lately)
        assert recent.average(now) == pytest.approx(sum(lately) / len(lately))
