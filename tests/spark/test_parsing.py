"""Values into columns: JSON, Avro and functions."""

from __future__ import annotations

import io
import json

import fastavro
import pyarrow as pa
import pytest

from penstock.client.errors import UsageError
from penstock.spark.parsing import Unparsable, make_parser
from penstock.spark.reading import arrow_schema

COLUMNS = ("topic", "partition", "offset", "value")
PERSON = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])


def records(*values: bytes | None) -> pa.RecordBatch:
    rows = [{"topic": "t", "partition": 1, "offset": 7 + n, "value": value} for n, value in enumerate(values)]
    return pa.RecordBatch.from_pylist(rows, schema=arrow_schema(COLUMNS))


def parse_json(*values: bytes | None, skip_bad: bool = False) -> list[dict[str, object]]:
    parser = make_parser("json", PERSON, ("offset",), skip_bad)
    assert parser is not None
    made = parser.parse(records(*values))
    assert made.schema == parser.schema(arrow_schema(COLUMNS))
    rows: list[dict[str, object]] = made.to_pylist()
    return rows


def test_json_objects_become_columns_beside_the_offset() -> None:
    rows = parse_json(b'{"id": 1, "name": "a"}', b'{"name": null, "id": 2}', b"{}")
    assert rows == [
        {"offset": 7, "id": 1, "name": "a"},
        {"offset": 8, "id": 2, "name": None},
        {"offset": 9, "id": None, "name": None},
    ]


def test_json_over_several_lines_is_one_value() -> None:
    assert parse_json(b'{"id": 1,\n "name": "a"}', b'{"id": 2}')[0] == {"offset": 7, "id": 1, "name": "a"}


@pytest.mark.parametrize("bad", [b"{", b"[1]", b'{"id": "one"}', b'{"id": 1, "age": 3}', None])
def test_a_bad_value_is_named_by_its_place(bad: bytes | None) -> None:
    with pytest.raises(Unparsable, match="t-1 offset"):
        parse_json(b'{"id": 1}', bad)


def test_bad_values_can_be_left_out() -> None:
    assert [row["offset"] for row in parse_json(b"{", b'{"id": 1}', b"no", skip_bad=True)] == [8]


def test_avro_records_become_columns() -> None:
    schema = {
        "type": "record",
        "name": "Person",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "name", "type": ["null", "string"]},
            {"name": "tags", "type": {"type": "array", "items": "string"}},
        ],
    }
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), {"id": 5, "name": None, "tags": ["x"]})
    parser = make_parser("avro", json.dumps(schema), ("offset",), False)
    assert parser is not None
    plain, framed = out.getvalue(), b"\0\0\0\0\7" + out.getvalue()
    assert parser.parse(records(plain, framed)).to_pylist() == [
        {"offset": 7, "id": 5, "name": None, "tags": ["x"]},
        {"offset": 8, "id": 5, "name": None, "tags": ["x"]},
    ]
    with pytest.raises(Unparsable, match="t-1 offset 7"):
        parser.parse(records(plain[:-2]))


def test_a_function_must_give_what_it_promised() -> None:
    promised = pa.schema([pa.field("size", pa.int64())])

    def sizes(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict({"size": [len(value) for value in batch.column("value").to_pylist()]})

    parser = make_parser(sizes, promised, (), False)
    assert parser is not None
    assert parser.parse(records(b"abc")).to_pylist() == [{"size": 3}]
    other = make_parser(sizes, PERSON, (), False)
    assert other is not None
    with pytest.raises(Unparsable, match="promised was"):
        other.parse(records(b"abc"))


def test_what_cannot_work_is_refused() -> None:
    with pytest.raises(UsageError, match="needs schema"):
        make_parser("json", None, (), False)
    with pytest.raises(UsageError, match="json, avro or a function"):
        make_parser("xml", PERSON, (), False)
    parser = make_parser("json", pa.schema([pa.field("offset", pa.int64())]), ("offset",), False)
    assert parser is not None
    with pytest.raises(UsageError, match="twice"):
        parser.schema(arrow_schema(COLUMNS))
