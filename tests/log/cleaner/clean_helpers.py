"""Running rounds of cleaning in this process, and looking at the result key by key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.log.cleaner.jobs import CleanedGroup, CleanedRound, CleanJob
from penstock.log.cleaner.rounds import clean_round
from penstock.log.cleaner.selection import measure, plan_round
from penstock.log.partition import PartitionLog
from penstock.records.batch import BatchHeader, iter_headers
from penstock.records.builder import NewRecord, build_batch
from penstock.records.record import iter_records
from tests.log.log_helpers import NOW, all_bytes, append

Pair = tuple[str, str | None]


def keyed(*pairs: Pair, codec: int = 0, timestamp: int = NOW, **options: Any) -> bytearray:
    records: list[NewRecord] = [
        (timestamp, key.encode(), None if value is None else value.encode(), []) for key, value in pairs
    ]
    return build_batch(records, codec=codec, **options)


def write(log: PartitionLog, *pairs: Pair, codec: int = 0) -> None:
    append(log, keyed(*pairs, codec=codec))


def plan(log: PartitionLog, cleaned_offset: int | None = None, now_ms: int = NOW, *, buffer: int = 1 << 20) -> CleanJob:
    log.sync()
    dirtiness = measure(log, cleaned_offset, now_ms)
    return plan_round(log, dirtiness, now_ms, dedupe_buffer_bytes=buffer, io_max_bytes_per_second=1e300)


def clean(
    log: PartitionLog, cleaned_offset: int | None = None, now_ms: int = NOW, *, buffer: int = 1 << 20
) -> CleanedRound:
    """One whole round, as the broker and its cleaner process do it together."""
    job = plan(log, cleaned_offset, now_ms, buffer=buffer)
    for outcome in clean_round(job, lambda count: None):
        if isinstance(outcome, CleanedGroup):
            assert log.replace_segments(outcome.base_offsets, now_ms)
        else:
            return outcome
    raise AssertionError("the round did not end")


def records(log: PartitionLog) -> list[tuple[int, str | None, str | None]]:
    """(offset, key, value) of every data record."""
    data = all_bytes(log)
    return [
        (record.offset, _text(record.key), _text(record.value))
        for position, header in iter_headers(data)
        if not header.is_control
        for record in iter_records(data, position)
    ]


def latest(found: Iterable[tuple[int, str | None, str | None]]) -> dict[str | None, str | None]:
    return {key: value for _, key, value in found}


def headers(log: PartitionLog) -> list[BatchHeader]:
    return [header for _, header in iter_headers(all_bytes(log))]


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()
