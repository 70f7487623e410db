"""Checks of streams: nothing lost, nothing twice, in order, and nothing of what was aborted.

The names are those of Jepsen's Kafka workload. The order of a partition is what all sends and polls together tell of
it: which value is at which offset. Offsets may have gaps (control records, aborted records, compaction), so a poll
*skips* only when it passes over a value that somebody was shown or that was acknowledged.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from penstock.checks.cycles import dependency_cycles
from penstock.checks.history import Finding, Operation
from penstock.checks.removal import Removal

Place: TypeAlias = tuple[str, int]
Value: TypeAlias = Any


class _Partition:
    def __init__(self) -> None:
        self.values: dict[int, Value] = {}
        self.offsets: dict[Value, int] = {}
        self.visible: list[int] = []
        """Offsets that some reader was shown or that were acknowledged for good."""
        self.visible_committed: list[int] = []
        """The same for `read_committed`: what only other readers were shown may have been aborted."""
        self.polled: set[Value] = set()
        self.polled_committed: set[Value] = set()
        """By `read_committed` readers."""
        self.highest_polled = -1


class StreamChecker:
    """Handed operations one by one; `findings` are complete after `finish`."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self._partitions: dict[Place, _Partition] = {}
        self._acknowledged: dict[tuple[Place, Value], Operation] = {}
        self._failed: dict[tuple[Place, Value], int] = {}
        self._written: dict[tuple[Place, Value], str] = {}
        self._outcomes: dict[str, str] = {}
        self._polls: list[tuple[Operation, str, list[tuple[Place, int, Value]]]] = []
        self._last_sent: dict[tuple[str, Place], int] = {}
        self._last_sent_in: dict[tuple[str, Place], int] = {}
        self._drained: dict[str, int] = {}
        """The last line that says so, by the isolation level of the readers; "" when it does not say."""
        self._removal = Removal()

    def add(self, operation: Operation) -> None:
        op = operation["op"]
        if op == "send":
            self._send(operation)
        elif op == "poll":
            self._poll(operation)
        elif op == "moved":
            self._polls.append((operation, str(operation["process"]), []))
        elif op == "txn-end":
            self._outcomes[str(operation["txn"])] = str(operation["result"])
        elif op == "drained":
            self._drained[str(operation.get("isolation", ""))] = int(str(operation["line"]))
        elif op == "topic-settings":
            self._removal.settings(operation)
        elif op == "removed":
            self._removal.removed(operation)
        elif op == "scan":
            self._scan(operation)

    def finish(self) -> list[Finding]:
        known = {place: partition.offsets for place, partition in self._partitions.items()}
        self._removal.know(known, self._may_count)
        self._find_lost()
        self._find_aborted_reads()
        self._find_poll_order()
        self._find_cycles()
        self._removal.judge_scans(self._certain())
        return [*self.findings, *self._removal.findings]

    # -- taking in --------------------------------------------------------------------------------------------------

    def _send(self, operation: Operation) -> None:
        place = (str(operation["topic"]), int(str(operation["partition"])))
        value = _hashable(operation["value"])
        txn = operation.get("txn")
        if "key" in operation:
            self._removal.sent(place, value, _hashable(operation["key"]), bool(operation.get("tombstone")))
        if txn is not None:
            self._written[place, value] = str(txn)
        if operation["result"] == "failed":
            self._failed[place, value] = int(str(operation["line"]))
        if operation["result"] != "ok":
            return
        self._acknowledged[place, value] = operation
        offset = operation.get("offset")
        if offset is None:
            return
        at = int(str(offset))
        self._is_at(place, at, value, operation)
        for last, check, owner in (
            (self._last_sent, "nonmonotonic-send", str(operation["process"])),
            (self._last_sent_in, "int-nonmonotonic-send", None if txn is None else str(txn)),
        ):
            if owner is None:
                continue
            before = last.get((owner, place), -1)
            if at <= before:
                self._report(check, f"{owner} sent {value!r} to {_named(place)} at {at}, after {before}", operation)
            last[owner, place] = at

    def _poll(self, operation: Operation) -> None:
        seen: list[tuple[Place, int, Value]] = []
        for topic, index, offset, value in _records(operation):
            place = (topic, index)
            partition = self._is_at(place, offset, value, operation)
            partition.polled.add(value)
            if operation.get("isolation") == "read_committed":
                partition.polled_committed.add(value)
            partition.highest_polled = max(partition.highest_polled, offset)
            seen.append((place, offset, value))
            self._removal.polled(place, offset, operation)
        self._polls.append((operation, str(operation["process"]), seen))

    def _scan(self, operation: Operation) -> None:
        records = operation["records"]
        assert isinstance(records, Iterable)
        self._removal.scanned(operation, [(int(offset), _hashable(value)) for offset, value in records])

    def _is_at(self, place: Place, offset: int, value: Value, operation: Operation) -> _Partition:
        partition = self._partitions.setdefault(place, _Partition())
        known = partition.values.setdefault(offset, value)
        if known != value:
            text = f"{_named(place)} has {known!r} and {value!r} at offset {offset}"
            self._report("inconsistent-offsets", text, operation)
        elsewhere = partition.offsets.setdefault(value, offset)
        if elsewhere != offset:
            text = f"{_named(place)} has {value!r} at offsets {elsewhere} and {offset}"
            self._report("duplicate", text, operation)
        return partition

    # -- judging ----------------------------------------------------------------------------------------------------

    def _is_certain(self, place: Place, value: Value) -> bool:
        """Whether an acknowledged value has to be seen: it was sent outside of a transaction, or in a committed one."""
        txn = self._written.get((place, value))
        return txn is None or self._outcomes.get(txn) == "committed"

    def _may_count(self, place: Place, value: Value) -> bool:
        """Whether a value may be in the log, for all that is known, and not aborted."""
        txn = self._written.get((place, value))
        return (place, value) not in self._failed and (txn is None or self._outcomes.get(txn) != "aborted")

    def _certain(self) -> dict[Place, dict[int, Value]]:
        """What was acknowledged for good, by offset."""
        certain: dict[Place, dict[int, Value]] = {place: {} for place in self._partitions}
        for (place, value), operation in self._acknowledged.items():
            if operation.get("offset") is not None and self._is_certain(place, value):
                certain[place][int(str(operation["offset"]))] = value
        return certain

    def _find_lost(self) -> None:
        for (place, value), operation in self._acknowledged.items():
            partition = self._partitions.get(place)
            if not self._is_certain(place, value):
                continue
            at = operation.get("offset")
            if at is not None and self._removal.may_be_gone(place, int(str(at)), value):
                continue
            if partition is not None and value in partition.polled:
                if "read_committed" in self._drained and value not in partition.polled_committed:
                    text = f"{value!r}, acknowledged for {_named(place)}, was never shown to a read_committed reader"
                    self._report("unseen", text, operation)
                continue
            offset = operation.get("offset")
            highest = -1 if partition is None else partition.highest_polled
            if offset is not None and int(str(offset)) <= highest:
                text = f"{value!r}, acknowledged at {_named(place)} offset {offset}, was passed over by every poll"
                self._report("lost-write", text, operation)
            elif self._drained:
                self._report("unseen", f"{value!r}, acknowledged for {_named(place)}, was never polled", operation)

    def _find_aborted_reads(self) -> None:
        for operation, _, seen in self._polls:
            own = operation.get("txn")
            for place, offset, value in seen:
                txn = self._written.get((place, value))
                if txn is not None and own is not None and txn == str(own):
                    text = f"transaction {txn} polled its own {value!r} at {_named(place)} offset {offset}"
                    self._report("precommitted-read", text, operation)
                elif operation.get("isolation") == "read_committed":
                    aborted = txn is not None and self._outcomes.get(txn) == "aborted"
                    if aborted or (place, value) in self._failed:
                        why = f"its transaction {txn} was aborted" if aborted else "its send failed"
                        text = f"{value!r} was polled at {_named(place)} offset {offset}, and {why}"
                        self._report("G1a", text, operation)

    def _find_poll_order(self) -> None:
        self._find_visible()
        last: dict[tuple[str, Place], int] = {}
        last_in: dict[tuple[str, str, Place], int] = {}
        for operation, process, seen in self._polls:
            if operation["op"] == "moved":
                last = {key: offset for key, offset in last.items() if key[0] != process}
                last_in = {key: offset for key, offset in last_in.items() if key[0] != process}
                continue
            txn = operation.get("txn")
            assigned = operation.get("how") == "assign"
            for place, offset, _ in seen:
                if assigned:
                    self._check_step("", last.get((process, place)), place, offset, process, operation)
                last[process, place] = offset
                if txn is not None:
                    key = (process, str(txn), place)
                    self._check_step("int-", last_in.get(key), place, offset, f"transaction {txn}", operation)
                    last_in[key] = offset

    def _find_visible(self) -> None:
        certain = {place: set(records) for place, records in self._certain().items()}
        for operation, _, seen in self._polls:
            if operation.get("isolation") == "read_committed":
                for place, offset, _value in seen:
                    certain[place].add(offset)
        for place, partition in self._partitions.items():
            polled = {partition.offsets[value] for value in partition.polled}
            partition.visible = sorted(certain[place] | polled)
            partition.visible_committed = sorted(certain[place])

    def _check_step(
        self, prefix: str, before: int | None, place: Place, offset: int, who: str, operation: Operation
    ) -> None:
        if before is None:
            return
        if offset <= before:
            text = f"{who} polled offset {offset} of {_named(place)} after {before}"
            self._report(f"{prefix}nonmonotonic-poll", text, operation)
            return
        partition = self._partitions[place]
        is_committed = operation.get("isolation") == "read_committed"
        visible = partition.visible_committed if is_committed else partition.visible
        between = visible[bisect_right(visible, before) : bisect_left(visible, offset)]
        if between and self._removal.has_facts:
            between = [at for at in between if not self._removal.may_be_gone(place, at, partition.values[at])]
        if between:
            text = f"{who} polled offset {offset} of {_named(place)} after {before}, and passed over {between[0]}"
            self._report(f"{prefix}poll-skip", text, operation)

    def _find_cycles(self) -> None:
        committed = {txn for txn, outcome in self._outcomes.items() if outcome == "committed"}
        versions: dict[Place, list[tuple[int, str]]] = {}
        for place, partition in self._partitions.items():
            writers = ((offset, self._written.get((place, value))) for value, offset in partition.offsets.items())
            versions[place] = sorted((offset, txn) for offset, txn in writers if txn in committed and txn is not None)
        reads: dict[str, dict[Place, int]] = {}
        for operation, _, seen in self._polls:
            reader = operation.get("txn")
            if reader is not None and str(reader) in committed:
                highest = reads.setdefault(str(reader), {})
                for place, offset, _value in seen:
                    highest[place] = max(offset, highest.get(place, -1))
        for kind, cycle in dependency_cycles(versions, reads):
            self.findings.append(Finding(kind, f"transactions {' → '.join(cycle)} depend on each other", 0))

    def _report(self, check: str, text: str, operation: Operation) -> None:
        self.findings.append(Finding(check, text, int(str(operation["line"]))))


def _records(operation: Operation) -> Iterator[tuple[str, int, int, Value]]:
    records = operation["records"]
    assert isinstance(records, Iterable)
    for topic, partition, offset, value in records:
        yield str(topic), int(partition), int(offset), _hashable(value)


def _hashable(value: object) -> Value:
    return tuple(_hashable(each) for each in value) if isinstance(value, list) else value


def _named(place: Place) -> str:
    return f"{place[0]}-{place[1]}"
