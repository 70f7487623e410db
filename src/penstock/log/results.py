"""What a log answers: where a batch was appended, which bytes answer a fetch, which record a timestamp leads to, who
produces to it."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from penstock.log.files import SegmentFile, pread_all
from penstock.log.transaction_index import AbortedTransaction


class IsolationLevel(IntEnum):
    """As in a fetch request."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class Appended:
    """Where a batch is in the log. Of a duplicate: where it has been all along."""

    __slots__ = ("base_offset", "duplicate", "last_offset", "log_append_time_ms", "log_start_offset", "position")

    def __init__(
        self,
        base_offset: int,
        last_offset: int,
        log_append_time_ms: int,
        log_start_offset: int,
        duplicate: bool,
        position: int,
    ) -> None:
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.duplicate = duplicate
        self.position = position
        """The batch is on disk when the log's recovery point has reached this offset."""


class FetchSlice:
    """A byte range of whole batches in one segment file, with the offsets that were true when it was cut.

    `file` stays open for as long as the slice holds it, whatever happens to the segment. It is None when `size` is 0,
    and when the bytes are not in a file (`penstock.storage.memory`).
    """

    __slots__ = ("aborted", "file", "high_watermark", "last_stable_offset", "log_start_offset", "position", "size")

    def __init__(
        self,
        high_watermark: int,
        last_stable_offset: int,
        log_start_offset: int,
        aborted: list[AbortedTransaction] | None,
    ) -> None:
        self.file: SegmentFile | None = None
        self.position = 0
        self.size = 0
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.aborted = aborted

    def read(self) -> bytes:
        """The bytes themselves, for callers that do not hand the range on to `sendfile`."""
        return pread_all(self.file, self.size, self.position) if self.file is not None else b""


class TimestampAndOffset(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int


class NotedEnd(NamedTuple):
    """Where a log ended at some time, and in which file."""

    log_end_offset: int
    base_offset: int
    """Of the last segment."""
    size: int
    """Of the last segment."""


class ActiveProducer(NamedTuple):
    """What a log remembers of one idempotent or transactional producer."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    """-1 of a producer that has written nothing under this epoch."""
    last_timestamp: int
    coordinator_epoch: int
    """Of the coordinator that last ended a transaction of this producer here; -1 if none has."""
    transaction_first_offset: int
    """Where its open transaction begins; -1 if it has none."""

    @property
    def has_open_transaction(self) -> bool:
        return self.transaction_first_offset >= 0
