"""From the bytes of a record's value to columns: JSON, Avro, or a function of the user's.

A parser turns a RecordBatch of records into one of rows. It says beforehand which columns it will give, so that a
table can be created, or refused, before anything is read. A value that cannot be parsed fails the load with its topic,
partition and offset, unless such records are to be left out.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.json

from penstock.client.errors import UsageError

PLACE = ("topic", "partition", "offset")

BatchFunction = Callable[[pa.RecordBatch], pa.RecordBatch]


class Parser(Protocol):
    """Runs in tasks, so it must be picklable."""

    def schema(self, given: pa.Schema) -> pa.Schema:
        """The columns that come out for the columns of a record that go in."""

    def parse(self, batch: pa.RecordBatch) -> pa.RecordBatch: ...


class Unparsable(Exception):
    """A value that is not what it was said to be; the message names its place."""


def add_date(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The day of `timestamp` (in UTC) as the column `date`, to partition by."""
    day = batch.column("timestamp").cast(pa.timestamp("us")).cast(pa.date32(), safe=False)
    return batch.append_column("date", day)


@dataclass(frozen=True)
class ValueParser:
    """Parses values one by one with `decode`, which gives a dict; keeps `keep` of the record beside them."""

    columns: pa.Schema
    decode: Callable[[bytes], Mapping[str, object]]
    keep: tuple[str, ...] = PLACE
    skip_bad: bool = False

    def schema(self, given: pa.Schema) -> pa.Schema:
        return _beside(given, self.keep, self.columns)

    def parse(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        parsed: list[Mapping[str, object]] = []
        good: list[int] = []
        for index, value in enumerate(batch.column("value").to_pylist()):
            try:
                parsed.append(_checked(self.decode(value or b""), self.columns))
                good.append(index)
            except Exception as error:
                if not self.skip_bad:
                    raise Unparsable(f"the value at {_place(batch, index)} cannot be parsed: {error}") from None
        rows = batch if len(good) == batch.num_rows else batch.take(pa.array(good, pa.int64()))
        try:
            arrays = [pa.array([row.get(field.name) for row in parsed], field.type) for field in self.columns]
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise Unparsable(f"a value at or behind {_place(batch, 0)} does not fit the schema: {error}") from None
        return _joined(rows, self.keep, self.schema(batch.schema), arrays)


@dataclass(frozen=True)
class JsonParser:
    """Parses values as JSON objects: all of a batch at once, and one by one where that fails, to find the culprit."""

    columns: pa.Schema
    keep: tuple[str, ...] = PLACE
    skip_bad: bool = False

    def schema(self, given: pa.Schema) -> pa.Schema:
        return _beside(given, self.keep, self.columns)

    def parse(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        values = batch.column("value")
        text = b"\n".join(values.drop_null().to_pylist())
        # A line break inside a value, or a null, would shift the rows: those batches go the slow way.
        if values.null_count == 0 and text.count(b"\n") == batch.num_rows - 1:
            try:
                table = pyarrow.json.read_json(
                    io.BytesIO(text),
                    read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=max(len(text) + 1, 1024)),
                    parse_options=pyarrow.json.ParseOptions(
                        explicit_schema=self.columns, unexpected_field_behavior="error"
                    ),
                )
            except pa.ArrowInvalid:
                table = None
            if table is not None and table.num_rows == batch.num_rows:
                arrays = [table.column(name).combine_chunks() for name in self.columns.names]
                return _joined(batch, self.keep, self.schema(batch.schema), arrays)
        return ValueParser(self.columns, _json_object, self.keep, self.skip_bad).parse(batch)


@dataclass(frozen=True)
class AvroParser:
    """Parses values as Avro records of one schema; the five bytes that a schema registry puts in front are skipped."""

    avro_schema: Mapping[str, object]
    keep: tuple[str, ...] = PLACE
    skip_bad: bool = False

    def schema(self, given: pa.Schema) -> pa.Schema:
        return _beside(given, self.keep, avro_columns(self.avro_schema))

    def parse(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import fastavro

        parsed_schema = fastavro.parse_schema(dict(self.avro_schema))

        def decode(value: bytes) -> Mapping[str, object]:
            stream = io.BytesIO(value[5:] if value[:1] == b"\0" and len(value) > 5 else value)
            record = fastavro.schemaless_reader(stream, parsed_schema, None)
            if stream.read(1):
                raise ValueError("there are bytes behind the Avro record")
            assert isinstance(record, dict)
            return record

        return ValueParser(avro_columns(self.avro_schema), decode, self.keep, self.skip_bad).parse(batch)


@dataclass(frozen=True)
class FunctionParser:
    """A function of the user's, from a RecordBatch of records to one with the columns that were promised."""

    columns: pa.Schema
    function: BatchFunction

    def schema(self, given: pa.Schema) -> pa.Schema:
        return self.columns

    def parse(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        made = self.function(batch)
        if not made.schema.equals(self.columns):
            raise Unparsable(
                f"the function gave {', '.join(map(str, made.schema))} for the batch at {_place(batch, 0)}; "
                f"promised was {', '.join(map(str, self.columns))}"
            )
        return made


def make_parser(
    parse: str | BatchFunction | None,
    schema: pa.Schema | Mapping[str, object] | str | None,
    keep: tuple[str, ...],
    skip_bad: bool,
) -> Parser | None:
    """The parser that `load(parse=…, schema=…)` asks for."""
    if parse is None:
        return None
    if schema is None:
        raise UsageError("parse needs schema: an Arrow schema (JSON, functions) or an Avro schema (Avro)")
    if parse == "avro":
        parsed = json.loads(schema) if isinstance(schema, str) else schema
        if not isinstance(parsed, Mapping):
            raise UsageError("the schema for Avro must be an Avro schema of a record, as JSON text or a dict")
        return AvroParser(parsed, keep, skip_bad)
    columns = arrow_columns(schema) if isinstance(schema, str) else schema
    if not isinstance(columns, pa.Schema):
        raise UsageError("the schema must be an Arrow schema, or text like 'id bigint, name string'")
    if parse == "json":
        return JsonParser(columns, keep, skip_bad)
    if callable(parse):
        return FunctionParser(columns, parse)
    raise UsageError(f"parse is {parse!r}; it must be json, avro or a function")


def arrow_columns(ddl: str) -> pa.Schema:
    """An Arrow schema from Spark's DDL: `id BIGINT, name STRING, tags ARRAY<STRING>`."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    parsed = StructType.fromDDL(ddl)
    assert isinstance(parsed, StructType)
    schema = to_arrow_schema(parsed, timezone="UTC")
    assert isinstance(schema, pa.Schema)
    return schema


_AVRO_TYPES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
_LOGICAL_TYPES: dict[str, pa.DataType] = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("us", tz="UTC"),
    "timestamp-micros": pa.timestamp("us", tz="UTC"),
    "uuid": pa.string(),
}


def avro_columns(schema: Mapping[str, object]) -> pa.Schema:
    """The columns of an Avro record schema."""
    fields = schema.get("fields")
    if schema.get("type") != "record" or not isinstance(fields, list):
        raise UsageError("the Avro schema must be that of a record")
    return pa.schema([pa.field(str(field["name"]), _avro_type(field["type"])) for field in fields])


def _avro_type(kind: object) -> pa.DataType:
    if isinstance(kind, list):
        others = [branch for branch in kind if branch != "null"]
        if len(others) == 1:
            return _avro_type(others[0])
    if isinstance(kind, str) and kind in _AVRO_TYPES:
        return _AVRO_TYPES[kind]
    if isinstance(kind, Mapping):
        logical, plain = kind.get("logicalType"), kind.get("type")
        if isinstance(logical, str) and logical in _LOGICAL_TYPES:
            return _LOGICAL_TYPES[logical]
        if plain == "array":
            return pa.list_(_avro_type(kind["items"]))
        if plain == "map":
            return pa.map_(pa.string(), _avro_type(kind["values"]))
        if plain == "record":
            return pa.struct(list(avro_columns(kind)))
        return _avro_type(plain)
    raise UsageError(f"the Avro type {kind!r} has no counterpart in a table")


def _json_object(value: bytes) -> Mapping[str, object]:
    parsed = json.loads(value)
    if not isinstance(parsed, dict):
        raise ValueError("it is no JSON object")
    return parsed


def _checked(row: Mapping[str, object], columns: pa.Schema) -> Mapping[str, object]:
    unknown = set(row) - set(columns.names)
    if unknown:
        raise ValueError(f"it has {', '.join(sorted(unknown))}, which the schema does not have")
    return row


def _place(batch: pa.RecordBatch, index: int) -> str:
    topic, partition, offset = (batch.column(name)[index].as_py() for name in PLACE)
    return f"{topic}-{partition} offset {offset}"


def _beside(given: pa.Schema, keep: tuple[str, ...], columns: pa.Schema) -> pa.Schema:
    twice = sorted(set(keep) & set(columns.names))
    if twice:
        raise UsageError(f"{', '.join(twice)} would be a column twice: leave it out of keep or of the schema")
    return pa.schema([*(given.field(name) for name in keep), *columns])


def _joined(batch: pa.RecordBatch, keep: tuple[str, ...], schema: pa.Schema, arrays: list[pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([*(batch.column(name) for name in keep), *arrays], schema=schema)
