"""OTLP metrics: what is written is read again, what is not understood is skipped, what is broken is refused."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.otlp import MalformedMetrics, Point, decode_metrics, encode_metrics


def field(number: int, content: bytes) -> bytes:
    assert len(content) < 128
    return bytes([number << 3 | 2, len(content)]) + content


def data(*metrics: bytes) -> bytes:
    return field(1, field(2, b"".join(field(2, metric) for metric in metrics)))


def number(value: float) -> bytes:
    return b"\x21" + struct.pack("<d", value)


texts = st.text(max_size=20)
points = st.builds(
    Point,
    texts,
    st.floats(allow_nan=False),
    st.lists(st.tuples(texts, texts), max_size=8).map(tuple),
    is_delta=st.just(False),
    is_sum=st.booleans(),
)


@given(st.lists(points, max_size=20))
def test_what_is_written_is_read(written: list[Point]) -> None:
    encoded = encode_metrics(written, (("group_id", "g"),), 1, 2)
    read, are_more = decode_metrics(encoded, 100)
    assert sorted(read, key=repr) == sorted(written, key=repr)
    assert not are_more


def test_increments_are_told_from_totals() -> None:
    written = [Point("a", 1.0, is_delta=True, is_sum=True), Point("b", 2.0, is_sum=True)]
    assert decode_metrics(encode_metrics(written, (), 1, 2), 10)[0] == written


def test_whole_numbers_attributes_of_all_kinds_and_unknown_fields_are_read() -> None:
    attributes = (
        field(7, field(1, b"s") + field(2, field(1, b"text")))
        + field(7, field(1, b"i") + field(2, b"\x18\x05"))
        + field(7, field(1, b"b") + field(2, b"\x10\x01"))
        + field(7, field(1, b"n") + field(2, b"\x18" + b"\xff" * 9 + b"\x01"))
    )
    point = b"\x31" + struct.pack("<q", -7) + attributes + b"\x45abcd"  # an exemplar's fixed32 is skipped
    metric = field(1, b"name") + field(2, b"description") + field(5, field(1, point))
    assert decode_metrics(data(metric), 10) == (
        [Point("name", -7, (("s", "text"), ("i", "5"), ("b", "true"), ("n", "-1")))],
        False,
    )


def test_a_histogram_is_left_out() -> None:
    assert decode_metrics(data(field(1, b"h") + field(9, b"\x08\x01")), 10) == ([], False)


def test_reading_stops_after_as_many_values_as_are_taken() -> None:
    written = encode_metrics([Point(f"m{each}", each) for each in range(1000)], (), 1, 2)
    read, are_more = decode_metrics(written + b"\xff\xff broken, and never looked at", 3)
    assert [point.name for point in read] == ["m0", "m1", "m2"]
    assert are_more


def test_at_most_eight_attributes_are_kept() -> None:
    many = tuple((f"k{each}", "v") for each in range(20))
    (point,), _ = decode_metrics(encode_metrics([Point("m", 1.0, many)], (), 1, 2), 10)
    assert point.attributes == many[:8]


def test_values_that_are_no_numbers_are_read_as_such() -> None:
    (point,), _ = decode_metrics(encode_metrics([Point("m", math.nan)], (), 1, 2), 10)
    assert math.isnan(point.value)


@pytest.mark.parametrize(
    "broken",
    [
        b"\x0a",
        b"\x0a\x05abc",
        b"\x0b",
        b"\x80" * 11,
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
        data(field(1, b"\xff\xfe") + field(5, field(1, number(1)))),
        data(field(1, b"m") + field(5, field(1, b"\x21\x00"))),
    ],
)
def test_what_is_broken_is_refused(broken: bytes) -> None:
    with pytest.raises(MalformedMetrics):
        decode_metrics(broken, 10)


@given(st.binary(max_size=200))
def test_no_bytes_whatever_raise_anything_else(garbage: bytes) -> None:
    try:
        decode_metrics(garbage, 10)
    except MalformedMetrics:
        pass
