"""Acquisition locks: who holds which records, since when, until when.

One lock is granted per acquisition and covers all records of it; a renewal (KIP-1222) grants a new one for the part
that it names, as old as what it renews. A lock lives as long as a record is under it. Deadlines sit in a heap whose
stale entries are skipped, and swept out when they outnumber the living.
"""

from __future__ import annotations

import heapq

_SWEEP_SLACK = 64


class Lock:
    __slots__ = ("deadline_ms", "expired", "first", "held", "last", "member_id", "since_ms", "ticket")

    def __init__(
        self, ticket: int, member_id: str, since_ms: int, deadline_ms: int, first: int, last: int, held: int
    ) -> None:
        self.ticket = ticket
        self.member_id = member_id
        self.since_ms = since_ms
        self.deadline_ms = deadline_ms
        self.first = first
        self.last = last
        self.held = held
        self.expired = False


class LockTable:
    def __init__(self) -> None:
        self._by_ticket: dict[int, Lock] = {}
        self._by_member: dict[str, dict[int, Lock]] = {}
        self._deadlines: list[tuple[int, int]] = []
        self.held = 0
        """Records under all locks together."""

    def __len__(self) -> int:
        return len(self._by_ticket)

    def grant(
        self, ticket: int, member_id: str, since_ms: int, deadline_ms: int, first: int, last: int, held: int
    ) -> Lock:
        lock = Lock(ticket, member_id, since_ms, deadline_ms, first, last, held)
        self._by_ticket[ticket] = lock
        self.held += held
        self._by_member.setdefault(member_id, {})[ticket] = lock
        heapq.heappush(self._deadlines, (deadline_ms, ticket))
        if len(self._deadlines) > 2 * len(self._by_ticket) + _SWEEP_SLACK:
            self._deadlines = [(entry.deadline_ms, entry.ticket) for entry in self._by_ticket.values()]
            heapq.heapify(self._deadlines)
        return lock

    def get(self, ticket: int) -> Lock | None:
        return self._by_ticket.get(ticket)

    def of_member(self, member_id: str) -> list[Lock]:
        return list(self._by_member.get(member_id, {}).values())

    def members(self) -> dict[str, int]:
        """Records held, by member."""
        return {member: sum(lock.held for lock in locks.values()) for member, locks in self._by_member.items()}

    def oldest_ms(self) -> dict[str, int]:
        """Since when each member has held the oldest of its records."""
        return {member: min(lock.since_ms for lock in locks.values()) for member, locks in self._by_member.items()}

    def next_end_ms(self) -> dict[str, int]:
        """When the first lock of each member ends."""
        return {member: min(lock.deadline_ms for lock in locks.values()) for member, locks in self._by_member.items()}

    def give_up(self, ticket: int, number: int) -> None:
        """That many records are no longer under this lock."""
        lock = self._by_ticket[ticket]
        lock.held -= number
        self.held -= number
        assert lock.held >= 0, "a lock gave up more records than it held"
        if lock.held == 0:
            del self._by_ticket[ticket]
            locks = self._by_member[lock.member_id]
            del locks[ticket]
            if not locks:
                del self._by_member[lock.member_id]

    def due(self, now_ms: int) -> list[Lock]:
        """Locks whose time is up, each handed out once."""
        found: list[Lock] = []
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            _, ticket = heapq.heappop(self._deadlines)
            lock = self._by_ticket.get(ticket)
            if lock is not None and not lock.expired:
                lock.expired = True
                found.append(lock)
        return found

    def next_deadline_ms(self) -> int | None:
        while self._deadlines and self._deadlines[0][1] not in self._by_ticket:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None
