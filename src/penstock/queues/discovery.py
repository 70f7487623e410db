"""From the batches of the log to the rows of a window: which offsets hold a record that can be delivered.

Some hold none: a compacted topic has lost records (between batches and inside of them), and under
`share.isolation.level=read_committed` the records of an aborted transaction do not count. Kafka hands lost offsets out
and lets the client report them as gaps; here they are known from the batch headers before anything is acquired, and
only a batch with holes is opened; if it cannot be, it is unreadable. Control records (the ends of transactions) are
handed out as in Kafka: clients acknowledge them as gaps, unseen by the application.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from penstock.queues.transitions import Unreadable
from penstock.records.batch import BatchHeader, Buffer, CorruptBatch, crc_is_valid, iter_headers
from penstock.records.cutting import OpenedBatch
from penstock.records.record import iter_records

_NO_STOP = 2**63


class AbortedTransaction(Protocol):
    """An entry of the log's transaction index."""

    @property
    def producer_id(self) -> int: ...

    @property
    def first_offset(self) -> int: ...

    @property
    def last_offset(self) -> int: ...


@dataclass(slots=True)
class Discovered:
    end_offset: int
    absent: list[tuple[int, int]] = field(default_factory=list)
    batches: list[DiscoveredBatch] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)


class DiscoveredBatch(NamedTuple):
    """A batch with records to deliver, where in the data it begins, and the offsets in it that hold none."""

    header: BatchHeader
    position: int
    holes: Sequence[tuple[int, int]]


def discover(
    data: Buffer, from_offset: int, aborted: Sequence[AbortedTransaction] = (), stop_offset: int = _NO_STOP
) -> Discovered:
    """Look at whole batches, the first of which holds `from_offset` or comes after it, up to the stop offset."""
    found = Discovered(from_offset)
    for position, header in iter_headers(data):
        expected = found.end_offset
        if expected >= stop_offset:
            break
        if header.base_offset > expected:
            found.absent.append((expected, header.base_offset - 1))
        if header.last_offset >= from_offset:
            if _is_aborted(header, aborted):
                found.absent.append((max(header.base_offset, from_offset), header.last_offset))
            else:
                _add_batch(found, data, position, header)
        found.end_offset = max(expected, header.last_offset + 1)
    return found


def _add_batch(found: Discovered, data: Buffer, position: int, header: BatchHeader) -> None:
    holes: Sequence[tuple[int, int]] = ()
    if header.records_count != header.last_offset_delta + 1:
        try:
            holes = OpenedBatch(data, position).holes()
        except CorruptBatch as error:
            found.unreadable.append(Unreadable(header.base_offset, header.last_offset, str(error)))
    found.batches.append(DiscoveredBatch(header, position, holes))
    found.absent += holes


def delivery_times(data: Buffer, header_name: str) -> list[tuple[int, int]]:
    """(offset, earliest delivery in ms) of the records of a batch that carry the header with a number in it.

    Raises CorruptBatch if the batch cannot be read, or is not what was stored.
    """
    if not crc_is_valid(data, 0, len(data)):
        raise CorruptBatch("the stored checksum does not match the batch")
    times = []
    for record in iter_records(data):
        for name, value in record.headers:
            if name == header_name and value is not None and value.strip().isdigit():
                times.append((record.offset, int(value)))
                break
    return times


def _is_aborted(header: BatchHeader, aborted: Iterable[AbortedTransaction]) -> bool:
    return (
        header.is_transactional
        and not header.is_control
        and any(
            entry.producer_id == header.producer_id and entry.first_offset <= header.base_offset <= entry.last_offset
            for entry in aborted
        )
    )
