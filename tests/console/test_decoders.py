"""Bytes made readable: each format, and the bounds that hostile bytes run into."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.console.decoders import FORMATS, decode, decode_record, preview
from penstock.console.decoders.avro import MalformedSchema, parse_schema
from penstock.groups import records as group_records
from penstock.transactions import records as transaction_records

SCHEMA = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "before", "type": ["null", "State"]},
        {"name": "prices", "type": {"type": "map", "values": "double"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "sum", "type": {"type": "fixed", "name": "Sum", "size": 2}},
    ],
}
ORDER = {
    "id": -7,
    "tags": ["a", "b"],
    "state": "PAID",
    "before": "NEW",
    "prices": {"eur": 1.5},
    "at": 5,
    "sum": b"\x01\x02",
}


def test_auto_takes_what_fits() -> None:
    assert decode(b'{"a":1}', "auto") == ('{\n  "a": 1\n}', "json", "")
    assert decode("grüße".encode(), "auto") == ("grüße", "text", "")
    assert decode(b"\x00\xff", "auto") == ("00 ff", "hex", "")
    assert decode(b"{no json", "auto").format == "text"
    assert decode(None, "auto") == (None, "null", "")


def test_what_cannot_be_read_is_hex_with_a_reason() -> None:
    assert decode(b"\xff", "text") == ("ff", "hex", "not text: it is not UTF-8")
    assert "not json" in decode(b"nope", "json").problem
    assert "no schema" in decode(b"\x02", "avro").problem
    assert "not protobuf" in decode(b"\xff", "protobuf").problem


def test_of_something_large_the_beginning_is_shown() -> None:
    assert preview(b"a" * 1_000, 10) == ("a" * 10 + "…", "text", "")
    assert preview("ü".encode() * 1_000, 11).text == "ü" * 5 + "…"
    assert preview(b"\x00\xff" * 1_000, 9) == ("00 ff 00 …", "hex", "")


def test_avro_is_read_as_fastavro_writes_it() -> None:
    fastavro = pytest.importorskip("fastavro")
    bare, framed, container = io.BytesIO(), b"\x00\x00\x00\x00\x2a", io.BytesIO()
    fastavro.schemaless_writer(bare, SCHEMA, ORDER)
    fastavro.writer(container, SCHEMA, [ORDER], codec="deflate")
    schema = parse_schema(json.dumps(SCHEMA))
    wanted = {**ORDER, "sum": "0102"}
    for data in (bare.getvalue(), framed + bare.getvalue()):
        shown = decode(data, "avro", schema)
        assert (json.loads(shown.text or ""), shown.format) == (wanted, "avro")
    assert json.loads(decode(container.getvalue(), "auto").text or "") == [wanted]
    assert "left over" in decode(bare.getvalue() + b"x", "avro", schema).problem


def test_a_list_of_billions_of_nothing_is_given_up() -> None:
    schema = parse_schema('{"type": "array", "items": "null"}')
    assert "more than" in decode(b"\xfe\xff\xff\xff\xff\xff\x1f", "avro", schema).problem
    endless = parse_schema('{"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]}')
    assert "deep" in decode(b"\x02" * 5_000, "avro", endless).problem


@pytest.mark.parametrize("text", ["", "{}", '"unknown"', '{"type": "record", "name": "R"}', "[" * 5_000, '{"type": 5}'])
def test_a_malformed_schema_is_refused(text: str) -> None:
    with pytest.raises(MalformedSchema):
        parse_schema(text)


def test_protobuf_is_shown_by_field_numbers() -> None:
    message = b"\x08\x96\x01" + b"\x12\x03ada" + b"\x1a\x04\x08\x01\x10\x02" + b"\x21" + b"\x00" * 6 + b"\xf8\x3f"
    wanted: Any = [
        {"field": 1, "number": 150},
        {"field": 2, "text": "ada"},
        {"field": 3, "message": [{"field": 1, "number": 1}, {"field": 2, "number": 2}]},
        {"field": 4, "fixed64": 0x3FF8 << 48, "double": 1.5},
    ]
    assert json.loads(decode(message, "protobuf").text or "") == wanted
    framed = json.loads(decode(b"\x00\x00\x00\x00\x07\x00" + message, "protobuf").text or "")
    assert framed == {"schemaId": 7, "message": wanted}


def test_internal_records_are_read_by_kafkas_schemas() -> None:
    commit = group_records.offset_commit(
        "billing", "orders", 3, offset=42, leader_epoch=0, metadata="", commit_timestamp_ms=9
    )
    key, value = decode_record("__consumer_offsets", commit.key, commit.value, "auto")
    assert json.loads(key.text or "") == {"type": "OffsetCommit", "group": "billing", "topic": "orders", "partition": 3}
    assert json.loads(value.text or "")["offset"] == 42
    key, value = decode_record("__transaction_state", transaction_records.key_of("loader"), None, "auto")
    assert json.loads(key.text or "")["transactionalId"] == "loader"
    assert value.text is None
    key, value = decode_record("__share_group_state", b"\x00\x63", b"x", "auto")
    assert "type 99" in value.problem


@given(
    st.binary(max_size=200),
    st.sampled_from(FORMATS),
    st.sampled_from(["t", "__consumer_offsets", "__share_group_state"]),
)
def test_no_bytes_make_a_decoder_fail(data: bytes, wanted: str, topic: str) -> None:
    schema = parse_schema(json.dumps(SCHEMA))
    for part in decode_record(topic, data, data, wanted, schema):
        assert part.text is not None
    preview(data, 50)
