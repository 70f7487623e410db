"""Bytes of keys and values as people can read them.

Every decoder is bounded: what a topic holds was written by strangers, and a few bytes may claim to be a list of
billions. `decode` never raises; what cannot be read as asked is shown as hex, with the reason.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from penstock.console.decoders import avro, internal, protobuf
from penstock.console.decoders.bounds import Unreadable

FORMATS = ("auto", "text", "json", "avro", "protobuf", "hex")
MAX_BYTES = 4 << 20
_MAX_HEX_BYTES = 64 << 10
_MOST_INDENTED = 16  # times as long as it was: ten thousand numbers in a thousand brackets would be 20 MB of blanks
_INDENTED = json.JSONEncoder(ensure_ascii=False, indent=2)


class Shown(NamedTuple):
    """Bytes made readable: the text, the format that it is in, and why that is not the one asked for."""

    text: str | None
    format: str
    problem: str = ""


def decode(data: bytes | None, format_name: str, schema: avro.Schema | None = None) -> Shown:
    """A key or value in the wanted format; `auto` takes the first that fits."""
    if data is None:
        return Shown(None, "null")
    if format_name == "auto":
        return _guess(data, schema)
    if format_name == "hex":
        return Shown(_hex(data), "hex")
    try:
        if len(data) > MAX_BYTES:
            raise Unreadable(f"it has {len(data):,} bytes, more than {MAX_BYTES:,}")
        if format_name == "json":
            return Shown(_json(data), "json")
        if format_name == "avro":
            return Shown(_pretty(avro.decode(data, schema), len(data)), "avro")
        if format_name == "protobuf":
            return Shown(_pretty(protobuf.decode(data), len(data)), "protobuf")
        return Shown(data.decode(), "text")
    except (Unreadable, UnicodeDecodeError) as error:
        reason = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        return Shown(_hex(data), "hex", f"not {format_name}: {reason}")


def decode_record(
    topic: str, key: bytes | None, value: bytes | None, format_name: str, schema: avro.Schema | None = None
) -> tuple[Shown, Shown]:
    """Key and value of a record. Those of internal topics are read by Kafka's own schemas."""
    if format_name == "auto" and topic in internal.TOPICS:
        try:
            found = internal.decode(topic, key, value)
        except Unreadable as error:
            return decode(key, "hex"), decode(value, "hex")._replace(problem=str(error))
        shown = [
            Shown(None, "null") if part is None else Shown(_pretty(part, len(raw or b"")), "internal")
            for part, raw in zip(found, (key, value), strict=True)
        ]
        return shown[0], shown[1]
    keys = format_name if format_name in ("auto", "hex", "text") else "auto"
    return decode(key, keys), decode(value, format_name, schema)


def preview(data: bytes, length: int) -> Shown:
    """The beginning of something large, without decoding the whole."""
    begin = data[:length].decode(errors="ignore")
    if len(begin) * 4 < min(length, len(data)) or not all(char.isprintable() or char in "\r\n\t" for char in begin):
        return Shown(data[: length // 3].hex(" ") + " …", "hex")
    return Shown(begin + "…", "text")


def _guess(data: bytes, schema: avro.Schema | None) -> Shown:
    if len(data) > MAX_BYTES:
        return Shown(_hex(data), "hex")
    if data[:1] in (b"{", b"["):
        try:
            return Shown(_json(data), "json")
        except Unreadable:
            pass
    if schema is not None or data[:4] == avro.CONTAINER:
        try:
            return Shown(_pretty(avro.decode(data, schema), len(data)), "avro")
        except Unreadable:
            pass
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return Shown(_hex(data), "hex")
    readable = all(char.isprintable() or char in "\r\n\t" for char in text)
    return Shown(text, "text") if readable else Shown(_hex(data), "hex")


def _json(data: bytes) -> str:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Unreadable(str(error) or "it is nested too deeply") from None
    return _pretty(found, len(data))


def _pretty(found: object, length: int) -> str:
    """As indented JSON; on one line where the indentation would be far more than the `length` bytes it was made of."""
    most, written, parts = _MOST_INDENTED * length + 4096, 0, []
    try:
        for part in _INDENTED.iterencode(found):
            written += len(part)
            if written > most:
                parts = [json.dumps(found, ensure_ascii=False)]
                break
            parts.append(part)
    except (ValueError, RecursionError) as error:
        raise Unreadable(str(error) or "it is nested too deeply") from None
    # JSON may hold halves of surrogate pairs, which no page can be encoded with.
    return "".join(parts).encode(errors="backslashreplace").decode()


def _hex(data: bytes) -> str:
    shown = data[:_MAX_HEX_BYTES].hex(" ")
    return shown if len(data) <= _MAX_HEX_BYTES else f"{shown} … {len(data) - _MAX_HEX_BYTES:,} bytes more"
