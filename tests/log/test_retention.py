"""Which segments have outlived their retention."""

from __future__ import annotations

from penstock.log.retention import below_log_start, expired_by_size, expired_by_time


def test_time_stops_at_the_first_segment_that_stays() -> None:
    ages = [lambda: 10, lambda: 90, lambda: 20, lambda: 100]
    assert expired_by_time(ages, 111, 100) == 1
    assert expired_by_time(ages, 110, 100) == 0
    assert expired_by_time(ages, 500, 100) == 4
    assert expired_by_time(ages, 10**15, -1) == 0


def test_size_keeps_at_least_what_it_says() -> None:
    assert expired_by_size([10, 10, 10], 20) == 1
    assert expired_by_size([10, 10, 10], 21) == 0
    assert expired_by_size([10, 10, 10], 0) == 3
    assert expired_by_size([10, 10, 10], -1) == 0
    assert expired_by_size([10, 0, 5], 15) == 0


def test_segments_below_the_log_start_go_but_never_the_last() -> None:
    assert below_log_start([0, 5, 9], 4) == 0
    assert below_log_start([0, 5, 9], 5) == 1
    assert below_log_start([0, 5, 9], 100) == 2
    assert below_log_start([0], 100) == 0
