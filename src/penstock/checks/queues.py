"""Checks of queues (share groups): each record has one holder at a time, and ends once.

- Q1 A record never has two holders whose locks have not run out.
- Q2 A record ends exactly once: accepted, rejected, or archived.
- Q3 The delivery count grows by one with each delivery, and never passes the limit.
- Q4 A record whose acceptance was confirmed is not delivered again. After a power cut that holds for what was confirmed
  longer than the flush interval before it.
- Q5 The start offset never goes back and never passes a record that has not ended; not too many records are in flight.
- Q6 A released record comes again, and not before its time.
- Q7 Where the order of keys is kept: one record of a key is in flight at a time, and they come in the order of offsets.
- Q8 An acknowledgement in a transaction counts if and only if the transaction is committed.
- Q9 A record that nobody can read is archived.

A broker that dies forgets who holds what: deliveries begin anew, maybe with the same count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from penstock.checks.history import Finding, Operation

Place: TypeAlias = tuple[str, int]
Key: TypeAlias = tuple[str, str, int, int]
"""Group, topic, partition, offset."""

_ENDS = {"accept": "accepted", "reject": "rejected"}


@dataclass(slots=True)
class _Settings:
    delivery_limit: int | None = None
    max_in_flight: int | None = None
    flush_interval: int = 0
    key_order: bool = False


@dataclass(slots=True)
class _Record:
    holder: str | None = None
    until: int = 0
    count: int = 0
    forgotten: bool = False
    """A broker died since the last delivery, so that the count may be the one before it."""
    ended: str | None = None
    ended_at: int = 0
    maybe_ended: bool = False
    released: int | None = None
    not_before: int = 0
    unreadable: int = 0
    key: object = None
    pending: dict[str, str] = field(default_factory=dict)
    """Acknowledgements of transactions that have not ended: what each would make of the record."""


class QueueChecker:
    """Handed operations one by one; `findings` are complete after `finish`."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self._records: dict[Key, _Record] = {}
        self._settings: dict[str, _Settings] = {}
        self._starts: dict[tuple[str, str, int], int] = {}
        self._in_flight_keys: dict[tuple[str, str, int, object], dict[int, _Record]] = {}
        self._of_transaction: dict[str, list[tuple[Key, _Record]]] = {}

    def add(self, operation: Operation) -> None:
        handle = _HANDLERS.get(str(operation["op"]))
        if handle is not None:
            handle(self, operation)

    def finish(self) -> list[Finding]:
        return self.findings

    # -- operations -------------------------------------------------------------------------------------------------

    def _share_settings(self, operation: Operation) -> None:
        limit, most = operation.get("delivery_limit"), operation.get("max_in_flight")
        self._settings[str(operation["group"])] = _Settings(
            None if limit is None else int(str(limit)),
            None if most is None else int(str(most)),
            int(str(operation.get("flush_interval", 0))),
            bool(operation.get("key_order", False)),
        )

    def _deliver(self, operation: Operation) -> None:
        key, record = self._record(operation)
        member, now, count = str(operation["member"]), _int(operation, "time"), _int(operation, "count")
        settings = self._of_group(key[0])
        if record.holder is not None and record.until > now:
            held = f"{record.holder} holds it until {record.until}"
            self._report("Q1", f"{_named(key)} is delivered to {member} at {now}, while {held}", operation)
        if record.ended is not None:
            check = "Q4" if record.ended == "accepted" else "Q2"
            self._report(check, f"{_named(key)} is delivered to {member} after it was {record.ended}", operation)
        expected = {record.count, record.count + 1} - {0} if record.forgotten else {record.count + 1}
        if count not in expected:
            wanted = " or ".join(map(str, sorted(expected)))
            self._report("Q3", f"delivery {count} of {_named(key)}, where {wanted} is expected", operation)
        if settings.delivery_limit is not None and count > settings.delivery_limit:
            text = f"delivery {count} of {_named(key)}, of which {settings.delivery_limit} are allowed"
            self._report("Q3", text, operation)
        if record.released is not None and now < record.not_before:
            text = f"{_named(key)} is delivered at {now}, and was released until {record.not_before}"
            self._report("Q6", text, operation)
        if settings.key_order and operation.get("key") is not None:
            self._check_key_order(key, record, operation, now)
        record.holder, record.until, record.count = member, _int(operation, "until"), count
        record.released, record.forgotten = None, False

    def _check_key_order(self, key: Key, record: _Record, operation: Operation, now: int) -> None:
        record.key = operation["key"]
        same = self._in_flight_keys.setdefault((*key[:3], record.key), {})
        for offset, other in list(same.items()):
            if other.ended is not None:
                del same[offset]
            elif offset < key[3]:
                text = f"{_named(key)} is delivered before offset {offset} of the same key {record.key!r} has ended"
                self._report("Q7", text, operation)
            elif offset > key[3] and other.holder is not None and other.until > now:
                text = f"{_named(key)} is delivered while offset {offset} of the same key {record.key!r} is in flight"
                self._report("Q7", text, operation)
        same[key[3]] = record

    def _acknowledge(self, operation: Operation) -> None:
        key, record = self._record(operation)
        kind, result = str(operation["kind"]), operation["result"]
        if result == "failed":
            return
        if result != "ok":
            record.maybe_ended = record.maybe_ended or kind in _ENDS
            record.holder, record.forgotten = None, True
            return
        if kind == "renew":
            record.until = _int(operation, "until")
        elif kind == "release":
            record.holder = None
            record.released = _int(operation, "line")
            record.not_before = int(str(operation.get("not_before", 0)))
        elif (txn := operation.get("txn")) is not None:
            record.pending[str(txn)] = _ENDS[kind]
            record.holder = None
            self._of_transaction.setdefault(str(txn), []).append((key, record))
        else:
            self._end(key, record, _ENDS[kind], operation)

    def _txn_end(self, operation: Operation) -> None:
        txn = str(operation["txn"])
        for key, record in self._of_transaction.pop(txn, []):
            how = record.pending.pop(txn)
            if operation["result"] == "committed":
                self._end(key, record, how, operation, "Q8")
            elif operation["result"] == "aborted":
                record.released = _int(operation, "line")
            else:
                record.maybe_ended = True

    def _archive(self, operation: Operation) -> None:
        key, record = self._record(operation)
        self._end(key, record, "archived", operation)

    def _end(self, key: Key, record: _Record, how: str, operation: Operation, check: str = "Q2") -> None:
        if record.ended is not None:
            self._report(check, f"{_named(key)} is {how} after it was {record.ended}", operation)
        record.ended, record.holder, record.released = how, None, None
        record.ended_at = int(str(operation.get("time", 0)))

    def _unreadable(self, operation: Operation) -> None:
        _, record = self._record(operation)
        record.unreadable = _int(operation, "line")

    def _window(self, operation: Operation) -> None:
        group, topic, partition = str(operation["group"]), str(operation["topic"]), _int(operation, "partition")
        start, before = _int(operation, "start"), self._starts.get((group, topic, partition), 0)
        if start < before:
            text = f"the start offset of {group} in {topic}-{partition} goes back from {before} to {start}"
            self._report("Q5", text, operation)
        for offset in range(before, start):
            record = self._records.get((group, topic, partition, offset))
            if record is not None and record.ended is None and not record.maybe_ended:
                text = f"the start offset of {group} in {topic}-{partition} is {start}, and {offset} has not ended"
                self._report("Q5", text, operation)
        self._starts[group, topic, partition] = max(start, before)
        most, in_flight = self._of_group(group).max_in_flight, operation.get("in_flight")
        if most is not None and in_flight is not None and int(str(in_flight)) > most:
            text = f"{in_flight} records of {group} in {topic}-{partition} are in flight, of which {most} may be"
            self._report("Q5", text, operation)

    def _fault(self, operation: Operation) -> None:
        now, lost_power = _int(operation, "time"), operation["kind"] == "power-cut"
        for key, record in self._records.items():
            if record.ended is None:
                record.holder, record.forgotten, record.not_before = None, True, 0
            elif lost_power and record.ended_at >= now - self._of_group(key[0]).flush_interval:
                record.ended, record.maybe_ended, record.forgotten = None, True, True

    def _settled(self, operation: Operation) -> None:
        for key, record in self._of(str(operation["group"])):
            if record.ended is not None or record.maybe_ended:
                continue
            if record.unreadable:
                self._report("Q9", f"{_named(key)} cannot be read, and is not archived", operation)
            elif record.released is not None:
                text = f"{_named(key)}, released in line {record.released}, never came again"
                self._report("Q6", text, operation)
            else:
                self._report("Q2", f"{_named(key)} has not ended", operation)

    # -- inside -----------------------------------------------------------------------------------------------------

    def _record(self, operation: Operation) -> tuple[Key, _Record]:
        place = (str(operation["group"]), str(operation["topic"]), _int(operation, "partition"))
        key = (*place, _int(operation, "offset"))
        record = self._records.get(key)
        if record is None:
            record = self._records[key] = _Record()
        return key, record

    def _of(self, group: str) -> Iterator[tuple[Key, _Record]]:
        return ((key, record) for key, record in self._records.items() if key[0] == group)

    def _of_group(self, group: str) -> _Settings:
        return self._settings.get(group) or _Settings()

    def _report(self, check: str, text: str, operation: Operation) -> None:
        self.findings.append(Finding(check, text, _int(operation, "line")))


_HANDLERS = {
    "share-settings": QueueChecker._share_settings,
    "deliver": QueueChecker._deliver,
    "acknowledge": QueueChecker._acknowledge,
    "txn-end": QueueChecker._txn_end,
    "archive": QueueChecker._archive,
    "unreadable": QueueChecker._unreadable,
    "window": QueueChecker._window,
    "fault": QueueChecker._fault,
    "settled": QueueChecker._settled,
}


def _int(operation: Operation, name: str) -> int:
    return int(str(operation[name]))


def _named(key: Key) -> str:
    group, topic, partition, offset = key
    return f"offset {offset} of {topic}-{partition} in {group}"
