"""Metrics as OpenTelemetry's protobuf messages (`MetricsData`), as clients push them to a broker (KIP-714).

Only what KIP-714's clients send is read: gauges and sums of numbers, with the attributes of each value. Everything else
is skipped by its wire type. The shape of the messages is fixed, so reading never goes deeper than they do, and it stops
after as many values as the caller takes: a push costs what it is worth, however large it is.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
DELTA, CUMULATIVE = 1, 2
"""What a sum is: an increment since the last one, or the whole."""
_MAX_ATTRIBUTES = 8
_double = struct.Struct("<d")
_signed = struct.Struct("<q")

Attributes = tuple[tuple[str, str], ...]


class MalformedMetrics(ValueError):
    """The bytes are no `MetricsData`."""


@dataclass(frozen=True, slots=True)
class Point:
    """One value of one metric."""

    name: str
    value: float
    attributes: Attributes = ()
    is_delta: bool = False
    """Whether the value is an increment since the last push, not the whole."""
    is_sum: bool = False


def decode_metrics(data: bytes | bytearray | memoryview, most: int) -> tuple[list[Point], bool]:
    """The first `most` values, and whether there are more. Raises MalformedMetrics."""
    points: list[Point] = []
    try:
        for point in _points(memoryview(data)):
            if len(points) == most:
                return points, True
            points.append(point)
    except (IndexError, struct.error, UnicodeDecodeError, OverflowError) as error:
        raise MalformedMetrics(f"the metrics are no OTLP message: {error}") from error
    return points, False


def _points(data: memoryview) -> Iterator[Point]:
    for resource_metrics in _messages(data, 1):
        for scope_metrics in _messages(resource_metrics, 2):
            for metric in _messages(scope_metrics, 2):
                yield from _values(metric)


def _values(metric: memoryview) -> Iterator[Point]:
    name = ""
    holders: list[tuple[memoryview, bool]] = []
    for number, _, value in _fields(metric):
        if isinstance(value, memoryview):
            if number == 1:
                name = str(value, "utf-8")
            elif number in (5, 7):
                holders.append((value, number == 7))
    for holder, is_sum in holders:
        is_delta = any(number == 2 and value == DELTA for number, _, value in _fields(holder)) and is_sum
        for point in _messages(holder, 1):
            reported, attributes = _number(point)
            if reported is not None:
                yield Point(name, reported, attributes, is_delta, is_sum)


def _number(point: memoryview) -> tuple[float | None, Attributes]:
    number: float | None = None
    attributes: list[tuple[str, str]] = []
    for field, kind, value in _fields(point):
        if kind == _FIXED64 and isinstance(value, memoryview):
            if field == 4:
                (number,) = _double.unpack(value)
            elif field == 6:
                (number,) = _signed.unpack(value)
        elif field == 7 and isinstance(value, memoryview) and len(attributes) < _MAX_ATTRIBUTES:
            attributes.append(_attribute(value))
    return number, tuple(attributes)


def _attribute(data: memoryview) -> tuple[str, str]:
    key = text = ""
    for number, _, value in _fields(data):
        if isinstance(value, memoryview):
            if number == 1:
                key = str(value, "utf-8")
            elif number == 2:
                text = _any_value(value)
    return key, text


def _any_value(data: memoryview) -> str:
    for number, _, value in _fields(data):
        if number == 1 and isinstance(value, memoryview):
            return str(value, "utf-8")
        if number == 2:
            return "true" if value else "false"
        if number == 3 and isinstance(value, int):
            return str(value - (1 << 64) if value >> 63 else value)
        if number == 4 and isinstance(value, memoryview):
            return str(_double.unpack(value)[0])
    return ""


def _messages(data: memoryview, field_number: int) -> Iterator[memoryview]:
    for number, kind, value in _fields(data):
        if number == field_number and kind == _BYTES and isinstance(value, memoryview):
            yield value


def _fields(data: memoryview) -> Iterator[tuple[int, int, memoryview | int]]:
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == _VARINT:
            number, at = _varint(data, at)
            yield tag >> 3, kind, number
            continue
        if kind == _BYTES:
            size, at = _varint(data, at)
        elif kind == _FIXED64:
            size = 8
        elif kind == _FIXED32:
            size = 4
        else:
            raise MalformedMetrics(f"the metrics are no OTLP message: wire type {kind}")
        if size > end - at:
            raise MalformedMetrics("the metrics are no OTLP message: a field reaches past the end")
        yield tag >> 3, kind, data[at : at + size]
        at += size


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    result = shift = 0
    while shift < 70:
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, at
        shift += 7
    raise MalformedMetrics("the metrics are no OTLP message: a number of more than ten bytes")


# -- encoding ----------------------------------------------------------------------------------------------------------


def encode_metrics(points: Iterable[Point], resource: Attributes, start_ns: int, now_ns: int) -> bytes:
    """`MetricsData` of one resource and one scope; values that are no sums become gauges."""
    by_name: dict[tuple[str, bool, bool], list[Point]] = {}
    for point in points:
        by_name.setdefault((point.name, point.is_sum, point.is_delta), []).append(point)
    times = encode_times(start_ns, now_ns)
    metrics = []
    for (name, is_sum, is_delta), values in by_name.items():
        encoded = [encode_number(value.value, value.attributes, times) for value in values]
        temporality = DELTA if is_delta else CUMULATIVE
        metrics.append(encode_sum(name, encoded, temporality) if is_sum else encode_gauge(name, encoded))
    return encode_data(metrics, resource)


def encode_times(start_ns: int, now_ns: int) -> bytes:
    """Since when and when the values were measured, as each of them says it."""
    return b"\x11" + start_ns.to_bytes(8, "little") + b"\x19" + now_ns.to_bytes(8, "little")


def encode_number(value: float, attributes: Attributes, times: bytes) -> bytes:
    """One value of a gauge or a sum."""
    labels = b"".join(_field(7, _key_value(*pair)) for pair in attributes)
    return _field(1, times + b"\x21" + _double.pack(value) + labels)


def encode_histogram_point(
    counts: Sequence[int], total: float, bounds: bytes, attributes: Attributes, times: bytes
) -> bytes:
    """One histogram; `bounds` are the upper bounds of all buckets but the last, as `encode_bounds` makes them."""
    labels = b"".join(_field(9, _key_value(*pair)) for pair in attributes)
    numbers = b"\x21" + sum(counts).to_bytes(8, "little") + b"\x29" + _double.pack(total)
    return _field(1, times + numbers + _field(6, struct.pack(f"<{len(counts)}Q", *counts)) + bounds + labels)


def encode_bounds(bounds: Sequence[float]) -> bytes:
    return _field(7, struct.pack(f"<{len(bounds)}d", *bounds))


def encode_gauge(name: str, points: Iterable[bytes], description: str = "", unit: str = "") -> bytes:
    return _metric(name, description, unit, _field(5, b"".join(points)))


def encode_sum(name: str, points: Iterable[bytes], temporality: int, description: str = "", unit: str = "") -> bytes:
    """A sum that only grows."""
    return _metric(name, description, unit, _field(7, b"".join(points) + bytes((0x10, temporality)) + b"\x18\x01"))


def encode_histogram(name: str, points: Iterable[bytes], description: str = "", unit: str = "") -> bytes:
    return _metric(name, description, unit, _field(9, b"".join(points) + bytes((0x10, CUMULATIVE))))


def encode_data(metrics: Iterable[bytes], resource: Attributes, scope: str = "") -> bytes:
    """`MetricsData`, which is `ExportMetricsServiceRequest` too, of one resource and one scope."""
    attributes = b"".join(_field(1, _key_value(*pair)) for pair in resource)
    named = _field(1, _field(1, scope.encode())) if scope else b""
    return _field(1, _field(1, attributes) + _field(2, named + b"".join(metrics)))


def _metric(name: str, description: str, unit: str, data: bytes) -> bytes:
    texts = ((1, name), (2, description), (3, unit))
    return _field(2, b"".join(_field(number, text.encode()) for number, text in texts if text or number == 1) + data)


def _key_value(key: str, value: str) -> bytes:
    return _field(1, key.encode()) + _field(2, _field(1, value.encode()))


def _field(number: int, content: bytes) -> bytes:
    return _encode_varint(number << 3 | _BYTES) + _encode_varint(len(content)) + content


def _encode_varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
