"""What a storm records can be judged: a fault in it is found, and what merely overlaps is not taken for one."""

from __future__ import annotations

from tests.cluster.storm.history import History, now_ms
from tests.cluster.storm.leadership import Led, Loaded

PLACE = ("jobs", 0)
LED, LOADED = [Led(PLACE, 1, 0, 0)], [Loaded(PLACE, 1, 0)]


def test_a_record_that_is_delivered_twice_without_a_take_over_is_found() -> None:
    history = History()
    for member in ("a", "b"):
        history.deliver("g", member, PLACE, 0, 1, node=1, sent_ms=now_ms())
    assert {finding.check for finding in history.judge(LED, LOADED, 6_000)} == {"Q1", "Q3"}


def test_a_record_that_comes_again_after_its_acceptance_was_confirmed_is_found() -> None:
    history = History()
    history.deliver("g", "a", PLACE, 0, 1, node=1, sent_ms=now_ms() - 10)
    history.acknowledge("g", "a", PLACE, 0, 1, "ok", node=1, sent_ms=now_ms() - 5)
    history.deliver("g", "b", PLACE, 0, 2, node=1, sent_ms=now_ms())
    assert [finding.check for finding in history.judge(LED, LOADED, 6_000)] == ["Q4"]


def test_a_session_that_is_over_frees_what_its_member_held() -> None:
    history = History()
    history.deliver("g", "a", PLACE, 0, 1, node=1, sent_ms=now_ms())
    history.session_over("a", 1, now_ms())
    history.deliver("g", "b", PLACE, 0, 2, node=1, sent_ms=now_ms())
    assert history.judge(LED, LOADED, 6_000) == []


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
