"""The contract of leases: how a broker stays a member of its cluster, and how those that are gone are noticed.

A broker that has registered holds a lease, by the clock of whoever grants it, and renews it. When a lease is over, or
its broker is plainly gone, any other broker may end it; whoever does fences first, and then gives the partitions away.

Calls block, and belong to one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from penstock.catalog.contract import CatalogError
from penstock.catalog.shared import BrokerRow, Direction, HostAndPort, Kind, Move, PartitionRow, SharedCatalog


class NodeIdInUse(CatalogError):
    """Another broker with this node id holds a lease."""


class NotRegistered(CatalogError):
    """The broker is no member any more: others have ended its lease, or it was registered anew."""


class Renewal(NamedTuple):
    is_draining: bool
    notified: bool
    """Whether somebody has changed the catalog since the last renewal."""


class Standing(NamedTuple):
    """How a broker stands, by the clock of whoever grants leases."""

    node_id: int
    epoch: int
    is_live: bool
    is_draining: bool
    lease_seconds: float
    """What is left of the lease; negative when it is over."""
    has_session: bool


Decide: TypeAlias = Callable[[Sequence[BrokerRow], Sequence[PartitionRow], frozenset[int]], Sequence[Move]]
"""Brokers, partitions, and the node ids of those that are draining."""


class Leases(Protocol):
    def renew(self, node_id: int, epoch: int) -> Renewal | None:
        """None if the lease was ended by others, or the broker has registered again. Raises CatalogError."""

    def standings(self) -> list[Standing]: ...

    def settle(self, refusing: Collection[tuple[int, int]], decide: Decide, *, ends_late: bool = True) -> list[int]:
        """End the leases that are over, unless `ends_late` is false, and those of (node id, epoch) in `refusing` whose
        session is gone; then let `decide` say which partitions move. Returns the node ids of the brokers whose leases
        ended."""

    def drain(self, node_id: int, *, even_the_last: bool = True) -> None:
        """Have a broker hand its partitions over and stop.

        Raises CatalogError if there is no such broker or, unless `even_the_last`, nobody is there to take over.
        """

    def wait(self, seconds: float) -> bool:
        """Wait until somebody changes the catalog; False if nobody has in this time."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Prefetched:
    """What a thread has read of the catalog: everything of the kinds that have changed, as of a version or later."""

    version: int
    kinds: frozenset[Kind]
    local_changes: int
    """How many changes this broker had made when the reading began."""
    rows: Mapping[tuple[object, ...], object]


class MemberCatalog(SharedCatalog, Protocol):
    """The catalog of a broker that holds a lease. Reading it waits for a server, so that a thread reads ahead."""

    @property
    def local_changes(self) -> int:
        """Rises before and after each change that this broker makes: what was read in between is not all there is."""

    def holding(self, prefetched: Prefetched) -> AbstractContextManager[None]:
        """Inside the block reads are answered from what a thread has read."""

    def direct_partitions(self, directions: Collection[Direction]) -> None:
        """Say what administrators want of partitions. Leaders carry it out; it is remembered until then.

        A partition that is not there any more is passed over.
        """


class MemberReader(SharedCatalog, Protocol):
    """The same catalog, as the thread that holds the lease uses it."""

    def prefetch(self, version: int, local_changes: int, also: frozenset[Kind] = frozenset()) -> Prefetched | None:
        """Everything of the kinds that have changed since a version, and of those in `also`; None if nothing has."""

    def announce_broker(self, node_id: int, epoch: int, endpoints: Mapping[str, HostAndPort]) -> None:
        """Say where a broker that has registered is reached. Raises CatalogError if it is not registered any more."""

    def hand_over(self, node_id: int, epoch: int, moves: Collection[Move]) -> None:
        """Give partitions that this broker leads to others; those that it does not lead any more are passed over.

        Raises CatalogError, also if the broker is not registered under this epoch any more.
        """
