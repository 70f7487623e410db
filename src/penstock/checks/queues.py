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

A broker that dies forgets who holds what: deliveries begin anew, maybe with the same count. So does a partition that
another broker takes over (`fault` with `topic` and `partition`); the others go on. The one that takes over knows of
each record how often it had been delivered when a release was last confirmed, and maybe of no later delivery. A member
that is gone holds nothing any more. A delivery that was on its way to it may have counted without anybody having seen
it: of any record, or of one partition where `gone` names it. Records that a power cut took from the log (`lost`) leave
their offsets to others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from penstock.checks.history import Finding, Operation
from penstock.checks.removal import Confirmed

Place: TypeAlias = tuple[str, int]
Key: TypeAlias = tuple[str, str, int, int]
"""Group, topic, partition, offset."""

_ENDS = {"accept": "accepted", "reject": "rejected"}
_DONE = _ENDS | {"renew": "renewed"}


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
    power_was_cut: bool = False
    """What was on its way to the disk is lost, and with it any number of deliveries that were not confirmed."""
    was_taken_over: bool = False
    """Another broker delivers it now, which knows of what was confirmed."""
    given: dict[str, int] = field(default_factory=dict)
    """The count of each member's last delivery."""
    confirmed: int = 0
    """The count of the last delivery after which a release was confirmed."""
    unseen: int = 0
    """How many deliveries nobody has seen."""
    missed: int = 0
    """How many more there may have been, since it was delivered last, in answers that did not arrive."""
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
        self._held: dict[tuple[str, str], dict[Key, _Record]] = {}
        """What each member of each group may hold."""
        self._died_at = 0
        self._gone: dict[str, int] = {}
        """How many members of each group have gone while records were on their way to them."""
        self._gone_from: dict[tuple[str, str, int], int] = {}
        """The same for partitions of which it is known that the records were theirs."""
        self._log_starts: dict[Place, int] = {}
        self._compacted: set[tuple[str, int, int]] = set()
        """Topic, partition and offset of what compaction has taken."""
        self._confirmed: dict[Place, Confirmed] = {}

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
        self._check_removed(key, operation)
        if record.holder is not None and record.until > now:
            held = f"{record.holder} holds it until {record.until}"
            self._report("Q1", f"{_named(key)} is delivered to {member} at {now}, while {held}", operation)
        if record.ended is not None:
            check = "Q4" if record.ended == "accepted" else "Q2"
            self._report(check, f"{_named(key)} is delivered to {member} after it was {record.ended}", operation)
        lowest = record.count + 1
        if record.forgotten:
            lowest = max(1, record.count)
            if record.power_was_cut:
                lowest = 1
            elif record.was_taken_over:
                lowest = record.confirmed + 1
        highest = record.count + 1 + self._may_have_missed(key[0], record)
        if not lowest <= count <= highest:
            wanted = str(lowest) if lowest == highest else f"{lowest} to {highest}"
            self._report("Q3", f"delivery {count} of {_named(key)}, where {wanted} is expected", operation)
        if settings.delivery_limit is not None and count > settings.delivery_limit:
            text = f"delivery {count} of {_named(key)}, of which {settings.delivery_limit} are allowed"
            self._report("Q3", text, operation)
        if record.released is not None and now < record.not_before:
            text = f"{_named(key)} is delivered at {now}, and was released until {record.not_before}"
            self._report("Q6", text, operation)
        if settings.key_order and operation.get("key") is not None:
            self._check_key_order(key, record, operation, now)
        record.unseen += max(0, count - record.count - 1 - record.missed)
        record.missed = 0
        record.holder, record.until, record.count = member, _int(operation, "until"), count
        record.given[member] = count
        record.released, record.forgotten, record.power_was_cut, record.was_taken_over = None, False, False, False
        self._held.setdefault((key[0], member), {})[key] = record

    def _check_removed(self, key: Key, operation: Operation) -> None:
        confirmed = self._confirmed.get(key[1:3])
        if confirmed is not None and operation.get("sent") is not None:
            start = confirmed.start_at(_int(operation, "sent"))
            if key[3] < start:
                text = f"{_named(key)} is delivered to {operation['member']}, and the log begins at {start}"
                self._report("removed-read", text, operation)

    def _removed(self, operation: Operation) -> None:
        """What a log has no more ends without having been delivered."""
        place = (str(operation["topic"]), _int(operation, "partition"))
        below = int(str(operation.get("below", 0)))
        self._log_starts[place] = max(below, self._log_starts.get(place, 0))
        if operation.get("time") is not None:
            self._confirmed.setdefault(place, Confirmed()).add(_int(operation, "time"), below)
        offsets = operation.get("offsets", [])
        assert isinstance(offsets, Iterable)
        self._compacted.update((*place, offset) for offset in offsets)

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
        member = str(operation["member"])
        if result == "failed":
            return
        if result == "sent":
            # The broker may act on it long before it answers.
            if record.holder == member:
                record.holder = None
            return
        if result != "ok":
            record.maybe_ended = record.maybe_ended or kind in _ENDS
            if record.holder in (member, None):
                record.holder, record.forgotten = None, True
            return
        if record.holder not in (member, None) and record.until > _int(operation, "time") and kind != "release":
            text = f"{_named(key)} is {_DONE[kind]} by {member}, while {record.holder} holds it until {record.until}"
            self._report("Q1", text, operation)
        if kind == "renew":
            record.until = _int(operation, "until")
        elif kind == "release":
            record.confirmed = max(record.confirmed, record.given.get(member, 0))
            if record.holder not in (member, None):
                return  # it has come to somebody else before the answer was given
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
            key = (group, topic, partition, offset)
            record = self._records.get(key)
            if record is not None and not self._may_be_over(key, record):
                text = f"the start offset of {group} in {topic}-{partition} is {start}, and {offset} has not ended"
                self._report("Q5", text, operation)
        self._starts[group, topic, partition] = max(start, before)
        most, in_flight = self._of_group(group).max_in_flight, operation.get("in_flight")
        if most is not None and in_flight is not None and int(str(in_flight)) > most:
            text = f"{in_flight} records of {group} in {topic}-{partition} are in flight, of which {most} may be"
            self._report("Q5", text, operation)

    def _member_gone(self, operation: Operation) -> None:
        group, member, fetching = str(operation["group"]), str(operation["member"]), bool(operation.get("fetching"))
        if "partition" in operation:
            place = (group, str(operation["topic"]), _int(operation, "partition"))
            self._gone_from[place] = self._gone_from.get(place, 0) + fetching
            for key, record in self._of(group):
                if key[:3] == place and record.ended is None:
                    record.missed += fetching
        else:
            self._gone[group] = self._gone.get(group, 0) + fetching
        for record in self._held.pop((group, member), {}).values():
            if record.holder == member:
                record.holder = None

    def _lost(self, operation: Operation) -> None:
        place = (str(operation["topic"]), _int(operation, "partition"))
        first = _int(operation, "offset")
        for key in [key for key in self._records if key[1:3] == place and key[3] >= first]:
            del self._records[key]
        for group, topic, partition in list(self._starts):
            if (topic, partition) == place:
                self._starts[group, topic, partition] = min(first, self._starts[group, topic, partition])
        if place in self._log_starts:
            # Others may get the offsets of what was removed and then lost.
            self._log_starts[place] = min(first, self._log_starts[place])

    def _fault(self, operation: Operation) -> None:
        now, lost_power = _int(operation, "time"), operation["kind"] == "power-cut"
        if operation["kind"] == "restart":
            self._restarted(now)
            return
        if "partition" in operation:
            place = (str(operation["topic"]), _int(operation, "partition"))
            for key, record in self._records.items():
                if key[1:3] == place and record.ended is None:
                    record.holder, record.forgotten, record.not_before = None, True, 0
                    record.was_taken_over = True
            return
        self._died_at = now
        for key, record in self._records.items():
            record.power_was_cut = record.power_was_cut or lost_power
            if record.ended is None:
                record.holder, record.forgotten, record.not_before = None, True, 0
            elif lost_power and record.ended_at >= now - self._of_group(key[0]).flush_interval:
                record.ended, record.maybe_ended, record.forgotten = None, True, True

    def _restarted(self, now: int) -> None:
        """What the broker that died had not flushed is flushed by the next one: its time begins anew."""
        for key, record in self._records.items():
            if record.ended is not None and record.ended_at >= self._died_at - self._of_group(key[0]).flush_interval:
                record.ended_at = now

    def _settled(self, operation: Operation) -> None:
        group = str(operation["group"])
        records = operation.get("records", [])
        assert isinstance(records, Iterable)
        for topic, partition, offset in records:
            key = (group, topic, partition, offset)
            if self._records.get(key) is None and not self._may_be_over(key, _Record()):
                self._report("Q2", f"{_named(key)} was never delivered", operation)
        for key, record in self._of(group):
            if self._may_be_over(key, record):
                continue
            if record.unreadable:
                self._report("Q9", f"{_named(key)} cannot be read, and is not archived", operation)
            elif record.released is not None:
                text = f"{_named(key)}, released in line {record.released}, never came again"
                self._report("Q6", text, operation)
            else:
                self._report("Q2", f"{_named(key)} has not ended", operation)

    # -- inside -----------------------------------------------------------------------------------------------------

    def _may_be_over(self, key: Key, record: _Record) -> bool:
        """Whether it has ended, or may have: a record that was delivered as often as it may be is given up, and so is
        one that the log has no more."""
        if key[3] < self._log_starts.get(key[1:3], 0) or key[1:] in self._compacted:
            return True
        limit = self._of_group(key[0]).delivery_limit
        most = record.count + self._may_have_missed(key[0], record)
        return record.ended is not None or record.maybe_ended or (limit is not None and most >= limit)

    def _may_have_missed(self, group: str, record: _Record) -> int:
        """How many deliveries there may have been since the last one that somebody has seen."""
        return self._gone.get(group, 0) - record.unseen + record.missed

    def _record(self, operation: Operation) -> tuple[Key, _Record]:
        place = (str(operation["group"]), str(operation["topic"]), _int(operation, "partition"))
        key = (*place, _int(operation, "offset"))
        record = self._records.get(key)
        if record is None:
            record = self._records[key] = _Record(missed=self._gone_from.get(key[:3], 0))
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
    "gone": QueueChecker._member_gone,
    "lost": QueueChecker._lost,
    "fault": QueueChecker._fault,
    "settled": QueueChecker._settled,
    "removed": QueueChecker._removed,
}


def _int(operation: Operation, name: str) -> int:
    return int(str(operation[name]))


def _named(key: Key) -> str:
    group, topic, partition, offset = key
    return f"offset {offset} of {topic}-{partition} in {group}"
