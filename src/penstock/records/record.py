"""Records as Python objects: decoding a batch record by record.

Inside a batch each record is a run of zig-zag varints and byte strings, relative to the batch's header::

    length  attributes(int8)  timestamp delta  offset delta  key length  key  value length  value  headers

Nearly all of these numbers fit into one or two bytes, so those two cases are written out in the loop below; a call per
number would cost more than everything else together. Bounds are not checked number by number either: Python's indexing
notices reading past the end, and the declared length of each record must equal the bytes that were consumed.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.records.batch import HEADER_SIZE, BatchHeader, Buffer, CorruptBatch, iter_headers, parse_header
from penstock.records.codecs import DEFAULT_LIMIT, decompress

_MAX_VARINT_BYTES = 10
_ZIGZAG = tuple((n >> 1) ^ -(n & 1) for n in range(0x80))


class Record:
    """One record. `headers` keeps order and repeated names, as Kafka does."""

    __slots__ = ("headers", "key", "offset", "timestamp", "value")

    def __init__(
        self,
        offset: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes | None]],
    ) -> None:
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers = headers

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        return (
            self.offset == other.offset
            and self.timestamp == other.timestamp
            and self.key == other.key
            and self.value == other.value
            and self.headers == other.headers
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"Record(offset={self.offset}, timestamp={self.timestamp}, key={self.key!r}, value={self.value!r}, "
            f"headers={self.headers!r})"
        )


def iter_records(buf: Buffer, pos: int = 0, limit: int = DEFAULT_LIMIT) -> Iterator[Record]:
    """The records of the batch at `pos`, decompressed to at most `limit` bytes. Control records come as they are."""
    return iter(decode_records(buf, pos, parse_header(buf, pos), limit))


def iter_batches_records(buf: Buffer, limit: int = DEFAULT_LIMIT) -> Iterator[Record]:
    """The records of all whole batches in `buf`, control batches left out, as a consumer sees them."""
    for pos, header in iter_headers(buf):
        if not header.is_control:
            yield from decode_records(buf, pos, header, limit)


def decode_records(buf: Buffer, pos: int, header: BatchHeader, limit: int = DEFAULT_LIMIT) -> list[Record]:
    """Decode all records of the batch at `pos`, whose header was read already."""
    data = records_section(buf, pos, header, limit)
    timestamp = header.max_timestamp if header.is_log_append_time else None
    try:
        return _decode(data, header.records_count, header.base_offset, header.base_timestamp, timestamp)
    except IndexError:
        raise CorruptBatch("the records end in the middle of one") from None
    except UnicodeDecodeError:
        raise CorruptBatch("a header's key is not UTF-8") from None


def records_section(buf: Buffer, pos: int, header: BatchHeader, limit: int = DEFAULT_LIMIT) -> bytes:
    """The bytes behind the batch header, decompressed."""
    end = pos + header.size
    if end > len(buf):
        raise CorruptBatch(f"the batch has {header.size} bytes, only {len(buf) - pos} are there")
    section = memoryview(buf)[pos + HEADER_SIZE : end]
    if not header.is_compressed or (not section and not header.records_count):
        return bytes(section)
    return bytes(decompress(header.codec, section, limit))


def read_varint(data: bytes, pos: int) -> tuple[int, int]:
    """Read one zig-zag varint of at most 64 bits; returns (value, position behind it)."""
    result = shift = 0
    for at in range(pos, pos + _MAX_VARINT_BYTES):
        byte = data[at]
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (result >> 1) ^ -(result & 1), at + 1
        shift += 7
    raise CorruptBatch("a varint has more than ten bytes")


def _decode(data: bytes, count: int, base_offset: int, base_timestamp: int, append_time: int | None) -> list[Record]:
    if count < 0:
        raise CorruptBatch(f"the batch declares {count} records")
    records: list[Record] = []
    append = records.append
    zigzag = _ZIGZAG
    pos = 0
    for _ in range(count):
        n = data[pos]
        if n < 0x80:
            length = zigzag[n]
            pos += 1
        elif (m := data[pos + 1]) < 0x80:
            n = n & 0x7F | m << 7
            length = (n >> 1) ^ -(n & 1)
            pos += 2
        else:
            length, pos = read_varint(data, pos)
        end = pos + length
        pos += 1  # the record's own attributes, unused so far

        n = data[pos]
        if n < 0x80:
            timestamp = base_timestamp + zigzag[n]
            pos += 1
        elif (m := data[pos + 1]) < 0x80:
            n = n & 0x7F | m << 7
            timestamp = base_timestamp + ((n >> 1) ^ -(n & 1))
            pos += 2
        else:
            delta, pos = read_varint(data, pos)
            timestamp = base_timestamp + delta

        n = data[pos]
        if n < 0x80:
            offset = base_offset + zigzag[n]
            pos += 1
        elif (m := data[pos + 1]) < 0x80:
            n = n & 0x7F | m << 7
            offset = base_offset + ((n >> 1) ^ -(n & 1))
            pos += 2
        else:
            delta, pos = read_varint(data, pos)
            offset = base_offset + delta

        key: bytes | None = None
        n = data[pos]
        if n < 0x80:
            length = zigzag[n]
            pos += 1
        else:
            length, pos = read_varint(data, pos)
        if length >= 0:
            key = data[pos : (pos := pos + length)]

        value: bytes | None = None
        n = data[pos]
        if n < 0x80:
            length = zigzag[n]
            pos += 1
        elif (m := data[pos + 1]) < 0x80:
            n = n & 0x7F | m << 7
            length = (n >> 1) ^ -(n & 1)
            pos += 2
        else:
            length, pos = read_varint(data, pos)
        if length >= 0:
            value = data[pos : (pos := pos + length)]

        headers: list[tuple[str, bytes | None]] = []
        if data[pos]:
            pos = _decode_headers(data, pos, headers)
        else:
            pos += 1
        if pos != end:
            raise CorruptBatch(f"the length of a record is off by {pos - end}")
        append(Record(offset, timestamp if append_time is None else append_time, key, value, headers))
    if pos != len(data):
        raise CorruptBatch(f"{len(data) - pos} bytes follow the last of {count} records")
    return records


def _decode_headers(data: bytes, pos: int, headers: list[tuple[str, bytes | None]]) -> int:
    count, pos = read_varint(data, pos)
    if count < 0:
        raise CorruptBatch(f"a record declares {count} headers")
    for _ in range(count):
        length, pos = read_varint(data, pos)
        if length < 0:
            raise CorruptBatch("a header has no key")
        key = data[pos : pos + length].decode()
        length, pos = read_varint(data, pos + length)
        if length < 0:
            headers.append((key, None))
        else:
            headers.append((key, data[pos : pos + length]))
            pos += length
    return pos
