"""An engine that keeps everything in memory, for tests: a broker without files, and the events that files never show.

Each log is a list of batches. By itself an append is durable at once. While commits are held (`hold_commits`) appends
pile up between high watermark and log end, as they do where durability is somebody else's, until `commit` lets them
through, or `lose_leadership` or `refuse_appends` throw them away.

What was closed can be opened again from the same `MemoryStorage`, as after a restart.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from penstock.log.leader_epochs import LeaderEpochs
from penstock.log.producer_state import EndMarker, ProducerState
from penstock.log.recovery import read_marker
from penstock.log.retention import expired_by_size, expired_by_time
from penstock.records.batch import CONTROL, LOG_APPEND_TIME, BatchHeader, WritableBuffer, parse_header, patch_append
from penstock.records.record import iter_records
from penstock.storage.contract import (
    AbortedTransaction,
    ActiveProducer,
    Appended,
    AppendOrigin,
    Callback,
    FetchSlice,
    IsolationLevel,
    LeadershipLost,
    Log,
    LogConfig,
    StorageError,
    TimestampAndOffset,
    Volume,
)
from penstock.wire.errors import NotLeaderOrFollower, OffsetOutOfRange

if TYPE_CHECKING:
    from penstock.storage.compaction import CleanerConfig, CleanerStatus, Compactor


_MAX_BYTES = 1 << 30  # what it claims to have room for


class MemorySlice(FetchSlice):
    """A slice that brings its bytes along."""

    __slots__ = ("_data",)

    def __init__(self, log: MemoryLog, aborted: list[AbortedTransaction] | None) -> None:
        super().__init__(log.high_watermark, log.last_stable_offset, log.log_start_offset, aborted)
        self._data = b""

    def fill(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)

    def read(self) -> bytes:
        return self._data


class MemoryLog:
    """See `contract.Log`. Made by `MemoryStorage.open_log`."""

    def __init__(self, topic: str, partition: int, topic_id: bytes, config: LogConfig) -> None:
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.config = config
        self.leader_epoch = 0
        self.log_start_offset = self.log_end_offset = self.high_watermark = 0
        self.commits_held = False
        self.is_leader = True
        self.is_readable = False
        self.on_high_watermark: Callable[[], None] | None = None
        self.on_leadership: Callable[[], None] | None = None
        self._producers = ProducerState()
        self._epochs = LeaderEpochs(None)
        self._batches: list[bytes] = []
        self._headers: list[BatchHeader] = []
        self._last_offsets: list[int] = []
        self._aborted: list[AbortedTransaction] = []
        self._ended: list[tuple[int, int]] = []
        """First offset and marker of transactions whose end is not committed yet."""

    @property
    def last_stable_offset(self) -> int:
        unstable = self._producers.first_unstable_offset
        bounds = [first for first, marker in self._ended if marker >= self.high_watermark]
        if unstable is not None:
            bounds.append(unstable)
        return min(self.high_watermark, max(min(bounds), self.log_start_offset)) if bounds else self.high_watermark

    @property
    def size(self) -> int:
        return sum(map(len, self._batches))

    @property
    def is_durable(self) -> bool:
        return self.high_watermark == self.log_end_offset

    def batches(self) -> list[bytes]:
        """What it holds, for whoever looks from outside."""
        return list(self._batches)

    def update_config(self, config: LogConfig) -> None:
        self.config = config

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
        self._check_leadership()
        marker = None
        if header.producer_id >= 0:
            marker = read_marker(batch) if header.attributes & CONTROL else None
            repeated = self._producers.check(header, origin, marker, transaction_version)
            if repeated is not None:
                first, last = repeated.first_offset, repeated.last_offset
                return Appended(first, last, repeated.timestamp, self.log_start_offset, True, last + 1)
        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        self._epochs.assign(self.leader_epoch, base_offset)
        patch_append(batch, 0, base_offset, self.leader_epoch)
        self._batches.append(bytes(batch))
        self._headers.append(parse_header(batch))
        self._last_offsets.append(last_offset)
        self.log_end_offset = last_offset + 1
        if marker is not None:
            self._end_transaction(header, marker, base_offset, now_ms)
        elif header.producer_id >= 0:
            self._producers.apply_data(header, base_offset, now_ms)
        if not self.commits_held:
            self.high_watermark = self.log_end_offset
        append_time = header.max_timestamp if header.attributes & LOG_APPEND_TIME else -1
        return Appended(base_offset, last_offset, append_time, self.log_start_offset, False, self.log_end_offset)

    def _end_transaction(self, header: BatchHeader, marker: EndMarker, offset: int, now_ms: int) -> None:
        completed = self._producers.apply_marker(header, marker, offset, now_ms)
        if completed is None:
            return
        self._ended = [each for each in self._ended if each[1] >= self.high_watermark]
        self._ended.append((completed.first_offset, offset))
        if completed.aborted:
            self._aborted.append(completed.index_entry())

    def _check_leadership(self) -> None:
        if not self.is_leader:
            raise NotLeaderOrFollower

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        min_one_batch: bool = True,
        isolation: int = IsolationLevel.READ_UNCOMMITTED,
    ) -> MemorySlice:
        self._check_leadership()
        if not self.log_start_offset <= offset <= self.high_watermark:
            raise OffsetOutOfRange(
                f"Received request for offset {offset} for partition {self.topic}-{self.partition}, but we only have "
                f"log segments from offset {self.log_start_offset} up to {self.high_watermark}."
            )
        committed = isolation == IsolationLevel.READ_COMMITTED
        found = MemorySlice(self, [] if committed else None)
        first = bisect_left(self._last_offsets, offset)
        end = bisect_left(self._last_offsets, self.last_stable_offset if committed else self.high_watermark)
        size = 0
        stop = first
        while stop < end and (size + len(self._batches[stop]) <= max_bytes or (stop == first and min_one_batch)):
            size += len(self._batches[stop])
            stop += 1
        if stop > first:
            found.fill(b"".join(self._batches[first:stop]))
            if found.aborted is not None:
                upper = self._last_offsets[stop - 1] + 1
                found.aborted += [
                    each for each in self._aborted if each.last_offset >= offset and each.first_offset < upper
                ]
                found.aborted.sort(key=lambda each: each.first_offset)
        return found

    # Lookups

    def offset_for_timestamp(
        self, timestamp: int, isolation: int = IsolationLevel.READ_UNCOMMITTED
    ) -> TimestampAndOffset | None:
        bound = self.last_stable_offset if isolation == IsolationLevel.READ_COMMITTED else self.high_watermark
        for found in self._timestamps():
            if found.offset >= bound:
                return None
            if found.timestamp >= timestamp:
                return found
        return None

    def max_timestamp_offset(self) -> TimestampAndOffset | None:
        visible = [each for each in self._timestamps() if each.offset < self.high_watermark and each.timestamp >= 0]
        return max(visible, key=lambda each: (each.timestamp, -each.offset), default=None)

    def _timestamps(self) -> Iterator[TimestampAndOffset]:
        for batch, header in zip(self._batches, self._headers, strict=True):
            for record in iter_records(batch):
                if record.offset >= self.log_start_offset:
                    yield TimestampAndOffset(record.timestamp, record.offset, header.partition_leader_epoch)

    def earliest_epoch(self) -> int:
        epoch = self._epochs.epoch_at(self.log_start_offset)
        return self.leader_epoch if epoch < 0 and self.log_start_offset == self.log_end_offset else epoch

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        if epoch == self.leader_epoch:
            return epoch, self.high_watermark
        return self._epochs.end_offset_for(epoch, self.high_watermark)

    # Producers

    def knows_producer(self, producer_id: int) -> bool:
        return producer_id in self._producers.entries

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        return self._producers.has_open_transaction(producer_id, producer_epoch)

    def active_producers(self) -> list[ActiveProducer]:
        return self._producers.active_producers()

    def undurable_end(self, producer_id: int) -> int | None:
        entry = self._producers.entries.get(producer_id)
        if entry is None or entry.last_data_offset < self.high_watermark:
            return None
        return entry.last_data_offset + 1

    def expire_producers(self, now_ms: int) -> None:
        self._producers.remove_expired(now_ms, self.config.producer_id_expiration_ms)

    # Removing

    def delete_records(self, offset: int, now_ms: int) -> int:
        if offset == -1:
            offset = self.high_watermark
        if not 0 <= offset <= self.high_watermark:
            raise OffsetOutOfRange(
                f"Cannot increment the log start offset to {offset} of partition {self.topic}-{self.partition} since "
                f"it is larger than the high watermark {self.high_watermark}"
            )
        if offset > self.log_start_offset:
            self._move_start(offset)
        return self.log_start_offset

    def apply_retention(self, now_ms: int) -> int:
        """As if each batch were a segment."""
        before = len(self._batches)
        if self.config.deletes:
            ages = [lambda at=header.max_timestamp: at for header in self._headers]
            self._expire(expired_by_time(ages, now_ms, self.config.retention_ms))
            self._expire(expired_by_size([len(batch) for batch in self._batches], self.config.retention_bytes))
        self.expire_producers(now_ms)
        return before - len(self._batches)

    def _expire(self, count: int) -> None:
        if count:
            self._move_start(min(self._last_offsets[count - 1] + 1, self.high_watermark))

    def _move_start(self, offset: int) -> None:
        self.log_start_offset = max(self.log_start_offset, offset)
        self._epochs.truncate_start(self.log_start_offset)
        gone = bisect_left(self._last_offsets, self.log_start_offset)
        del self._batches[:gone], self._headers[:gone], self._last_offsets[:gone]

    # Leadership

    def lead_anew(self) -> None:
        """Begin another epoch with what is committed: the rest is lost."""
        kept = bisect_left(self._last_offsets, self.high_watermark)
        del self._batches[kept:], self._headers[kept:], self._last_offsets[kept:]
        self.log_end_offset = self.high_watermark
        self._epochs.truncate_end(self.high_watermark)
        self._aborted = [each for each in self._aborted if each.last_offset < self.high_watermark]
        self._ended.clear()
        self._producers = ProducerState()
        for batch, header in zip(self._batches, self._headers, strict=True):
            marker = read_marker(batch) if header.attributes & CONTROL else None
            self._producers.replay(header, marker, header.max_timestamp)
        self.leader_epoch += 1
        self.is_leader = True
        self._leadership_changed()

    def resign(self) -> None:
        self.is_leader = False
        self._leadership_changed()

    def _leadership_changed(self) -> None:
        if self.on_leadership is not None:
            self.on_leadership()

    # Durability

    def commit(self) -> None:
        """Let readers see everything that was appended."""
        if self.is_leader and self.high_watermark < self.log_end_offset:
            self.high_watermark = self.log_end_offset
            if self.on_high_watermark is not None:
                self.on_high_watermark()


class MemoryStorage:
    """See `contract.Storage`. `call_soon` runs a function in the owner's thread, later."""

    can_lose_appends = True
    may_have_lost_writes = False

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._stored: dict[tuple[str, int], MemoryLog] = {}
        self._logs: dict[tuple[str, int], MemoryLog] = {}
        self._waiting: list[tuple[MemoryLog, int, Callback]] = []
        self._commits_held = False

    def volume(self) -> Volume:
        used = sum(log.size for log in self._logs.values())
        return Volume("memory", _MAX_BYTES, _MAX_BYTES - used)

    def open_log(self, topic: str, partition: int, topic_id: bytes, config: LogConfig) -> MemoryLog:
        stored = self._stored.get((topic, partition))
        if stored is None or stored.topic_id != topic_id:
            stored = self._stored[topic, partition] = MemoryLog(topic, partition, topic_id, config)
        stored.update_config(config)
        if not stored.is_leader:
            stored.lead_anew()
        stored.commits_held = self._commits_held
        self._logs[topic, partition] = stored
        return stored

    def opened(self) -> None:
        self._stored = dict(self._logs)

    def logs(self) -> Iterator[MemoryLog]:
        return iter(list(self._logs.values()))

    def delete_log(self, log: Log) -> Callable[[], None]:
        del self._logs[log.topic, log.partition]
        del self._stored[log.topic, log.partition]
        return lambda: None

    def resign(self, log: Log) -> None:
        self.lose_leadership(log)
        del self._logs[log.topic, log.partition]

    def compactor(self, config: CleanerConfig, on_progress: Callable[[], None]) -> Compactor:
        return NoCompaction()

    # Durability

    def when_durable(self, log: Log, position: int, callback: Callback) -> None:
        assert isinstance(log, MemoryLog)
        if not log.is_leader:
            self._answer(callback, _leadership_lost(log))
        elif log.high_watermark >= position:
            self._answer(callback, None)
        else:
            self._waiting.append((log, position, callback))

    def when_start_durable(self, log: Log, callback: Callback) -> None:
        assert isinstance(log, MemoryLog)
        self._answer(callback, None if log.is_leader else _leadership_lost(log))

    def _answer(self, callback: Callback, failure: StorageError | None) -> None:
        self._call_soon(partial(callback, failure))

    def make_durable_soon(self, log: Log) -> None:
        pass

    def lost_writes_settled(self) -> None:
        pass

    def save_progress(self) -> None:
        pass

    def close(self) -> None:
        self.commit()
        self._logs.clear()

    # What a test can have happen

    def hold_commits(self) -> None:
        """From now on appends stay above the high watermark, and nobody hears that they are durable."""
        self._commits_held = True
        for log in self._logs.values():
            log.commits_held = True

    def commit(self) -> None:
        """Commit what was held back, and go on committing at once."""
        self._commits_held = False
        for log in self._logs.values():
            log.commits_held = False
            log.commit()
        waiting, self._waiting = self._waiting, []
        for log, position, callback in waiting:
            self.when_durable(log, position, callback)

    def lose_leadership(self, log: Log) -> None:
        """Another broker leads this partition from now on."""
        assert isinstance(log, MemoryLog)
        self._refuse(log, _leadership_lost(log))
        log.resign()

    def gain_leadership(self, log: Log) -> None:
        """This broker leads a partition again, from where its last leader has committed it."""
        assert isinstance(log, MemoryLog)
        log.lead_anew()

    def refuse_appends(self, log: Log) -> None:
        """What was accepted and is not committed is refused; this broker goes on leading."""
        assert isinstance(log, MemoryLog)
        self._refuse(log, StorageError(f"{log.topic}-{log.partition} cannot be committed"))
        log.lead_anew()

    def _refuse(self, log: MemoryLog, failure: StorageError) -> None:
        for each, _, callback in self._waiting:
            if each is log:
                self._answer(callback, failure)
        self._waiting = [waiting for waiting in self._waiting if waiting[0] is not log]


def _leadership_lost(log: MemoryLog) -> LeadershipLost:
    return LeadershipLost(f"another broker leads {log.topic}-{log.partition} now")


class NoCompaction:
    """Records in memory are never compacted."""

    def poll(self, now_ms: int) -> None:
        pass

    def forget(self, log: Log) -> None:
        pass

    def status(self, now_ms: int) -> CleanerStatus:
        from penstock.storage.compaction import CleanerStatus

        return CleanerStatus(
            running=None,
            rounds=0,
            failures=0,
            last_look_ms=None,
            last_success_ms=None,
            last_error=None,
            bytes_read=0,
            bytes_written=0,
            logs=[],
        )

    def waiting_ms(self, now_ms: int) -> int:
        return 0

    def update_config(self, config: CleanerConfig) -> None:
        pass

    def close(self) -> None:
        pass
