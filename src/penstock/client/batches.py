"""A batch of records as columns, for programs that handle many records at a time.

Nothing is decoded until a column is requested, so counting, routing or storing whole batches costs nothing per record.
With the extra `penstock[arrow]`, `to_arrow` returns a `pyarrow.RecordBatch`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from penstock.client.decoding import decode_batch, decode_values
from penstock.client.types import ConsumerRecord, Headers, TopicPartition
from penstock.records.batch import BatchHeader

if TYPE_CHECKING:
    import pyarrow


class RecordBatch:
    """One batch as it was produced. Iterating it gives `ConsumerRecord`s."""

    def __init__(
        self, topic: str, partition: int, data: memoryview, pos: int, header: BatchHeader, first_offset: int
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.header = header
        self._data = data
        self._pos = pos
        self._first_offset = max(first_offset, header.base_offset)

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition of the batch."""
        return TopicPartition(self.topic, self.partition)

    @property
    def base_offset(self) -> int:
        """The offset of the first record that belongs to the reader (a seek may point into the middle of a batch)."""
        return self._first_offset

    @property
    def next_offset(self) -> int:
        """The offset after the last record of the batch."""
        return self.header.next_offset

    @property
    def size(self) -> int:
        """Bytes of the batch as stored."""
        return self.header.size

    @property
    def raw(self) -> memoryview:
        """The batch as stored, header included."""
        return self._data[self._pos : self._pos + self.header.size]

    def __len__(self) -> int:
        if self._first_offset == self.header.base_offset:
            return self.header.records_count
        return len(self.records)

    def __iter__(self) -> Iterator[ConsumerRecord[bytes, bytes]]:
        return iter(self.records)

    @cached_property
    def records(self) -> list[ConsumerRecord[bytes, bytes]]:
        return decode_batch(self.topic, self.partition, self._data, self._pos, self.header, self._first_offset)

    @cached_property
    def offsets(self) -> list[int]:
        return [record.offset for record in self.records]

    @cached_property
    def timestamps(self) -> list[int]:
        return [record.timestamp for record in self.records]

    @cached_property
    def keys(self) -> list[bytes | None]:
        return [record.key for record in self.records]

    @cached_property
    def values(self) -> list[bytes | None]:
        if "records" in self.__dict__ or self._first_offset != self.header.base_offset:
            return [record.value for record in self.records]
        return decode_values(self._data, self._pos, self.header)

    @cached_property
    def headers(self) -> list[Headers]:
        return [record.headers for record in self.records]

    def to_arrow(self) -> pyarrow.RecordBatch:
        """The batch as Arrow columns: offset, timestamp, key, value, headers."""
        from penstock.records.arrow import batch_to_arrow

        return batch_to_arrow(self.raw, first_offset=self._first_offset)

    def __repr__(self) -> str:
        return (
            f"RecordBatch({self.topic}-{self.partition}, offsets {self._first_offset}..{self.next_offset - 1}, "
            f"{self.size} bytes)"
        )
