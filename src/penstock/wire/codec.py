"""Messages to bytes and back, in any version. Codecs are compiled on first use (`penstock.wire.compiler`)."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TypeVar, cast

from penstock.wire.compiler import (
    Decoder,
    Encoder,
    MalformedMessage,
    ResponseEncoder,
    UnsupportedField,
    compile_decoder,
    compile_encoder,
    compile_response_encoder,
)
from penstock.wire.messages import Message

__all__ = [
    "MalformedMessage",
    "UnsupportedField",
    "decode",
    "decode_key",
    "decode_prefix",
    "decode_versioned",
    "decoder",
    "encode",
    "encode_key",
    "encode_parts",
    "encode_versioned",
    "encoder",
    "response_encoder",
]

M = TypeVar("M", bound=Message)
Buffer = bytes | bytearray | memoryview

_INT16 = struct.Struct(">h")


def decoder(cls: type[Message], version: int) -> Decoder:
    """The compiled decoder; hot paths keep it."""
    found = cls.DECODERS.get(version)
    if found is None:
        _check_version(cls, version)
        found = cls.DECODERS[version] = compile_decoder(cls, version)
    return cast(Decoder, found)


def encoder(cls: type[Message], version: int) -> Encoder:
    """The compiled encoder; hot paths keep it."""
    found = cls.ENCODERS.get(version)
    if found is None:
        _check_version(cls, version)
        found = cls.ENCODERS[version] = compile_encoder(cls, version)
    return cast(Encoder, found)


def response_encoder(cls: type[Message], version: int) -> ResponseEncoder:
    """As `encoder`, for a broker's responses: an older client is told what its version can carry, and no more.

    It returns the error codes of the response, or None if there are none.
    """
    found = cls.RESPONSE_ENCODERS.get(version)
    if found is None:
        _check_version(cls, version)
        found = cls.RESPONSE_ENCODERS[version] = compile_response_encoder(cls, version)
    return cast(ResponseEncoder, found)


def _check_version(cls: type[Message], version: int) -> None:
    versions = cls.SCHEMA.versions
    if version not in versions:
        raise UnsupportedField(f"{cls.__name__} has versions {versions.low} to {versions.high}, not {version}")


def decode_prefix(cls: type[M], data: Buffer, version: int, position: int = 0) -> tuple[M, int]:
    """Decode a message that starts at `position`; also returns where it ends."""
    view = data if isinstance(data, memoryview) else memoryview(data)
    try:
        message, end = decoder(cls, version)(view, position)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedMessage(f"not a {cls.__name__} of version {version}: {error}") from error
    if end > len(view):
        raise MalformedMessage(f"{cls.__name__} of version {version} ends too early")
    return cast(M, message), end


def decode(cls: type[M], data: Buffer, version: int) -> M:
    """Decode a message that fills `data`."""
    message, end = decode_prefix(cls, data, version)
    if end != len(data):
        raise MalformedMessage(f"{len(data) - end} bytes follow the {cls.__name__} of version {version}")
    return message


def encode_parts(message: Message, version: int) -> list[object]:
    """Encode without joining: byte strings, and the values of `records` fields as they are (see the compiler)."""
    out: list[object] = []
    _encode_into(message, version, out)
    return out


def encode(message: Message, version: int) -> bytes:
    out: list[object] = []
    _encode_into(message, version, out)
    return b"".join(cast("list[bytes]", out))


def _encode_into(message: Message, version: int, out: list[object]) -> None:
    cls = type(message)
    try:
        encoder(cls, version)(message, out)
    except struct.error as error:
        raise UnsupportedField(f"{cls.__name__} version {version} cannot hold a value: {error}") from error


def encode_versioned(message: Message, version: int) -> bytes:
    """The value of a record in an internal topic (or a blob of the consumer protocol): int16 version, then the body."""
    return _INT16.pack(version) + encode(message, version)


def decode_versioned(cls: type[M], data: Buffer) -> M:
    """The inverse of `encode_versioned`; bytes that a newer writer added behind the body are allowed."""
    if len(data) < 2:
        raise MalformedMessage(f"{cls.__name__} is shorter than its version")
    version: int = _INT16.unpack_from(data)[0]
    versions = cls.SCHEMA.versions
    if version < versions.low:
        raise MalformedMessage(f"{cls.__name__} version {version} is not known")
    return decode_prefix(cls, data, min(version, versions.high), 2)[0]


def encode_key(message: Message) -> bytes:
    """The key of a record in an internal topic: int16 record type, then the body."""
    return _INT16.pack(type(message).RECORD_TYPE) + encode(message, 0)


def decode_key(data: Buffer, types: Mapping[int, type[Message]]) -> Message:
    """Decode a key by its record type; raises MalformedMessage for types that `types` does not list."""
    if len(data) < 2:
        raise MalformedMessage("the key is shorter than its record type")
    record_type: int = _INT16.unpack_from(data)[0]
    cls = types.get(record_type)
    if cls is None:
        raise MalformedMessage(f"record type {record_type} is not known")
    return decode_prefix(cls, data, 0, 2)[0]
