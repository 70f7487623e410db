"""From the bytes of a fetch to records.

The loop below is the client's hottest: it decodes a batch straight into `ConsumerRecord` tuples. It relies on three
facts. Nearly all numbers of a record fit into one or two bytes. In a batch that no compaction has thinned out the n-th
record's offset delta is n, so its bytes need not be read, only stepped over. And where many records in a row have the
same layout (values of one length, say) they are cut by strides, twice as fast.

`visible_batches` decides which batches of a fetch a consumer may see at all: markers of transactions never, and with
`read_committed` no batch of an aborted transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice, repeat
from operator import itemgetter
from struct import iter_unpack
from typing import NamedTuple, cast

from penstock.client.types import ConsumerRecord, Headers
from penstock.records.batch import BatchHeader, CorruptBatch
from penstock.records.control import ControlType
from penstock.records.record import read_varint, records_section

_new = tuple.__new__
_record = cast("Callable[[tuple[object, ...]], ConsumerRecord[bytes, bytes]]", partial(_new, ConsumerRecord))
_first = itemgetter(0)
_SHORTEST_RUN = 16  # of records laid out alike that is worth the trouble
_PAUSE_BETWEEN_TRIES = 64  # records; it doubles, as records that differ mostly go on to differ
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
    if records and records[0].offset < first_offset:
        return [record for record in records if record.offset >= first_offset]
    return records


class _Batch:
    """What the records of one batch have in common."""

    __slots__ = (
        "append_time",
        "base_offset",
        "base_timestamp",
        "count",
        "delivery_count",
        "epoch",
        "is_contiguous",
        "partition",
        "timestamp_type",
        "topic",
    )

    def __init__(self, topic: str, partition: int, header: BatchHeader, delivery_count: int) -> None:
        self.topic = topic
        self.partition = partition
        self.count = header.records_count
        self.base_offset = header.base_offset
        self.base_timestamp = header.base_timestamp
        self.epoch = header.partition_leader_epoch
        self.timestamp_type = 1 if header.is_log_append_time else 0
        self.append_time = header.max_timestamp if self.timestamp_type else None
        self.is_contiguous = header.last_offset_delta == header.records_count - 1
        self.delivery_count = delivery_count


def _decode(
    topic: str, partition: int, data: bytes, header: BatchHeader, delivery_count: int
) -> list[ConsumerRecord[bytes, bytes]]:
    batch = _Batch(topic, partition, header, delivery_count)
    records: list[ConsumerRecord[bytes, bytes]] = []
    pos = 0
    pause = _PAUSE_BETWEEN_TRIES
    while (index := len(records)) < batch.count:
        end = _decode_run(records, batch, data, pos)
        if end != pos:
            pos = end
            continue
        pos = _decode_some(records, batch, data, pos, min(index + pause, batch.count))
        pause *= 2
    if pos != len(data):
        raise CorruptBatch(f"{len(data) - pos} bytes follow the last of {batch.count} records")
    return records


class _Run(NamedTuple):
    """Records in a row that are all laid out like the first. Places are counted from its beginning."""

    total: int
    stride: int  # bytes from one to the next
    timestamp_at: int
    timestamp_width: int
    offset_delta: int  # of the first; the others follow without holes
    key_at: int
    key_length: int
    value_at: int
    value_length: int


def _find_run(data: bytes, pos: int, left: int) -> _Run | None:
    """The run that begins at `pos`, unless it is too short to bother.

    A field that is the same in each record is a column of equal bytes, `data[at::stride]`, so whole runs are checked by
    calls that loop in C.
    """
    length, body = read_varint(data, pos)
    stride = body + length - pos
    if left < _SHORTEST_RUN or stride < 7:  # the smallest record there is
        return None
    lengths = data[pos : pos + _SHORTEST_RUN * stride : stride]
    if lengths.count(lengths[0]) < _SHORTEST_RUN:
        return None
    timestamp_at = body + 1  # behind the attributes
    _, offset_at = read_varint(data, timestamp_at)
    offset_delta, key_at = read_varint(data, offset_at)
    key_length, key_start = read_varint(data, key_at)
    value_at = key_start + max(key_length, 0)
    value_length, value_start = read_varint(data, value_at)
    headers_at = value_start + max(value_length, 0)
    offset_width = key_at - offset_at
    timestamp_width = offset_at - timestamp_at
    if headers_at != pos + stride - 1 or timestamp_width > 2 or offset_width > 3 or data[headers_at]:
        return None
    # Where the offset delta takes a byte more the layout changes.
    count = min(left, (64, 8192, 1 << 20)[offset_width - 1] - offset_delta)
    for at in (*range(pos, body), *range(key_at, key_start), *range(value_at, value_start), headers_at):
        column = data[at : at + count * stride : stride]
        count = len(column) - len(column.lstrip(column[:1]))
        if count < _SHORTEST_RUN:
            return None
    if read_varint(data, offset_at + (count - 1) * stride)[0] != offset_delta + count - 1:
        return None  # compaction has left holes
    end = pos + count * stride
    if not data[offset_at - 1 : end : stride].isascii():
        return None  # timestamps of other widths
    if timestamp_width == 2 and min(data[timestamp_at:end:stride]) < 0x80:
        return None
    return _Run(
        count,
        stride,
        timestamp_at - pos,
        timestamp_width,
        offset_delta,
        key_start - pos,
        key_length,
        value_start - pos,
        value_length,
    )


def _decode_run(records: list[ConsumerRecord[bytes, bytes]], batch: _Batch, data: bytes, pos: int) -> int:
    """Decode the run at `pos`, if there is one; returns the position behind it, or `pos`."""
    run = _find_run(data, pos, batch.count - len(records))
    if run is None:
        return pos
    end = pos + run.total * run.stride
    view = memoryview(data)[pos:end]
    first = batch.base_offset + run.offset_delta
    rows = zip(
        repeat(batch.topic),
        repeat(batch.partition),
        range(first, first + run.total),
        _timestamps(data[pos:end], run, batch),
        repeat(batch.timestamp_type),
        _cut(view, run.stride, run.key_at, run.key_length),
        _cut(view, run.stride, run.value_at, run.value_length),
        repeat(()),
        repeat(batch.epoch),
        repeat(batch.delivery_count),
        strict=False,
    )
    records.extend(map(_record, rows))
    return end


def _timestamps(data: bytes, run: _Run, batch: _Batch) -> Iterable[int]:
    if batch.append_time is not None:
        return repeat(batch.append_time)
    base = batch.base_timestamp
    low = data[run.timestamp_at :: run.stride]
    if run.timestamp_width == 2:
        high = data[run.timestamp_at + 1 :: run.stride]
        wide = (n & 0x7F | h << 7 for n, h in zip(low, high, strict=True))
        return [base + ((n >> 1) ^ -(n & 1)) for n in wide]
    if low.count(low[0]) == run.total:
        return repeat(base + ((low[0] >> 1) ^ -(low[0] & 1)))
    return [base + ((n >> 1) ^ -(n & 1)) for n in low]


def _cut(run: memoryview, stride: int, start: int, length: int) -> Iterable[bytes | None]:
    """A field of the same length in each record of a run."""
    if length < 0:
        return repeat(None)
    return map(_first, iter_unpack(f"{start}x{length}s{stride - start - length}x", run))


def _decode_some(records: list[ConsumerRecord[bytes, bytes]], batch: _Batch, data: bytes, pos: int, stop: int) -> int:
    """Decode record by record until there are `stop`; returns the position behind the last."""
    topic, partition, epoch, delivery_count = batch.topic, batch.partition, batch.epoch, batch.delivery_count
    base_offset, base_timestamp = batch.base_offset, batch.base_timestamp
    timestamp_type, append_time, contiguous = batch.timestamp_type, batch.append_time, batch.is_contiguous
    append = records.append
    new, cls = _new, ConsumerRecord
    timestamp = base_timestamp if append_time is None else append_time
    key: bytes | None
    value: bytes | None
    headers: Headers
    for index in range(len(records), stop):
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
    return pos


def decode_values(data: memoryview, pos: int, header: BatchHeader) -> list[bytes | None]:
    """The values of a whole batch alone: a record says how long it is, so what lies behind its value is skipped."""
    section = records_section(data, pos, header)
    try:
        return _values(section, header.records_count)
    except IndexError:
        raise CorruptBatch("the records end in the middle of one") from None


def _values(data: bytes, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    pos = 0
    pause = _PAUSE_BETWEEN_TRIES
    while (index := len(values)) < count:
        run = _find_run(data, pos, count - index)
        if run is not None:
            end = pos + run.total * run.stride
            values.extend(
                islice(_cut(memoryview(data)[pos:end], run.stride, run.value_at, run.value_length), run.total)
            )
            pos = end
            continue
        pos = _some_values(values, data, pos, min(index + pause, count))
        pause *= 2
    if pos != len(data):
        raise CorruptBatch(f"{len(data) - pos} bytes follow the last of {count} records")
    return values


def _some_values(values: list[bytes | None], data: bytes, pos: int, stop: int) -> int:
    append = values.append
    for _ in range(len(values), stop):
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
    return pos


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
