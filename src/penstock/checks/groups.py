"""Checks of consumer groups: one owner a partition, none without one, and committed offsets that do not go back.

- M1 A partition never has two owners at a time.
- M2 When the group is at rest, every partition of its topics has an owner.
- M3 A committed offset does not go back, unless somebody reset it, or had read what a power cut took back.
- M4 A static member that returns in time moves no partition.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from penstock.checks.history import Finding, Operation

Partition: TypeAlias = tuple[str, str, int]
"""Group, topic, partition."""


class GroupChecker:
    """Handed operations one by one; `findings` are complete after `finish`."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self._owners: dict[Partition, dict[str, float]] = {}
        """Until when each owner may own it."""
        self._last_owner: dict[Partition, str] = {}
        self._committed: dict[Partition, int] = {}
        self._taken_back: dict[tuple[str, int], tuple[int, set[str]]] = {}
        """Where a log ended after a power cut, and the groups that have gone back because of it."""
        self._away: dict[tuple[str, str], list[Operation]] = {}

    def add(self, operation: Operation) -> None:
        op = operation["op"]
        if op in ("own", "disown"):
            self._change_owner(operation, op == "own")
        elif op == "offset-commit":
            self._commit(operation)
        elif op == "lost":
            self._lost(operation)
        elif op == "static-away":
            self._away[str(operation["group"]), str(operation["member"])] = []
        elif op == "static-back":
            self._return(operation)
        elif op == "rest":
            self._rest(operation)

    def finish(self) -> list[Finding]:
        return self.findings

    def _change_owner(self, operation: Operation, owns: bool) -> None:
        partition, member = _partition(operation), str(operation["member"])
        owners = self._owners.setdefault(partition, {})
        if owns:
            now = int(str(operation["time"]))
            others = [other for other, until in owners.items() if other != member and until > now]
            if others:
                text = f"{member} owns {_named(partition)} while {', '.join(sorted(others))} does"
                self._report("M1", text, operation)
            owners[member] = float(str(operation.get("until", "inf")))
            if self._last_owner.setdefault(partition, member) != member:
                self._last_owner[partition] = member
                self._moved(partition[0], operation)
        else:
            owners.pop(member, None)

    def _moved(self, group: str, operation: Operation) -> None:
        for (of_group, _), changes in self._away.items():
            if of_group == group:
                changes.append(operation)

    def _commit(self, operation: Operation) -> None:
        if operation["result"] != "ok":
            return
        partition, offset = _partition(operation), int(str(operation["offset"]))
        before = self._committed.get(partition, offset)
        if offset < before and not operation.get("reset") and not self._was_taken_back(partition, offset):
            text = f"the committed offset of {_named(partition)} goes back from {before} to {offset}"
            self._report("M3", text, operation)
        self._committed[partition] = offset

    def _lost(self, operation: Operation) -> None:
        """Whoever had read what a power cut took back goes on where the log ends now."""
        topic, index, end = str(operation["topic"]), int(str(operation["partition"])), int(str(operation["offset"]))
        self._taken_back[topic, index] = end, set()
        for partition, offset in self._committed.items():
            if partition[1:] == (topic, index):
                self._committed[partition] = min(offset, end)

    def _was_taken_back(self, partition: Partition, offset: int) -> bool:
        """A reader may commit what was taken back before it finds out, and then goes back: once, and no further."""
        end, gone_back = self._taken_back.get(partition[1:], (None, set[str]()))
        if end is None or offset < end or partition[0] in gone_back:
            return False
        gone_back.add(partition[0])
        return True

    def _return(self, operation: Operation) -> None:
        member = str(operation["member"])
        changes = self._away.pop((str(operation["group"]), member), [])
        for change in changes[:1]:
            moved = f"{_named(_partition(change))} moved in line {change['line']}"
            self._report("M4", f"the static member {member} came back in time, and {moved}", operation)

    def _rest(self, operation: Operation) -> None:
        partitions = operation["partitions"]
        assert isinstance(partitions, Iterable)
        for topic, index in partitions:
            partition = (str(operation["group"]), str(topic), int(index))
            now = int(str(operation["time"]))
            if not any(until > now for until in self._owners.get(partition, {}).values()):
                self._report("M2", f"{_named(partition)} has no owner, and the group is at rest", operation)

    def _report(self, check: str, text: str, operation: Operation) -> None:
        self.findings.append(Finding(check, text, int(str(operation["line"]))))


def _partition(operation: Operation) -> Partition:
    return str(operation["group"]), str(operation["topic"]), int(str(operation["partition"]))


def _named(partition: Partition) -> str:
    return f"{partition[1]}-{partition[2]} in {partition[0]}"
