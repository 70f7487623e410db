"""Control batches: the markers that end a transaction in each partition it touched.

A marker is a batch of one record that takes an offset like any other but is never shown to an application. Key and
value have fixed layouts; some clients parse the value, so it is written even though its only content is the
coordinator's epoch. The other control types belong to Kafka's metadata log and are only recognized here.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

from penstock.records.batch import CONTROL, TRANSACTIONAL, CorruptBatch
from penstock.records.builder import seal_batch
from penstock.records.record import Record

_KEY = struct.Struct(">hh")
_END_MARKER_VALUE = struct.Struct(">hi")
_VERSION = 0


class ControlType(IntEnum):
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class ControlRecord:
    kind: ControlType
    coordinator_epoch: int
    """Epoch of the transaction coordinator that wrote an ABORT or COMMIT; -1 for other kinds."""


def end_marker_batch(
    kind: ControlType, producer_id: int, producer_epoch: int, coordinator_epoch: int, timestamp_ms: int
) -> bytearray:
    """The batch that commits or aborts a producer's open transaction in one partition."""
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        raise ValueError(f"{kind.name} does not end a transaction")
    key = _KEY.pack(_VERSION, kind)
    value = _END_MARKER_VALUE.pack(_VERSION, coordinator_epoch)
    # Length 16, no attributes, deltas 0, key of 4 bytes, value of 6, no headers: always the same numbers.
    record = b"\x20\x00\x00\x00\x08" + key + b"\x0c" + value + b"\x00"
    return seal_batch(
        [record],
        base_offset=0,
        leader_epoch=-1,
        attributes=TRANSACTIONAL | CONTROL,
        last_offset_delta=0,
        base_timestamp=timestamp_ms,
        max_timestamp=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=-1,
        records_count=1,
    )


def parse_control(record: Record) -> ControlRecord:
    """Read a control record's type and, of an end marker, the coordinator's epoch. Later versions may append fields."""
    if record.key is None or len(record.key) < _KEY.size:
        raise CorruptBatch("a control record's key is too short to name its type")
    version, number = _KEY.unpack_from(record.key)
    if version < 0:
        raise CorruptBatch(f"a control record's key has version {version}")
    kind = ControlType(number) if ControlType.ABORT <= number <= ControlType.KRAFT_VOTERS else ControlType.UNKNOWN
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        return ControlRecord(kind, -1)
    if record.value is None or len(record.value) < _END_MARKER_VALUE.size:
        raise CorruptBatch("an end-of-transaction marker has no coordinator epoch")
    return ControlRecord(kind, _END_MARKER_VALUE.unpack_from(record.value)[1])
