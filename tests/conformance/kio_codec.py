"""Plain data to and from Kafka's wire format through `kio`, so that Penstock's own codecs do not judge themselves.

A request is written once as a dict and fits every version: `build` keeps the fields that the version's class has, fills
the others with Kafka's defaults, and refuses a name that no version knows. A response comes back as a dict of JSON
values: error codes as names, times in milliseconds, ids as strings, bytes as hex.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import io
import types
import typing
import uuid
from collections.abc import Mapping
from typing import Any

import kio.index
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

Json = Any
"""What json.loads gives: the transcript's own type."""

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@functools.cache
def api_key(api: str) -> int:
    return next(key for key, name in api_key_map.items() if name == api)


@functools.cache
def kio_versions(api: str) -> tuple[int, ...]:
    return tuple(sorted(schema_name_map[api]))


@functools.cache
def request_class(api: str, version: int) -> type:
    return kio.index.load_request_schema(api_key(api), version)


@functools.cache
def response_class(api: str, version: int) -> type:
    return kio.index.load_response_schema(api_key(api), version)


@functools.cache
def known_fields(api: str) -> frozenset[str]:
    """Every field name that some version of the request has, at any depth."""
    found: set[str] = set()
    for version in kio_versions(api):
        queue = [request_class(api, version)]
        while queue:
            for field in dataclasses.fields(queue.pop()):
                found.add(field.name)
                inner = _element(field.type)
                queue += [typing.cast(type, inner)] if dataclasses.is_dataclass(inner) else []
    return frozenset(found)


def _element(kind: Any) -> Any:
    """The struct inside `X`, `X | None`, `tuple[X, ...]` and `tuple[X, ...] | None`."""
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
        kind = next(part for part in typing.get_args(kind) if part is not type(None))
    return typing.get_args(kind)[0] if typing.get_origin(kind) is tuple else kind


def _is_array(kind: Any) -> bool:
    parts = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    return any(typing.get_origin(part) is tuple for part in parts)


def _nullable(kind: Any) -> bool:
    return isinstance(kind, types.UnionType) and type(None) in typing.get_args(kind)


def build(api: str, version: int, body: Mapping[str, Json]) -> object:
    _refuse_unknown(api, body)
    return _build(request_class(api, version), body)


def _refuse_unknown(api: str, body: Json) -> None:
    if isinstance(body, Mapping):
        unknown = set(body) - known_fields(api)
        if unknown:
            raise KeyError(f"no version of {api} has {sorted(unknown)}")
        for value in body.values():
            _refuse_unknown(api, value)
    elif isinstance(body, list | tuple):
        for value in body:
            _refuse_unknown(api, value)


def _build(cls: type, body: Mapping[str, Json]) -> object:
    values = {}
    for field in dataclasses.fields(cls):
        if field.name in body:
            values[field.name] = _value(field, body[field.name])
        elif field.default is dataclasses.MISSING:
            values[field.name] = _zero(field)
    return cls(**values)


def _value(field: dataclasses.Field[Any], value: Json) -> object:
    inner = _element(field.type)
    if value is None:
        return None
    if _is_array(field.type):
        return tuple(
            _build(typing.cast(type, inner), v) if dataclasses.is_dataclass(inner) else _scalar(field, v) for v in value
        )
    if dataclasses.is_dataclass(inner):
        return _build(typing.cast(type, inner), value)
    return _scalar(field, value)


def _scalar(field: dataclasses.Field[Any], value: Json) -> object:
    match field.metadata.get("kafka_type"):
        case "timedelta_i32" | "timedelta_i64":
            return datetime.timedelta(milliseconds=value)
        case "datetime_i64":
            return None if value == -1 else EPOCH + datetime.timedelta(milliseconds=value)
        case "uuid":
            parsed = value if isinstance(value, uuid.UUID) else uuid.UUID(value)
            return None if parsed.int == 0 and _nullable(field.type) else parsed
        case "error_code":
            return ErrorCode(value)
        case "bytes" | "records":
            return bytes.fromhex(value) if isinstance(value, str) else bytes(value)
    return value


def _zero(field: dataclasses.Field[Any]) -> object:
    if _is_array(field.type):
        return ()
    inner = _element(field.type)
    if dataclasses.is_dataclass(inner):
        return None if _nullable(field.type) else _build(typing.cast(type, inner), {})
    zeros: dict[str, Json] = {
        "string": "",
        "bytes": b"",
        "records": b"",
        "bool": False,
        "float64": 0.0,
        "uuid": uuid.UUID(int=0),
    }
    return _scalar(field, zeros.get(field.metadata["kafka_type"], 0))


def encode_request(api: str, version: int, body: Mapping[str, Json], correlation_id: int, client_id: str) -> bytes:
    """Header and body, without the length in front."""
    message: Any = build(api, version, body)
    header_class = message.__header_schema__
    header = header_class(
        request_api_key=api_key(api), request_api_version=version, correlation_id=correlation_id, client_id=client_id
    )
    buffer = io.BytesIO()
    entity_writer(header_class)(buffer, header)
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


def decode_response(api: str, version: int, payload: bytes) -> tuple[int, dict[str, Json]]:
    """The correlation id and the body as plain data; trailing bytes are an error."""
    cls: Any = response_class(api, version)
    header_class = cls.__header_schema__
    header, used = entity_reader(header_class)(payload, 0)
    body, size = entity_reader(cls)(payload, used)
    if used + size != len(payload):
        raise ValueError(f"{len(payload) - used - size} bytes left over after {api} v{version}")
    return header.correlation_id, plain(body)


def plain(value: object) -> Json:
    if dataclasses.is_dataclass(value):
        return {field.name: _plain_field(field, getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [plain(part) for part in value]
    if isinstance(value, enum.Enum):
        return value.name.upper()
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(milliseconds=1)
    if isinstance(value, datetime.datetime):
        return (value - EPOCH) // datetime.timedelta(milliseconds=1)
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    return value


def _plain_field(field: dataclasses.Field[Any], value: object) -> Json:
    kind = field.metadata.get("kafka_type")
    if value is None and kind == "uuid":
        return str(uuid.UUID(int=0))
    if value is None and kind == "datetime_i64":
        return -1
    return plain(value)


def request_types() -> dict[str, tuple[int, ...]]:
    """Each API that kio knows, with its versions."""
    return {
        name: kio_versions(name)
        for name in api_key_map.values()
        if EntityType.request in next(iter(schema_name_map[name].values()))
    }
