"""Fetched bytes straight into Arrow columns.

A program that handles millions of records cannot afford a Python object for each. `ArrowDecoder` takes record sets as
a fetch returns them and gives `pyarrow.RecordBatch`es of bounded size, with the columns and names that Spark's Kafka
source has: key, value, offset, timestamp, timestampType, and headers when asked for. Where numba is installed the
loops are compiled (about ten million records a second on one core); where it is not, records are decoded one by one in
Python, with the same result.

Control batches are skipped, and batches of aborted transactions if the list that came with the fetch is handed in.
Gaps between offsets are no error: compaction leaves them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from importlib.util import find_spec
from typing import Protocol

import pyarrow as pa

from penstock.records.aborted import BatchFilter
from penstock.records.batch import BatchHeader, Buffer, CorruptBatch, crc_is_valid, iter_headers, parse_header
from penstock.records.codecs import DEFAULT_LIMIT, DecompressionLimit
from penstock.records.record import decode_records

KEY, VALUE, OFFSET, TIMESTAMP, TIMESTAMP_TYPE, HEADERS = (
    "key",
    "value",
    "offset",
    "timestamp",
    "timestampType",
    "headers",
)
TYPES: dict[str, pa.DataType] = {
    KEY: pa.binary(),
    VALUE: pa.binary(),
    OFFSET: pa.int64(),
    TIMESTAMP: pa.timestamp("ms", tz="UTC"),
    TIMESTAMP_TYPE: pa.int32(),
    # Null, not empty, for a record without headers: so does Spark's source.
    HEADERS: pa.list_(pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])),
}
DEFAULT_COLUMNS = (KEY, VALUE, OFFSET, TIMESTAMP, TIMESTAMP_TYPE)
ALL_COLUMNS = tuple(TYPES)

DEFAULT_MAX_ROWS = 65_536
DEFAULT_MAX_BYTES = 64 * 1024 * 1024
NO_END = 2**63 - 1


class Rows(Protocol):
    """Where decoded rows are gathered until there are enough for a RecordBatch."""

    def add_all(self, data: Buffer, check_crcs: bool) -> tuple[int, Iterator[pa.RecordBatch]] | None:
        """Decode a record set without a look at each batch: (offset behind it, RecordBatches that became full).

        None when that cannot be done, because there is something to decompress, to skip or to complain about.
        """

    def add(self, data: Buffer, batches: list[tuple[int, BatchHeader]]) -> Iterator[pa.RecordBatch]:
        """Decode the batches (position in `data`, header); gives the RecordBatches that became full."""

    def flush(self) -> pa.RecordBatch | None:
        """What has been gathered and not yet given."""


class ArrowDecoder:
    """Decodes the records in [first_offset, end_offset) of one partition, fetch after fetch.

    A RecordBatch has at most `max_rows` rows, and keys or values of at most `max_bytes` unless a single record is
    larger. `compiled` forces or forbids numba.
    """

    def __init__(
        self,
        *,
        columns: Collection[str] = DEFAULT_COLUMNS,
        first_offset: int = 0,
        end_offset: int = NO_END,
        max_rows: int = DEFAULT_MAX_ROWS,
        max_bytes: int = DEFAULT_MAX_BYTES,
        check_crcs: bool = True,
        limit: int = DEFAULT_LIMIT,
        compiled: bool | None = None,
    ) -> None:
        unknown = set(columns) - set(TYPES)
        if unknown:
            raise ValueError(f"there is no column {', '.join(sorted(unknown))}; there are {', '.join(TYPES)}")
        self.schema = pa.schema([pa.field(name, TYPES[name]) for name in columns])
        self.next_offset = first_offset
        """The offset to fetch next: behind the last batch that was fed, shown or not."""
        self._first_offset = first_offset
        self._end_offset = end_offset
        self._check_crcs = check_crcs
        self._rows = _rows(self.schema, first_offset, end_offset, max_rows, max_bytes, limit, compiled)

    @property
    def is_done(self) -> bool:
        """Whether everything below the end offset has been fed."""
        return self.next_offset >= self._end_offset

    def feed(self, data: Buffer, aborted: Iterable[tuple[int, int]] = ()) -> Iterator[pa.RecordBatch]:
        """Decode a record set; gives the RecordBatches that became full. `aborted`: (first offset, producer id)."""
        at_once = self._rows.add_all(data, self._check_crcs)
        if at_once is not None:
            next_offset, filled = at_once
            self.next_offset = max(self.next_offset, next_offset)
        else:
            filled = self._rows.add(data, list(self._visible(data, aborted)))
        yield from filled

    def flush(self) -> pa.RecordBatch | None:
        """The rows that have not yet filled a RecordBatch; None when there are none."""
        return self._rows.flush()

    def _visible(self, data: Buffer, aborted: Iterable[tuple[int, int]]) -> Iterator[tuple[int, BatchHeader]]:
        batch_filter = BatchFilter(aborted)
        for pos, header in iter_headers(data):
            if header.base_offset >= self._end_offset:
                self.next_offset = max(self.next_offset, self._end_offset)
                return
            self.next_offset = max(self.next_offset, header.next_offset)
            if batch_filter.skips(header, data, pos) or header.last_offset < self._first_offset:
                continue
            if self._check_crcs and not crc_is_valid(data, pos, header.size):
                raise CorruptBatch(f"the batch at offset {header.base_offset} fails its checksum")
            if header.records_count:
                yield pos, header


def batch_to_arrow(raw: Buffer, *, first_offset: int = 0, columns: Collection[str] = ALL_COLUMNS) -> pa.RecordBatch:
    """One batch as a RecordBatch, from `first_offset` on."""
    rows_max = max(parse_header(raw).records_count, 1)
    decoder = ArrowDecoder(
        columns=columns, first_offset=first_offset, max_rows=rows_max, max_bytes=DEFAULT_LIMIT, check_crcs=False
    )
    filled = [*decoder.feed(raw)]
    rest = decoder.flush()
    if rest is not None:
        filled.append(rest)
    if len(filled) == 1:
        return filled[0]
    return pa.Table.from_batches(filled, decoder.schema).combine_chunks().to_batches()[0] if filled else _empty(decoder)


def _empty(decoder: ArrowDecoder) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in decoder.schema], schema=decoder.schema)


def _rows(
    schema: pa.Schema,
    first_offset: int,
    end_offset: int,
    max_rows: int,
    max_bytes: int,
    limit: int,
    compiled: bool | None,
) -> Rows:
    if compiled or (compiled is None and find_spec("numba") is not None):
        from penstock.records.arrow_rows import CompiledRows

        return CompiledRows(schema, first_offset, end_offset, max_rows, max_bytes, limit)
    return PlainRows(schema, first_offset, end_offset, max_rows, max_bytes, limit)


class PlainRows:
    """Decodes record by record in Python."""

    def __init__(
        self, schema: pa.Schema, first_offset: int, end_offset: int, max_rows: int, max_bytes: int, limit: int
    ) -> None:
        self._schema = schema
        self._first_offset = first_offset
        self._end_offset = end_offset
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._limit = limit
        self._clear()

    def add_all(self, data: Buffer, check_crcs: bool) -> tuple[int, Iterator[pa.RecordBatch]] | None:
        return None

    def add(self, data: Buffer, batches: list[tuple[int, BatchHeader]]) -> Iterator[pa.RecordBatch]:
        for pos, header in batches:
            try:
                records = decode_records(data, pos, header, self._limit)
            except DecompressionLimit:
                raise
            except CorruptBatch as error:
                raise CorruptBatch(f"the batch at offset {header.base_offset} is corrupt: {error}") from None
            for record in records:
                if not self._first_offset <= record.offset < self._end_offset:
                    continue
                key_bytes = self._key_bytes + len(record.key or b"")
                value_bytes = self._value_bytes + len(record.value or b"")
                is_full = len(self._offsets) == self._max_rows or max(key_bytes, value_bytes) > self._max_bytes
                if is_full and (filled := self.flush()):
                    yield filled
                self._key_bytes += len(record.key or b"")
                self._value_bytes += len(record.value or b"")
                self._keys.append(record.key)
                self._values.append(record.value)
                self._offsets.append(record.offset)
                self._timestamps.append(record.timestamp)
                self._timestamp_types.append(int(header.is_log_append_time))
                self._headers.append([{"key": k, "value": v} for k, v in record.headers] or None)

    def flush(self) -> pa.RecordBatch | None:
        if not self._offsets:
            return None
        columns: dict[str, list[object]] = {
            KEY: self._keys,
            VALUE: self._values,
            OFFSET: self._offsets,
            TIMESTAMP: self._timestamps,
            TIMESTAMP_TYPE: self._timestamp_types,
            HEADERS: self._headers,
        }
        try:
            arrays = [pa.array(columns[field.name], field.type) for field in self._schema]
        except (OverflowError, pa.ArrowInvalid) as error:
            raise CorruptBatch(f"a record behind offset {self._offsets[0]} is corrupt: {error}") from None
        self._clear()
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _clear(self) -> None:
        self._keys: list[object] = []
        self._values: list[object] = []
        self._offsets: list[object] = []
        self._timestamps: list[object] = []
        self._timestamp_types: list[object] = []
        self._headers: list[object] = []
        self._key_bytes = self._value_bytes = 0
