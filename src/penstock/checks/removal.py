"""Checks of removal: DeleteRecords, retention and compaction take away what they may, and nothing else.

- removed-read: a request that was sent after DeleteRecords was confirmed shows a record below its offset.
- vanished: whoever read a partition from its start to its end (a *scan*) was not shown an acknowledged record.
- stale: the same of a compacted topic, where an acknowledged record stays as long as it is the last one of its key:
  the scan ends with an earlier value of a key than the last acknowledged one, or with none.

What may be gone is not missed by other checks either: what lies below the start of its log, and in a compacted topic
every record that is followed by another one of its key, every tombstone (a record without a value), and everything that
was aborted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from penstock.checks.history import Finding, Operation

Place: TypeAlias = tuple[str, int]
Value: TypeAlias = Any


class Confirmed:
    """What DeleteRecords has confirmed of one partition, and when."""

    def __init__(self) -> None:
        self._times: list[int] = []
        self._starts: list[int] = []

    def add(self, time: int, below: int) -> None:
        self._times.append(time)
        self._starts.append(max(below, self._starts[-1] if self._starts else below))

    def start_at(self, time: int) -> int:
        """Where the log begins for a request that is sent at this time."""
        count = bisect_left(self._times, time)
        return self._starts[count - 1] if count else 0


class _Scan(NamedTuple):
    place: Place
    start: int
    end: int
    seen: dict[int, Value]
    line: int


@dataclass(slots=True)
class _Keys:
    """What is known of the keys of one partition."""

    of: dict[Value, Value] = field(default_factory=dict)
    """The key of each value that was sent."""
    tombstones: set[Value] = field(default_factory=set)
    last: dict[Value, int] = field(default_factory=dict)
    """The offset of the last record of each key that counts, when all is known."""
    last_tombstone: dict[Value, int] = field(default_factory=dict)
    """The same of tombstones: as high as can be where nobody knows the offset."""
    aborted: set[Value] = field(default_factory=set)
    """What is certainly not in the log, or was aborted."""


class Removal:
    """What may be gone, and what is said about it."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self._compacted: set[str] = set()
        self._starts: dict[Place, int] = {}
        self._confirmed: dict[Place, Confirmed] = {}
        self._keys: dict[Place, _Keys] = {}
        self._scans: list[_Scan] = []

    @property
    def has_facts(self) -> bool:
        return bool(self._starts or self._compacted)

    # -- taking in --------------------------------------------------------------------------------------------------

    def settings(self, operation: Operation) -> None:
        if operation.get("compacted"):
            self._compacted.add(str(operation["topic"]))

    def sent(self, place: Place, value: Value, key: Value, is_tombstone: bool) -> None:
        keys = self._keys.setdefault(place, _Keys())
        keys.of[value] = key
        if is_tombstone:
            keys.tombstones.add(value)

    def removed(self, operation: Operation) -> None:
        place = (str(operation["topic"]), int(str(operation["partition"])))
        below = int(str(operation.get("below", 0)))
        self._starts[place] = max(below, self._starts.get(place, 0))
        if operation.get("time") is not None:
            self._confirmed.setdefault(place, Confirmed()).add(int(str(operation["time"])), below)

    def polled(self, place: Place, offset: int, operation: Operation) -> None:
        confirmed = self._confirmed.get(place)
        if confirmed is None or operation.get("sent") is None:
            return
        start = confirmed.start_at(int(str(operation["sent"])))
        if offset < start:
            text = f"{operation['process']} polled offset {offset} of {_named(place)}, which begins at {start}"
            self._report("removed-read", text, int(str(operation["line"])))

    def scanned(self, operation: Operation, records: Iterable[tuple[int, Value]]) -> None:
        place = (str(operation["topic"]), int(str(operation["partition"])))
        start, end = int(str(operation["start"])), int(str(operation["end"]))
        self._scans.append(_Scan(place, start, end, dict(records), int(str(operation["line"]))))

    # -- judging ----------------------------------------------------------------------------------------------------

    def know(self, offsets: Mapping[Place, Mapping[Value, int]], counts: Callable[[Place, Value], bool]) -> None:
        """Everything is taken in. `offsets` says where values are; `counts` of which it is not certain that they were
        never written, or aborted."""
        for place, keys in self._keys.items():
            known = offsets.get(place, {})
            for value, key in keys.of.items():
                if not counts(place, value):
                    keys.aborted.add(value)
                    continue
                offset = known.get(value)
                if offset is not None:
                    keys.last[key] = max(offset, keys.last.get(key, -1))
                if value in keys.tombstones:
                    at = 1 << 63 if offset is None else offset
                    keys.last_tombstone[key] = max(at, keys.last_tombstone.get(key, -1))

    def may_be_gone(self, place: Place, offset: int, value: Value) -> bool:
        if offset < self._starts.get(place, 0):
            return True
        keys = self._keys.get(place)
        if place[0] not in self._compacted or keys is None or value not in keys.of:
            return False
        key = keys.of[value]
        return value in keys.aborted or keys.last.get(key, -1) > offset or keys.last_tombstone.get(key, -1) >= offset

    def judge_scans(self, certain: Mapping[Place, Mapping[int, Value]]) -> None:
        """`certain` has the records that were acknowledged for good, by offset."""
        for scan in self._scans:
            records = certain.get(scan.place, {})
            if scan.place[0] in self._compacted:
                self._judge_keys(scan, records)
                continue
            for offset, value in records.items():
                if scan.start <= offset < scan.end and offset not in scan.seen:
                    text = f"{value!r}, acknowledged at {_named(scan.place)} offset {offset}, is not there any more"
                    self._report("vanished", text, scan.line)

    def _judge_keys(self, scan: _Scan, records: Mapping[int, Value]) -> None:
        keys = self._keys.get(scan.place, _Keys())
        shown = dict(_last_of_keys(scan.seen, keys, scan))
        for key, offset in _last_of_keys(records, keys, scan):
            last = shown.get(key, -1)
            if last >= offset or keys.last.get(key, -1) >= scan.end:
                continue
            if last < 0 and keys.last_tombstone.get(key, -1) >= offset:
                continue
            ends = f"ends at offset {last}" if last >= 0 else "is gone"
            why = f"although {records[offset]!r} was acknowledged at {offset}"
            self._report("stale", f"key {key!r} of {_named(scan.place)} {ends}, {why}", scan.line)

    def _report(self, check: str, text: str, line: int) -> None:
        self.findings.append(Finding(check, text, line))


def _last_of_keys(records: Mapping[int, Value], keys: _Keys, scan: _Scan) -> Iterator[tuple[Value, int]]:
    """The last offset of each key, among those that a scan covers."""
    last: dict[Value, int] = {}
    for offset, value in records.items():
        if value in keys.of and scan.start <= offset < scan.end:
            last[keys.of[value]] = max(offset, last.get(keys.of[value], -1))
    return iter(last.items())


def _named(place: Place) -> str:
    return f"{place[0]}-{place[1]}"
