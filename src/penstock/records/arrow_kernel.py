"""The loops of Arrow decoding, compiled by numba.

They write records straight into Arrow's buffers (offsets, data, validity bits) and can stop and go on: the `cursor`
holds where they are in the input and how far the output is filled. Every read is checked against the end of its
section, since compiled code has no other protection against a broken batch.

A row of `batches` is one batch: where its records begin and end in `data`, how many there are, base offset, base
timestamp, and the log append time or -1 where each record has its own timestamp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import numba
import numpy as np
import numpy.typing as npt

_F = TypeVar("_F", bound=Callable[..., Any])
_Array: TypeAlias = npt.NDArray[Any]
_Number: TypeAlias = Any
"""An integer inside compiled code, of whichever width."""

DONE, ROWS_FULL, BYTES_FULL, CORRUPT = 0, 1, 2, 3
BATCH, POSITION, RECORD, ROW, KEY_BYTES, VALUE_BYTES, NEEDED = 0, 1, 2, 3, 4, 5, 6
CURSOR_SIZE = 7
START, END, COUNT, BASE_OFFSET, BASE_TIMESTAMP, APPEND_TIME = 0, 1, 2, 3, 4, 5
# Further columns of a scanned header. There, START is where the whole batch begins, APPEND_TIME its max timestamp.
ATTRIBUTES, LAST_OFFSET, CRC = 6, 7, 8
HEADER_COLUMNS = 9

_types: Any = numba.types
_BYTES = _types.Array(_types.uint8, 1, "C", readonly=True)
_OUT = _types.uint8[::1]
_INTS = _types.int32[::1]
_LONGS = _types.int64[::1]
_LONG_ROWS = _types.int64[:, ::1]
_LONG = _types.int64
_FLAG = _types.boolean


def _compiled(signature: object) -> Callable[[_F], _F]:
    # Signatures are declared so that everything is compiled, or taken from the cache on disk, before the first row.
    njit: Any = numba.njit
    decorator: Callable[[_F], _F] = njit(signature, cache=True, nogil=True)
    return decorator


@_compiled(_types.UniTuple(_LONG, 2)(_BYTES, _LONG, _LONG))
def _varint(data: _Array, pos: _Number, end: _Number) -> tuple[_Number, _Number]:
    """(value, position behind it), position -1 when it runs past the end."""
    if pos >= end:
        return np.int64(0), np.int64(-1)
    byte = np.uint64(data[pos])
    pos += 1
    result = byte & np.uint64(0x7F)
    shift = np.uint64(7)
    while byte >= np.uint64(0x80):
        if pos >= end or shift > np.uint64(63):
            return np.int64(0), np.int64(-1)
        byte = np.uint64(data[pos])
        pos += 1
        result |= (byte & np.uint64(0x7F)) << shift
        shift += np.uint64(7)
    return np.int64(result >> np.uint64(1)) ^ -np.int64(result & np.uint64(1)), np.int64(pos)


@_compiled(_LONG(_BYTES, _LONG, _LONG))
def _big_endian(data: _Array, pos: _Number, size: _Number) -> _Number:
    value = np.int64(np.int8(data[pos]))
    for i in range(1, size):
        value = value << 8 | np.int64(data[pos + i])
    return value


@_compiled(_LONG(_BYTES, _LONG_ROWS))
def scan_batches(data: _Array, headers: _Array) -> _Number:
    """Read as many batch headers as there is room for; gives the number of whole batches, or -1 if one is malformed."""
    count, pos = np.int64(0), np.int64(0)
    while data.size - pos >= 12:
        size = _big_endian(data, pos + 8, 4) + 12
        if size > data.size - pos:
            return count
        if size < 61 or data[pos + 16] != 2:
            return np.int64(-1)
        if count < headers.shape[0]:
            headers[count, START] = pos
            headers[count, END] = pos + size
            headers[count, COUNT] = _big_endian(data, pos + 57, 4)
            headers[count, BASE_OFFSET] = _big_endian(data, pos, 8)
            headers[count, BASE_TIMESTAMP] = _big_endian(data, pos + 27, 8)
            headers[count, APPEND_TIME] = _big_endian(data, pos + 35, 8)
            headers[count, ATTRIBUTES] = _big_endian(data, pos + 21, 2)
            headers[count, LAST_OFFSET] = headers[count, BASE_OFFSET] + _big_endian(data, pos + 23, 4)
            headers[count, CRC] = _big_endian(data, pos + 17, 4) & 0xFFFFFFFF
        count += 1
        pos += size
    return count


_COLUMN = (_OUT, _INTS, _OUT)


@_compiled(
    _LONG(_BYTES, _LONG_ROWS, _LONGS, _LONG, _LONG, _FLAG, _FLAG, *_COLUMN, *_COLUMN, _LONGS, _LONGS, _INTS, _LONG_ROWS)
)
def decode_rows(
    data: _Array,
    batches: _Array,
    cursor: _Array,
    first_offset: _Number,
    end_offset: _Number,
    want_keys: bool,
    want_values: bool,
    keys: _Array,
    key_ends: _Array,
    key_bits: _Array,
    values: _Array,
    value_ends: _Array,
    value_bits: _Array,
    offsets: _Array,
    timestamps: _Array,
    timestamp_types: _Array,
    header_spans: _Array,
) -> int:
    """Decode until the input is done or a buffer is full; says which."""
    row, key_at, value_at = cursor[ROW], cursor[KEY_BYTES], cursor[VALUE_BYTES]
    rows_max = offsets.size
    while cursor[BATCH] < batches.shape[0]:
        batch = cursor[BATCH]
        end = batches[batch, END]
        pos = cursor[POSITION] if cursor[RECORD] else batches[batch, START]
        base_offset = batches[batch, BASE_OFFSET]
        base_timestamp = batches[batch, BASE_TIMESTAMP]
        append_time = batches[batch, APPEND_TIME]
        record = cursor[RECORD]
        while record < batches[batch, COUNT]:
            at = pos
            length, pos = _varint(data, pos, end)
            record_end = pos + length
            if pos < 0 or length < 0 or record_end > end:
                return CORRUPT
            timestamp_delta, pos = _varint(data, pos + 1, record_end)
            if pos < 0:
                return CORRUPT
            offset_delta, pos = _varint(data, pos, record_end)
            if pos < 0:
                return CORRUPT
            offset = base_offset + offset_delta
            if first_offset <= offset < end_offset:
                key_length, pos = _varint(data, pos, record_end)
                if pos < 0 or key_length > record_end - pos:
                    return CORRUPT
                key_from = pos
                pos += max(key_length, 0)
                value_length, pos = _varint(data, pos, record_end)
                if pos < 0 or value_length > record_end - pos:
                    return CORRUPT
                key_size = max(key_length, 0) if want_keys else 0
                value_size = max(value_length, 0) if want_values else 0
                if row == rows_max or key_at + key_size > keys.size or value_at + value_size > values.size:
                    cursor[POSITION], cursor[RECORD] = at, record
                    cursor[ROW], cursor[KEY_BYTES], cursor[VALUE_BYTES] = row, key_at, value_at
                    cursor[NEEDED] = max(key_at + key_size, value_at + value_size)
                    return ROWS_FULL if row == rows_max else BYTES_FULL
                if key_size > 0:
                    keys[key_at : key_at + key_size] = data[key_from : key_from + key_size]
                if value_size > 0:
                    values[value_at : value_at + value_size] = data[pos : pos + value_size]
                key_at += key_size
                value_at += value_size
                if key_length >= 0:
                    key_bits[row >> 3] |= np.uint8(1 << (row & 7))
                if value_length >= 0:
                    value_bits[row >> 3] |= np.uint8(1 << (row & 7))
                key_ends[row + 1] = key_at
                value_ends[row + 1] = value_at
                offsets[row] = offset
                timestamps[row] = base_timestamp + timestamp_delta if append_time < 0 else append_time
                timestamp_types[row] = 0 if append_time < 0 else 1
                header_spans[row, 0] = pos + max(value_length, 0)
                header_spans[row, 1] = record_end
                row += 1
            pos = record_end
            record += 1
        if pos != end:
            return CORRUPT
        cursor[BATCH] = batch + 1
        cursor[RECORD] = 0
    cursor[ROW], cursor[KEY_BYTES], cursor[VALUE_BYTES] = row, key_at, value_at
    return DONE


@_compiled(_types.UniTuple(_LONG, 3)(_BYTES, _LONG_ROWS, _LONG, _LONG))
def measure_headers(
    data: _Array, header_spans: _Array, first_row: _Number, end_row: _Number
) -> tuple[_Number, _Number, _Number]:
    """(headers, bytes of their keys, bytes of their values) of the rows; the first is -1 when they are corrupt."""
    corrupt = (np.int64(-1), np.int64(0), np.int64(0))
    headers, key_bytes, value_bytes = np.int64(0), np.int64(0), np.int64(0)
    for row in range(first_row, end_row):
        pos, end = header_spans[row, 0], header_spans[row, 1]
        count, pos = _varint(data, pos, end)
        if pos < 0 or count < 0:
            return corrupt
        for _ in range(count):
            length, pos = _varint(data, pos, end)
            if pos < 0 or length < 0 or length > end - pos:
                return corrupt
            key_bytes += length
            length, pos = _varint(data, pos + length, end)
            if pos < 0 or length > end - pos:
                return corrupt
            value_bytes += max(length, 0)
            pos += max(length, 0)
        if pos != end:
            return corrupt
        headers += count
    return headers, key_bytes, value_bytes


@_compiled(_types.void(_BYTES, _LONG_ROWS, _LONG, _LONG, _INTS, _OUT, _INTS, _OUT, _INTS, _OUT, _OUT))
def fill_headers(
    data: _Array,
    header_spans: _Array,
    first_row: _Number,
    end_row: _Number,
    list_ends: _Array,
    keys: _Array,
    key_ends: _Array,
    values: _Array,
    value_ends: _Array,
    value_bits: _Array,
    row_bits: _Array,
) -> None:
    """Write the headers of rows that were measured. A row without headers has no bit, so that it reads as null."""
    header = list_ends[first_row]
    for row in range(first_row, end_row):
        pos, end = header_spans[row, 0], header_spans[row, 1]
        count, pos = _varint(data, pos, end)
        for _ in range(count):
            length, pos = _varint(data, pos, end)
            at = key_ends[header]
            keys[at : at + length] = data[pos : pos + length]
            key_ends[header + 1] = at + length
            length, pos = _varint(data, pos + length, end)
            at = value_ends[header]
            if length >= 0:
                values[at : at + length] = data[pos : pos + length]
                value_bits[header >> 3] |= np.uint8(1 << (header & 7))
                pos += length
                at += length
            value_ends[header + 1] = at
            header += 1
        list_ends[row + 1] = header
        if count > 0:
            row_bits[row >> 3] |= np.uint8(1 << (row & 7))
