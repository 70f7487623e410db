"""Batches to append, and ways to look at a log from the outside."""

from __future__ import annotations

from pathlib import Path

from penstock.log.config import LogConfig
from penstock.log.partition import PartitionLog
from penstock.log.producer_state import AppendOrigin
from penstock.log.results import Appended
from penstock.records.batch import iter_headers, parse_header
from penstock.records.builder import build_batch
from penstock.records.control import ControlType, end_marker_batch
from penstock.records.record import iter_records

NOW = 1_700_000_000_000
TOPIC_ID = bytes(range(16))
SMALL = LogConfig(segment_bytes=1 << 20, index_interval_bytes=64)


def open_log(folder: Path, config: LogConfig = SMALL, **options: object) -> PartitionLog:
    return PartitionLog.open(folder, "t", 0, TOPIC_ID, config, NOW, **options)  # type: ignore[arg-type]


def reopen(log: PartitionLog, **options: object) -> PartitionLog:
    """Open the same files again, as after a crash: nothing was closed."""
    return open_log(log.folder.parent, log.config, **options)


def reopen_clean(log: PartitionLog) -> PartitionLog:
    log.close()
    return open_log(log.folder.parent, log.config, clean=True, recovery_point=log.recovery_point)


def plain(*values: str, timestamp: int = NOW) -> bytearray:
    return build_batch([(timestamp, None, value.encode(), []) for value in values])


def produced(
    sequence: int,
    *values: str,
    producer_id: int = 7,
    epoch: int = 0,
    transactional: bool = False,
    timestamp: int = NOW,
) -> bytearray:
    return build_batch(
        [(timestamp, None, value.encode(), []) for value in values or ("v",)],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )


def append(log: PartitionLog, batch: bytearray, *, now_ms: int = NOW, **options: object) -> Appended:
    return log.append(batch, parse_header(batch), now_ms=now_ms, **options)  # type: ignore[arg-type]


def end_transaction(
    log: PartitionLog,
    commit: bool,
    *,
    producer_id: int = 7,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    version: int = 0,
) -> Appended:
    kind = ControlType.COMMIT if commit else ControlType.ABORT
    marker = end_marker_batch(kind, producer_id, epoch, coordinator_epoch, NOW)
    return append(log, marker, origin=AppendOrigin.MARKER, transaction_version=version)


def all_bytes(log: PartitionLog) -> bytes:
    """Everything in the log, through as many fetches as it takes."""
    parts = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 1 << 20).read()
        if not data:
            break
        parts.append(data)
        *_, (_, last) = iter_headers(data)
        offset = last.next_offset
    return b"".join(parts)


def contents(log: PartitionLog) -> list[tuple[int, str]]:
    """(offset, value) of every data record, as a consumer sees them: the first batch may begin before the start."""
    data = all_bytes(log)
    return [
        (record.offset, (record.value or b"").decode())
        for position, header in iter_headers(data)
        if not header.is_control
        for record in iter_records(data, position)
        if record.offset >= log.log_start_offset
    ]


def files(log: PartitionLog) -> set[str]:
    return {path.name for path in log.folder.iterdir()}
