"""Record batches for the conversations, written here byte by byte so that Penstock's own builder judges nothing."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import crc32c

from .kio_codec import Json

TIMESTAMP_MS = 1_700_000_000_000
HEADER = struct.Struct(">qiibIhiqqqhii")
TRANSACTIONAL = 0x10
CONTROL = 0x20
LOG_APPEND_TIME = 0x08

Pair = tuple[bytes | None, bytes | None]


def _varint(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value & ~0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _sized(data: bytes | None) -> bytes:
    return _varint(-1) if data is None else _varint(len(data)) + data


def record(offset_delta: int, key: bytes | None, value: bytes | None, timestamp_delta: int = 0) -> bytes:
    body = b"\0" + _varint(timestamp_delta) + _varint(offset_delta) + _sized(key) + _sized(value) + _varint(0)
    return _varint(len(body)) + body


def batch(
    *pairs: Pair,
    base_offset: int = 0,
    timestamp_ms: int = TIMESTAMP_MS,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    attributes: int = 0,
    magic: int = 2,
    count: int | None = None,
    last_offset_delta: int | None = None,
    corrupt: bool = False,
) -> bytes:
    """One magic-2 batch; each record is one millisecond younger than the one before it."""
    records = b"".join(record(n, key, value, n) for n, (key, value) in enumerate(pairs))
    last_delta = len(pairs) - 1 if last_offset_delta is None else last_offset_delta
    newest_ms = timestamp_ms + max(len(pairs) - 1, 0)
    after_crc = struct.pack(
        ">hiqqqhii",
        attributes,
        last_delta,
        timestamp_ms,
        newest_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        len(pairs) if count is None else count,
    )
    crc = crc32c.crc32c(after_crc + records) ^ (1 if corrupt else 0)
    return struct.pack(">qiibI", base_offset, 49 + len(records), -1, magic, crc) + after_crc + records


def values(*texts: str) -> Sequence[Pair]:
    return [(None, text.encode()) for text in texts]


def show_batches(data: bytes) -> Json:
    """Fetched bytes as header fields and record bytes; a batch cut off at the end shows as its length."""
    shown: list[Json] = []
    position = 0
    while position + HEADER.size <= len(data):
        fields = HEADER.unpack_from(data, position)
        size = fields[1] + 12
        if position + size > len(data):
            break
        names = (
            "base_offset",
            "batch_length",
            "partition_leader_epoch",
            "magic",
            "crc",
            "attributes",
            "last_offset_delta",
        )
        more = ("base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence", "records_count")
        header: dict[str, Json] = dict(zip(names + more, fields, strict=True))
        if header["attributes"] & LOG_APPEND_TIME:
            header["max_timestamp"] = "<time>"
        header["crc"] = crc32c.crc32c(data[position + 21 : position + size]) == header["crc"]
        header["payload"] = data[position + HEADER.size : position + size].hex()
        shown.append(header)
        position += size
    return [*shown, f"{len(data) - position} bytes of a cut batch"] if position < len(data) else shown
