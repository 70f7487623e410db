"""From the bytes of a fetch to records.

The loop below is the client's hottest: it decodes a batch straight into `ConsumerRecord` tuples. It leans on two facts.
Nearly all numbers of a record fit into one or two bytes. And in a batch that no compaction has thinned out the n-th
record's offset delta is n, so its bytes need not be read, only stepped over.

`visible_batches` decides which batches of a fetch a consumer may see at all: markers of transactions never, and with
`read_committed` no batch of an aborted transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from penstock.client.types import ConsumerRecord, Headers
from penstock.records.batch import BatchHeader, CorruptBatch
from penstock.records.control import ControlType
from penstock.records.record import read_varint, records_section

_new = tuple.__new__
_ABORT_KEY = b"\x00\x00" + int(ControlType.ABORT).to_bytes(2, "big")


def decode_batch(
    topic: str,
    partition: int,
    data: memoryview,
    pos: int,
    header: BatchHeader,
    first_offset: int,
    delivery_count: int = 0,
) -> list[ConsumerRecord[bytes, bytes]]:
    """The records of the batch at `pos` from `first_offset` on."""
    section = records_section(data, pos, header)
    try:
        records = _decode(topic, partition, section, header, delivery_count)
    except IndexError:
        raise CorruptBatch("the records end in the middle of one") from None
    except UnicodeDecodeError:
        raise CorruptBatch("a header's key is not UTF-8") from None
    if header.base_offset < first_offset:
        return [record for record in records if record.offset >= first_offset]
    return records


def _decode(
    topic: str, partition: int, data: bytes, header: BatchHeader, delivery_count: int
) -> list[ConsumerRecord[bytes, bytes]]:
    count = header.records_count
    base_offset = header.base_offset
    base_timestamp = header.base_timestamp
    epoch = header.partition_leader_epoch
    timestamp_type = 1 if header.is_log_append_time else 0
    append_time = header.max_timestamp if timestamp_type else None
    contiguous = header.last_offset_delta == count - 1
    records: list[ConsumerRecord[bytes, bytes]] = []
    append = records.append
    new, cls = _new, ConsumerRecord
    timestamp = base_timestamp if append_time is None else append_time
    key: bytes | None
    value: bytes | None
    headers: Headers
    pos = 0
    for index in range(count):
        # The record's length: only stepped over, as each field says where it ends.
        if data[pos] < 0x80:
            pos += 2
        elif data[pos + 1] < 0x80:
            pos += 3
        else:
            _, pos = read_varint(data, pos)
            pos += 1

        n = data[pos]
        pos += 1
        if n >= 0x80:
            if (m := data[pos]) < 0x80:
                n = n & 0x7F | m << 7
                pos += 1
                delta = (n >> 1) ^ -(n & 1)
            else:
                delta, pos = read_varint(data, pos - 1)
        else:
            delta = (n >> 1) ^ -(n & 1)
        if append_time is None:
            timestamp = base_timestamp + delta

        if contiguous:
            offset = base_offset + index
            pos += 1 if index < 64 else 2 if index < 8192 else 3 if index < 1048576 else 4
        elif (n := data[pos]) < 0x80:
            offset = base_offset + (n >> 1)
            pos += 1
        elif (m := data[pos + 1]) < 0x80:
            offset = base_offset + ((n & 0x7F | m << 7) >> 1)
            pos += 2
        else:
            delta, pos = read_varint(data, pos)
            offset = base_offset + delta

        n = data[pos]
        pos += 1
        if n == 1:
            key = None
        else:
            if n < 0x80:
                n >>= 1
            else:
                n, pos = read_varint(data, pos - 1)
            key = data[pos : pos + n]
            pos += n

        n = data[pos]
        pos += 1
        if n == 1:
            value = None
        else:
            if n < 0x80:
                n >>= 1
            elif (m := data[pos]) < 0x80:
                n = (n & 0x7F | m << 7) >> 1
                pos += 1
            else:
                n, pos = read_varint(data, pos - 1)
            value = data[pos : pos + n]
            pos += n

        if data[pos]:
            headers, pos = _decode_headers(data, pos)
        else:
            headers = ()
            pos += 1
        append(
            new(cls, (topic, partition, offset, timestamp, timestamp_type, key, value, headers, epoch, delivery_count))
        )
    if pos != len(data):
        raise CorruptBatch(f"{len(data) - pos} bytes follow the last of {count} records")
    return records


def decode_values(data: memoryview, pos: int, header: BatchHeader) -> list[bytes | None]:
    """The values of a whole batch alone: a record says how long it is, so what lies behind its value is skipped."""
    section = records_section(data, pos, header)
    try:
        return _values(section, header.records_count)
    except IndexError:
        raise CorruptBatch("the records end in the middle of one") from None


def _values(data: bytes, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    append = values.append
    pos = 0
    for _ in range(count):
        n = data[pos]
        if n < 0x80:
            end = pos + 1 + (n >> 1)
            pos += 2
        elif (m := data[pos + 1]) < 0x80:
            end = pos + 2 + ((n & 0x7F | m << 7) >> 1)
            pos += 3
        else:
            n, pos = read_varint(data, pos)
            end = pos + n
            pos += 1
        while data[pos] >= 0x80:  # timestamp delta
            pos += 1
        pos += 1
        while data[pos] >= 0x80:  # offset delta
            pos += 1
        n = data[pos + 1]
        pos += 2
        if n != 1:
            if n < 0x80:
                pos += n >> 1
            else:
                n, pos = read_varint(data, pos - 1)
                pos += n
        n = data[pos]
        if n == 1:
            append(None)
        elif n < 0x80:
            append(data[pos + 1 : pos + 1 + (n >> 1)])
        elif (m := data[pos + 1]) < 0x80:
            append(data[pos + 2 : pos + 2 + ((n & 0x7F | m << 7) >> 1)])
        else:
            n, pos = read_varint(data, pos)
            append(data[pos : pos + n])
        pos = end
    if pos != len(data):
        raise CorruptBatch(f"{len(data) - pos} bytes follow the last of {count} records")
    return values


def _decode_headers(data: bytes, pos: int) -> tuple[Headers, int]:
    count, pos = read_varint(data, pos)
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        length, pos = read_varint(data, pos)
        name = data[pos : pos + length].decode()
        length, pos = read_varint(data, pos + length)
        if length < 0:
            headers.append((name, None))
        else:
            headers.append((name, data[pos : pos + length]))
            pos += length
    return tuple(headers), pos


def visible_batches(
    data: memoryview, batches: Iterable[tuple[int, BatchHeader]], aborted: Iterable[tuple[int, int]] | None
) -> Iterator[tuple[int, BatchHeader]]:
    """The batches that a consumer may see. `aborted` lists (first offset, producer id); None reads uncommitted too.

    A producer's transactional batches are hidden from the first offset of its aborted transaction on, until the marker
    that ends it (KIP-98).
    """
    waiting = sorted(aborted or (), reverse=True)
    hidden: set[int] = set()
    for pos, header in batches:
        while waiting and waiting[-1][0] <= header.last_offset:
            hidden.add(waiting.pop()[1])
        if header.is_control:
            if header.producer_id in hidden and _is_abort(data, pos, header):
                hidden.discard(header.producer_id)
            continue
        if header.is_transactional and header.producer_id in hidden:
            continue
        yield pos, header


def _is_abort(data: memoryview, pos: int, header: BatchHeader) -> bool:
    """Whether a control batch is the marker of an abort: a single record with a key of version and type."""
    section = records_section(data, pos, header)
    _, at = read_varint(section, 0)
    _, at = read_varint(section, at + 1)
    _, at = read_varint(section, at)
    length, at = read_varint(section, at)
    return length >= 4 and section[at : at + 4] == _ABORT_KEY
