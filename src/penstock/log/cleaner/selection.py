"""Which log to clean next, and which part of it.

A log is divided in three: what earlier rounds have cleaned, the dirty part behind it, and what must not be cleaned yet:
the active segment, everything from the last stable offset on, what is not on disk yet, and segments younger than
`min.compaction.lag.ms`. It is
worth cleaning when the dirty part makes up more than `min.cleanable.dirty.ratio` of the first two, or when something
in it has been waiting for longer than `max.compaction.lag.ms`.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.log.cleaner.jobs import CleanJob
from penstock.log.partition import PartitionLog
from penstock.log.segment import Segment

_FOREVER = 2**63 - 1


@dataclass(slots=True)
class Dirtiness:
    """How a log is divided. Offsets are those of segments' beginnings, except for the first dirty one."""

    first_dirty_offset: int
    upper_bound_offset: int
    clean_bytes: int
    dirty_bytes: int
    overdue: bool
    """Something dirty is older than `max.compaction.lag.ms`."""

    @property
    def ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


def measure(log: PartitionLog, cleaned_offset: int | None, now_ms: int | None) -> Dirtiness:
    """`cleaned_offset` is where the last round ended, None if there was none. Raises ColdRead.

    Without a time the age of segments is not looked at, and nothing is read.
    """
    first_dirty = log.log_start_offset if cleaned_offset is None else cleaned_offset
    if not log.log_start_offset <= first_dirty <= log.log_end_offset:
        first_dirty = log.log_start_offset
    segments = log.segments
    upper_bound = segments[-1].base_offset
    cleanable = log.cleanable_end
    clean_bytes = dirty_bytes = 0
    overdue = False
    for slot, segment in enumerate(segments[:-1]):
        following = segments[slot + 1].base_offset
        if following > cleanable or (following > first_dirty and _is_too_young(segment, log, now_ms)):
            upper_bound = segment.base_offset
            break
        if following <= first_dirty:
            clean_bytes += segment.size
        else:
            dirty_bytes += segment.size
            overdue = overdue or _is_overdue(segment, log, now_ms)
    return Dirtiness(first_dirty, max(upper_bound, first_dirty), clean_bytes, dirty_bytes, overdue)


def is_worth_cleaning(log: PartitionLog, dirtiness: Dirtiness) -> bool:
    if not dirtiness.dirty_bytes:
        return False
    return dirtiness.overdue or dirtiness.ratio > log.config.min_cleanable_dirty_ratio


def plan_round(
    log: PartitionLog,
    dirtiness: Dirtiness,
    now_ms: int,
    *,
    dedupe_buffer_bytes: int,
    io_max_bytes_per_second: float,
) -> CleanJob:
    """Everything the cleaner process needs to know; it never looks at the log itself, only at its files."""
    config = log.config
    segments = log.segments
    return CleanJob(
        folder=str(log.folder),
        segments=[
            (segment.base_offset, segment.size)
            for segment in segments[:-1]
            if segment.base_offset < dirtiness.upper_bound_offset
        ],
        txn_index_segments=[segment.base_offset for segment in segments if segment.txn_index.may_have_entries],
        first_dirty_offset=dirtiness.first_dirty_offset,
        upper_bound_offset=dirtiness.upper_bound_offset,
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        delete_retention_ms=config.delete_retention_ms,
        now_ms=now_ms,
        dedupe_buffer_bytes=dedupe_buffer_bytes,
        io_max_bytes_per_second=io_max_bytes_per_second,
        producers=[
            (entry.producer_id, entry.last_data_offset, entry.producer_epoch)
            for entry in log.producer_state.entries.values()
        ],
    )


def _is_too_young(segment: Segment, log: PartitionLog, now_ms: int | None) -> bool:
    lag_ms = log.config.min_compaction_lag_ms
    return lag_ms > 0 and now_ms is not None and segment.largest_timestamp() > now_ms - lag_ms


def _is_overdue(segment: Segment, log: PartitionLog, now_ms: int | None) -> bool:
    lag_ms = log.config.max_compaction_lag_ms
    if lag_ms == _FOREVER or now_ms is None:
        return False
    first = segment.first_batch_timestamp()
    return first >= 0 and now_ms - first > lag_ms
