"""Nobody takes more than an equal part while others wait."""

from __future__ import annotations

from penstock.queues.waiting import WaitingFetches


def test_what_is_there_is_divided_among_those_who_wait() -> None:
    waiting: WaitingFetches[str] = WaitingFetches()
    for name in "abcd":
        waiting.join(name)
    acquirable, parts = 100, []
    while (fetch := waiting.first()) is not None:
        part = waiting.fair_part(fetch, 500, acquirable)
        acquirable -= part
        parts.append(part)
        waiting.leave(fetch)
    assert parts == [25, 25, 25, 25]


def test_one_who_comes_alone_gets_all_it_asks_for() -> None:
    waiting: WaitingFetches[str] = WaitingFetches()
    assert waiting.fair_part("a", 500, 2_000) == 500
    assert waiting.fair_part("a", 500, 3) == 3


def test_one_who_comes_shares_with_those_who_wait() -> None:
    waiting: WaitingFetches[str] = WaitingFetches()
    waiting.join("a")
    assert waiting.fair_part("b", 500, 10) == 5
    waiting.leave("a")
    waiting.leave("never came")
    assert len(waiting) == 0


def test_an_uneven_part_is_rounded_up() -> None:
    waiting: WaitingFetches[str] = WaitingFetches()
    waiting.join("a")
    assert waiting.fair_part("b", 500, 11) == 6
    assert waiting.all() == ["a"]
