"""The contract of a catalog that several brokers share: who there is, who leads what, and what has changed.

`SharedCatalog` is a `Catalog` with three more things in it. A broker without others never uses them, and pays nothing
for them.

**Brokers.** Each registers when it is ready for clients, with its addresses. Registering raises the broker's epoch, so
that an earlier incarnation can be recognized. A broker that ends unregisters: its row stays, and is not live.

**Partitions.** The catalog says who leads. A topic that is created with placements has a row for each partition; a
partition without a row belongs to a broker without others. A partition that somebody new leads gets a higher leader
epoch, always. Where owners are fixed the log decides about its epoch: a recovery that cut off records raises it, and
the owner says so with `raise_leader_epochs`.

**Versions.** Any change, by any broker, raises the version. `changes_since` says, cheaply, which kinds of things have
changed, so that a broker rereads these and applies what is different. It never says too little; it may say too much: a
broker hears of its own changes too. What a broker read is true of the version that it asked for before it read, or of a
later one.

**Several brokers change things.** A change is made on what is there when it is made, whatever the broker has read
before. The rule of `contract` that one broker owns the catalog does not hold here, and changes by others do not raise
CatalogLost.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, Protocol

from penstock.catalog.contract import Catalog, CatalogError

NOBODY = -1
"""The leader of a partition that nobody leads."""

FIRST_LEADER_EPOCH = 0


class Kind(IntEnum):
    """What a change is about. The numbers are stored."""

    TOPICS = 1  # which there are, how many partitions they have, and their configs
    PARTITIONS = 2  # who leads them, and who may
    BROKERS = 3
    CONFIGS = 4  # of all but topics
    FEATURES = 5
    ACLS = 6
    CREDENTIALS = 7
    QUOTAS = 8


class Changes(NamedTuple):
    version: int
    kinds: frozenset[Kind]


class HostAndPort(NamedTuple):
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class BrokerRow:
    node_id: int
    epoch: int
    instance_id: str
    rack: str | None
    endpoints: Mapping[str, HostAndPort]
    """The advertised address of each listener, by its name."""
    is_live: bool


class PartitionRow(NamedTuple):
    topic_id: bytes
    partition_index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    elected: int = NOBODY
    """To whom the leader is to hand over."""
    replaced: tuple[int, ...] = ()
    """The replicas before a reassignment that is under way."""


class Placement(NamedTuple):
    """Who leads a partition, and who may take over, the preferred leader first."""

    leader: int
    replicas: tuple[int, ...]


class LeaderEpoch(NamedTuple):
    topic_id: bytes
    partition_index: int
    epoch: int


class Move(NamedTuple):
    topic_id: bytes
    partition_index: int
    placement: Placement


class Direction(NamedTuple):
    """What an administrator wants of a partition. None leaves as it is what it stands for."""

    topic_id: bytes
    partition_index: int
    replicas: tuple[int, ...] | None = None
    replaced: tuple[int, ...] | None = None
    elected: int = NOBODY


def check_placements(partitions: int, placements: Sequence[Placement]) -> None:
    """Raise CatalogError unless there is a placement for each of the new partitions, or for none."""
    if placements and len(placements) != partitions:
        raise CatalogError(f"{partitions} new partitions cannot have {len(placements)} placements")


class SharedCatalog(Catalog, Protocol):
    # Versions

    def version(self) -> int:
        """Rises with every change, by whomever."""

    def changes_since(self, version: int) -> Changes:
        """The version now, and the kinds of things that have changed since an earlier one."""

    # Brokers

    def brokers(self) -> list[BrokerRow]:
        """All that ever registered, by node id."""

    def register_broker(
        self, node_id: int, instance_id: str, rack: str | None, endpoints: Mapping[str, HostAndPort]
    ) -> int:
        """Say that a broker is ready. Returns its epoch, which is higher than all that it had before."""

    def unregister_broker(self, node_id: int, epoch: int) -> None:
        """Say that a broker has ended. Without effect if it has registered again since that epoch."""

    # Partitions

    def partitions(self) -> list[PartitionRow]:
        """All rows, by topic id and index."""

    def create_topic(
        self,
        name: str,
        topic_id: bytes,
        partitions: int,
        configs: Mapping[str, str],
        placements: Sequence[Placement] = (),
    ) -> None:
        """As in `Catalog`, with the placement of every partition, or of none. Leader epochs begin with 0."""

    def set_partitions(self, topic_id: bytes, partitions: int, placements: Sequence[Placement] = ()) -> None:
        """As in `Catalog`, with the placements of those that are new, or of none."""

    def raise_leader_epochs(self, node_id: int, epochs: Collection[LeaderEpoch]) -> None:
        """Say under which epochs a leader leads. Epochs that are not higher, and partitions that somebody else leads
        by now, are passed over."""
