"""A partition's log: what other packages use of this one.

`append` writes one batch behind the last one (to the page cache; durability is the flusher's business), `read` finds
the byte range that answers a fetch without reading it. There is one replica, so the high watermark is the log end
offset: a consumer may see a record before it is on disk, as in Kafka, where `acks=all` does not wait for the disk
either. What `acks=all` promises here, that an acknowledged record survives a power cut, is kept by acknowledging only
after the flush; what a consumer saw just before a power cut may still be gone after it.

One thread, the event loop's, owns a log. Only `sync` may be called from another one.

Offsets, in Kafka's words: log start offset <= last stable offset <= high watermark = log end offset.
"""

from __future__ import annotations

import errno
import os
from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

from penstock.log.cleaner.swap import complete_swap, decide_swap, discard_cleaned
from penstock.log.config import LogConfig
from penstock.log.errors import ColdRead, StorageError
from penstock.log.files import OpenFiles, RetiredFiles, remove_if_there, sync_path
from penstock.log.folder import DELETED_FOLDER_SUFFIX, PARTITION_METADATA_FILE, claim_folder, unused_name
from penstock.log.leader_epochs import LeaderEpochs
from penstock.log.lookup import first_record_since, youngest_record
from penstock.log.producer_state import AppendOrigin, EndMarker, ProducerState
from penstock.log.recovery import (
    first_suspect_slot,
    list_folder,
    load_unchanged,
    read_marker,
    recover_segments,
    snapshot_path,
    unchanged_end,
)
from penstock.log.results import ActiveProducer, Appended, FetchSlice, IsolationLevel, NotedEnd, TimestampAndOffset
from penstock.log.retention import below_log_start, expired_by_size, expired_by_time
from penstock.log.segment import LOG_SUFFIX, RELATIVE_OFFSET_MAX, SUFFIXES, Segment, file_stem
from penstock.log.transaction_index import AbortedTransaction
from penstock.records.batch import CONTROL, LOG_APPEND_TIME, BatchHeader, WritableBuffer, patch_append
from penstock.wire.errors import OffsetOutOfRange, RecordListTooLarge

_NEVER = 2**63
_ALWAYS = -2
_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What a write says that may succeed later. After a failed sync nothing may be hoped for."""
LEADER_EPOCHS_FILE = "leader-epoch-checkpoint"


class PartitionLog:
    """See the module's docstring. Made by `open`."""

    __slots__ = (
        "_active",
        "_bases",
        "_created",
        "_deleted",
        "_folder_changed",
        "_index_entries_max",
        "_last_offset_max",
        "_open_files",
        "_prepared",
        "_retired",
        "_roll_clock",
        "_roll_timestamp",
        "_segment_bytes",
        "_segments",
        "_snapshots",
        "_unsynced",
        "config",
        "epochs",
        "folder",
        "leader_epoch",
        "log_end_offset",
        "log_start_offset",
        "on_high_watermark",
        "on_leadership",
        "on_roll",
        "partition",
        "producer_state",
        "recovery_point",
        "topic",
        "topic_id",
        "truncated_bytes",
        "was_cut",
    )

    def __init__(
        self, folder: Path, topic: str, partition: int, topic_id: bytes, config: LogConfig, open_files: OpenFiles
    ) -> None:
        self.folder = folder
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.config = config
        self.leader_epoch = 0
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.recovery_point = 0
        """Everything below this offset is on disk."""
        self.truncated_bytes = 0
        """How much of a torn tail the recovery cut off when this log was opened."""
        self.was_cut = False
        """Whether the log ended further on than it does now when it was opened: somebody may have read what is gone."""
        self.on_roll: Callable[[PartitionLog], None] | None = None
        """Told when a segment has rolled, so that the shell can have it synced in the background."""
        self.on_high_watermark: Callable[[], None] | None = None
        """Never called: here the high watermark moves with every append, and with nothing else."""
        self.on_leadership: Callable[[], None] | None = None
        """Never called: a log of local files is led by the one broker that has them."""
        self.producer_state = ProducerState()
        self.epochs = LeaderEpochs(str(folder / LEADER_EPOCHS_FILE))
        self._open_files = open_files
        self._active: Segment
        self._segments: list[Segment] = []
        self._bases: list[int] = []
        self._snapshots: list[int] = []
        self._unsynced: list[Segment] = []
        self._retired = RetiredFiles(open_files.hold)
        self._created = self._deleted = False
        self._folder_changed = False
        self._prepared = False
        self._last_offset_max = self._roll_timestamp = self._roll_clock = _ALWAYS
        self._apply_config()

    # Opening and closing

    @classmethod
    def open(
        cls,
        data_folder: Path,
        topic: str,
        partition: int,
        topic_id: bytes,
        config: LogConfig,
        now_ms: int,
        *,
        clean: bool = False,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        leader_epoch: int = 0,
        noted_end: NotedEnd | None = None,
        open_files: OpenFiles | None = None,
        may_have_lost_writes: bool = False,
    ) -> Self:
        """Open the log in `<data_folder>/<topic>-<partition>`, or create it.

        `recovery_point` and `log_start_offset` come from the data folder's checkpoints, `clean` says that the log was
        closed properly (its recovery point is then its end), `noted_end` where it ended at some time since the machine
        was started. Without them everything is checked: slower, never wrong. `may_have_lost_writes` says that the power
        may have been cut, or a sync may have failed.
        """
        folder = data_folder / f"{topic}-{partition}"
        log = cls(folder, topic, partition, topic_id, config, open_files if open_files is not None else OpenFiles())
        latest_epoch = log.epochs.latest
        try:
            existed, log._created = claim_folder(folder, topic_id)
            if existed:
                log._load(now_ms, clean, recovery_point, log_start_offset, noted_end, may_have_lost_writes)
                # Whoever was killed may have created files whose names are not on disk.
                log._created = log._created or not clean or not log.log_end_offset
            else:
                log._start_empty(0, now_ms)
        except OSError as error:
            raise StorageError(f"cannot open the log in {folder}: {error.strerror}") from error
        log.leader_epoch = max(leader_epoch, latest_epoch, log.epochs.latest)
        known_end = max(recovery_point, noted_end.log_end_offset if noted_end is not None else 0)
        log.was_cut = log.truncated_bytes > 0 or log.log_end_offset < known_end
        return log

    def _load(
        self,
        now_ms: int,
        clean: bool,
        recovery_point: int,
        log_start_offset: int,
        noted_end: NotedEnd | None,
        may_have_lost_writes: bool,
    ) -> None:
        folder = str(self.folder)
        found = list_folder(folder)
        self._snapshots = found.snapshots
        segments = [
            Segment(
                folder,
                base_offset,
                found.segment_sizes[base_offset],
                self._open_files,
                created_ms=now_ms,
                index_interval_bytes=self.config.index_interval_bytes,
                has_txn_index=base_offset in found.txn_indexes,
            )
            for base_offset in sorted(found.segment_sizes)
        ]
        if not segments:
            self._start_empty(log_start_offset, now_ms)
            return
        self.log_start_offset = max(log_start_offset, segments[0].base_offset)
        state = self.producer_state
        end_offset = unchanged_end(segments, clean, recovery_point, noted_end)
        if end_offset >= 0 and load_unchanged(folder, segments, found.snapshots, end_offset, state, now_ms):
            self.recovery_point = min(recovery_point, end_offset)
            self._unsynced = segments[first_suspect_slot(segments, self.recovery_point) : -1]
        else:
            with self.epochs.written_once():
                recovered = recover_segments(
                    folder,
                    segments,
                    found.snapshots,
                    recovery_point=recovery_point,
                    log_start_offset=self.log_start_offset,
                    state=state,
                    epochs=self.epochs,
                    now_ms=now_ms,
                    writes_again=may_have_lost_writes,
                )
            end_offset = recovered.log_end_offset
            self.truncated_bytes = recovered.truncated_bytes
            self.recovery_point = min(recovery_point, end_offset)
            self._unsynced = segments[recovered.first_suspect : -1]
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self._active = segments[-1]
        self.log_end_offset = max(end_offset, self.log_start_offset)
        if self.log_end_offset > end_offset:
            # DeleteRecords had gone beyond what survived: go on from there. No offset may be given out twice.
            self._roll(now_ms)
            self._drop_segments(len(self._segments) - 1, now_ms)
        self._disarm()

    def _start_empty(self, log_start_offset: int, now_ms: int) -> None:
        self.log_start_offset = self.log_end_offset = self.recovery_point = log_start_offset
        for offset in self._snapshots:
            remove_if_there(snapshot_path(str(self.folder), offset))
        self._snapshots = []
        self.epochs.truncate_end(log_start_offset)
        self._add_segment(self._create_segment(log_start_offset, now_ms))

    def close(self) -> None:
        """Make everything durable and save what lets the next start read nothing.

        Of the files written here only the transaction index must be durable too: damage to the others is noticed.
        """
        try:
            self._active.write_indexes()
            self._take_snapshot()
            self.sync()
            self._active.txn_index.save(sync=True)
        except OSError as error:
            raise StorageError(f"cannot close the log in {self.folder}: {error.strerror}") from error
        for segment in self._segments:
            segment.release()

    def delete(self, unique: bytes) -> Path:
        """Take the log out of use. Returns the folder, under a `unique` name, for the caller to remove at leisure."""
        self._deleted = True
        for segment in self._segments:
            segment.release()
        self._unsynced.clear()
        target = unused_name(self.folder, unique.hex(), DELETED_FOLDER_SUFFIX)
        try:
            self.folder.rename(target)
            sync_path(str(self.folder.parent))
        except OSError as error:
            raise StorageError(f"cannot delete the log in {self.folder}: {error.strerror}") from error
        return target

    def update_config(self, config: LogConfig) -> None:
        self.config = config
        self._apply_config()
        for segment in self._segments:
            segment.index_interval_bytes = config.index_interval_bytes
        self._disarm()

    def _apply_config(self) -> None:
        self._segment_bytes = min(self.config.segment_bytes, RELATIVE_OFFSET_MAX)
        self._index_entries_max = max(self.config.segment_index_bytes // 8, 1)

    is_leader = is_readable = True

    @property
    def high_watermark(self) -> int:
        return self.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        unstable = self.producer_state.first_unstable_offset
        return self.log_end_offset if unstable is None else max(unstable, self.log_start_offset)

    @property
    def size(self) -> int:
        return sum([segment.size for segment in self._segments])

    @property
    def segments(self) -> list[Segment]:
        return self._segments

    def slot_of(self, offset: int) -> int:
        """The place among the segments of the one that holds an offset; -1 if it lies before the first."""
        return bisect_right(self._bases, offset) - 1

    def __repr__(self) -> str:
        return f"PartitionLog({self.folder.name}, {self.log_start_offset}..{self.log_end_offset})"

    # Appending

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

        `header` is the batch's header as it is now (after the timestamps were settled). That a transactional batch
        belongs to an open transaction has been verified by the caller (KIP-890). Raises a KafkaError that the producer
        is to see, or StorageError, after which nothing of the batch is in the log.
        """
        marker = None
        if header.producer_id >= 0:
            if header.attributes & CONTROL:
                marker = read_marker(batch)
            duplicate = self.producer_state.check(header, origin, marker, transaction_version)
            if duplicate is not None:
                first, last = duplicate.first_offset, duplicate.last_offset
                return Appended(first, last, duplicate.timestamp, self.log_start_offset, True, last + 1)

        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        timestamp = header.max_timestamp
        segment = self._active
        if (
            timestamp > self._roll_timestamp
            or now_ms > self._roll_clock
            or last_offset > self._last_offset_max
            or segment.size + len(batch) > self._segment_bytes
            or segment.index_entries >= self._index_entries_max
        ):
            segment = self._segment_for(len(batch), last_offset, timestamp, now_ms)
        if self.leader_epoch > self.epochs.latest:
            self.epochs.assign(self.leader_epoch, base_offset)
        patch_append(batch, 0, base_offset, self.leader_epoch)
        segment.append(batch, last_offset, timestamp)
        self.log_end_offset = end_offset = last_offset + 1

        if header.producer_id >= 0:
            if marker is None:
                self.producer_state.apply_data(header, base_offset, now_ms)
            else:
                self._complete_transaction(segment, header, marker, base_offset, now_ms)
        append_time = timestamp if header.attributes & LOG_APPEND_TIME else -1
        return Appended(base_offset, last_offset, append_time, self.log_start_offset, False, end_offset)

    def _complete_transaction(
        self, segment: Segment, header: BatchHeader, marker: EndMarker, offset: int, now_ms: int
    ) -> None:
        completed = self.producer_state.apply_marker(header, marker, offset, now_ms)
        if completed is not None and completed.aborted:
            segment.txn_index.append(completed.index_entry())

    # Rolling

    def _segment_for(self, size: int, last_offset: int, timestamp: int, now_ms: int) -> Segment:
        """The slow way round of an append: the active segment made ready, or a new one if it is full or too old."""
        if size > self._segment_bytes:
            raise RecordListTooLarge(
                f"Message batch size is {size} bytes in append to partition {self.topic}-{self.partition}, which "
                f"exceeds the maximum configured segment size of {self._segment_bytes}."
            )
        segment = self._active
        if not self._prepared:
            try:
                segment.prepare_to_append()
            except ColdRead:
                # A producer would have to wait for the disk to go on with what an earlier run has written.
                return self._roll(now_ms)
            self._prepared = True
        self._arm()
        if segment.size and (
            segment.size + size > self._segment_bytes
            or last_offset > self._last_offset_max
            or timestamp > self._roll_timestamp
            or now_ms > self._roll_clock
            or segment.index_entries >= self._index_entries_max
        ):
            return self._roll(now_ms)
        return segment

    def _arm(self) -> None:
        """Work out when the active segment must roll, so that an append only compares three numbers."""
        segment = self._active
        self._last_offset_max = segment.base_offset + RELATIVE_OFFSET_MAX
        if segment.first_timestamp is None:
            # The first append comes back here, and so does the second, which then finds the first one's timestamp.
            self._roll_timestamp = self._roll_clock = _ALWAYS
        elif segment.first_timestamp >= 0:
            self._roll_timestamp = segment.first_timestamp + self.config.roll_ms
            self._roll_clock = _NEVER
        else:
            self._roll_timestamp = _NEVER
            self._roll_clock = segment.created_ms + self.config.roll_ms

    def _disarm(self) -> None:
        """Let the next append go the slow way round."""
        self._roll_timestamp = self._roll_clock = self._last_offset_max = _ALWAYS

    def roll(self, now_ms: int) -> None:
        """Start a new segment, unless the active one is empty."""
        if self._active.size:
            self._roll(now_ms)

    def _roll(self, now_ms: int) -> Segment:
        rolled = self._active
        try:
            segment = self._create_segment(self.log_end_offset, now_ms)
        except OSError as error:
            raise StorageError(f"cannot start a new segment in {self.folder}: {error.strerror}") from error
        rolled.freeze()
        with suppress(OSError):  # Without the snapshot, the one before it and a longer replay do as well.
            self._take_snapshot()
        self._add_segment(segment)
        if self.on_roll is not None:
            self.on_roll(self)
        return segment

    def _create_segment(self, base_offset: int, now_ms: int) -> Segment:
        return Segment.create(
            str(self.folder),
            base_offset,
            self._open_files,
            created_ms=now_ms,
            index_interval_bytes=self.config.index_interval_bytes,
        )

    def _add_segment(self, segment: Segment) -> None:
        # In this order, because the flusher's thread looks at the active segment first and at the rolled ones then.
        if self._segments:
            self._unsynced.append(self._segments[-1])
        self._folder_changed = True
        self._segments.append(segment)
        self._bases.append(segment.base_offset)
        self._active = segment
        self._prepared = True
        self._disarm()

    def _take_snapshot(self) -> None:
        offset = self.log_end_offset
        if not self._snapshots or self._snapshots[-1] < offset:
            self.producer_state.write_snapshot(snapshot_path(str(self.folder), offset))
            self._snapshots.append(offset)

    # Durability

    @property
    def recovery_start(self) -> int:
        """Where the next start has to begin if this process does not end well: segments before are whole on disk."""
        for segment in list(self._unsynced):
            if not segment.txn_index.is_synced:
                return min(self.recovery_point, segment.base_offset)
        return self.recovery_point

    def note_end(self) -> NotedEnd | None:
        """What tells the next start that nothing was appended from now on.

        None as long as a full disk keeps aborted transactions from being written down: a start that recovers nothing
        would show their records.
        """
        if not all(segment.txn_index.is_saved for segment in (*self._unsynced, self._active)):
            return None
        return NotedEnd(self.log_end_offset, self._active.base_offset, self._active.size)

    @property
    def is_durable(self) -> bool:
        """Whether all that was appended so far would survive a power cut."""
        return self.recovery_point >= self.log_end_offset

    def undurable_end(self, producer_id: int) -> int | None:
        """The offset that must become durable for all that a producer wrote to be; None if it is."""
        entry = self.producer_state.entries.get(producer_id)
        if entry is None or entry.last_data_offset < self.recovery_point:
            return None
        return entry.last_data_offset + 1

    @property
    def cleanable_end(self) -> int:
        """How far compaction may go: a record is dropped for a later one only if that cannot be lost any more."""
        return min(self.last_stable_offset, self.recovery_point)

    def make_cleanable(self) -> None:
        """Have what has rolled synced, unless it is: after a start nobody else may."""
        if self.recovery_point < self._active.base_offset and self.on_roll is not None:
            self.on_roll(self)

    def sync(self) -> None:
        """Bring everything appended so far to the disk and move the recovery point. May run in another thread.

        Records are on disk when it returns. The index of aborted transactions of a segment that has rolled is saved
        too, unless the disk is full: then the next sync tries again, and a crash until then begins its recovery there.
        """
        end_offset = self.log_end_offset
        active = self._active
        rolled = list(self._unsynced)
        if end_offset <= self.recovery_point and not rolled:
            return
        folder_changed, self._folder_changed = self._folder_changed, False
        created, self._created = self._created, False
        try:
            for segment in rolled:
                if segment is not active:
                    segment.sync()
                    self._save_aborted(segment)
            active.sync()
            if created:
                sync_path(str(self.folder / PARTITION_METADATA_FILE))
                sync_path(str(self.folder.parent))
            if created or folder_changed:
                sync_path(str(self.folder))
        except OSError as error:
            if self._deleted:
                return
            raise StorageError(f"cannot sync the log in {self.folder}: {error.strerror}") from error
        for segment in rolled:
            if segment is not active and segment.txn_index.is_synced and segment in self._unsynced:
                self._unsynced.remove(segment)
        self.recovery_point = max(self.recovery_point, end_offset)

    def _save_aborted(self, segment: Segment) -> None:
        try:
            segment.txn_index.save(sync=True)
        except OSError as error:
            if error.errno not in _NO_SPACE or segment.txn_index.is_saved:
                raise  # what was written could not be synced: the kernel may have dropped it

    # Reading

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        min_one_batch: bool = True,
        isolation: int = IsolationLevel.READ_UNCOMMITTED,
    ) -> FetchSlice:
        """The byte range that answers a fetch: whole batches of one segment, from the one that holds `offset` on.

        At most `max_bytes`, except that `min_one_batch` lets the first batch exceed them. Raises ColdRead when an index
        or the headers on the way are not in memory; whether the range itself is, is not looked at.
        """
        end_offset = self.log_end_offset
        if not self.log_start_offset <= offset <= end_offset:
            raise OffsetOutOfRange(
                f"Received request for offset {offset} for partition {self.topic}-{self.partition}, but we only have "
                f"log segments from offset {self.log_start_offset} up to {end_offset}."
            )
        stable = self.last_stable_offset
        committed = isolation == IsolationLevel.READ_COMMITTED
        found = FetchSlice(end_offset, stable, self.log_start_offset, [] if committed else None)
        bound = stable if committed else end_offset
        if offset < bound:
            self.cut(found, offset, bound, max_bytes, min_one_batch)
        return found

    def cut(self, found: FetchSlice, offset: int, bound: int, max_bytes: int, min_one_batch: bool) -> None:
        """Put the range of batches from `offset` to `bound`, which lies behind it, into a slice."""
        segment = self._active
        slot = len(self._segments) - 1
        if offset < segment.base_offset:
            slot = max(bisect_right(self._bases, offset) - 1, 0)
            segment = self._segments[slot]
        start = segment.position_of(offset)
        while start >= segment.size:
            # Compaction can leave a segment's last offsets without a batch: the next batch is in a later segment.
            slot += 1
            if slot == len(self._segments):
                return
            segment = self._segments[slot]
            start = 0
        if segment.base_offset >= bound:
            return
        stop = segment.size
        if bound < self.log_end_offset:
            stop = segment.position_of(bound)
        if stop - start > max_bytes:
            stop = segment.whole_batches_end(start, start + max_bytes)
            if stop == start and min_one_batch:
                stop = start + segment.batch_size_at(start)
        if stop > start:
            found.file = segment.open_file()
            found.position = start
            found.size = stop - start
            if found.aborted is not None:
                self._collect_aborted(found.aborted, slot, offset, stop)

    def _collect_aborted(self, aborted: list[AbortedTransaction], slot: int, offset: int, stop: int) -> None:
        """Aborted transactions that may have records in the range. One too many is harmless, one too few is not."""
        segment = self._segments[slot]
        upper = segment.offset_bound_after(stop) if stop < segment.size else -1
        if upper < 0:
            upper = self._bases[slot + 1] if slot + 1 < len(self._bases) else self.log_end_offset
        for later in self._segments[slot:]:
            if later.txn_index.collect(offset, upper, aborted):
                break
        aborted.sort(key=lambda entry: entry.first_offset)

    # Lookups

    def offset_for_timestamp(
        self, timestamp: int, isolation: int = IsolationLevel.READ_UNCOMMITTED
    ) -> TimestampAndOffset | None:
        """The first record, by offset, at or after a timestamp; None if there is none that a reader may see."""
        bound = self.last_stable_offset if isolation == IsolationLevel.READ_COMMITTED else self.log_end_offset
        first = max(self.slot_of(self.log_start_offset), 0)
        record = first_record_since(self._segments[first:], timestamp, self.log_start_offset)
        if record is None or record.offset >= bound:
            return None
        return TimestampAndOffset(record.timestamp, record.offset, self.epochs.epoch_at(record.offset))

    def max_timestamp_offset(self) -> TimestampAndOffset | None:
        """The first record that carries the largest timestamp in the log; None of a log without timestamps."""
        record = youngest_record(self._segments)
        if record is None:
            return None
        return TimestampAndOffset(record.timestamp, record.offset, self.epochs.epoch_at(record.offset))

    def earliest_epoch(self) -> int:
        """The leader epoch at the log start offset, -1 if unknown."""
        epoch = self.epochs.epoch_at(self.log_start_offset)
        return self.leader_epoch if epoch < 0 and self.log_start_offset == self.log_end_offset else epoch

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) as OffsetForLeaderEpoch answers it; (-1, -1) if unknown."""
        if epoch == self.leader_epoch:
            return epoch, self.log_end_offset
        if 0 <= epoch < self.leader_epoch and self.epochs.latest < 0:
            return epoch, self.log_end_offset  # what earlier epochs have written is all gone
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    # Producers

    def knows_producer(self, producer_id: int) -> bool:
        return producer_id in self.producer_state.entries

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        return self.producer_state.has_open_transaction(producer_id, producer_epoch)

    def active_producers(self) -> list[ActiveProducer]:
        return self.producer_state.active_producers()

    def expire_producers(self, now_ms: int) -> None:
        """Forget the producers that were silent for `producer.id.expiration.ms`."""
        self.producer_state.remove_expired(now_ms, self.config.producer_id_expiration_ms)

    # Removing

    def delete_records(self, offset: int, now_ms: int) -> int:
        """Make everything below `offset` (-1: all there is) invisible. Returns the new log start offset."""
        if offset == -1:
            offset = self.high_watermark
        if not 0 <= offset <= self.high_watermark:
            raise OffsetOutOfRange(
                f"Cannot increment the log start offset to {offset} of partition {self.topic}-{self.partition} since "
                f"it is larger than the high watermark {self.high_watermark}"
            )
        if offset > self.log_start_offset:
            self._move_log_start(offset)
            self._drop_segments(below_log_start(self._bases, offset), now_ms)
        return self.log_start_offset

    def apply_retention(self, now_ms: int) -> int:
        """Delete what `retention.ms` and `retention.bytes` no longer keep. Returns how many segments went.

        Files that are out of use for `file.delete.delay.ms` are removed.
        """
        dropped = self._drop_segments(below_log_start(self._bases, self.log_start_offset), now_ms)
        if self.config.deletes:
            ages = [segment.largest_timestamp for segment in self._segments]
            dropped += self._expire(expired_by_time(ages, now_ms, self.config.retention_ms), now_ms)
            sizes = [segment.size for segment in self._segments]
            dropped += self._expire(expired_by_size(sizes, self.config.retention_bytes), now_ms)
        self.expire_producers(now_ms)
        self.purge(now_ms)
        return dropped

    def _expire(self, count: int, now_ms: int) -> int:
        if count == len(self._segments):
            if not self._active.size:
                count -= 1
            else:
                self._roll(now_ms)
        if count:
            self._move_log_start(max(self.log_start_offset, self._bases[count]))
        return self._drop_segments(count, now_ms)

    def _move_log_start(self, offset: int) -> None:
        self.log_start_offset = offset
        self.epochs.truncate_start(offset)

    def _drop_segments(self, count: int, now_ms: int) -> int:
        """Take the oldest segments out of the log; their files go when `purge` finds their time has come."""
        for segment in self._segments[:count]:
            self._retire(segment, now_ms)
            self._forget_snapshot(segment.base_offset)
        del self._segments[:count]
        del self._bases[:count]
        return count

    def replace_segments(self, base_offsets: list[int], now_ms: int) -> bool:
        """Put the cleaned segment that waits under `.cleaned` in the place of these adjacent segments.

        False, and nothing done, if they are no longer the log's: retention or DeleteRecords has been faster.
        """
        folder = str(self.folder)
        first = base_offsets[0]
        slot = bisect_right(self._bases, first) - 1
        count = len(base_offsets)
        if self._bases[slot : slot + count] != base_offsets or slot + count >= len(self._bases):
            discard_cleaned(folder, first)
            return False
        replaced = self._segments[slot : slot + count]
        try:
            decide_swap(folder, first)
            for segment in replaced:
                self._retire(segment, now_ms)
            for segment in replaced[1:]:
                self._forget_snapshot(segment.base_offset)
            complete_swap(folder, first)
            cleaned = Segment(
                folder,
                first,
                os.stat(file_stem(folder, first) + LOG_SUFFIX).st_size,
                self._open_files,
                created_ms=now_ms,
                index_interval_bytes=self.config.index_interval_bytes,
                has_txn_index=True,
            )
        except OSError as error:
            raise StorageError(f"cannot put a cleaned segment into {self.folder}: {error.strerror}") from error
        self._segments[slot : slot + count] = [cleaned]
        self._bases[slot : slot + count] = [first]
        return True

    def _retire(self, segment: Segment, now_ms: int) -> None:
        """Take a segment's files out of use; `purge` removes them when readers have had their time."""
        segment.release()
        if segment in self._unsynced:
            self._unsynced.remove(segment)
        try:
            self._retired.add([segment.stem + suffix for suffix in SUFFIXES], now_ms + self.config.file_delete_delay_ms)
        except OSError as error:
            raise StorageError(f"cannot delete {segment.stem}{LOG_SUFFIX}: {error.strerror}") from error

    def _forget_snapshot(self, offset: int) -> None:
        if offset in self._snapshots:
            self._snapshots.remove(offset)
            remove_if_there(snapshot_path(str(self.folder), offset))

    def purge(self, now_ms: int) -> int:
        """Remove the files whose `file.delete.delay.ms` is over. Returns how many files went."""
        return self._retired.purge(now_ms)
