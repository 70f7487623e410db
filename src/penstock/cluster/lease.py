"""A broker's own view of its lease: how long it may act as a leader.

The lease is granted by PostgreSQL, for a time by PostgreSQL's clock. On this side it counts from the moment *before*
the renewal was sent, by a clock that also counts while the machine sleeps (CLOCK_BOOTTIME), so that it ends here no
later than there. Safety does not rest on it, since commits are fenced by their epoch; that a broker without a lease
answers no reads of what may be stale does.

    WAITING --renewed--> HELD --time--> OVER --renewed--> HELD
    any --refused--> FENCED: the broker has to register again

A lease that was over is held again by a renewal, if nobody has ended it in the meantime. Only a broker that has held
its lease without a gap for one whole lease may end those of others: after PostgreSQL was away, the others get the time
to come back.
"""

from __future__ import annotations

import math
from enum import Enum

RENEWALS_PER_LEASE = 6
"""At least."""


class LeaseState(Enum):
    WAITING = "waiting"
    HELD = "held"
    OVER = "over"
    FENCED = "fenced"


class Lease:
    __slots__ = ("_held_since", "_is_fenced", "_until", "pause_seconds", "seconds")

    def __init__(self, seconds: float, renewal_seconds: float = math.inf) -> None:
        self.seconds = seconds
        self.pause_seconds = min(renewal_seconds, seconds / RENEWALS_PER_LEASE)
        """How long after one renewal the next is sent."""
        self._until: float | None = None
        self._held_since = 0.0
        self._is_fenced = False

    def state(self, now: float) -> LeaseState:
        if self._is_fenced:
            return LeaseState.FENCED
        if self._until is None:
            return LeaseState.WAITING
        return LeaseState.HELD if now < self._until else LeaseState.OVER

    def renewed(self, sent_at: float) -> None:
        """A renewal (or the registration) that was sent at `sent_at` was granted."""
        if self._is_fenced:
            return
        until = sent_at + self.seconds
        if self._until is None or sent_at >= self._until:
            self._held_since = sent_at
        self._until = until if self._until is None else max(self._until, until)

    def refused(self) -> None:
        """Others have ended the lease."""
        self._is_fenced = True

    def registered(self, sent_at: float) -> None:
        """A new lease, under a new epoch."""
        self._is_fenced = False
        self._until = None
        self.renewed(sent_at)

    def may_end_others(self, now: float) -> bool:
        return self.state(now) is LeaseState.HELD and now - self._held_since >= self.seconds
