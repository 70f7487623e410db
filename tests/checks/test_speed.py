"""A long history is judged in one pass: the work grows with its length, not with its square."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from penstock.checks import Operation, check
from tests.checks.histories import acknowledge, deliver, poll, send


def long_history(length: int) -> Iterator[Operation]:
    line = 0
    for offset in range(length):
        for operation in (send(offset, offset), poll((offset, offset)), deliver(offset), acknowledge(offset)):
            line += 1
            yield {**operation, "line": line}


def calls_to_judge(history: list[Operation]) -> int:
    """How many calls of functions, Python's own among them, it takes."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        found = check(history)
    finally:
        sys.setprofile(None)
    assert found == []
    return calls


def test_twice_the_length_takes_twice_the_work() -> None:
    once, twice = (calls_to_judge(list(long_history(length))) for length in (2_000, 4_000))
    assert twice < 2.1 * once


def test_a_hundred_thousand_operations() -> None:
    assert check(long_history(25_000)) == []
