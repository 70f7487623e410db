"""A long history is judged in one pass: the work grows with its length, not with its square."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.checks import Operation, check
from tests.checks.histories import acknowledge, deliver, poll, send


def long_history(length: int) -> Iterator[Operation]:
    line = 0
    for offset in range(length):
        for operation in (send(offset, offset), poll((offset, offset)), deliver(offset), acknowledge(offset)):
            line += 1
            yield {**operation, "line": line}


def test_a_hundred_thousand_operations() -> None:
    assert check(long_history(25_000)) == []
