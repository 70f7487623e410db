"""Protocol Buffers without a schema: field numbers and what their bytes look like.

The wire format says how long a field is, not what it is. So bytes are shown as a message inside if they are one, else
as text, else as hex; numbers as they stand. A Schema Registry's frame (a zero byte, the schema's id and the message's
indexes) is taken off.
"""

from __future__ import annotations

import struct

from penstock.console.decoders.bounds import Reader, Unreadable

_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5


def decode(data: bytes) -> object:
    """The fields of a message, in their order."""
    if data[:1] == b"\x00" and len(data) > 5:
        reader = Reader(data)
        reader.take(5)
        for _ in range(reader.zigzag()):
            reader.count_one(0)
            reader.zigzag()
        return {"schemaId": int.from_bytes(data[1:5], "big"), "message": _message(reader, 0)}
    return _message(Reader(data), 0)


def _message(reader: Reader, depth: int) -> list[dict[str, object]]:
    fields = []
    while reader.left:
        reader.count_one(depth)
        tag = reader.varint()
        number, kind = tag >> 3, tag & 7
        if not 0 < number < 1 << 29:
            raise Unreadable(f"it has the field number {number}")
        fields.append({"field": number, **_value(reader, kind, depth)})
    return fields


def _value(reader: Reader, kind: int, depth: int) -> dict[str, object]:
    if kind == _VARINT:
        return {"number": reader.varint()}
    if kind == _EIGHT:
        raw = reader.take(8)
        return {"fixed64": int.from_bytes(raw, "little"), "double": _finite(struct.unpack("<d", raw)[0])}
    if kind == _FOUR:
        raw = reader.take(4)
        return {"fixed32": int.from_bytes(raw, "little"), "float": _finite(struct.unpack("<f", raw)[0])}
    if kind != _BYTES:
        raise Unreadable(f"it has a field of the wire type {kind}")
    raw = reader.take(reader.varint())
    text = _text(raw)
    if text is not None:
        return {"text": text}
    try:
        return {"message": _message(Reader(raw, reader.budget), depth + 1)} if depth < 16 else {"hex": raw.hex()}
    except Unreadable:
        return {"hex": raw.hex()}


def _finite(number: float) -> float | str:
    return number if number - number == 0 else str(number)


def _text(raw: bytes) -> str | None:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return None
    return text if all(char.isprintable() or char in "\r\n\t" for char in text) else None
