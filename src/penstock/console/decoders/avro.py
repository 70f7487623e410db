"""Avro: values written by a schema that a person has given, or that the value itself begins with (a container file).

A Schema Registry's frame (a zero byte and the schema's id) is taken off; the registry itself is not asked.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.console.decoders.bounds import MAX_DEPTH, Reader, Unreadable

CONTAINER = b"Obj\x01"
MAX_SCHEMA_CHARACTERS = 256 << 10
_MAX_INFLATED = 8 << 20
_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_NAMED = ("record", "enum", "fixed", "error")


class MalformedSchema(ValueError):
    """A text is no Avro schema; it says why."""


@dataclass(frozen=True, slots=True)
class Schema:
    """A parsed schema, with the named types in it."""

    root: object
    named: Mapping[str, Mapping[str, object]]


def parse_schema(text: str) -> Schema:
    """Read a schema, and check every type in it."""
    if len(text) > MAX_SCHEMA_CHARACTERS:
        raise MalformedSchema(f"The schema has more than {MAX_SCHEMA_CHARACTERS:,} characters.")
    try:
        root = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MalformedSchema(f"The schema is no JSON: {error}.") from None
    named: dict[str, Mapping[str, object]] = {}
    _check(root, "", named, 0)
    return Schema(root, named)


def _check(schema: object, namespace: str, named: dict[str, Mapping[str, object]], depth: int) -> None:
    if depth > MAX_DEPTH:
        raise MalformedSchema(f"The schema is nested more than {MAX_DEPTH} deep.")
    if isinstance(schema, list):
        for branch in schema:
            _check(branch, namespace, named, depth + 1)
    elif isinstance(schema, str):
        if schema not in _PRIMITIVES and _full(schema, namespace) not in named and schema not in named:
            raise MalformedSchema(f"The schema names the type {schema!r} before it is defined.")
    elif not isinstance(schema, dict) or "type" not in schema:
        raise MalformedSchema(f"{json.dumps(schema)[:80]} is no type.")
    elif schema["type"] in _NAMED:
        name = schema.get("name")
        if not isinstance(name, str):
            raise MalformedSchema(f"A {schema['type']} has no name.")
        space = schema.get("namespace") or (name.rpartition(".")[0] if "." in name else namespace)
        named[_full(name, str(space))] = schema
        named.setdefault(name, schema)
        _check_named(schema, str(space), named, depth)
    elif schema["type"] in ("array", "map"):
        _check(schema.get("items" if schema["type"] == "array" else "values"), namespace, named, depth + 1)
    else:
        _check(schema["type"], namespace, named, depth + 1)


def _check_named(schema: dict[str, object], namespace: str, named: dict[str, Mapping[str, object]], depth: int) -> None:
    if schema["type"] == "enum":
        if not isinstance(schema.get("symbols"), list):
            raise MalformedSchema(f"The enum {schema['name']!r} has no symbols.")
    elif schema["type"] == "fixed":
        if not isinstance(schema.get("size"), int):
            raise MalformedSchema(f"The fixed {schema['name']!r} has no size.")
    else:
        fields = schema.get("fields")
        if not isinstance(fields, list):
            raise MalformedSchema(f"The record {schema['name']!r} has no fields.")
        for entry in fields:
            if not isinstance(entry, dict) or not isinstance(entry.get("name"), str) or "type" not in entry:
                raise MalformedSchema(f"A field of {schema['name']!r} lacks a name or a type.")
            _check(entry["type"], namespace, named, depth + 1)


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def decode(data: bytes, schema: Schema | None) -> object:
    """A value by its schema."""
    if data[:4] == CONTAINER:
        return _container(Reader(data[4:]))
    if schema is None:
        raise Unreadable("no schema is known; give one below")
    if data[:1] == b"\x00" and len(data) >= 5:
        try:
            return _whole(data[5:], schema)
        except Unreadable:
            pass  # a bare value may begin with a zero byte too
    return _whole(data, schema)


def _whole(data: bytes, schema: Schema) -> object:
    reader = Reader(data)
    found = _read(reader, schema.root, schema.named, 0)
    if reader.left:
        raise Unreadable(f"{reader.left:,} bytes are left over; it was written by another schema")
    return found


def _read(reader: Reader, schema: object, named: Mapping[str, Mapping[str, object]], depth: int) -> object:
    reader.count_one(depth)
    if isinstance(schema, str):
        return _primitive(reader, schema) if schema in _PRIMITIVES else _complex(reader, named[schema], named, depth)
    if isinstance(schema, list):
        branch = reader.zigzag()
        if not 0 <= branch < len(schema):
            raise Unreadable(f"it takes branch {branch} of a union of {len(schema)}")
        return _read(reader, schema[branch], named, depth + 1)
    assert isinstance(schema, dict)
    return _complex(reader, schema, named, depth)


def _primitive(reader: Reader, kind: str) -> object:
    if kind == "null":
        return None
    if kind == "boolean":
        return reader.take(1) != b"\x00"
    if kind in ("int", "long"):
        return reader.zigzag()
    if kind in ("float", "double"):
        number: float = struct.unpack("<f" if kind == "float" else "<d", reader.take(4 if kind == "float" else 8))[0]
        return number if number - number == 0 else str(number)
    raw = reader.take(reader.zigzag())
    if kind == "bytes":
        return raw.hex()
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise Unreadable("a string is not UTF-8") from None


def _complex(
    reader: Reader, schema: Mapping[str, object], named: Mapping[str, Mapping[str, object]], depth: int
) -> object:
    kind = schema["type"]
    if kind in ("record", "error"):
        fields = schema["fields"]
        assert isinstance(fields, list)
        return {entry["name"]: _read(reader, entry["type"], named, depth + 1) for entry in fields}
    if kind == "enum":
        symbols, index = schema["symbols"], reader.zigzag()
        assert isinstance(symbols, list)
        if not 0 <= index < len(symbols):
            raise Unreadable(f"it has the symbol {index} of an enum of {len(symbols)}")
        return symbols[index]
    if kind == "fixed":
        size = schema["size"]
        assert isinstance(size, int)
        return reader.take(size).hex()
    if kind == "array":
        return [_read(reader, schema["items"], named, depth + 1) for _ in _blocks(reader)]
    if kind == "map":
        return {
            str(_primitive(reader, "string")): _read(reader, schema["values"], named, depth + 1)
            for _ in _blocks(reader)
        }
    return _read(reader, kind, named, depth + 1)


def _blocks(reader: Reader):  # type: ignore[no-untyped-def]
    """One step per item of an array or a map, whose items come in counted blocks."""
    while count := reader.zigzag():
        if count < 0:
            reader.zigzag()  # the block's size in bytes
            count = -count
        for _ in range(count):
            yield


def _container(reader: Reader) -> object:
    """The values of a container file: its header holds the schema, its blocks are marked."""
    meta = {}
    for _ in _blocks(reader):
        reader.count_one(0)
        name = str(_primitive(reader, "string"))
        meta[name] = reader.take(reader.zigzag())
    mark = reader.take(16)
    codec = meta.get("avro.codec", b"null").decode(errors="replace")
    try:
        schema = parse_schema(meta.get("avro.schema", b"").decode(errors="replace"))
    except MalformedSchema as error:
        raise Unreadable(str(error)) from None
    values = []
    while reader.left:
        count, block = reader.zigzag(), reader.take(reader.zigzag())
        inner = Reader(_inflated(block, codec))
        for _ in range(count):
            reader.count_one(0)
            values.append(_read(inner, schema.root, schema.named, 0))
        if reader.take(16) != mark:
            raise Unreadable("a block of the container does not end with its mark")
    return values


def _inflated(block: bytes, codec: str) -> bytes:
    if codec == "null":
        return block
    if codec != "deflate":
        raise Unreadable(f"its blocks are compressed by {codec}")
    inflater = zlib.decompressobj(-15)
    try:
        data = inflater.decompress(block, _MAX_INFLATED)
    except zlib.error as error:
        raise Unreadable(f"a block cannot be inflated: {error}") from None
    if inflater.unconsumed_tail:
        raise Unreadable(f"a block inflates to more than {_MAX_INFLATED:,} bytes")
    return data
