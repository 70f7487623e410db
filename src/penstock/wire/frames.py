"""Frames and headers: how a request or response is wrapped on a connection, and how frames are found in its bytes.

A frame is an int32 size and that many bytes. A request starts with API key, version, correlation id and client id (a
plain nullable string even where the rest is flexible); a response with the correlation id. Flexible versions add a
block of tagged fields to both headers, which nobody uses and which is skipped.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple, cast

from penstock.wire import api
from penstock.wire.codec import Buffer, MalformedMessage, encode_parts
from penstock.wire.compiler import read_uvarint
from penstock.wire.messages import Message

_REQUEST = struct.Struct(">hhih")
_REQUEST_FRAME = struct.Struct(">ihhih")
_RESPONSE_FRAME = struct.Struct(">ii")
SIZE = struct.Struct(">i")
_SCRATCH_BYTES = 64 * 1024
_TLS_RECORDS = {0x1503, 0x1603}  # how alerts and handshakes begin, read as the upper half of a size
_JOINED_BYTES = 32 * 1024  # up to here a copy costs less than writing several buffers


class ProtocolViolation(Exception):
    """The peer broke the rules of the protocol: nothing that follows in the stream can be trusted."""


class LooksLikeTls(ProtocolViolation):
    """The first bytes are those of a TLS record."""


class FrameBuffer:
    """Finds the frames in the bytes that a peer sends.

    Whoever owns the socket receives into `get_buffer()`, says with `received` how much came, and gets the frames that
    are complete by then. Small frames and the start of large ones land in a scratch buffer; the rest of a large one is
    received straight into a buffer of its own size, so that the record bytes of a fetch are copied once, by the kernel.
    A frame is yours to keep: no later one overwrites it.
    """

    __slots__ = ("_filled", "_frame", "_frame_filled", "_is_first", "_max_bytes", "_scratch")

    def __init__(self, max_bytes: int = 1 << 30) -> None:
        self._max_bytes = max_bytes
        self._scratch = memoryview(bytearray(_SCRATCH_BYTES))
        self._filled = 0
        self._frame: memoryview | None = None
        self._frame_filled = 0
        self._is_first = True

    def get_buffer(self) -> memoryview:
        """Where the next bytes belong; never empty."""
        if self._frame is not None:
            return self._frame[self._frame_filled :]
        return self._scratch[self._filled :]

    def received(self, count: int) -> Iterator[memoryview]:
        """The frames that are complete with the `count` bytes that came. Iterate to the end."""
        if self._frame is None:
            self._filled += count
            yield from self._take_frames()
            return
        self._frame_filled += count
        if self._frame_filled == len(self._frame):
            frame, self._frame = self._frame, None
            yield frame

    def _take_frames(self) -> Iterator[memoryview]:
        scratch, start, end = self._scratch, 0, self._filled
        while end - start >= 4:
            size = self._checked(SIZE.unpack_from(scratch, start)[0])
            if end - start - 4 >= size:
                # A copy, because the scratch buffer is about to be reused and what is decoded points into the frame.
                frame = memoryview(bytes(scratch[start + 4 : start + 4 + size]))
                start += 4 + size
                yield frame
                continue
            if size + 4 > _SCRATCH_BYTES - start:
                self._frame = memoryview(bytearray(size))
                self._frame_filled = end - start - 4
                self._frame[: self._frame_filled] = scratch[start + 4 : end]
                start = end
            break
        if start:
            self._filled = end - start
            scratch[: self._filled] = bytes(scratch[start:end])

    def _checked(self, size: int) -> int:
        if self._is_first and size >> 16 in _TLS_RECORDS:
            raise LooksLikeTls("answers in TLS")
        if size < 4 or size > self._max_bytes:
            raise ProtocolViolation(f"sent a frame of {size} bytes: is it a Kafka broker?")
        self._is_first = False
        return size


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
    info = api.api_of(type(message))
    encoded_id = client_id.encode() if client_id is not None else b""
    flexible = version >= info.first_flexible
    parts = cast("list[Buffer]", encode_parts(message, version))
    size = 10 + len(encoded_id) + flexible + sum(map(len, parts))
    header = _REQUEST_FRAME.pack(
        size, info.key, version, correlation_id, len(encoded_id) if client_id is not None else -1
    )
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
