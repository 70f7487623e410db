"""Gathering rows with the compiled loops: numpy arrays that become Arrow's buffers without a copy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.records import arrow_kernel as kernel
from penstock.records.batch import (
    ATTRIBUTES_AT,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    BatchHeader,
    Buffer,
    CorruptBatch,
)
from penstock.records.checksum import crc32c
from penstock.records.codecs import DecompressionLimit, decompress

_Bytes = npt.NDArray[np.uint8]
_Ints = npt.NDArray[np.int32]
_Longs = npt.NDArray[np.int64]

_SMALLEST_ROOM = 4096
_SMALLEST_RECORD = 7
_LARGEST_ARROW_BUFFER = 2**31 - 1
_NO_HEADERS: _Longs = np.empty((0, kernel.HEADER_COLUMNS), np.int64)


class _Variable:
    """A column of byte strings that is being filled: data, ends, and bits of the rows that are not null."""

    __slots__ = ("bits", "data", "ends")

    def __init__(self, rows: int, room: int) -> None:
        self.data: _Bytes = np.empty(room, np.uint8)
        self.ends: _Ints = np.zeros(rows + 1, np.int32)
        self.bits: _Bytes = np.zeros(rows // 8 + 1, np.uint8)

    def make_room(self, used: int, room: int) -> None:
        if room > _LARGEST_ARROW_BUFFER:
            raise CorruptBatch(f"records of {room} bytes do not fit into an Arrow column")
        if room > self.data.size:
            grown: _Bytes = np.empty(room, np.uint8)
            grown[:used] = self.data[:used]
            self.data = grown

    def make_rows(self, rows: int) -> None:
        if rows + 1 > self.ends.size:
            more = max(rows, 2 * self.ends.size)
            self.ends = np.concatenate([self.ends, np.zeros(more + 1 - self.ends.size, np.int32)])
            self.bits = np.concatenate([self.bits, np.zeros(more // 8 + 1 - self.bits.size, np.uint8)])

    def to_arrow(self, kind: pa.DataType, rows: int, used: int) -> pa.Array:
        buffers = [pa.py_buffer(self.bits), pa.py_buffer(self.ends[: rows + 1]), pa.py_buffer(self.data[:used])]
        return pa.Array.from_buffers(kind, rows, buffers)


class CompiledRows:
    """Decodes with the loops of `arrow_kernel`."""

    def __init__(
        self, schema: pa.Schema, first_offset: int, end_offset: int, max_rows: int, max_bytes: int, limit: int
    ) -> None:
        self._schema = schema
        self._first_offset = first_offset
        self._end_offset = end_offset
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._limit = limit
        self._want_keys = "key" in schema.names
        self._want_values = "value" in schema.names
        self._want_headers = "headers" in schema.names
        self._room = _SMALLEST_ROOM
        self._clear()

    def add_all(self, data: Buffer, check_crcs: bool) -> tuple[int, Iterator[pa.RecordBatch]] | None:
        # With few records to a batch, reading headers one by one in Python costs more than all the rest.
        source: _Bytes = np.frombuffer(data, np.uint8)
        count = kernel.scan_batches(source, _NO_HEADERS)
        if count <= 0:
            return None
        headers: _Longs = np.empty((count, kernel.HEADER_COLUMNS), np.int64)
        kernel.scan_batches(source, headers)
        if (headers[:, kernel.ATTRIBUTES] & ~LOG_APPEND_TIME).any():
            return None
        return int(headers[-1, kernel.LAST_OFFSET]) + 1, self._add_scanned(data, headers, check_crcs)

    def _add_scanned(self, data: Buffer, headers: _Longs, check_crcs: bool) -> Iterator[pa.RecordBatch]:
        in_range = (headers[:, kernel.LAST_OFFSET] >= self._first_offset) & (headers[:, kernel.COUNT] != 0)
        headers = headers[in_range & (headers[:, kernel.BASE_OFFSET] < self._end_offset)]
        if check_crcs:
            _check_crcs(memoryview(data), headers)
        headers[:, kernel.START] += HEADER_SIZE
        room = (headers[:, kernel.END] - headers[:, kernel.START]) // _SMALLEST_RECORD
        for wrong in np.flatnonzero((headers[:, kernel.COUNT] < 0) | (headers[:, kernel.COUNT] > room)):
            raise _too_many(int(headers[wrong, kernel.BASE_OFFSET]), int(headers[wrong, kernel.COUNT]))
        headers[headers[:, kernel.ATTRIBUTES] & LOG_APPEND_TIME == 0, kernel.APPEND_TIME] = -1
        if len(headers):
            yield from self._decode(data, np.ascontiguousarray(headers[:, : kernel.ATTRIBUTES]))

    def add(self, data: Buffer, batches: list[tuple[int, BatchHeader]]) -> Iterator[pa.RecordBatch]:
        plain: list[tuple[int, ...]] = []
        for pos, header in batches:
            if not header.is_compressed:
                plain.append(_row(header, pos + HEADER_SIZE, pos + header.size))
                continue
            if plain:
                yield from self._decode(data, np.array(plain, np.int64))
                plain = []
            section = self._decompressed(data, pos, header)
            yield from self._decode(section, np.array([_row(header, 0, len(section))], np.int64))
        if plain:
            yield from self._decode(data, np.array(plain, np.int64))

    def flush(self) -> pa.RecordBatch | None:
        rows = int(self._cursor[kernel.ROW])
        if not rows:
            return None
        arrays = [self._array(field, rows) for field in self._schema]
        # The next RecordBatch will be about as large as this one.
        self._room = int(max(self._cursor[kernel.KEY_BYTES], self._cursor[kernel.VALUE_BYTES], _SMALLEST_ROOM))
        self._clear()
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _clear(self) -> None:
        rows, room = self._max_rows, min(self._room, self._max_bytes)
        self._cursor: _Longs = np.zeros(kernel.CURSOR_SIZE, np.int64)
        self._keys = _Variable(rows, room if self._want_keys else 0)
        self._values = _Variable(rows, room if self._want_values else 0)
        self._offsets: _Longs = np.empty(rows, np.int64)
        self._timestamps: _Longs = np.empty(rows, np.int64)
        self._timestamp_types: _Ints = np.empty(rows, np.int32)
        self._header_spans: _Longs = np.empty((rows, 2), np.int64)
        self._header_lists = _Variable(rows if self._want_headers else 0, 0)
        self._header_keys = _Variable(0, 0)
        self._header_values = _Variable(0, 0)

    def _decompressed(self, data: Buffer, pos: int, header: BatchHeader) -> Buffer:
        try:
            return decompress(header.codec, memoryview(data)[pos + HEADER_SIZE : pos + header.size], self._limit)
        except DecompressionLimit:
            raise
        except CorruptBatch as error:
            raise CorruptBatch(f"the batch at offset {header.base_offset} is corrupt: {error}") from None

    def _decode(self, data: Buffer, batches: _Longs) -> Iterator[pa.RecordBatch]:
        source: _Bytes = np.frombuffer(data, np.uint8)
        self._make_room(min(int((batches[:, kernel.END] - batches[:, kernel.START]).sum()), self._max_bytes))
        while True:
            first_row = int(self._cursor[kernel.ROW])
            outcome = self._run(source, batches)
            if outcome == kernel.CORRUPT:
                offset = batches[self._cursor[kernel.BATCH], kernel.BASE_OFFSET]
                raise CorruptBatch(f"the batch at offset {offset} is corrupt")
            if self._want_headers:
                self._decode_headers(source, first_row)
            if outcome == kernel.DONE:
                self._cursor[kernel.BATCH] = self._cursor[kernel.RECORD] = 0
                return
            needed = int(self._cursor[kernel.NEEDED])
            if outcome == kernel.BYTES_FULL and (needed <= self._max_bytes or not self._cursor[kernel.ROW]):
                self._make_room(max(needed, min(2 * self._room, self._max_bytes)))
                continue
            position = self._cursor[: kernel.ROW].copy()
            filled = self.flush()
            assert filled is not None
            yield filled
            self._cursor[: kernel.ROW] = position

    def _run(self, source: _Bytes, batches: _Longs) -> int:
        keys, values = self._keys, self._values
        return int(
            kernel.decode_rows(
                source,
                batches,
                self._cursor,
                self._first_offset,
                self._end_offset,
                self._want_keys,
                self._want_values,
                keys.data,
                keys.ends,
                keys.bits,
                values.data,
                values.ends,
                values.bits,
                self._offsets,
                self._timestamps,
                self._timestamp_types,
                self._header_spans,
            )
        )

    def _make_room(self, room: int) -> None:
        self._room = max(self._room, room)
        if self._want_keys:
            self._keys.make_room(int(self._cursor[kernel.KEY_BYTES]), room)
        if self._want_values:
            self._values.make_room(int(self._cursor[kernel.VALUE_BYTES]), room)

    def _decode_headers(self, source: _Bytes, first_row: int) -> None:
        end_row = int(self._cursor[kernel.ROW])
        count, key_bytes, value_bytes = kernel.measure_headers(source, self._header_spans, first_row, end_row)
        if count < 0:
            raise CorruptBatch(f"the headers of the record at or behind offset {self._offsets[first_row]} are corrupt")
        lists, keys, values = self._header_lists, self._header_keys, self._header_values
        headers = int(lists.ends[first_row])
        keys.make_rows(headers + count)
        values.make_rows(headers + count)
        for column, more in ((keys, key_bytes), (values, value_bytes)):
            used = int(column.ends[headers])
            if used + more > column.data.size:
                column.make_room(used, max(used + more, 2 * column.data.size))
        kernel.fill_headers(
            source,
            self._header_spans,
            first_row,
            end_row,
            lists.ends,
            keys.data,
            keys.ends,
            values.data,
            values.ends,
            values.bits,
            lists.bits,
        )

    def _array(self, field: pa.Field, rows: int) -> pa.Array:
        match field.name:
            case "key":
                return self._keys.to_arrow(field.type, rows, int(self._cursor[kernel.KEY_BYTES]))
            case "value":
                return self._values.to_arrow(field.type, rows, int(self._cursor[kernel.VALUE_BYTES]))
            case "headers":
                return self._headers_array(field.type, rows)
        column = {"offset": self._offsets, "timestamp": self._timestamps, "timestampType": self._timestamp_types}
        return pa.Array.from_buffers(field.type, rows, [None, pa.py_buffer(column[field.name])])

    def _headers_array(self, kind: pa.ListType, rows: int) -> pa.Array:
        headers = int(self._header_lists.ends[rows])
        keys, values = self._header_keys, self._header_values
        key_buffers = [None, pa.py_buffer(keys.ends[: headers + 1]), pa.py_buffer(keys.data[: keys.ends[headers]])]
        # Checked, because a header's key is text that somebody else wrote.
        key_array = pa.Array.from_buffers(pa.string(), headers, key_buffers)
        try:
            key_array.validate(full=True)
        except pa.ArrowInvalid:
            raise CorruptBatch("a header's key is not UTF-8") from None
        value_array = values.to_arrow(pa.binary(), headers, int(values.ends[headers]))
        structs = pa.StructArray.from_arrays([key_array, value_array], fields=list(kind.value_type))
        lists = self._header_lists
        return pa.Array.from_buffers(
            kind, rows, [pa.py_buffer(lists.bits), pa.py_buffer(lists.ends[: rows + 1])], children=[structs]
        )


def _row(header: BatchHeader, start: int, end: int) -> tuple[int, ...]:
    if not 0 < header.records_count <= (end - start) // _SMALLEST_RECORD:
        raise _too_many(header.base_offset, header.records_count)
    append_time = max(header.max_timestamp, 0) if header.is_log_append_time else -1
    return (start, end, header.records_count, header.base_offset, header.base_timestamp, append_time)


def _too_many(base_offset: int, count: int) -> CorruptBatch:
    return CorruptBatch(f"the batch at offset {base_offset} cannot hold {count} records")


def _check_crcs(view: memoryview, headers: _Longs) -> None:
    columns = headers[:, [kernel.START, kernel.END, kernel.CRC, kernel.BASE_OFFSET]]
    for start, end, crc, base_offset in columns.tolist():
        if crc32c(view[start + ATTRIBUTES_AT : end]) != crc:
            raise CorruptBatch(f"the batch at offset {base_offset} fails its checksum")
