"""`python -m tests.checks.planted`: for each check a small history in which its anomaly is planted, and a healthy twin.

The page about the checks shows the planted ones; running this writes them into it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from penstock.checks import Operation
from tests.checks.histories import (
    DRAINED,
    SETTLED,
    acknowledge,
    archive,
    committed,
    deliver,
    disown,
    ended,
    own,
    poll,
    rest,
    send,
    settings,
    static,
    unreadable,
    window,
)

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "checks.md"
_BEGIN, _END = "<!-- planted -->\n", "\n<!-- /planted -->"


class Planted(NamedTuple):
    check: str
    history: tuple[Operation, ...]
    twin: tuple[Operation, ...]
    """A healthy one."""


def _of_log(op: str, **fields: object) -> Operation:
    return {"op": op, "topic": "t", "partition": 0, **fields}


def _of_queue(op: str, offset: int, **fields: object) -> Operation:
    return {"op": op, "group": "g", "topic": "t", "partition": 0, "offset": offset, **fields}


def _scan(*records: tuple[int, str]) -> Operation:
    return _of_log("scan", process="s", start=0, end=2, records=[list(each) for each in records])


_ABC = (send("a", 0), send("b", 1), send("c", 2), poll((0, "a"), (1, "b"), (2, "c"), process="other"))
_IN_X = {"how": "subscribe", "txn": "x"}
_COMPACTED: Operation = {"op": "topic-settings", "topic": "t", "compacted": True}
_OF_K = (_COMPACTED, send("k1", 0, key="k"), send("k2", 1, key="k"))
_EACH_OTHERS = (
    send("a", 0, process="p", txn="x"),
    send("b", 0, process="q", txn="y", partition=1),
    poll((0, "a"), process="q", txn="y", isolation="read_uncommitted"),
)
_READ_BACK: Operation = {**poll(process="p", txn="x"), "records": [["t", 1, 0, "b"]]}
_BOTH = (ended("x"), ended("y"))
_DELETED = _of_log("removed", below=1, time=50)
_REST: Operation = {"op": "settled", "group": "g", "time": 1000, "records": [["t", 0, 0]]}
_AWAY, _BACK = static("static-away", "m1"), static("static-back", "m1")
_TWO = (own("m1"), own("m2", 1), _AWAY)

PLANTED = [
    Planted("duplicate", (send("a", 0), poll((0, "a"), (1, "a"))), (send("a", 0), poll((0, "a")))),
    Planted(
        "inconsistent-offsets",
        (poll((0, "a")), poll((0, "b"), process="d")),
        (poll((0, "a")), poll((0, "a"), process="d")),
    ),
    Planted(
        "lost-write",
        (send("a", 0), send("b", 1), poll((1, "b"))),
        (send("a", result="unknown"), send("b", 1), poll((1, "b"))),
    ),
    Planted("unseen", (send("a", 0), DRAINED), (send("a", 0), poll((0, "a")), DRAINED)),
    Planted(
        "G1a",
        (send("a", 0, txn="x"), ended("x", "aborted"), poll((0, "a"))),
        (send("a", 0, txn="x"), ended("x"), poll((0, "a"))),
    ),
    Planted(
        "precommitted-read",
        (send("a", 0, txn="x"), poll((0, "a"), txn="x"), ended("x")),
        (send("a", 0, txn="x"), ended("x"), poll((0, "a"), txn="y"), ended("y")),
    ),
    Planted("poll-skip", (*_ABC, poll((0, "a")), poll((2, "c"))), (*_ABC, poll((0, "a")), poll((1, "b"), (2, "c")))),
    Planted("nonmonotonic-poll", (*_ABC, poll((1, "b")), poll((0, "a"))), (*_ABC, poll((0, "a")), poll((1, "b")))),
    Planted(
        "int-poll-skip",
        (*_ABC, poll((0, "a"), **_IN_X), poll((2, "c"), **_IN_X)),
        (*_ABC, poll((0, "a"), **_IN_X), poll((1, "b"), **_IN_X)),
    ),
    Planted(
        "int-nonmonotonic-poll",
        (*_ABC, poll((1, "b"), **_IN_X), poll((0, "a"), **_IN_X)),
        (*_ABC, poll((0, "a"), **_IN_X), poll((1, "b"), **_IN_X)),
    ),
    Planted("nonmonotonic-send", (send("a", 1), send("b", 0)), (send("a", 0), send("b", 1))),
    Planted(
        "int-nonmonotonic-send",
        (send("a", 1, process="p", txn="x"), send("b", 0, process="q", txn="x")),
        (send("a", 1, process="p", txn="x"), send("b", 0, process="q", txn="y")),
    ),
    Planted("G1c", (*_EACH_OTHERS, _READ_BACK, *_BOTH), (*_EACH_OTHERS, *_BOTH)),
    Planted(
        "Q1",
        (deliver(0, until=100), deliver(0, "m2", 2, time=50)),
        (deliver(0, until=100), deliver(0, "m2", 2, time=100)),
    ),
    Planted(
        "Q2",
        (deliver(0), acknowledge(0), acknowledge(0, "reject")),
        (deliver(0), acknowledge(0, "release"), deliver(0, count=2), acknowledge(0, "reject")),
    ),
    Planted(
        "Q3",
        (deliver(0), acknowledge(0, "release"), deliver(0, count=3)),
        (deliver(0), acknowledge(0, "release"), deliver(0, count=2)),
    ),
    Planted(
        "Q4",
        (deliver(0), acknowledge(0), deliver(0, count=2, time=30)),
        (deliver(0), acknowledge(0, "release"), deliver(0, count=2, time=30)),
    ),
    Planted("Q5", (deliver(0), window(1)), (deliver(0), acknowledge(0), window(1))),
    Planted(
        "Q6",
        (deliver(0), acknowledge(0, "release"), SETTLED),
        (deliver(0), acknowledge(0, "release"), deliver(0, count=2, time=20), acknowledge(0, time=30), SETTLED),
    ),
    Planted(
        "Q7",
        (settings(key_order=True), deliver(0, key="k"), deliver(1, key="k")),
        (settings(key_order=True), deliver(0, key="k"), deliver(1, key="l")),
    ),
    Planted(
        "Q8",
        (deliver(0), acknowledge(0, txn="x"), archive(0), ended("x")),
        (deliver(0), acknowledge(0, txn="x"), ended("x")),
    ),
    Planted("Q9", (unreadable(0), SETTLED), (unreadable(0), archive(0), SETTLED)),
    Planted(
        "Q10",
        (
            settings(wakes_within=100),
            _of_queue("free", 0, time=900),
            {**_of_queue("waited", 0, member="m1", since=800, time=1_100)},
        ),
        (
            settings(wakes_within=100),
            _of_queue("free", 0, time=900),
            {**_of_queue("waited", 0, member="m1", since=800, time=950)},
        ),
    ),
    Planted(
        "Q11",
        (settings(dead_letters=True), deliver(0), acknowledge(0, "reject"), _REST),
        (settings(dead_letters=True), deliver(0), acknowledge(0, "reject"), _of_queue("letter", 0), _REST),
    ),
    Planted(
        "Q12",
        (settings(), _of_queue("due", 0, time=50), deliver(0, time=49)),
        (settings(), _of_queue("due", 0, time=50), deliver(0, time=50)),
    ),
    Planted(
        "Q13",
        (settings(isolation="read_committed"), send("a", 0, txn="x"), deliver(0), ended("x", "aborted")),
        (settings(isolation="read_committed"), send("a", 0, txn="x"), ended("x"), deliver(0)),
    ),
    Planted(
        "removed-read",
        (send("a", 0), send("b", 1), _DELETED, poll((0, "a"), (1, "b"), sent=51)),
        (send("a", 0), send("b", 1), _DELETED, poll((1, "b"), sent=51)),
    ),
    Planted(
        "vanished",
        (send("a", 0), send("b", 1), poll((0, "a"), (1, "b")), _scan((1, "b"))),
        (send("a", 0), send("b", 1), poll((0, "a"), (1, "b")), _scan((0, "a"), (1, "b"))),
    ),
    Planted("stale", (*_OF_K, _scan((0, "k1"))), (*_OF_K, _scan((1, "k2")))),
    Planted("M1", (own("m1"), own("m2")), (own("m1"), disown("m1"), own("m2"))),
    Planted("M2", (own("m1"), rest(0, 1)), (own("m1"), own("m2", 1), rest(0, 1))),
    Planted("M3", (committed(5), committed(4)), (committed(5), committed(4, reset=True))),
    Planted("M4", (*_TWO, disown("m2", 1), own("m3", 1), _BACK), (*_TWO, _BACK)),
]


def lines(history: tuple[Operation, ...]) -> str:
    return "\n".join(json.dumps(operation) for operation in history)


def shown() -> str:
    """What the page shows."""
    return "\n\n".join(f"`{each.check}`\n\n```json\n{lines(each.history)}\n```" for each in PLANTED)


def renewed(page: str) -> str:
    before, begin, rest_of_page = page.partition(_BEGIN)
    _, end, after = rest_of_page.partition(_END)
    assert end, "the page has no place for planted histories"
    return before + begin + shown() + end + after


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text()))
