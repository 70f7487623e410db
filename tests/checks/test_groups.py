"""Each check of groups fires on a history that was planted for it, and not on its healthy twin."""

from __future__ import annotations

from tests.checks.histories import committed, disown, found_in, lost, own, rest, static


def test_m1_two_owners_at_a_time() -> None:
    assert found_in(own("m1"), own("m2")) == ["M1"]
    assert found_in(own("m1"), disown("m1"), own("m2")) == []


def test_m2_a_partition_without_an_owner_at_rest() -> None:
    assert found_in(own("m1"), rest(0, 1)) == ["M2"]
    assert found_in(own("m1"), own("m2", 1), rest(0, 1)) == []


def test_m3_a_committed_offset_that_goes_back() -> None:
    assert found_in(committed(5), committed(4)) == ["M3"]
    assert found_in(committed(5), committed(4, reset=True), committed(5)) == []
    assert found_in(committed(5), committed(4, result="failed"), committed(6)) == []


def test_m3_after_a_power_cut_a_reader_goes_back_once_to_where_the_log_ends() -> None:
    cut = lost(4)
    assert found_in(committed(5), cut, committed(4)) == []
    assert found_in(committed(4), cut, committed(5), committed(4), committed(6)) == []
    assert found_in(committed(4), cut, committed(5), committed(3)) == ["M3"]
    assert found_in(committed(4), cut, committed(5), committed(4), committed(5), committed(4)) == ["M3"]


def test_m4_a_static_member_that_returns_in_time_moves_nothing() -> None:
    away, back = static("static-away", "m1"), static("static-back", "m1")
    assert found_in(own("m1"), own("m2", 1), away, disown("m2", 1), own("m3", 1), back) == ["M4"]
    assert found_in(own("m1"), own("m2", 1), away, back) == []
