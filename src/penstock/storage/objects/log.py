"""A log whose local files are a cache: what readers see ends at what is committed.

It is a `PartitionLog` whose high watermark follows the commits. Appends are handed on to be committed, and until then
nobody but the producer state knows of them. Leadership comes with a log that was loaded from what is committed
(`take_over`), and goes with everything that was not (`resign`).

A broker whose lease is over does not know whether it still leads. Its logs are suspended: what is below the high
watermark can be read, everything else is refused, and what waits to be committed still does. They are resumed under the
same epoch if nobody has taken over.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from penstock.log.config import LogConfig
from penstock.log.errors import StorageError
from penstock.log.files import OpenFiles
from penstock.log.lookup import first_record_since
from penstock.log.partition import PartitionLog
from penstock.log.producer_state import AppendOrigin
from penstock.log.results import Appended, FetchSlice, IsolationLevel, TimestampAndOffset
from penstock.log.segment import Segment
from penstock.records.batch import CONTROL, BatchHeader, WritableBuffer
from penstock.records.record import iter_records
from penstock.storage.objects.commit_log import PartitionKey, SegmentEntry
from penstock.storage.objects.remote import CHUNK_BYTES, CacheFile, RemoteSegment, SegmentCache
from penstock.wire.errors import NotEnoughReplicas, NotLeaderOrFollower, OffsetOutOfRange

OnAppend = Callable[["ObjectLog", bytes, int], None]


class ObjectLog(PartitionLog):
    """See `contract.Log`. Made by `ObjectStorage.open_log`."""

    __slots__ = (
        "_ended",
        "_is_shipped",
        "committed_end",
        "entries",
        "epoch_min",
        "has_room",
        "holds_office",
        "is_leader",
        "key",
        "on_append",
        "on_folder_lost",
        "on_start_moved",
        "shipped",
        "start_committed",
        "wanted_since",
    )

    def __init__(
        self, folder: Path, topic: str, partition: int, topic_id: bytes, config: LogConfig, open_files: OpenFiles
    ) -> None:
        super().__init__(folder, topic, partition, topic_id, config, open_files)
        self.key = PartitionKey(topic_id, partition)
        self.is_leader = False
        """Whether this broker leads, and knows it."""
        self.holds_office = False
        """Whether this broker leads, unless somebody has taken over since its lease ended."""
        self.wanted_since = 0.0
        """When this broker last began to try to lead."""
        self.epoch_min = -1
        """The lowest leader epoch under which this broker may lead."""
        self.committed_end = 0
        self.start_committed = 0
        """The log start offset that the commit log knows."""
        self.entries: list[SegmentEntry] = []
        """The segments that are in objects, in order."""
        self.shipped: dict[int, Segment] = {}
        """Local files whose bytes are in objects too, by base offset."""
        self.on_append: OnAppend | None = None
        self.on_folder_lost: Callable[[StorageError], None] | None = None
        self.on_start_moved: Callable[[ObjectLog], None] | None = None
        self.has_room: Callable[[], bool] = lambda: True
        """Whether another append may wait for its commit."""
        self._is_shipped = False
        """Whether nothing waits to be stored, so that nobody has to look."""
        self._ended: list[tuple[int, int]] = []
        """First offset and marker of transactions whose end is not committed yet."""

    # Leadership

    def take_over(self, loaded: ObjectLog, *, is_suspended: bool = False) -> None:
        """Lead with what was loaded: the committed part of the log, under a higher epoch. `announce` follows."""
        for name in PartitionLog.__slots__:
            if name not in ("on_high_watermark", "on_leadership", "on_roll", "config"):
                setattr(self, name, getattr(loaded, name))
        self.update_config(self.config)
        self.entries = loaded.entries
        self.shipped = loaded.shipped
        self.committed_end = self.log_end_offset
        self.start_committed = self.log_start_offset
        self._ended.clear()
        self._is_shipped = False
        self.holds_office = True
        self.is_leader = not is_suspended

    def announce(self) -> None:
        self._leadership_changed()

    def resign(self) -> None:
        was_leader, self.is_leader, self.holds_office = self.is_leader, False, False
        if was_leader:
            self._leadership_changed()

    def suspend(self) -> None:
        """The lease is over: somebody else may lead."""
        if self.is_leader:
            self.is_leader = False
            self._leadership_changed()

    def resume(self) -> None:
        """The lease is held again, and nobody has taken over."""
        if self.holds_office and not self.is_leader:
            self.is_leader = True
            self._leadership_changed()

    def _leadership_changed(self) -> None:
        if self.on_leadership is not None:
            self.on_leadership()

    def committed(self, end_offset: int) -> None:
        """Everything below this offset is durable now."""
        self.committed_end = end_offset
        if self._ended:
            self._ended = [each for each in self._ended if each[1] >= end_offset]
        if self.on_high_watermark is not None:
            self.on_high_watermark()

    def put_in_front(self, segments: list[Segment]) -> None:
        """Segments that lie before all that is here."""
        self._segments[:0] = segments
        self._bases[:0] = [segment.base_offset for segment in segments]

    def unshipped(self) -> tuple[Segment, int] | None:
        """The first rolled segment that is committed as a whole and in no object, and where it ends."""
        if self._is_shipped:
            return None
        for slot, segment in enumerate(self._segments[:-1]):
            end_offset = self._bases[slot + 1]
            if end_offset > self.committed_end:
                return None
            if not isinstance(segment, RemoteSegment) and self.shipped.get(segment.base_offset) is not segment:
                return segment, end_offset
        self._is_shipped = True
        return None

    def _add_segment(self, segment: Segment) -> None:
        super()._add_segment(segment)
        self._is_shipped = False

    def replace_segments(self, base_offsets: list[int], now_ms: int) -> bool:
        self._is_shipped = False
        return super().replace_segments(base_offsets, now_ms)

    def has_segment(self, segment: Segment) -> bool:
        return any(each is segment for each in self._segments)

    def replaced_by(self, base_offset: int, end_offset: int) -> list[SegmentEntry]:
        """The objects whose place a segment of these offsets takes."""
        return [each for each in self.entries if base_offset <= each.base_offset < end_offset]

    def was_shipped(self, segment: Segment, entry: SegmentEntry) -> None:
        replaced = self.replaced_by(entry.base_offset, entry.end_offset)
        kept = [each for each in self.entries if each not in replaced]
        self.entries = sorted([*kept, entry], key=lambda each: each.base_offset)
        for each in replaced:
            self.shipped.pop(each.base_offset, None)
        if self.has_segment(segment):
            self.shipped[segment.base_offset] = segment

    def let_go(self, cache: SegmentCache, now_ms: int) -> int:
        """Give the files of the oldest segment that is in an object back; it is read from there now. Returns bytes."""
        for slot, segment in enumerate(self._segments[:-1]):
            entry = next((each for each in self.entries if each.base_offset == segment.base_offset), None)
            if entry is None or self.shipped.get(segment.base_offset) is not segment:
                continue
            del self.shipped[segment.base_offset]
            self._retire(segment, now_ms)
            self._segments[slot] = RemoteSegment(str(self.folder), entry, cache, self.config.index_interval_bytes)
            return segment.size
        return 0

    @property
    def shipped_bytes(self) -> int:
        return sum(segment.size for segment in self.shipped.values())

    def release_files(self) -> None:
        """Nobody reads this log any more, at least not from these segments."""
        for segment in self._segments:
            segment.release()
            if isinstance(segment, RemoteSegment):
                segment.is_given_up = True

    @property
    def is_readable(self) -> bool:  # type: ignore[override]
        return self.holds_office

    # Offsets

    @property
    def high_watermark(self) -> int:
        return self.committed_end

    @property
    def last_stable_offset(self) -> int:
        unstable = self.producer_state.first_unstable_offset
        if unstable is None and not self._ended:
            return self.committed_end
        bounds = [first for first, _ in self._ended]
        if unstable is not None:
            bounds.append(unstable)
        return min(self.committed_end, max(min(bounds), self.log_start_offset))

    @property
    def cleanable_end(self) -> int:
        """What is committed is not lost."""
        return self.last_stable_offset

    def make_cleanable(self) -> None:
        """Whatever is appended is committed as soon as can be."""

    @property
    def is_durable(self) -> bool:
        return self.committed_end >= self.log_end_offset

    def undurable_end(self, producer_id: int) -> int | None:
        entry = self.producer_state.entries.get(producer_id)
        if entry is None or entry.last_data_offset < self.committed_end:
            return None
        return entry.last_data_offset + 1

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
        if not self.is_leader:
            raise NotLeaderOrFollower
        if origin is AppendOrigin.CLIENT and not self.has_room():
            raise NotEnoughReplicas(
                f"{self.topic}-{self.partition} takes no more records until those before them are committed"
            )
        open_since = -1
        if header.attributes & CONTROL:
            entry = self.producer_state.entries.get(header.producer_id)
            open_since = entry.current_txn_first_offset if entry is not None else -1
        try:
            appended = super().append(
                batch, header, now_ms=now_ms, origin=origin, transaction_version=transaction_version
            )
        except StorageError:
            if self.on_folder_lost is not None and not self.folder.is_dir():
                self.on_folder_lost(
                    StorageError(
                        f"{self.folder} was deleted while the broker runs: it stops, so that others lead what it led. "
                        "Start it again; what was acknowledged is in the store and in PostgreSQL"
                    )
                )
            raise
        if appended.duplicate:
            return appended
        if open_since >= 0:
            self._ended.append((open_since, appended.base_offset))
        if self.on_append is not None:
            self.on_append(self, bytes(batch), appended.position)
        return appended

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        min_one_batch: bool = True,
        isolation: int = IsolationLevel.READ_UNCOMMITTED,
    ) -> FetchSlice:
        high_watermark = self.committed_end
        if not self.is_leader and (not self.holds_office or offset >= high_watermark):
            raise NotLeaderOrFollower
        if not self.log_start_offset <= offset <= high_watermark:
            raise OffsetOutOfRange(
                f"Received request for offset {offset} for partition {self.topic}-{self.partition}, but we only have "
                f"log segments from offset {self.log_start_offset} up to {high_watermark}."
            )
        stable = self.last_stable_offset
        committed = isolation == IsolationLevel.READ_COMMITTED
        found = FetchSlice(high_watermark, stable, self.log_start_offset, [] if committed else None)
        bound = stable if committed else high_watermark
        if offset < bound:
            self.cut(found, offset, bound, max_bytes, min_one_batch)
            if isinstance(found.file, CacheFile):
                if found.position + found.size > found.file.size - CHUNK_BYTES:
                    self._fetch_next(offset)
                found.file.require(found.position, found.size)
        return found

    def _fetch_next(self, offset: int) -> None:
        """The end of a segment is being read: have the next one fetched, if it is in the store."""
        slot = self.slot_of(offset) + 1
        segment = self._segments[slot] if 0 < slot < len(self._segments) else None
        if isinstance(segment, RemoteSegment):
            segment.fetch_ahead()

    # Lookups

    def offset_for_timestamp(
        self, timestamp: int, isolation: int = IsolationLevel.READ_UNCOMMITTED
    ) -> TimestampAndOffset | None:
        bound = self.last_stable_offset if isolation == IsolationLevel.READ_COMMITTED else self.committed_end
        first = max(self.slot_of(self.log_start_offset), 0)
        record = first_record_since(self._segments[first:], timestamp, self.log_start_offset)
        if record is None or record.offset >= bound:
            return None
        return TimestampAndOffset(record.timestamp, record.offset, self.epochs.epoch_at(record.offset))

    def max_timestamp_offset(self) -> TimestampAndOffset | None:
        youngest = super().max_timestamp_offset()
        if youngest is None or youngest.offset < self.committed_end:
            return youngest
        best: TimestampAndOffset | None = None
        for segment in self._segments:
            for batch in segment.batches_from(segment.base_offset):
                if batch.last_offset >= self.committed_end or batch.max_timestamp <= (best.timestamp if best else -1):
                    continue
                for record in iter_records(segment.read_batch(batch)):
                    if record.timestamp == batch.max_timestamp:
                        epoch = self.epochs.epoch_at(record.offset)
                        best = TimestampAndOffset(record.timestamp, record.offset, epoch)
                        break
        return best

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        found, end_offset = super().end_offset_for_epoch(epoch)
        return found, min(end_offset, self.committed_end)

    # Removing

    def delete_records(self, offset: int, now_ms: int) -> int:
        if not self.is_leader:
            raise NotLeaderOrFollower
        start = super().delete_records(offset, now_ms)
        self._note_start()
        return start

    def apply_retention(self, now_ms: int) -> int:
        """Only what is committed can be too old."""
        if not self.is_leader:
            return 0
        dropped = super().apply_retention(now_ms)
        self._note_start()
        return dropped

    def _expire(self, count: int, now_ms: int) -> int:
        while count and (self._bases[count] if count < len(self._bases) else self.log_end_offset) > self.committed_end:
            count -= 1
        return super()._expire(count, now_ms)

    def _note_start(self) -> None:
        self.entries = [each for each in self.entries if each.end_offset > self.log_start_offset]
        for base_offset in [each for each in self.shipped if each < self._bases[0]]:
            del self.shipped[base_offset]
        if self.log_start_offset > self.start_committed and self.on_start_moved is not None:
            self.on_start_moved(self)
