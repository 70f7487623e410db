"""How a broker is doing: whether it can serve clients, and for how long its tasks have not ended well.

A task that silently stopped is found by its age: the time since it last ended well, or since there is work for it.
Names of tasks are seen by users, in `penstock_success_age_seconds` and in alerts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from penstock.broker.metrics import Metric
from penstock.broker.store_metrics import MeasuredStore

if TYPE_CHECKING:
    from penstock.broker.membership import Membership
    from penstock.storage.contract import Storage

COMPACTION = "compaction"
OWNERSHIP = "ownership of the catalog"
LEASE = "renewal of the lease"
STORE = "commits to the store"
UNTIMED = ("expiry of producers",)
"""What is done so rarely that its age says nothing."""

FULL_BYTES = 16 << 20

Ages = Callable[[], Mapping[str, float]]


class Vitals:
    def __init__(
        self,
        storage: Storage,
        membership: Membership | None,
        ownership_confirmed: Callable[[], float] | None,
        monotonic: Callable[[], float],
        loading: Callable[[], list[str]],
    ) -> None:
        """`ownership_confirmed` gives when this broker last knew that it owns its catalog, where it can lose it;
        `loading` the names of internal topics that are being loaded."""
        self._storage = storage
        self._membership = membership
        self._ownership_confirmed = ownership_confirmed
        self._monotonic = monotonic
        self._loading = loading
        self._store = storage if isinstance(storage, MeasuredStore) else None
        self._stored_at = monotonic()
        self.ages: list[Ages] = []
        """What gives the ages of tasks; of a task that several know the greatest age counts."""

    def sweep(self) -> None:
        """Called every second."""
        if self._store is not None and not self._store.figures().backlog_bytes:
            self._stored_at = self._monotonic()

    def not_ready(self) -> list[str]:
        """Why this broker should not be sent clients now."""
        reasons = [f"{name} is being loaded" for name in self._loading()]
        volume = self._storage.volume()
        if os.path.isdir(volume.path) and not os.access(volume.path, os.W_OK):
            reasons.append("the data folder cannot be written")
        elif volume.usable_bytes < FULL_BYTES:
            reasons.append(f"the disk of the data folder is full: {volume.usable_bytes:,} bytes are left")
        if self._membership is not None and not self._membership.check():
            reasons.append("the lease of this broker is over, see whether it reaches the cluster's database")
        return reasons

    def success_ages(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for ages in (*self.ages, self._own_ages):
            for task, seconds in ages().items():
                found[task] = max(seconds, found.get(task, 0.0))
        return found

    def _own_ages(self) -> dict[str, float]:
        ages = {}
        if self._ownership_confirmed is not None:
            ages[OWNERSHIP] = self._monotonic() - self._ownership_confirmed()
        if self._membership is not None:
            ages[LEASE] = self._membership.age_seconds
        if self._store is not None:
            ages[STORE] = self._waiting_for_the_store(self._store)
        return ages

    def _waiting_for_the_store(self, store: MeasuredStore) -> float:
        """For how long there has been something to commit, and nothing was committed."""
        figures = store.figures()
        if not figures.backlog_bytes:
            return 0.0
        waiting = self._monotonic() - self._stored_at
        return waiting if figures.commit_age_seconds < 0 else min(waiting, figures.commit_age_seconds)

    def metrics(self) -> Iterator[Metric]:
        ages = Metric("penstock_success_age_seconds")
        for task, seconds in self.success_ages().items():
            ages.add(seconds, task)
        yield ages
        volume = self._storage.volume()
        yield Metric("penstock_disk_total_bytes").add(volume.total_bytes)
        yield Metric("penstock_disk_usable_bytes").add(volume.usable_bytes)
        if self._membership is not None:
            yield Metric("penstock_lease_seconds").add(self._membership.lease.seconds)
