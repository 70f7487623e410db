"""Bytes made readable: each format, and the bounds that hostile bytes run into."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

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
    wanted = {**ORDER, "sum": "0102", "at": "1970-01-01T00:00:00.005Z"}
    for data in (bare.getvalue(), framed + bare.getvalue()):
        shown = decode(data, "avro", schema)
        assert (json.loads(shown.text or ""), shown.format) == (wanted, "avro")
    assert json.loads(decode(container.getvalue(), "auto").text or "") == [wanted]
    assert "left over" in decode(bare.getvalue() + b"x", "avro", schema).problem


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "record", "name": "a.B", "fields": [{"name": "x", "type": ["null", "B"]}]}, {"x": {"x": None}}),
        (
            {
                "type": "record",
                "name": "Order",
                "namespace": "shop",
                "fields": [
                    {"name": "by", "type": {"type": "record", "name": "people.User", "fields": [
                        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
                        {"name": "other", "type": "Kind"},
                    ]}},
                    {"name": "for", "type": "people.User"},
                    {"name": "kind", "type": "people.Kind"},
                ],
            },
            {"by": {"kind": "A", "other": "B"}, "for": {"kind": "B", "other": "A"}, "kind": "B"},
        ),
        (
            {"type": "record", "name": "o.R", "fields": [
                {"name": "f", "type": {"type": "fixed", "name": "F", "namespace": "", "size": 1}},
            ]},
            {"f": b"\x07"},
        ),
    ],
)  # fmt: skip
def test_types_are_found_by_the_rules_of_namespaces(schema: Any, value: Any) -> None:
    fastavro = pytest.importorskip("fastavro")
    written = io.BytesIO()
    fastavro.schemaless_writer(written, schema, value)
    shown = json.loads(decode(written.getvalue(), "avro", parse_schema(json.dumps(schema))).text or "")
    assert shown == ({"f": "07"} if "f" in value else value)
    container = io.BytesIO()
    fastavro.writer(container, schema, [value])
    assert json.loads(decode(container.getvalue(), "auto").text or "") == [shown]


@pytest.mark.parametrize(
    ("base", "logical", "value", "wanted"),
    [
        ("int", {"logicalType": "date"}, date(2026, 8, 1), "2026-08-01"),
        ("int", {"logicalType": "time-millis"}, time(12, 30, 1, 5000), "12:30:01.005"),
        ("long", {"logicalType": "timestamp-millis"}, datetime(2026, 8, 1, tzinfo=UTC), "2026-08-01T00:00:00.000Z"),
        ("bytes", {"logicalType": "decimal", "precision": 9, "scale": 2}, Decimal("-12.30"), -12.3),
        ("bytes", {"logicalType": "decimal", "precision": 30, "scale": 2}, Decimal("9" * 20 + ".12"), "9" * 20 + ".12"),
        ("fixed", {"name": "D", "size": 4, "logicalType": "decimal", "precision": 9}, Decimal(77), 77),
        ("fixed", {"name": "U", "size": 16, "logicalType": "uuid"}, UUID(int=7).bytes, str(UUID(int=7))),
        ("bytes", {"logicalType": "unheard of"}, b"\x01", "01"),
    ],
)
def test_logical_types_are_shown_as_what_they_mean(base: str, logical: Any, value: Any, wanted: Any) -> None:
    schema = {"type": base, **logical}
    fastavro = pytest.importorskip("fastavro")
    written = io.BytesIO()
    fastavro.schemaless_writer(written, schema, value)
    assert json.loads(decode(written.getvalue(), "avro", parse_schema(json.dumps(schema))).text or "") == wanted


def test_times_beyond_the_calendar_stay_numbers() -> None:
    far = parse_schema('{"type": "long", "logicalType": "timestamp-millis"}')
    assert decode(b"\xfe" + b"\xff" * 8 + b"\x01", "avro", far).text == str(2**63 - 1)


def test_what_unpacks_to_far_more_than_it_is_is_given_up() -> None:
    fastavro = pytest.importorskip("fastavro")
    bomb = io.BytesIO()
    fastavro.writer(bomb, "bytes", [b"\0" * (3 << 20)] * 5, codec="deflate", sync_interval=1)
    assert len(bomb.getvalue()) < 50_000
    assert "inflate" in decode(bomb.getvalue(), "avro").problem
    siblings = b"".join(b"\x0a\x04\x0a\x02\x08\xff" for _ in range(30_000))
    assert "items" in decode(siblings, "protobuf").problem


def test_deep_json_is_not_indented_to_a_thousand_times_its_size() -> None:
    data = b"[" * 900 + b"0," * 10_000 + b"0" + b"]" * 900
    shown = decode(data, "auto")
    assert shown.format == "json"
    assert len(shown.text or "") < 20 * len(data)


def test_half_of_a_surrogate_pair_is_shown_as_its_escape() -> None:
    shown = decode(b'{"a": "\\ud800"}', "auto")
    assert shown.format == "json"
    assert "\\ud800" in (shown.text or "").encode().decode()


def test_a_list_of_billions_of_nothing_is_given_up() -> None:
    schema = parse_schema('{"type": "array", "items": "null"}')
    assert "more than" in decode(b"\xfe\xff\xff\xff\xff\xff\x1f", "avro", schema).problem
    endless = parse_schema('{"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]}')
    assert "deep" in decode(b"\x02" * 5_000, "avro", endless).problem


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '"unknown"',
        '{"type": "record", "name": "R"}',
        "[" * 5_000,
        '{"type": 5}',
        '{"type": "fixed", "name": "F", "size": -1}',
        '{"type": "enum", "name": "E", "symbols": [1]}',
        '[{"type": "fixed", "name": "F", "size": 1}, {"type": "fixed", "name": "F", "size": 2}]',
        '{"type": "record", "name": "R", "namespace": 5, "fields": []}',
    ],
)
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
