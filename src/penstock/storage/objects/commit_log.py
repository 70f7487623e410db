"""The contract of the commit log: what says which records of a partition count, and where their bytes are.

A partition has a row: who leads it under which epoch, and where its log starts and ends. **Committed is what lies below
the end in that row.** Its bytes are in *extents* (a range of an object, or the bytes themselves) and, for what is
older, in *segments* (an object with a segment file, its indexes and the producer state at its end). Both name their
objects, and an object that nothing names any more is marked and later removed.

**Guarded changes.** Every change of a partition names the leader epoch under which it is made and what it expects to
find. A leader that was replaced changes nothing, however late its request arrives. The outcome is reported for each
partition: one that moved away does not fail the others.

**Unknown outcomes.** When a call raises CommitLogAway, the change may have been made. Repeating the call settles it:
the first attempt has ended by the time the second looks, and a change that is found to be made counts as committed.

Calls block, and may come from any thread; engines take care of that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, Protocol

from penstock.log.errors import StorageError

NOBODY = -1


class CommitLogAway(StorageError):
    """The commit log cannot be reached. Whether the change was made is not known: repeat it."""


class PartitionKey(NamedTuple):
    topic_id: bytes
    partition: int


class StoredObject(NamedTuple):
    key: str
    size: int


class Tail(NamedTuple):
    """What a leader has appended to one partition since its last commit."""

    partition: PartitionKey
    leader_epoch: int
    base_offset: int
    """Where the partition must end."""
    end_offset: int
    position: int
    """In the object that the commit names."""
    size: int
    data: bytes | None
    """The bytes themselves, if they are in no object."""
    begins_epoch: bool = True
    """Whether nothing is known to have been committed under this epoch before."""


class Outcome(Enum):
    COMMITTED = "committed"
    FENCED = "fenced"
    """The partition has another leader epoch."""
    DELETED = "deleted"
    """There is no such partition any more."""
    DIVERGED = "diverged"
    """The epoch is right, and the log or its segments are not what the leader knows: the commit log went back."""


class Extent(NamedTuple):
    base_offset: int
    end_offset: int
    object_key: str | None
    """None if the commit log has the bytes: see `read_inline`."""
    position: int
    size: int


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """A segment in an object: the batches first, then index, time index, transaction index and producer snapshot."""

    base_offset: int
    end_offset: int
    object_key: str
    log_size: int
    index_size: int
    time_index_size: int
    txn_index_size: int
    snapshot_size: int
    first_timestamp: int
    max_timestamp: int
    max_timestamp_offset: int

    @property
    def size(self) -> int:
        return self.log_size + self.index_size + self.time_index_size + self.txn_index_size + self.snapshot_size


class PartitionState(NamedTuple):
    leader: int
    leader_epoch: int
    log_start_offset: int
    end_offset: int


@dataclass(slots=True)
class Layout:
    """Where a partition's committed records are. Extents that segments cover are left out."""

    state: PartitionState
    epochs: list[tuple[int, int]] = field(default_factory=list)
    """Leader epochs that have written something, and where each began."""
    segments: list[SegmentEntry] = field(default_factory=list)
    extents: list[Extent] = field(default_factory=list)


class Usage(NamedTuple):
    objects: int
    bytes: int
    extents: int
    inline_bytes: int
    segments: int
    marked: int
    """Objects that nothing names any more and whose time has not come."""


class FencedWriter(NamedTuple):
    """Somebody who has stored objects, and cannot commit any more."""

    age_seconds: float
    """Since it was noticed."""
    listed_seconds_ago: float | None
    """Since its objects were last listed."""
    is_done: bool
    """Whether they need not be listed any more."""


class CommitLog(Protocol):
    def lead(self, node_id: int, partitions: Collection[PartitionKey]) -> Mapping[PartitionKey, PartitionState]:
        """Make a broker that is alone the leader, under a higher epoch. Partitions of unknown topics are left out."""

    def partitions(self) -> list[PartitionKey]:
        """All of them, in order."""

    def states(self, partitions: Collection[PartitionKey]) -> Mapping[PartitionKey, PartitionState]:
        """Those of the partitions that exist."""

    def commit(self, stored: StoredObject | None, tails: Sequence[Tail]) -> list[Outcome]:
        """Move the ends of partitions. `stored` holds the bytes of all tails that do not bring them along."""

    def layouts(self, partitions: Collection[PartitionKey]) -> Mapping[PartitionKey, Layout]:
        """Whoever reads them to lead has been made the leader before: then nobody else changes them."""

    def read_inline(self, partition: PartitionKey, first: int, last: int) -> list[tuple[int, bytes]]:
        """Base offsets and bytes of the extents without an object whose base offsets are in this range, in order."""

    def add_segment(self, partition: PartitionKey, leader_epoch: int, segment: SegmentEntry) -> Outcome:
        """Have a segment take the place of the extents that it covers.

        Segments come in order, so that of an extent which ends in one, what lies before it is in others by now.
        """

    def replace_segments(
        self, partition: PartitionKey, leader_epoch: int, replaced: Sequence[str], segment: SegmentEntry
    ) -> Outcome:
        """Have a compacted segment take the place of those in the objects `replaced`, and of the extents that it
        covers: some of what it was made from may have been in no segment yet."""

    def move_start(self, partition: PartitionKey, leader_epoch: int, log_start_offset: int) -> Outcome:
        """Delete what lies below a new log start offset. A lower one than the present changes nothing."""

    # Objects

    def forget_deleted(self) -> int:
        """Drop extents and segments of partitions that are gone. Returns how many."""

    def mark_unreferenced(self) -> int:
        """The first step of deletion: note which objects nothing names. Returns how many were found now."""

    def marked(self, grace_seconds: float) -> list[str]:
        """Objects that were marked longer ago than this, but no more than a few thousand."""

    def forget_objects(self, keys: Iterable[str]) -> None:
        """The last step: marked objects that are no longer in the store."""

    def known_among(self, keys: Collection[str]) -> set[str]:
        """Those of the objects that are named, or marked."""

    def known_objects(self) -> dict[str, int]:
        """Every object that is named, or marked, and its size."""

    def broker_epochs(self) -> Mapping[int, int]:
        """The present epoch of each broker; lower ones are fenced."""

    def take_turn(self, task: str, seconds: float) -> bool:
        """Whether nobody has taken a turn at a task that still lasts. It ends by itself."""

    def fenced_writers(self) -> Mapping[str, FencedWriter]:
        """Those that were noted, by the folder of their objects."""

    def note_fenced(self, folders: Collection[str]) -> None:
        """Those that are known already stay as they are."""

    def note_listed(self, folder: str, is_done: bool) -> None: ...

    def forget_writers(self, folders: Collection[str]) -> None: ...

    def usage(self) -> Usage: ...

    def close(self) -> None: ...


def outcome_of(state: PartitionState | None, tail: Tail) -> Outcome:
    """What a guarded commit means for one partition, from its row as it was under the lock."""
    if state is None:
        return Outcome.DELETED
    if state.leader_epoch != tail.leader_epoch:
        return Outcome.FENCED
    if state.end_offset in (tail.base_offset, tail.end_offset):
        return Outcome.COMMITTED
    return Outcome.DIVERGED
