"""Histories: what clients did and saw, one operation a line, as JSON.

A history is independent of how it was made: by a simulated world, by real processes, or by a user's own program. Lines
stand in the order in which their outcomes became known. Every line has `op`, and the fields of that operation; others
are ignored, so that a recorder may add what helps a reader. Times are milliseconds of one clock.

Streams

    {"op": "send", "process": "p1", "topic": "t", "partition": 0, "value": 7, "result": "ok", "offset": 3, "txn": "x1"}
    {"op": "poll", "process": "c1", "records": [["t", 0, 3, 7]], "how": "assign", "isolation": "read_committed"}
    {"op": "moved", "process": "c1"}                             a seek or another assignment: positions start anew
    {"op": "txn-end", "txn": "x1", "result": "committed"}        or "aborted", "unknown"
    {"op": "drained"}                                            faults are over, and readers have read to the end
    {"op": "drained", "isolation": "read_committed"}             the same of the read_committed readers alone

What is removed: sends may have "key" and "tombstone", polls and deliveries "sent": when the request for them was sent

    {"op": "topic-settings", "topic": "t", "compacted": true}
    {"op": "removed", "topic": "t", "partition": 0, "below": 7, "time": 5000}    the log begins at 7; with "time" since
                                                                 DeleteRecords was confirmed
    {"op": "removed", "topic": "t", "partition": 0, "offsets": [3, 4]}           compaction has taken these
    {"op": "scan", "process": "c1", "topic": "t", "partition": 0, "start": 0, "end": 9, "records": [[3, 7]]}
                                                                 read from start to end, of a compacted topic in less
                                                                 than delete.retention.ms

Queues

    {"op": "deliver", "group": "g", "member": "m1", "topic": "t", "partition": 0, "offset": 3, "count": 1,
     "time": 1000, "until": 31000, "key": "k"}
    {"op": "acknowledge", "group": "g", "member": "m1", "topic": "t", "partition": 0, "offset": 3, "kind": "accept",
     "result": "ok", "time": 1010, "txn": "x1"}                  or "release", "reject", "renew" (with "until");
                                                                 "result": "sent" says that it is on its way
    {"op": "gone", "group": "g", "member": "m1", "time": 1500,   its connection is over: what it held is free, and if
     "fetching": true}                                           it was fetching, more may have been delivered to it:
                                                                 of "topic" and "partition" alone, if they are named
    {"op": "archive", "group": "g", "topic": "t", "partition": 0, "offset": 3, "time": 2000}
    {"op": "unreadable", "group": "g", "topic": "t", "partition": 0, "offset": 3, "time": 2000}
    {"op": "window", "group": "g", "topic": "t", "partition": 0, "start": 3, "in_flight": 5, "time": 2000}
    {"op": "share-settings", "group": "g", "delivery_limit": 5, "max_in_flight": 2000, "flush_interval": 100,
     "key_order": false, "wakes_within": 250, "dead_letters": true, "isolation": "read_committed"}
    {"op": "fault", "kind": "kill", "time": 5000}                or "power-cut", "restart"; of "topic" and "partition"
                                                                 alone, if they are named: another broker leads them
    {"op": "lost", "topic": "t", "partition": 0, "offset": 7}    a power cut took the records from this offset on
    {"op": "settled", "group": "g", "time": 9000,                every record of the group was handled: these, if they
     "records": [["t", 0, 3]]}                                   are named, and all that were delivered
    {"op": "free", "group": "g", "topic": "t", "partition": 0, "offset": 3, "time": 900}      a new record is there; a
                                                                 delivery may have "free": when its lock is over at the
                                                                 latest
    {"op": "waited", "group": "g", "member": "m1", "topic": "t", "partition": 0, "since": 800, "time": 950}
    {"op": "due", "group": "g", "topic": "t", "partition": 0, "offset": 3, "time": 5000}
    {"op": "letter", "group": "g", "topic": "t", "partition": 0, "offset": 3}    of this record, in a dead-letter topic

Groups

    {"op": "own", "group": "g", "member": "m1", "topic": "t", "partition": 0, "time": 1000, "until": 7000}
                                                                 "until": the member is expelled unless it is heard of
    {"op": "disown", "group": "g", "member": "m1", "topic": "t", "partition": 0, "time": 2000}
    {"op": "offset-commit", "group": "g", "topic": "t", "partition": 0, "offset": 4, "result": "ok", "reset": false}
    {"op": "static-away", "group": "g", "member": "m1", "time": 3000}
    {"op": "static-back", "group": "g", "member": "m1", "time": 3500}
    {"op": "rest", "group": "g", "partitions": [["t", 0]], "time": 9000}     the group is stable, and should own these
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

Operation: TypeAlias = dict[str, object]
"""One line of a history."""

REQUIRED: dict[str, tuple[str, ...]] = {
    "send": ("process", "topic", "partition", "value", "result"),
    "poll": ("process", "records"),
    "moved": ("process",),
    "txn-end": ("txn", "result"),
    "drained": (),
    "topic-settings": ("topic",),
    "removed": ("topic", "partition"),
    "scan": ("process", "topic", "partition", "start", "end", "records"),
    "deliver": ("group", "member", "topic", "partition", "offset", "count", "time", "until"),
    "acknowledge": ("group", "member", "topic", "partition", "offset", "kind", "result", "time"),
    "archive": ("group", "topic", "partition", "offset", "time"),
    "unreadable": ("group", "topic", "partition", "offset", "time"),
    "window": ("group", "topic", "partition", "start", "time"),
    "share-settings": ("group",),
    "gone": ("group", "member", "time"),
    "lost": ("topic", "partition", "offset"),
    "fault": ("kind", "time"),
    "settled": ("group", "time"),
    "free": ("group", "topic", "partition", "offset", "time"),
    "waited": ("group", "member", "topic", "partition", "since", "time"),
    "due": ("group", "topic", "partition", "offset", "time"),
    "letter": ("group", "topic", "partition", "offset"),
    "own": ("group", "member", "topic", "partition", "time"),
    "disown": ("group", "member", "topic", "partition", "time"),
    "offset-commit": ("group", "topic", "partition", "offset", "result"),
    "static-away": ("group", "member", "time"),
    "static-back": ("group", "member", "time"),
    "rest": ("group", "partitions", "time"),
}
"""The operations, and the fields that each must have."""


class HistoryError(ValueError):
    """A line of a history is not an operation. The message says which line, and what it lacks."""


class Finding(NamedTuple):
    """An anomaly in a history."""

    check: str
    text: str
    line: int
    """The line of the history at which it became clear, from 1; 0 when it is about the history as a whole."""

    def __str__(self) -> str:
        return f"{self.check}: {self.text}" + (f" (line {self.line})" if self.line else "")


def read_history(lines: Iterable[str | bytes]) -> Iterator[Operation]:
    """The operations of a history in JSON lines. Raises HistoryError."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            operation = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise HistoryError(f"line {number} is not JSON: {error}") from error
        yield checked(operation, number)


def checked(operation: object, number: int) -> Operation:
    """The operation, with its line in the field `line`. Raises HistoryError unless it is one."""
    if not isinstance(operation, dict):
        raise HistoryError(f"line {number} is not a JSON object")
    op = operation.get("op")
    required = REQUIRED.get(op) if isinstance(op, str) else None
    if required is None:
        raise HistoryError(f"line {number}: {op!r} is no operation; there are {', '.join(REQUIRED)}")
    for field in required:
        if field not in operation:
            raise HistoryError(f"line {number}: {op} needs the field {field!r}")
    operation["line"] = number
    return operation
