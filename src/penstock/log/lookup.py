"""Finding records by timestamp.

Timestamps are the producers' and need not rise with the offsets. "The first record at or after T" is therefore the one
with the smallest offset: the first segment whose largest timestamp reaches T holds it, the time index says from where
on to look in there, batch headers say which batch, and only that batch is decoded.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.log.segment import BatchAt, Segment
from penstock.records.record import Record, iter_records


def first_record_since(segments: Iterable[Segment], timestamp: int, log_start_offset: int) -> Record | None:
    """The first record by offset, from the log start on, whose timestamp is at least `timestamp`."""
    for segment in segments:
        segment.load_timestamps()
        if segment.max_timestamp < timestamp:
            continue
        for batch in segment.batches_since(timestamp):
            if batch.last_offset < log_start_offset:
                continue
            for record in _records_at(segment, batch):
                if record.timestamp >= timestamp and record.offset >= log_start_offset:
                    return record
    return None


def youngest_record(segments: Iterable[Segment]) -> Record | None:
    """The first record that carries the largest timestamp there is."""
    best: Segment | None = None
    for segment in segments:
        segment.load_timestamps()
        if segment.max_timestamp > (best.max_timestamp if best is not None else -1):
            best = segment
    batch = best.find(best.max_timestamp_offset) if best is not None else None
    if best is None or batch is None:
        return None
    for record in _records_at(best, batch):
        if record.timestamp == best.max_timestamp:
            return record
    return None


def _records_at(segment: Segment, batch: BatchAt) -> Iterable[Record]:
    return iter_records(segment.read_batch(batch))
