"""The contract between the broker and whatever keeps its records.

`Storage` opens, creates and deletes logs and says when an append is durable; `Log` is one partition's log. The broker
knows these two and the values below, never an engine's inside. Engines: `local` (segment files in a folder), `memory`
(for tests).

**Offsets.** Log start offset <= last stable offset <= high watermark <= log end offset. An append moves the log end
offset at once. Readers, share-partitions and coordinators' answers see only what lies below the high watermark. The
embedded engine has one copy of each log and shows an append before it is on disk, as Kafka does, so its high watermark
is the log end offset. An engine whose appends can be lost after they were accepted keeps the high watermark behind,
and calls the log's `on_high_watermark` when it moves.

**An append may be refused later.** `append` raises what is known at once. `Storage.when_durable` tells the rest: it
calls back with None, or with a StorageError, and then nothing may be acknowledged that rests on that append.

**Leadership may be lost.** Another broker may become the leader of a partition. From then on `append` and `read` raise
NotLeaderOrFollower, and those who wait for durability get LeadershipLost: what they appended is gone, and the client
has to turn to the new leader. The engine calls the log's `on_leadership` when the office was lost, and when it was
gained: then the log ends at its high watermark and is led under a higher epoch. An engine that refuses appends which it
had accepted, and goes on leading, does the same. So whatever was derived from a log's tail is void when `on_leadership`
is called. Every acquisition of leadership raises the leader epoch, and so does a recovery that cuts off records which
somebody may have seen. The embedded engine never loses leadership.

**Nobody waits.** What reads stored records (`read`, the lookups by timestamp, `apply_retention`) raises ColdRead when
something that it needs is not in memory, and has then changed nothing. A thread runs what the exception carries, which
may wait, and the call is worth another try. An engine may raise it again: one thing may lead to the next.

**Threads.** All of it belongs to the event loop's thread; callbacks arrive there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

from penstock.log.config import LogConfig as LogConfig
from penstock.log.errors import ColdRead as ColdRead
from penstock.log.errors import FarFetch as FarFetch
from penstock.log.errors import LeadershipLost as LeadershipLost
from penstock.log.errors import StorageError as StorageError
from penstock.log.files import SegmentFile as SegmentFile
from penstock.log.flusher import Callback as Callback
from penstock.log.producer_state import AppendOrigin as AppendOrigin
from penstock.log.results import ActiveProducer as ActiveProducer
from penstock.log.results import Appended as Appended
from penstock.log.results import FetchSlice as FetchSlice
from penstock.log.results import IsolationLevel as IsolationLevel
from penstock.log.results import TimestampAndOffset as TimestampAndOffset
from penstock.log.transaction_index import AbortedTransaction as AbortedTransaction
from penstock.records.batch import BatchHeader, WritableBuffer

if TYPE_CHECKING:
    from penstock.storage.compaction import CleanerConfig, Compactor


class Log(Protocol):
    """One partition's log."""

    on_high_watermark: Callable[[], None] | None
    """Called when the high watermark has moved by itself, not by an append (never by the embedded engine)."""

    on_leadership: Callable[[], None] | None
    """Called after leadership was lost or gained (never by the embedded engine)."""

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads the partition."""

    @property
    def is_readable(self) -> bool:
        """Whether what lies below the high watermark can be read, though this broker may not lead at the moment."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...

    @property
    def leader_epoch(self) -> int:
        """The epoch that is written into every batch appended from now on."""

    @property
    def log_start_offset(self) -> int: ...

    @property
    def last_stable_offset(self) -> int:
        """Up to here the outcome of every transaction is known; it never passes the high watermark."""

    @property
    def high_watermark(self) -> int:
        """Where what readers may see ends."""

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""

    @property
    def size(self) -> int:
        """In bytes."""

    @property
    def is_durable(self) -> bool:
        """Whether everything that was appended so far is durable."""

    def update_config(self, config: LogConfig) -> None: ...

    # Appending and reading

    def append(
        self,
        batch: WritableBuffer,
        header: BatchHeader,
        *,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        transaction_version: int = 0,
    ) -> Appended:
        """Append one validated batch; its base offset and leader epoch are written into `batch` in place.

        A batch that repeats one of its producer's last batches is not appended again: the answer says where the first
        one is. Raises a KafkaError that the producer is to see, or StorageError, after which nothing of the batch is in
        the log.
        """

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        min_one_batch: bool = True,
        isolation: int = IsolationLevel.READ_UNCOMMITTED,
    ) -> FetchSlice:
        """Whole batches from the one that holds `offset` on: at most `max_bytes`, except that `min_one_batch` lets the
        first batch exceed them. An empty slice at the end of what the reader may see.

        Raises OffsetOutOfRange for an offset below the log start offset or above the high watermark.
        """

    # Lookups

    def offset_for_timestamp(
        self, timestamp: int, isolation: int = IsolationLevel.READ_UNCOMMITTED
    ) -> TimestampAndOffset | None:
        """The first record, by offset, at or after a timestamp; None if there is none that the reader may see."""

    def max_timestamp_offset(self) -> TimestampAndOffset | None:
        """The first record that carries the largest timestamp in the log; None of a log without timestamps."""

    def earliest_epoch(self) -> int:
        """The leader epoch at the log start offset, -1 if unknown."""

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) as OffsetForLeaderEpoch answers it (KIP-279); (-1, -1) if unknown."""

    # Producers

    def knows_producer(self, producer_id: int) -> bool:
        """Whether the log would notice that a batch of this producer is missing."""

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool: ...

    def active_producers(self) -> list[ActiveProducer]: ...

    def undurable_end(self, producer_id: int) -> int | None:
        """The offset that must become durable for all that a producer wrote to be; None if it is."""

    def expire_producers(self, now_ms: int) -> None:
        """Forget the producers that were silent for `producer.id.expiration.ms` and have no open transaction."""

    # Removing

    def delete_records(self, offset: int, now_ms: int) -> int:
        """Make everything below `offset` (-1: the high watermark) invisible. Returns the new log start offset."""

    def apply_retention(self, now_ms: int) -> int:
        """Delete what `retention.ms` and `retention.bytes` no longer keep. Returns how many segments went."""


class Volume(NamedTuple):
    path: str
    total_bytes: int
    usable_bytes: int


class StoreFigures(NamedTuple):
    """What an engine that keeps records elsewhere has done since it was started."""

    commits: int
    commit_seconds: float
    commit_age_seconds: float
    """Since the last commit that succeeded; -1 before the first."""
    inline_bytes: int
    uploads: int
    upload_bytes: int
    upload_seconds: float
    failures: int
    backlog_bytes: int
    uploads_under_way: int
    cache_hits: int
    cache_misses: int
    fetched_bytes: int
    cache_bytes: int
    segments: int
    segment_bytes: int
    chores_waiting: int
    removed_objects: int
    removed_orphans: int
    take_overs: int
    """How many partitions this broker has begun to lead."""
    take_over_seconds: float
    """How long that took in all, from when it knew."""
    take_over_longest_seconds: float


class Storage(Protocol):
    """All logs of one broker."""

    @property
    def can_lose_appends(self) -> bool:
        """Whether what was appended and is not durable can be lost while the broker runs on. Then every promise waits
        until it is: transactional writes, and what coordinators answer from memory, too."""

    @property
    def may_have_lost_writes(self) -> bool:
        """Whether appends that were acknowledged with less than `acks=all` may be gone since the last run."""

    def volume(self) -> Volume:
        """Where the logs are, and how much room there is."""

    def open_log(self, topic: str, partition: int, topic_id: bytes, config: LogConfig) -> Log:
        """Open the log of a partition, or create it. Records of an earlier topic with the same name are not its own."""

    def opened(self) -> None:
        """Every log that the catalog knows has been opened: finish interrupted deletions, set aside what is left."""

    def logs(self) -> Iterator[Log]: ...

    def delete_log(self, log: Log) -> Callable[[], None]:
        """Take a log out of use. Returns what frees its space, which may take long: run it in a thread."""

    def resign(self, log: Log) -> None:
        """Another broker leads the partition by now: take its log out of use. `on_leadership` is not called.

        Who waits for durability gets LeadershipLost, unless what it waits for is durable. Local files may go, if the
        records are elsewhere. The log is opened again when this broker is to lead again.
        """

    def when_durable(self, log: Log, position: int, callback: Callback) -> None:
        """Call back when the log is durable up to this offset (`Appended.position`), or cannot become so."""

    def when_start_durable(self, log: Log, callback: Callback) -> None:
        """Call back when the log will not begin earlier than it does now, after a crash either, or cannot be kept from
        it."""

    def make_durable_soon(self, log: Log) -> None:
        """Begin to make a log durable although nobody waits for it yet."""

    def compactor(self, config: CleanerConfig, on_progress: Callable[[], None]) -> Compactor:
        """What cleans this storage's compacted logs. There is one at a time.

        `on_progress` is called, in a thread, whenever the compactor can take a step.
        """

    def lost_writes_settled(self) -> None:
        """All that had to follow from lost writes has been done: the next start need not know of them."""

    def save_progress(self) -> None:
        """Note how far each log has come, so that a start after a crash has less to check. Called now and then."""

    def close(self) -> None:
        """Make everything durable and close the logs, so that the next start has nothing to check.

        After a failure of the storage only what is open is given back.
        """


class LeasedStorage(Storage, Protocol):
    """The logs of a broker that leads as long as it holds a lease, and whose office others may give away."""

    def leads_since(self, log: Log, leader_epoch: int) -> None:
        """The catalog names this broker as the leader, under this epoch or a higher one. A log that is led under a
        lower one is given up, and loaded again."""

    def suspend(self) -> None:
        """The lease is over: serve only reads below the high watermarks, until `resume`."""

    def resume(self) -> None:
        """The lease is held again, and what others have taken over since was given up."""

    def registered(self, broker_epoch: int) -> None:
        """The broker has registered again, under this epoch."""
