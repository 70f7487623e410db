"""Regular expressions of searches: whatever the pattern, a search of it ends."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("re2")

from penstock.console import patterns
from penstock.console.patterns import Clock, MalformedPattern, Pattern, TooSlow

SLOW = "(a?){1000}b"  # four microseconds and more for each byte


def test_a_pattern_is_found_and_not_found() -> None:
    found = Pattern(r"(?i)time.?out", Clock())
    assert found.is_in(b"a TIME-OUT")
    assert not found.is_in(b"nothing of it")
    assert found.may_be_in(b"a timeout")
    assert not found.may_be_in(b"nothing of it")


@pytest.mark.parametrize(
    ("text", "hit", "is_known"),
    [
        ("^k-[0-9]+$", b"k-47", True),
        ("(?i)^K$", b"k", True),
        ("a|b", b"b", True),
        ("^a|b$", b"xb", True),
        (r"a\$", b"a$", False),
        (r"\bword", b"word", False),
        ("x[^y]", b"xz", False),
        ("(?m)a$\nb", b"a\nb", False),
        ("^*", b"", False),
    ],
)
def test_without_anchors_a_pattern_is_in_whatever_holds_a_match(text: str, hit: bytes, is_known: bool) -> None:
    found = Pattern(text, Clock())
    inner = found.without_anchors()
    assert found.is_in(hit)
    assert (inner is not None) is is_known
    assert inner is None or inner.may_be_in(b"before" + hit + b"after")


@pytest.mark.parametrize("text", ["(", "(?=a)", r"(\pL{0,40}){0,9}"])
def test_what_is_no_pattern_or_too_large_is_refused(text: str) -> None:
    with pytest.raises(MalformedPattern):
        Pattern(text, Clock())


def test_many_slow_searches_of_a_batch_are_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "_LIMIT_SECONDS", 0.05)
    clock = Clock()
    found = Pattern(SLOW, clock)
    clock.begin()

    def of_many() -> None:
        for _ in range(1_000):
            found.is_in(b"a" * 1_000)

    with pytest.raises(TooSlow, match="takes too long"):
        of_many()
    clock.begin()
    assert not found.is_in(b"a")


def test_a_value_that_would_take_minutes_is_not_begun() -> None:
    clock = Clock()
    found = Pattern(SLOW, clock)
    clock.begin()
    with pytest.raises(TooSlow):
        found.is_in(b"a" * (32 << 20))
    assert found.may_be_in(b"a" * (32 << 20)), "its records are looked at one by one"


def test_a_simple_pattern_may_be_looked_for_in_much() -> None:
    clock = Clock()
    found = Pattern(r"needle-\w+-haystack", clock)
    clock.begin()
    assert found.is_in(b"x" * (16 << 20) + b"needle-in-haystack")
    assert not clock.is_dear(1 << 20)
    assert clock.is_dear(16 << 20)


def test_others_go_on_while_a_thread_searches() -> None:
    async def main() -> int:
        clock = Clock()
        found = Pattern(SLOW, clock)
        clock.begin()
        search = asyncio.ensure_future(asyncio.to_thread(found.is_in, b"a" * 20_000))
        turns = 0
        while not search.done():
            await asyncio.sleep(0.001)
            turns += 1
        return turns

    assert asyncio.run(main()) > 1
