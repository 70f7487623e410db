"""kio as the judge of our codecs: the same random values, once as our message and once as kio's entity.

kio names fields and types its own way (`max_wait: timedelta` for `MaxWaitMs`, `ErrorCode`, `UUID | None`), but keeps
the order of Kafka's schema. So fields are matched by their place, and values are drawn from what both can hold.
"""

from __future__ import annotations

import dataclasses
import datetime
import random
import types
import typing
import uuid
from io import BytesIO
from typing import Any

from kio.index import load_entity_module
from kio.schema.errors import ErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from penstock.wire import schema
from penstock.wire.api import API_TABLE
from penstock.wire.messages import Message, Struct, default_source, message_class

_KIO_TYPES = {
    "error_code": "int16",
    "timedelta_i32": "int32",
    "timedelta_i64": "int64",
    "datetime_i64": "int64",
}
_ERROR_CODES = [code.value for code in ErrorCode]
_LIMITS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
_TEXTS = ["", "a", "topic-1", "grüppe", "😀", "x" * 126, "y" * 127, "z" * 300]
_BLOBS = [b"", b"\x00", b"\xff" * 126, bytes(range(256)), b"r" * 20_000]


def message_names() -> list[str]:
    """Every message that both sides know: the requests and responses of all client-facing APIs, and client blobs."""
    names = [info.name + kind for info in API_TABLE.values() for kind in ("Request", "Response")]
    return [*names, "ConsumerProtocolSubscription", "ConsumerProtocolAssignment", "VotersRecord"]


def versions_of(name: str) -> range:
    versions = message_class(name).SCHEMA.versions
    return range(versions.low, versions.high + 1)


def kio_class(name: str, version: int) -> type[Any]:
    api_name = name.removesuffix("Request").removesuffix("Response")
    kind = {api_name: EntityType.data, api_name + "Request": EntityType.request}.get(name, EntityType.response)
    module = load_entity_module(schema.snake_case(api_name), version, kind)  # type: ignore[arg-type]
    return typing.cast("type[Any]", getattr(module, name))


def kio_knows(name: str, version: int) -> bool:
    return version in schema_name_map[schema.snake_case(name.removesuffix("Request").removesuffix("Response"))]


def kio_encode(entity: Any) -> bytes:
    with BytesIO() as buffer:
        entity_writer(type(entity))(buffer, entity)
        return buffer.getvalue()


def kio_decode(cls: type[Any], data: bytes) -> Any:
    value, size = entity_reader(cls)(data, 0)
    assert size == len(data), f"kio read {size} of {len(data)} bytes"
    return value


class Pairs:
    """Draws pairs (our message, kio's entity) of equal values."""

    def __init__(self, name: str, version: int, seed: int) -> None:
        self.cls = message_class(name)
        self.kio = kio_class(name, version)
        self.version = version
        self.random = random.Random(f"{name} {version} {seed}")
        self.longest_array = 3
        self.matched: dict[type[Any], list[tuple[schema.Field, dataclasses.Field[Any], Any]]] = {}

    def draw(self) -> tuple[Message, Any]:
        ours, theirs = self._struct(self.cls.SCHEMA, self.cls, self.kio)
        assert isinstance(ours, Message)
        return ours, theirs

    def draw_with_a_long_array(self) -> tuple[Message, Any]:
        """The arrays of the outermost struct get 130 elements, so that a compact length takes two bytes."""
        self.longest_array = 130
        return self.draw()

    def fields(self, struct: schema.Struct, kio: type[Any]) -> list[tuple[schema.Field, dataclasses.Field[Any], Any]]:
        """Our field, kio's field and its type, for each field that this version has."""
        if kio not in self.matched:
            hints = typing.get_type_hints(kio)
            ours = [field for field in struct.fields if self.version in field.versions or self.version in field.tagged]
            theirs = dataclasses.fields(kio)
            assert len(ours) == len(theirs), f"{struct.name}: {[f.name for f in ours]} / {[f.name for f in theirs]}"
            self.matched[kio] = [(f, t, hints[t.name]) for f, t in zip(ours, theirs, strict=True)]
            for field, their_field, hint in self.matched[kio]:
                _check_declaration(field, their_field, hint, self.version)
        return self.matched[kio]

    def _struct(self, struct: schema.Struct, cls: type[Struct], kio: type[Any]) -> tuple[Struct, Any]:
        our_values, kio_values = {}, {}
        longest, self.longest_array = self.longest_array, 3
        for field, their_field, hint in self.fields(struct, kio):
            if their_field.default is not dataclasses.MISSING and self.random.random() < 0.3:
                our_values[field.name], kio_values[their_field.name] = _default(field, self.cls), their_field.default
                continue
            ours, theirs = self._value(field, their_field, hint, longest)
            our_values[field.name], kio_values[their_field.name] = ours, theirs
        return cls(**our_values), kio(**kio_values)

    def _value(self, field: schema.Field, their_field: Any, hint: Any, longest: int) -> tuple[Any, Any]:
        hint, optional = _strip_none(hint)
        kio_type = their_field.metadata.get("kafka_type", "")
        # A null datetime is -1 in kio, a null uuid is zeros: null is a value of our type then.
        if optional and self.version in field.nullable and self.random.random() < 0.25:
            if their_field.default is dataclasses.MISSING or "tag" not in their_field.metadata:
                return None, None
            return _default(field, self.cls), their_field.default
        if field.is_array:
            element = typing.get_args(hint)[0]
            count = longest if longest > 3 else self.random.choice([0, 0, 1, 2, 3])
            pairs = [self._element(field, kio_type, element) for _ in range(count)]
            return [ours for ours, _ in pairs], tuple(theirs for _, theirs in pairs)
        return self._element(field, kio_type, hint, optional)

    def _element(self, field: schema.Field, kio_type: str, hint: Any, optional: bool = False) -> tuple[Any, Any]:
        if field.struct is not None:
            return self._struct(field.struct, getattr(self.cls, field.struct.name), hint)
        return self._primitive(field.type, kio_type, optional)

    def _primitive(self, our_type: str, kio_type: str, optional: bool) -> tuple[Any, Any]:
        choose = self.random.choice
        match kio_type:
            case "bool":
                return _alike(choose([True, False]))
            case "string":
                return _alike(choose(_TEXTS))
            case "bytes" | "records":
                return _alike(choose(_BLOBS))
            case "float64":
                return _alike(self.random.uniform(-1e9, 1e9))
            case "uuid":
                raw = choose([bytes(16), self.random.randbytes(16)])
                return raw, (None if raw == bytes(16) else uuid.UUID(bytes=raw))
            case "error_code":
                code = choose(_ERROR_CODES)
                return code, ErrorCode(code)
            case "timedelta_i32":
                value = self._integer("int32")
                return value, datetime.timedelta(milliseconds=value)
            case "timedelta_i64":
                value = self.random.randrange(10**12)
                return value, datetime.timedelta(milliseconds=value)
            case "datetime_i64":
                if optional and choose([True, False]):
                    return -1, None
                seconds = self.random.randrange(4 * 10**9)
                return seconds * 1000, datetime.datetime.fromtimestamp(seconds, datetime.UTC)
            case _:
                assert kio_type == our_type
                return _alike(self._integer(our_type))

    def _integer(self, kind: str) -> int:
        low, high = _LIMITS[kind]
        return self.random.choice([low, high, 0, 1, self.random.randint(low, high), self.random.randint(0, 100)])


def _strip_none(hint: Any) -> tuple[Any, bool]:
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        inner = [argument for argument in typing.get_args(hint) if argument is not types.NoneType]
        assert len(inner) == 1
        return inner[0], True
    return hint, False


def _default(field: schema.Field, cls: type[Message]) -> Any:
    return eval(default_source(field), {"ZERO_UUID": bytes(16), **vars(cls)})


def _alike(value: object) -> tuple[object, object]:
    """A value of which kio has the same."""
    return value, value


def _check_declaration(field: schema.Field, theirs: dataclasses.Field[Any], hint: Any, version: int) -> None:
    """Type, tag, nullability and name agree; values alone would not show a tag that nobody set."""
    label = f"{field.kafka_name} in version {version}"
    hint, optional = _strip_none(hint)
    assert field.name in (theirs.name, f"{theirs.name}_ms", f"{theirs.name}_timestamp"), label
    assert field.is_array == (typing.get_origin(hint) is tuple), label
    assert (field.tag if version in field.tagged else None) == theirs.metadata.get("tag"), label
    kio_type = str(theirs.metadata.get("kafka_type"))
    if field.struct is None:
        assert field.type == _KIO_TYPES.get(kio_type, kio_type), label
        if kio_type not in ("uuid", "datetime_i64") and "tag" not in theirs.metadata:
            assert optional == (version in field.nullable), label
    if theirs.default is not dataclasses.MISSING and (field.struct is None or field.is_array):
        ours = eval(default_source(field), {"ZERO_UUID": None})
        assert ours == (-1 if kio_type == "datetime_i64" and theirs.default is None else to_plain(theirs.default)), (
            label
        )


def to_plain(value: Any) -> Any:
    """kio's value as ours would be: milliseconds, error numbers, raw uuids, lists."""
    if isinstance(value, ErrorCode):
        return value.value
    if isinstance(value, datetime.timedelta):
        return round(value / datetime.timedelta(milliseconds=1))
    if isinstance(value, datetime.datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, tuple):
        return [to_plain(item) for item in value]
    return value
