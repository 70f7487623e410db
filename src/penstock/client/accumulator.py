"""The producer's memory: records waiting in batches, batches waiting in queues, one queue per partition.

A batch is *open* while records are added, *closed* when it is full or due, *in flight* once sent, and *done* when its
outcome is final. Nothing here sends: the sender takes the next batch of a queue and reports its outcome.

With idempotence each batch gets a sequence number when it is first sent, and keeps it through every retry, which is how
the broker recognizes a batch that it has already written. The broker refuses a batch that arrives before its
predecessor, so a failed batch waits until those behind it have been answered (and refused) too; then all are sent again
in order of sequence.

The original records are kept until the batch is done, because a batch may have to be rebuilt: split when the broker
finds it too large, or renumbered after a predecessor was lost for good.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from collections import deque
from collections.abc import Callable, Generator

from penstock.client.types import RecordMetadata, TopicPartition
from penstock.records.builder import NewRecord, build_batch

# Bytes of a batch header, and an upper estimate of the numbers around each record.
_BATCH_OVERHEAD = 61
RECORD_OVERHEAD = 20
_MAX_SEQUENCE = 2**31 - 1

# (index of the first record, its offset, timestamp of the append or -1, what went wrong): several after a split
Landed = list[tuple[int, int, int, BaseException | None]]


class Batch:
    """Records for one partition that travel together, and the one future that all their deliveries share."""

    __slots__ = (
        "attempts",
        "created_at",
        "data",
        "done",
        "epoch",
        "position",
        "producer_id",
        "records",
        "sequence",
        "size",
        "tp",
    )

    def __init__(self, tp: TopicPartition, created_at: float, done: asyncio.Future[Landed]) -> None:
        self.tp = tp
        self.records: list[NewRecord] = []
        self.size = _BATCH_OVERHEAD
        self.created_at = created_at
        self.done = done
        self.data: bytearray | None = None
        self.attempts = 0
        self.sequence = -1
        self.producer_id = -1
        self.epoch = -1
        self.position = -1

    def build(self, codec: int, level: int | None, transactional: bool) -> bytearray:
        """The batch as bytes, built on the first call."""
        if self.data is None:
            self.data = build_batch(
                self.records,
                codec=codec,
                level=level,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                base_sequence=self.sequence,
                transactional=transactional,
            )
        return self.data

    def number(self, producer_id: int, epoch: int, position: int) -> None:
        """Give the batch its place: `position` counts the queue's records, the sequence number is that modulo 2^31."""
        self.producer_id = producer_id
        self.epoch = epoch
        self.position = position
        self.sequence = position & _MAX_SEQUENCE if producer_id >= 0 else -1
        self.data = None

    def split(self) -> tuple[Batch, Batch]:
        """Two halves whose deliveries are this batch's own."""
        middle = len(self.records) // 2
        halves = []
        for first, records in (0, self.records[:middle]), (middle, self.records[middle:]):
            half = Batch(self.tp, self.created_at, self.done.get_loop().create_future())
            half.records = records
            half.size = self.size // 2 if first else self.size - self.size // 2
            half.number(self.producer_id, self.epoch, self.position + first)
            halves.append(half)

        def landed(_: asyncio.Future[Landed]) -> None:
            if self.done.done() or not all(half.done.done() for half in halves):
                return
            gathered: Landed = []
            for half, first in zip(halves, (0, middle), strict=True):
                error = half.done.exception()
                if error is not None:
                    gathered.append((first, -1, -1, error))
                else:
                    gathered += [(first + i, offset, timestamp, e) for i, offset, timestamp, e in half.done.result()]
            self.done.set_result(gathered)

        for half in halves:
            half.done.add_done_callback(landed)
        return halves[0], halves[1]

    def succeed(self, base_offset: int, timestamp: int) -> None:
        if not self.done.done():
            self.done.set_result([(0, base_offset, timestamp, None)])

    def fail(self, error: BaseException) -> None:
        if not self.done.done():
            self.done.set_exception(error)
            self.done.exception()  # a delivery that nobody awaits is reported by the log, not by asyncio


class Delivery:
    """The result of sending a record: `await` it for its `RecordMetadata`, or for the error."""

    __slots__ = ("_batch", "_index", "_timestamp")

    def __init__(self, batch: Batch, index: int, timestamp: int) -> None:
        self._batch = batch
        self._index = index
        self._timestamp = timestamp

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition that the record goes to."""
        return self._batch.tp

    def done(self) -> bool:
        """Whether the broker has answered."""
        return self._batch.done.done()

    def result(self) -> RecordMetadata:
        """The record's metadata. Raises its error, or InvalidStateError before the broker has answered."""
        landed = self._batch.done.result()
        index = self._index
        first, offset, timestamp, error = next(entry for entry in reversed(landed) if entry[0] <= index)
        if error is not None:
            raise error
        tp = self._batch.tp
        return RecordMetadata(
            tp.topic,
            tp.partition,
            offset + index - first if offset >= 0 else -1,
            timestamp if timestamp >= 0 else self._timestamp,
        )

    def exception(self) -> BaseException | None:
        """The error of a record that was not written, or None."""
        error = self._batch.done.exception()
        if error is not None:
            return error
        return next(entry for entry in reversed(self._batch.done.result()) if entry[0] <= self._index)[3]

    def add_done_callback(self, callback: Callable[[Delivery], object]) -> None:
        """Call `callback(delivery)` from the event loop once the broker has answered."""
        self._batch.done.add_done_callback(lambda _: callback(self))

    def __await__(self) -> Generator[object, None, RecordMetadata]:
        if not self._batch.done.done():
            # Shielded: cancelling one who waits must not fail the other records of the batch.
            yield from asyncio.shield(self._batch.done).__await__()
        return self.result()


class PartitionQueue:
    """Everything that the producer holds for one partition."""

    __slots__ = ("closed", "in_flight", "next_position", "open", "retries", "tp")

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.open: Batch | None = None
        self.closed: deque[Batch] = deque()
        self.in_flight: list[Batch] = []
        self.retries: list[Batch] = []
        self.next_position = 0

    def close_open(self) -> None:
        if self.open is not None:
            self.closed.append(self.open)
            self.open = None

    def has_work(self) -> bool:
        return bool(self.closed or self.retries or self.open or self.in_flight)

    def is_sendable(self, max_in_flight: int, sequenced: bool, only_retries: bool) -> bool:
        if self.retries:
            # One at a time, and only after everything behind it was answered: the order must hold.
            return not self.in_flight
        return bool(self.closed) and not only_retries and (not sequenced or len(self.in_flight) < max_in_flight)

    def take(self) -> Batch:
        """The next batch to send; it is in flight from now on."""
        batch = self.retries.pop(0) if self.retries else self.closed.popleft()
        self.in_flight.append(batch)
        return batch

    def number(self, batch: Batch, producer_id: int, epoch: int) -> None:
        """Give a batch that is sent for the first time its place in the order."""
        batch.number(producer_id, epoch, self.next_position)
        self.next_position += len(batch.records)

    def answered(self, batch: Batch) -> None:
        self.in_flight.remove(batch)

    def retry(self, batch: Batch) -> None:
        """Back from flight, to be sent again in its place."""
        insort(self.retries, batch, key=_position)

    def follows_a_retry(self, batch: Batch) -> bool:
        """Whether a batch before this one waits to be sent again."""
        return bool(self.retries) and _position(self.retries[0]) < _position(batch)

    def is_first(self, batch: Batch) -> bool:
        """Whether no batch with an earlier sequence is unresolved, so that the broker's refusal is about this one."""
        others = [other for other in (*self.in_flight, *self.retries) if other is not batch]
        return all(_position(batch) <= _position(other) for other in others)

    def renumber(self) -> None:
        """Forget all sequence numbers: the batches that wait are numbered afresh when they are sent again."""
        self.closed.extendleft(reversed(self.retries))
        self.retries.clear()
        for batch in self.closed:
            batch.number(-1, -1, -1)
        self.next_position = 0

    def drop_all(self) -> list[Batch]:
        """Everything that waits, removed; what is in flight will be answered."""
        self.close_open()
        dropped = [*self.retries, *self.closed]
        self.retries.clear()
        self.closed.clear()
        return dropped


def _position(batch: Batch) -> int:
    return batch.position
