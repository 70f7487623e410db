"""What a storm records can be judged: a fault in it is found, and what merely overlaps is not taken for one."""

from __future__ import annotations

from tests.cluster.storm.history import History, now_ms

PLACE = ("jobs", 0)


def test_a_record_that_is_requested_after_its_acceptance_was_confirmed_is_found() -> None:
    history = History()
    history.deliver("g", "a", PLACE, 0, 1, now_ms() - 10)
    history.acknowledge("g", "a", PLACE, 0, 1, "ok")
    history.deliver("g", "b", PLACE, 0, 2, now_ms() + 1)
    assert [finding.check for finding in history.judge()] == ["Q4"]


def test_a_delivery_that_was_under_way_when_the_record_was_accepted_is_counted_only() -> None:
    history = History()
    history.deliver("g", "a", PLACE, 0, 1, now_ms() - 10)
    history.acknowledge("g", "a", PLACE, 0, 1, "ok")
    history.deliver("g", "b", PLACE, 0, 2, now_ms() - 5)
    assert history.judge() == []
    assert sum(history.overlaps.values()) == 1


def test_a_committed_offset_that_goes_back_is_found() -> None:
    history = History()
    history.committed("g", PLACE, 7, now_ms() - 10)
    history.committed("g", PLACE, 5, now_ms() + 1, is_read=True)
    assert [finding.check for finding in history.judge()] == ["M3"]


def test_commits_whose_answers_overtake_each_other_are_counted_only() -> None:
    history = History()
    history.committed("g", PLACE, 7, now_ms() - 10)
    history.committed("g", PLACE, 5, now_ms() - 9)
    assert history.judge() == []
    assert sum(history.overlaps.values()) == 1


def test_a_delivery_count_that_comes_again_after_a_take_over_is_counted_only() -> None:
    history = History()
    for member in ("a", "b"):
        history.deliver("g", member, PLACE, 0, 1, now_ms())
    assert history.judge() == []
    assert sum(history.overlaps.values()) == 1
    history.deliver("g", "c", PLACE, 0, 3, now_ms())
    assert [finding.check for finding in history.judge()] == ["Q3"]
