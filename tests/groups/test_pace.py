"""How often members heartbeat."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.groups.pace import settled_interval_ms, settling_interval_ms


def test_a_small_group_settles_at_ten_heartbeats_a_second() -> None:
    assert settling_interval_ms(5_000, 1) == settling_interval_ms(5_000, 20) == 100


@given(st.integers(1, 100_000))
def test_one_settling_group_sends_at_most_two_hundred_heartbeats_a_second(members: int) -> None:
    interval_ms = settling_interval_ms(5_000, members)
    assert interval_ms == 5_000 or members * 1_000 / interval_ms <= 200


@given(st.integers(1, 15_000), st.integers(1, 100), st.integers(0, 200_000), st.integers(0, 10_000))
def test_the_interval_grows_with_the_time_of_rest_up_to_the_configured_one(
    configured_ms: int, members: int, stable_ms: int, more_ms: int
) -> None:
    now, later = (settled_interval_ms(configured_ms, members, ms) for ms in (stable_ms, stable_ms + more_ms))
    assert now <= later <= configured_ms
    assert settled_interval_ms(configured_ms, members, 10 * configured_ms) == configured_ms


def test_a_change_soon_after_another_is_noticed_within_a_second() -> None:
    assert all(settled_interval_ms(5_000, 20, stable_ms) < 1_000 for stable_ms in range(0, 10_000, 100))
