"""Checks of what a queue does beyond handing records out, where its settings (`share-settings`) say that it does.

- Q10 A fetch that waits is given a record as soon as one is free, within `wakes_within`.
- Q11 With `dead_letters`, a record that is given up has one letter, and no other record has any.
- Q12 A record that is `due` later is not delivered before.
- Q13 With `isolation` read_committed, no record of an aborted transaction is delivered.

When a record is free at the latest, the history says: `free` of a record that is new, "free" of a delivery whose lock
runs out, a release that was confirmed, the end of a member's connection. What became of a record after a broker died,
or after an acknowledgement whose outcome nobody knows, is not known until it is delivered again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from penstock.checks.history import Finding, Operation

Place: TypeAlias = tuple[str, int]


@dataclass(slots=True)
class _Settings:
    wakes_within: int | None = None
    has_letters: bool = False
    is_committed: bool = False
    delivery_limit: int | None = None


@dataclass(slots=True)
class _Record:
    holder: str | None = None
    until: int = 0
    """Until when it certainly holds the record."""
    count: int = 0
    delivered_at: int | None = None
    """When it was delivered first."""
    free_from: int | None = None
    due: int | None = None
    letters: int = 0
    accepted: bool = False
    maybe_accepted: bool = False


class QueueServiceChecker:
    """Handed operations one by one; `findings` are complete after `finish`."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self._settings: dict[str, _Settings] = {}
        self._any_is_committed = False
        self._records: dict[tuple[str, Place], dict[int, _Record]] = {}
        """By offset, of each group and partition."""
        self._free: dict[tuple[str, Place], dict[int, _Record]] = {}
        """Those that may be free, or are going to be."""
        self._held: dict[tuple[str, str], dict[tuple[Place, int], _Record]] = {}
        self._sent: dict[str, list[tuple[Place, int]]] = {}
        """What each transaction that has not ended has sent."""
        self._aborted: dict[Place, set[int]] = {}
        self._lost: dict[Place, int] = {}
        """The lowest offset of each partition that a power cut has taken."""

    def add(self, operation: Operation) -> None:
        handle = _HANDLERS.get(str(operation["op"]))
        if handle is not None:
            handle(self, operation)

    def finish(self) -> list[Finding]:
        return self.findings

    # -- what queues do ----------------------------------------------------------------------------------------------

    def _share_settings(self, operation: Operation) -> None:
        within, limit = operation.get("wakes_within"), operation.get("delivery_limit")
        self._settings[str(operation["group"])] = _Settings(
            None if within is None else int(str(within)),
            bool(operation.get("dead_letters", False)),
            operation.get("isolation") == "read_committed",
            None if limit is None else int(str(limit)),
        )
        self._any_is_committed = any(each.is_committed for each in self._settings.values())

    def _deliver(self, operation: Operation) -> None:
        group = str(operation["group"])
        settings = self._settings.get(group)
        if settings is None:
            return
        place, offset, time = _place(operation), _int(operation, "offset"), _int(operation, "time")
        record = self._record(group, place, offset)
        record.delivered_at = time if record.delivered_at is None else record.delivered_at
        if record.due is not None and time < record.due:
            text = f"{_named(group, place, offset)} is delivered at {time}, and is due at {record.due}"
            self._report("Q12", text, operation)
        if settings.is_committed and offset in self._aborted.get(place, ()):
            self._report("Q13", f"{_named(group, place, offset)} is delivered after it was aborted", operation)
        record.count, record.holder = _int(operation, "count"), str(operation["member"])
        record.until = _int(operation, "until")
        self._held.setdefault((group, record.holder), {})[place, offset] = record
        self._set_free(group, place, offset, record, operation.get("free"))

    def _acknowledge(self, operation: Operation) -> None:
        group, result = str(operation["group"]), operation["result"]
        if group not in self._settings or result in ("failed", "sent"):
            return
        place, offset, kind = _place(operation), _int(operation, "offset"), operation["kind"]
        record = self._record(group, place, offset)
        if result != "ok":
            record.maybe_accepted = record.maybe_accepted or kind == "accept"
            self._set_free(group, place, offset, record, None)
        elif kind == "renew":
            if self._holds(record, operation):
                record.until = _int(operation, "until")
            self._set_free(group, place, offset, record, operation.get("free"))
        elif kind != "release":
            if kind == "accept":
                record.accepted = record.accepted or self._holds(record, operation)
                record.maybe_accepted = True
            self._set_free(group, place, offset, record, None)
        elif record.holder == operation["member"]:
            record.holder = None
            free_from = max(_int(operation, "time"), int(str(operation.get("not_before", 0))))
            self._set_free(group, place, offset, record, free_from)

    def _holds(self, record: _Record, operation: Operation) -> bool:
        """What is below the start offset is confirmed and ignored: of a record that was given up meanwhile, too."""
        return record.holder == operation["member"] and _int(operation, "time") <= record.until

    def _free_now(self, operation: Operation) -> None:
        group, place, offset = str(operation["group"]), _place(operation), _int(operation, "offset")
        record = self._record(group, place, offset)
        if record.count == 0:
            self._set_free(group, place, offset, record, operation["time"])

    def _member_gone(self, operation: Operation) -> None:
        group, member = str(operation["group"]), str(operation["member"])
        for (place, offset), record in self._held.pop((group, member), {}).items():
            if record.holder == member and record.free_from is not None:
                record.holder = None
                self._set_free(group, place, offset, record, min(record.free_from, _int(operation, "time")))

    def _waited(self, operation: Operation) -> None:
        group, place = str(operation["group"]), _place(operation)
        settings = self._settings.get(group) or _Settings()
        if settings.wakes_within is None:
            return
        since, time = _int(operation, "since"), _int(operation, "time")
        free = self._free.get((group, place), {})
        for offset, record in free.items():
            may_be_given_up = settings.delivery_limit is not None and record.count >= settings.delivery_limit
            if record.free_from is None or may_be_given_up:
                continue
            if max(record.free_from, since) + settings.wakes_within < time:
                waited = f"{operation['member']} waited from {since} to {time}"
                text = f"{_named(group, place, offset)} is free since {record.free_from}, and {waited}"
                self._report("Q10", text, operation)

    def _due(self, operation: Operation) -> None:
        group, place, offset = str(operation["group"]), _place(operation), _int(operation, "offset")
        record = self._record(group, place, offset)
        record.due = _int(operation, "time")
        if record.delivered_at is not None and record.delivered_at < record.due:
            text = f"{_named(group, place, offset)} was delivered at {record.delivered_at}, and is due at {record.due}"
            self._report("Q12", text, operation)

    # -- dead letters --------------------------------------------------------------------------------------------------

    def _letter(self, operation: Operation) -> None:
        group, place, offset = str(operation["group"]), _place(operation), _int(operation, "offset")
        record = self._record(group, place, offset)
        record.letters += 1
        if record.letters > 1 and not self._may_be_another(place, offset):
            self._report("Q11", f"{_named(group, place, offset)} has {record.letters} dead letters", operation)

    def _settled(self, operation: Operation) -> None:
        group, records = str(operation["group"]), operation.get("records", ())
        settings = self._settings.get(group)
        if settings is None or not settings.has_letters:
            return
        assert isinstance(records, Iterable)
        for topic, partition, offset in records:
            place = (topic, partition)
            record = self._record(group, place, offset)
            if not (record.letters or record.accepted or record.maybe_accepted):
                text = f"{_named(group, place, offset)} was not accepted, and has no dead letter"
                self._report("Q11", text, operation)
            elif record.letters and record.accepted and not self._may_be_another(place, offset):
                self._report("Q11", f"{_named(group, place, offset)} was accepted, and has a dead letter", operation)

    def _may_be_another(self, place: Place, offset: int) -> bool:
        """Whether more than one record may have had this offset."""
        return place in self._lost and offset >= self._lost[place]

    # -- transactions --------------------------------------------------------------------------------------------------

    def _send(self, operation: Operation) -> None:
        if self._any_is_committed and "txn" in operation and "offset" in operation:
            sent = (_place(operation), _int(operation, "offset"))
            self._sent.setdefault(str(operation["txn"]), []).append(sent)

    def _txn_end(self, operation: Operation) -> None:
        sent = self._sent.pop(str(operation["txn"]), [])
        if operation["result"] != "aborted":
            return
        committed = [group for group, settings in self._settings.items() if settings.is_committed]
        for place, offset in sent:
            self._aborted.setdefault(place, set()).add(offset)
            for group in committed:
                record = self._records.get((group, place), {}).get(offset)
                if record is not None and record.count:
                    self._report("Q13", f"{_named(group, place, offset)} was delivered, and is aborted", operation)

    # -- faults --------------------------------------------------------------------------------------------------------

    def _fault(self, operation: Operation) -> None:
        place = _place(operation) if "partition" in operation else None
        for (_, of), free in self._free.items():
            if place in (None, of):
                for record in free.values():
                    record.free_from = None
                free.clear()

    def _was_lost(self, operation: Operation) -> None:
        place, first = _place(operation), _int(operation, "offset")
        self._lost[place] = min(first, self._lost.get(place, first))
        for (_, of), records in self._records.items():
            if of == place:
                for offset, record in records.items():
                    if offset >= first:
                        records[offset] = _Record(letters=record.letters)
        self._aborted[place] = {offset for offset in self._aborted.get(place, ()) if offset < first}
        for txn, sent in self._sent.items():
            self._sent[txn] = [each for each in sent if each[0] != place or each[1] < first]

    # -- inside --------------------------------------------------------------------------------------------------------

    def _record(self, group: str, place: Place, offset: int) -> _Record:
        return self._records.setdefault((group, place), {}).setdefault(offset, _Record())

    def _set_free(self, group: str, place: Place, offset: int, record: _Record, free_from: object) -> None:
        record.free_from = None if free_from is None else int(str(free_from))
        free = self._free.setdefault((group, place), {})
        if free_from is None:
            free.pop(offset, None)
        else:
            free[offset] = record

    def _report(self, check: str, text: str, operation: Operation) -> None:
        self.findings.append(Finding(check, text, _int(operation, "line")))


_HANDLERS = {
    "share-settings": QueueServiceChecker._share_settings,
    "deliver": QueueServiceChecker._deliver,
    "acknowledge": QueueServiceChecker._acknowledge,
    "free": QueueServiceChecker._free_now,
    "gone": QueueServiceChecker._member_gone,
    "waited": QueueServiceChecker._waited,
    "due": QueueServiceChecker._due,
    "letter": QueueServiceChecker._letter,
    "settled": QueueServiceChecker._settled,
    "send": QueueServiceChecker._send,
    "txn-end": QueueServiceChecker._txn_end,
    "fault": QueueServiceChecker._fault,
    "lost": QueueServiceChecker._was_lost,
}


def _place(operation: Operation) -> Place:
    return str(operation["topic"]), _int(operation, "partition")


def _int(operation: Operation, name: str) -> int:
    return int(str(operation[name]))


def _named(group: str, place: Place, offset: int) -> str:
    return f"offset {offset} of {place[0]}-{place[1]} in {group}"
