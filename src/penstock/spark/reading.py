"""From a range of offsets to Arrow batches with Spark's columns: what a task of the source, and of a load, runs.

`ArrowDecoder` gives the columns that stand in the record; topic and partition are the same for every row of a task, so
one array of each is built and sliced. Spark counts time in microseconds, Kafka in milliseconds.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

import pyarrow as pa

from penstock.records.arrow import TYPES, ArrowDecoder
from penstock.records.batch import CorruptBatch
from penstock.records.codecs import DecompressionLimit
from penstock.spark.fetching import FetchSettings, RangeFetcher
from penstock.spark.options import DEFAULT_BATCH_ROWS
from penstock.spark.ranges import OffsetRange

SPARK_TIME = pa.timestamp("us", tz="UTC")
ARROW_TYPES: dict[str, pa.DataType] = {
    **TYPES,
    "timestamp": SPARK_TIME,
    "topic": pa.string(),
    "partition": pa.int32(),
    "headers": pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])),
}
_BATCH_BYTES = 32 * 1024 * 1024


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    return pa.schema([pa.field(name, ARROW_TYPES[name]) for name in columns])


def read_range(
    offsets: OffsetRange,
    settings: FetchSettings,
    columns: Sequence[str],
    *,
    batch_rows: int = DEFAULT_BATCH_ROWS,
    check_crcs: bool = True,
) -> Iterator[pa.RecordBatch]:
    """The records of a range, in RecordBatches of at most `batch_rows` rows."""
    from_record = [name for name in columns if name in TYPES] or ["offset"]

    def decoder_from(offset: int) -> ArrowDecoder:
        return ArrowDecoder(
            columns=from_record,
            first_offset=offset,
            end_offset=offsets.end,
            max_rows=batch_rows,
            max_bytes=_BATCH_BYTES,
            check_crcs=check_crcs,
        )

    decoder = decoder_from(offsets.start)
    frame = _Frame(offsets, columns)
    fetcher = RangeFetcher(offsets, settings)
    try:
        for fetched in fetcher:
            if fetched.offset > decoder.next_offset:
                # Records were lost. The batch that comes first may still hold some that count as deleted.
                yield from frame.rest_of(decoder)
                decoder = decoder_from(fetched.offset)
            for batch in decoder.feed(fetched.records, fetched.aborted):
                yield frame.around(batch)
        yield from frame.rest_of(decoder)
    except (CorruptBatch, DecompressionLimit) as error:
        raise type(error)(f"partition {offsets.topic}-{offsets.partition}: {error}") from None
    finally:
        fetcher.close()


class _Frame:
    """Puts the columns that are the same for all rows around those that were decoded."""

    def __init__(self, offsets: OffsetRange, columns: Sequence[str]) -> None:
        self._range = offsets
        self._schema = arrow_schema(columns)
        self._topics, self._partitions = _repeated_text("", 0), _repeated_int(0, 0)

    def rest_of(self, decoder: ArrowDecoder) -> Iterator[pa.RecordBatch]:
        rest = decoder.flush()
        if rest is not None:
            yield self.around(rest)

    def around(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = batch.num_rows
        if len(self._topics) < rows:
            self._topics = _repeated_text(self._range.topic, rows)
            self._partitions = _repeated_int(self._range.partition, rows)
        arrays = [self._column(field, batch, rows) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _column(self, field: pa.Field, batch: pa.RecordBatch, rows: int) -> pa.Array:
        if field.name == "topic":
            return self._topics.slice(0, rows)
        if field.name == "partition":
            return self._partitions.slice(0, rows)
        column = batch.column(field.name)
        if field.name == "timestamp":
            return column.cast(SPARK_TIME, safe=False)  # a time that no clock shows must not fail the task
        if field.name == "headers":
            return column.cast(field.type)
        return column


# Arrays made of buffers: pyarrow imports pandas, a third of a second, as soon as it is handed a Python object.


def _repeated_text(text: str, rows: int) -> pa.Array:
    data = text.encode()
    ends = array("i", range(0, (rows + 1) * len(data), len(data))) if data else array("i", bytes(4 * (rows + 1)))
    return pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(ends), pa.py_buffer(data * rows)])


def _repeated_int(number: int, rows: int) -> pa.Array:
    return pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(array("i", [number]) * rows)])
