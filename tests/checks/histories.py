"""Short ways to write operations of a history."""

from __future__ import annotations

from penstock.checks import Finding, Operation, check
from penstock.checks.history import checked


def found_in(*operations: Operation) -> list[str]:
    """The names of what the checkers find in a history."""
    return [finding.check for finding in findings(*operations)]


def findings(*operations: Operation) -> list[Finding]:
    return check(checked(dict(operation), line) for line, operation in enumerate(operations, 1))


def send(value: object, offset: int | None = None, process: str = "p", **more: object) -> Operation:
    sent: Operation = {"op": "send", "process": process, "topic": "t", "partition": 0, "value": value, "result": "ok"}
    return sent | ({} if offset is None else {"offset": offset}) | more


def poll(*records: tuple[int, object], process: str = "c", **more: object) -> Operation:
    """Records of t-0 as (offset, value)."""
    seen = [["t", 0, offset, value] for offset, value in records]
    return {"op": "poll", "process": process, "records": seen, "how": "assign", "isolation": "read_committed"} | more


def ended(txn: str, result: str = "committed") -> Operation:
    return {"op": "txn-end", "txn": txn, "result": result}


DRAINED: Operation = {"op": "drained"}


def deliver(
    offset: int, member: str = "m1", count: int = 1, time: int = 0, until: int = 100, **more: object
) -> Operation:
    return _queued("deliver", offset) | {"member": member, "count": count, "time": time, "until": until} | more


def acknowledge(offset: int, kind: str = "accept", member: str = "m1", time: int = 10, **more: object) -> Operation:
    return _queued("acknowledge", offset) | {"member": member, "kind": kind, "result": "ok", "time": time} | more


def archive(offset: int, time: int = 10) -> Operation:
    return _queued("archive", offset) | {"time": time}


def unreadable(offset: int, time: int = 10) -> Operation:
    return _queued("unreadable", offset) | {"time": time}


def window(start: int, **more: object) -> Operation:
    return {"op": "window", "group": "g", "topic": "t", "partition": 0, "start": start, "time": 0} | more


def settings(**more: object) -> Operation:
    return {"op": "share-settings", "group": "g"} | more


def fault(kind: str, time: int = 20) -> Operation:
    return {"op": "fault", "kind": kind, "time": time}


def taken_over(partition: int = 0) -> Operation:
    return fault("take-over") | {"topic": "t", "partition": partition}


def gone(partition: int = 0) -> Operation:
    lost: Operation = {"op": "gone", "group": "g", "member": "m9", "time": 5, "fetching": True}
    return lost | {"topic": "t", "partition": partition}


SETTLED: Operation = {"op": "settled", "group": "g", "time": 1000}


def own(member: str, partition: int = 0) -> Operation:
    return _owned("own", member, partition)


def disown(member: str, partition: int = 0) -> Operation:
    return _owned("disown", member, partition)


def committed(offset: int, **more: object) -> Operation:
    return {"op": "offset-commit", "group": "g", "topic": "t", "partition": 0, "offset": offset, "result": "ok"} | more


def lost(offset: int) -> Operation:
    return {"op": "lost", "topic": "t", "partition": 0, "offset": offset}


def static(op: str, member: str) -> Operation:
    return {"op": op, "group": "g", "member": member, "time": 0}


def rest(*partitions: int) -> Operation:
    return {"op": "rest", "group": "g", "partitions": [["t", each] for each in partitions], "time": 0}


def _queued(op: str, offset: int) -> Operation:
    return {"op": op, "group": "g", "topic": "t", "partition": 0, "offset": offset}


def _owned(op: str, member: str, partition: int) -> Operation:
    return {"op": op, "group": "g", "member": member, "topic": "t", "partition": partition, "time": 0}
