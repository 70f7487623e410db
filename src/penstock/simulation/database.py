"""The database of a simulated cluster: catalog, leases and commits, changed together as PostgreSQL changes them.

What each method does is one transaction. It is told apart from how brokers reach it (`links`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from penstock.catalog.contract import CatalogError
from penstock.catalog.leases import Decide, NodeIdInUse, NotRegistered, Standing
from penstock.catalog.memory import MemoryCatalog
from penstock.catalog.shared import HostAndPort, Kind, LeaderEpoch, Move
from penstock.storage.objects.commit_log import Outcome, PartitionKey, SegmentEntry, StoredObject, Tail
from penstock.storage.objects.memory_commit_log import MemoryCommitLog

if TYPE_CHECKING:
    from penstock.simulation.loop import Process

T = TypeVar("T")


class Session:
    """A connection of a broker, as the database sees it."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._is_closed = False

    def close(self) -> None:
        self._is_closed = True

    @property
    def is_open(self) -> bool:
        """The operating system closes what a killed process has left; of a machine that is gone nobody hears."""
        return not self._is_closed and not (self._process.is_dead and not self._process.is_silent)


@dataclass(slots=True)
class _Lease:
    until: float
    session: Session | None = None
    is_draining: bool = False


class CommitRows(MemoryCommitLog):
    """The commit log of a database, in which the catalog says who leads."""

    def __init__(self, catalog: MemoryCatalog, clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self._catalog = catalog
        self.on_named: Callable[[str], object] | None = None
        """Called with each object that a change has named."""
        self.ever_named: set[str] = set()
        self.unnamed_at: dict[str, float] = {}
        """When the last name of an object was gone."""
        self._named: set[str] = set()

    def commit(self, stored: StoredObject | None, tails: Sequence[Tail]) -> list[Outcome]:
        outcomes = super().commit(stored, tails)
        if stored is not None:
            self._look_at_names()
        return outcomes

    def add_segment(self, partition: PartitionKey, leader_epoch: int, segment: SegmentEntry) -> Outcome:
        outcome = super().add_segment(partition, leader_epoch, segment)
        self._look_at_names()
        return outcome

    def replace_segments(
        self, partition: PartitionKey, leader_epoch: int, replaced: Sequence[str], segment: SegmentEntry
    ) -> Outcome:
        outcome = super().replace_segments(partition, leader_epoch, replaced, segment)
        self._look_at_names()
        return outcome

    def move_start(self, partition: PartitionKey, leader_epoch: int, log_start_offset: int) -> Outcome:
        outcome = super().move_start(partition, leader_epoch, log_start_offset)
        self._look_at_names()
        return outcome

    def named(self) -> set[str]:
        """The objects that an extent or a segment names."""
        layouts = self.layouts(self.partitions()).values()
        extents = {each.object_key for layout in layouts for each in layout.extents if each.object_key is not None}
        return extents | {each.object_key for layout in layouts for each in layout.segments}

    def _look_at_names(self) -> None:
        before, self._named = self._named, self.named()
        for key in before - self._named:
            self.unnamed_at[key] = self._clock()
        for key in sorted(self._named - self.ever_named):
            self.ever_named.add(key)
            if self.on_named is not None:
                self.on_named(key)

    def follow_catalog(self) -> None:
        rows = {PartitionKey(*row[:2]): row for row in self._catalog.partitions()}
        for key, row in rows.items():
            self.create(key, row.leader, row.leader_epoch)
        gone = set(self._rows) - rows.keys()
        for key in gone:
            self.delete(key)
        if gone:
            self._look_at_names()

    def broker_epochs(self) -> dict[int, int]:
        return {row.node_id: row.epoch for row in self._catalog.brokers()}


class _Tables(MemoryCatalog):
    def announce(self, node_id: int, endpoints: Mapping[str, HostAndPort]) -> None:
        self._brokers[node_id] = replace(self._brokers[node_id], endpoints=dict(endpoints))
        self.note(Kind.BROKERS)

    def is_registered(self, node_id: int, epoch: int) -> bool:
        row = self._brokers.get(node_id)
        return row is not None and row.is_live and row.epoch == epoch

    def note(self, kind: Kind) -> None:
        """Tell brokers that something of a kind has changed."""
        self._changed(kind)


class Database:
    def __init__(self, clock: Callable[[], float]) -> None:
        self.catalog = _Tables()
        self.commits = CommitRows(self.catalog, clock)
        self.on_change: list[Callable[[], None]] = []
        """Called after each change of the catalog."""
        self._clock = clock
        self._started_at = clock() - 3600
        self._leases: dict[int, _Lease] = {}
        self._made: dict[str, object] = {}
        """The answers to changes that were made, by the ids of the changes."""

    def restarted(self) -> None:
        """The server was started again: it has kept everything."""
        self._started_at = self._clock()
        for lease in self._leases.values():
            if lease.session is not None:
                lease.session.close()

    def change(self, change_id: str, apply: Callable[[], T]) -> T:
        """Make a change, unless an attempt before this one has made it."""
        if change_id not in self._made:
            self._made[change_id] = apply()
            self._changed()
        return self._made[change_id]  # type: ignore[return-value]

    def _changed(self) -> None:
        self.commits.follow_catalog()
        for callback in list(self.on_change):
            callback()

    # -- brokers -------------------------------------------------------------------------------------------------------

    def register(
        self,
        node_id: int,
        instance_id: str,
        rack: str | None,
        endpoints: Mapping[str, HostAndPort],
        lease_seconds: float,
    ) -> int:
        now = self._clock()
        row = next((each for each in self.catalog.brokers() if each.node_id == node_id), None)
        if row is not None and row.is_live and row.instance_id != instance_id and self._leases[node_id].until > now:
            raise NodeIdInUse(f"node id {node_id} is in use")
        epoch = self.catalog.register_broker(node_id, instance_id, rack, endpoints)
        self._leases[node_id] = _Lease(now + lease_seconds)
        led = [each for each in self.catalog.partitions() if each.leader == node_id]
        raised = [LeaderEpoch(each.topic_id, each.partition_index, each.leader_epoch + 1) for each in led]
        self.catalog.raise_leader_epochs(node_id, raised)
        return epoch

    def announce(self, node_id: int, epoch: int, endpoints: Mapping[str, HostAndPort]) -> None:
        self._check_registered(node_id, epoch)
        self.catalog.announce(node_id, endpoints)

    def hand_over(self, node_id: int, epoch: int, moves: Collection[Move]) -> None:
        self._check_registered(node_id, epoch)
        led = {row[:2] for row in self.catalog.partitions() if row.leader == node_id}
        self.catalog.move_partitions([move for move in moves if move[:2] in led])

    def _check_registered(self, node_id: int, epoch: int) -> None:
        if not self.catalog.is_registered(node_id, epoch):
            raise NotRegistered(f"broker {node_id} is not registered under epoch {epoch} any more")

    # -- leases --------------------------------------------------------------------------------------------------------

    def holds_lease(self, node_id: int, epoch: int) -> bool:
        return self.catalog.is_registered(node_id, epoch) and self._leases[node_id].until > self._clock()

    def renew(self, node_id: int, epoch: int, lease_seconds: float, session: Session) -> bool | None:
        """Whether the broker is to drain; None if it has no lease any more."""
        if not self.catalog.is_registered(node_id, epoch):
            return None
        lease = self._leases[node_id]
        lease.until, lease.session = self._clock() + lease_seconds, session
        return lease.is_draining

    def standings(self) -> list[Standing]:
        now = self._clock()
        return [
            Standing(
                row.node_id,
                row.epoch,
                row.is_live,
                (lease := self._leases[row.node_id]).is_draining,
                lease.until - now,
                lease.session is None or lease.session.is_open,
            )
            for row in self.catalog.brokers()
        ]

    def settle(
        self, refusing: Collection[tuple[int, int]], decide: Decide, lease_seconds: float, *, ends_late: bool
    ) -> list[int]:
        now = self._clock()
        may_end_late = ends_late and now > self._started_at + lease_seconds
        ended = []
        for row in self.catalog.brokers():
            lease = self._leases[row.node_id]
            is_gone = (row.node_id, row.epoch) in refusing and lease.session is not None and not lease.session.is_open
            if row.is_live and (is_gone or (may_end_late and lease.until < now)):
                self.catalog.unregister_broker(row.node_id, row.epoch)
                self._leases[row.node_id] = replace(lease, session=None)
                ended.append(row.node_id)
        draining = frozenset(node_id for node_id, lease in self._leases.items() if lease.is_draining)
        moves = decide(self.catalog.brokers(), self.catalog.partitions(), draining)
        if moves:
            self.catalog.move_partitions(moves)
        if ended or moves:
            self._changed()
        return ended

    def drain(self, node_id: int, *, even_the_last: bool) -> None:
        if not any(row.node_id == node_id and row.is_live for row in self.catalog.brokers()):
            raise CatalogError(f"no broker with node id {node_id} is running")
        takes_over = any(
            row.node_id != node_id and row.is_live and row.endpoints and not self._leases[row.node_id].is_draining
            for row in self.catalog.brokers()
        )
        if not even_the_last and not takes_over:
            raise CatalogError(f"broker {node_id} cannot hand over, because no other broker is running")
        self._leases[node_id].is_draining = True
        self.catalog.note(Kind.BROKERS)
        self._changed()
