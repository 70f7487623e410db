"""Building record batches.

The counterpart of `record`: the numbers of a record are small and repeat (deltas, lengths), so their varints come
out of a bounded cache, and each record is one join of byte strings.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TypeAlias

from penstock.records.batch import (
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL,
    Buffer,
    write_crc,
)
from penstock.records.codecs import Codec, compress

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]
# (timestamp in ms, key, value, headers)
NewRecord: TypeAlias = tuple[int, bytes | None, bytes | None, Headers]

_EMPTY_HEADER = bytes(HEADER_SIZE)


@lru_cache(maxsize=16384)
def varint(value: int) -> bytes:
    """Zig-zag varint of a signed number of at most 64 bits."""
    rest = value << 1 if value >= 0 else ~(value << 1)
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def build_batch(
    records: Iterable[NewRecord],
    *,
    base_offset: int = 0,
    codec: int = Codec.NONE,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    leader_epoch: int = -1,
    log_append_time: int | None = None,
    offset_deltas: Sequence[int] | None = None,
) -> bytearray:
    """Build one batch of at least one record.

    Offsets count up from `base_offset` unless `offset_deltas` says otherwise (as in a compacted log); `log_append_time`
    marks the batch as stamped by the broker at that time.
    """
    parts: list[bytes] = []
    append = parts.append
    base_timestamp = max_timestamp = -1
    count = 0
    for timestamp, key, value, headers in records:
        if not count:
            base_timestamp = max_timestamp = timestamp
        elif timestamp > max_timestamp:
            max_timestamp = timestamp
        record = b"".join(
            (
                b"\x00",
                varint(timestamp - base_timestamp),
                varint(offset_deltas[count] if offset_deltas else count),
                varint(len(key)) + key if key is not None else b"\x01",
                varint(len(value)) if value is not None else b"\x01",
                value or b"",
                _encode_headers(headers) if headers else b"\x00",
            )
        )
        append(varint(len(record)))
        append(record)
        count += 1
    if not count:
        raise ValueError("a batch holds at least one record")
    attributes = int(codec) | (TRANSACTIONAL if transactional else 0)
    if log_append_time is not None:
        attributes |= LOG_APPEND_TIME
        max_timestamp = log_append_time
    return seal_batch(
        parts,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=attributes,
        last_offset_delta=offset_deltas[count - 1] if offset_deltas else count - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        records_count=count,
        level=level,
    )


def seal_batch(
    parts: Sequence[Buffer],
    *,
    base_offset: int,
    leader_epoch: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    records_count: int,
    level: int | None = None,
) -> bytearray:
    """Put a header in front of encoded records, compressed by the codec that `attributes` name."""
    codec = attributes & 0x07
    body: Sequence[Buffer] = [compress(codec, b"".join(parts), level)] if codec else parts
    batch = bytearray().join([_EMPTY_HEADER, *body])
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - LOG_OVERHEAD,
        leader_epoch,
        MAGIC,
        0,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        records_count,
    )
    write_crc(batch, 0, len(batch))
    return batch


def _encode_headers(headers: Headers) -> bytes:
    parts = [varint(len(headers))]
    for name, value in headers:
        key = name.encode()
        parts += (varint(len(key)), key)
        parts += (b"\x01",) if value is None else (varint(len(value)), value)
    return b"".join(parts)
