"""What each member of a share group does with the records of one share-partition: rates, and when it last answered.

Whoever looks at a queue wants to know which worker is slow and which one has stopped. A member is known from its first
delivery until it has done nothing and held nothing for a while, and a window remembers a bounded number of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from penstock.queues.transitions import AcknowledgeType
from penstock.recent import Recent

_WINDOW_SECONDS = 60.0
_FORGOTTEN_SECONDS = 600.0
MEMBERS_MAX = 1_000

_ANSWERS = (AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT)


class Worker:
    """One member; times are monotonic, in seconds."""

    __slots__ = ("acknowledged", "acknowledged_at", "acknowledging", "delivered", "delivering", "seen_at")

    def __init__(self, now: float) -> None:
        self.delivered = 0
        """Records handed to it; one that is delivered again counts again."""
        self.acknowledged = 0
        """Records that it has accepted, released or rejected."""
        self.acknowledged_at: float | None = None
        self.seen_at = now
        self.delivering = Recent(now, _WINDOW_SECONDS)
        self.acknowledging = Recent(now, _WINDOW_SECONDS)


class Workers:
    def __init__(self) -> None:
        self._by_member: dict[str, Worker] = {}

    def delivered(self, member_id: str, records: int, now: float) -> None:
        worker = self._of(member_id, now)
        worker.delivered += records
        worker.delivering.add(records, now)

    def acknowledged(self, member_id: str, counts: Mapping[AcknowledgeType, int], now: float) -> None:
        """A renewal is a sign of life, and no answer."""
        worker = self._of(member_id, now)
        records = sum(counts.get(kind, 0) for kind in _ANSWERS)
        if records:
            worker.acknowledged += records
            worker.acknowledged_at = now
            worker.acknowledging.add(records, now)

    def known(self, holders: Collection[str], now: float) -> Mapping[str, Worker]:
        """Those who hold records, or did something lately."""
        self._by_member = {
            member_id: worker
            for member_id, worker in self._by_member.items()
            if member_id in holders or now - worker.seen_at < _FORGOTTEN_SECONDS
        }
        return self._by_member

    def _of(self, member_id: str, now: float) -> Worker:
        worker = self._by_member.pop(member_id, None) or Worker(now)
        worker.seen_at = now
        if len(self._by_member) >= MEMBERS_MAX:
            del self._by_member[next(iter(self._by_member))]  # the one that has been silent for longest
        self._by_member[member_id] = worker
        return worker
