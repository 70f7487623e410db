"""Frames and headers: how a request or response is wrapped on a connection.

A frame is an int32 size and that many bytes. A request starts with API key, version, correlation id and client id (a
plain nullable string even where the rest is flexible); a response with the correlation id. Flexible versions add a
block of tagged fields to both headers, which nobody uses and which is skipped.
"""

from __future__ import annotations

import struct
from typing import NamedTuple, cast

from penstock.wire import api
from penstock.wire.codec import Buffer, MalformedMessage, encode_parts
from penstock.wire.compiler import read_uvarint
from penstock.wire.messages import Message

_REQUEST = struct.Struct(">hhih")
_REQUEST_FRAME = struct.Struct(">ihhih")
_RESPONSE_FRAME = struct.Struct(">ii")
SIZE = struct.Struct(">i")
_JOINED_BYTES = 32 * 1024  # up to here a copy costs less than writing several buffers


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def parse_request_header(frame: memoryview) -> tuple[RequestHeader, int]:
    """The header of a request and where its body starts. The API must be one of `API_TABLE`."""
    try:
        key, version, correlation_id, length = _REQUEST.unpack_from(frame)
        position = 10
        client_id = None
        if length >= 0:
            if position + length > len(frame):
                raise MalformedMessage("the client id is longer than the request")
            client_id = str(frame[position : position + length], "utf-8")
            position += length
        info = api.API_TABLE.get(key)
        if info is not None and version >= info.first_flexible:
            position = skip_tags(frame, position)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedMessage(f"not a request header: {error}") from error
    return RequestHeader(key, version, correlation_id, client_id), position


def skip_tags(data: memoryview, position: int) -> int:
    count, position = _uvarint(data, position)
    for _ in range(count):
        _, position = _uvarint(data, position)
        size, position = _uvarint(data, position)
        position += size
        if position > len(data):
            raise MalformedMessage("a tagged field of the header is longer than the message")
    return position


def _uvarint(data: memoryview, position: int) -> tuple[int, int]:
    first = data[position]
    return (first, position + 1) if first < 0x80 else read_uvarint(data, position + 1, first)


def request_frame(message: Message, version: int, correlation_id: int, client_id: str | None) -> list[Buffer]:
    """A whole request, ready to be written: one byte string, or several where joining would copy much.

    None of them is empty: from Python 3.12 on, asyncio's `writelines` keeps an empty buffer for ever, and a transport
    that has something left to write does not notice that its peer is gone.
    """
    key = _KEYS[type(message).__name__.removesuffix("Request")]
    encoded_id = client_id.encode() if client_id is not None else b""
    flexible = version >= api.API_TABLE[key].first_flexible
    parts = cast("list[Buffer]", encode_parts(message, version))
    size = 10 + len(encoded_id) + flexible + sum(map(len, parts))
    header = _REQUEST_FRAME.pack(size, key, version, correlation_id, len(encoded_id) if client_id is not None else -1)
    frame = [header, encoded_id, b"\0" if flexible else b"", *parts]
    return [b"".join(frame)] if size <= _JOINED_BYTES else [part for part in frame if len(part)]


def response_frame(parts: list[object], api_key: int, api_version: int, correlation_id: int) -> list[object]:
    """Put size and header in front of the parts of an encoded response."""
    size = 4
    for part in parts:
        size += len(part)  # type: ignore[arg-type]
    if api.response_header_version(api_key, api_version) == 1:
        return [_RESPONSE_FRAME.pack(size + 1, correlation_id) + b"\0", *parts]
    return [_RESPONSE_FRAME.pack(size, correlation_id), *parts]


_KEYS: dict[str, int] = {info.name: key for key, info in api.API_TABLE.items()}
