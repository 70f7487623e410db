"""Avro: values written by a schema that a person has given, or that the value itself begins with (a container file).

A schema is compiled once into functions that read, in which every name of a type is resolved. So a schema is refused
when it is given, and no value can name a type that is not there. Logical types are shown as what they mean: times in
ISO 8601, decimals as numbers.

A Schema Registry's frame (a zero byte and the schema's id) is taken off; the registry itself is not asked.
"""

from __future__ import annotations

import json
import struct
import uuid
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TypeAlias

from penstock.console.decoders.bounds import MAX_DEPTH, Reader, Unreadable

CONTAINER = b"Obj\x01"
MAX_SCHEMA_CHARACTERS = 256 << 10
_EPOCH = datetime(1970, 1, 1)
_EXACT_DIGITS = 15  # of a decimal, as a number in JSON

Read: TypeAlias = Callable[[Reader, int], object]
"""Reads one value, at a depth."""


class MalformedSchema(ValueError):
    """A text is no Avro schema; it says why."""


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema, ready to read values."""

    read: Read
    name: str = ""
    """The full name of its type, if that has one."""


def parse_schema(text: str) -> Schema:
    """Read a schema, and check every type in it."""
    if len(text) > MAX_SCHEMA_CHARACTERS:
        raise MalformedSchema(f"The schema has more than {MAX_SCHEMA_CHARACTERS:,} characters.")
    compiler = _Compiler()
    try:
        root = json.loads(text)
        return Schema(compiler.type_of(root, "", 0), compiler.name_of(root))
    except json.JSONDecodeError as error:
        raise MalformedSchema(f"The schema is not JSON: {error}.") from None
    except RecursionError:
        raise MalformedSchema("The schema is nested too deeply.") from None


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
    found = schema.read(reader, 0)
    if reader.left:
        raise Unreadable(f"{reader.left:,} bytes are left over; it was written by another schema")
    return found


# Schemas


class _Compiler:
    """Turns the types of one schema into functions. A type's name is known before its fields are, which may name it."""

    def __init__(self) -> None:
        self._named: dict[str, list[Read]] = {}

    def type_of(self, schema: object, space: str, depth: int) -> Read:
        """A type within a namespace."""
        if depth > MAX_DEPTH:
            raise MalformedSchema(f"The schema is nested more than {MAX_DEPTH} deep.")
        if isinstance(schema, str):
            return _PRIMITIVES[schema] if schema in _PRIMITIVES else self._reference(schema, space)
        if isinstance(schema, list):
            return _union([self.type_of(branch, space, depth + 1) for branch in schema])
        if not isinstance(schema, dict) or "type" not in schema:
            raise MalformedSchema(f"{json.dumps(schema)[:80]} is not a type.")
        kind = schema["type"]
        if kind in ("record", "error"):
            return self._record(schema, space, depth)
        if kind == "enum":
            return self._enum(schema, space)
        if kind == "fixed":
            return self._fixed(schema, space)
        if kind == "array":
            return _array(self.type_of(schema.get("items"), space, depth + 1))
        if kind == "map":
            return _map(self.type_of(schema.get("values"), space, depth + 1))
        return _logical(schema, self.type_of(kind, space, depth + 1))

    def name_of(self, root: object) -> str:
        if not isinstance(root, dict) or not isinstance(root.get("name"), str):
            return ""
        return _full_name(root, "")[0]

    def _reference(self, name: str, space: str) -> Read:
        for known in (name if "." in name or not space else f"{space}.{name}", name):
            if known in self._named:
                found = self._named[known]
                return lambda reader, depth: found[0](reader, depth)
        raise MalformedSchema(f"The schema uses the type {name!r} before it defines it.")

    def _define(self, schema: dict[str, object], space: str) -> tuple[list[Read], str]:
        """A new name: where its function is to be put, and the namespace within it."""
        name, inner = _full_name(schema, space)
        if name in self._named:
            raise MalformedSchema(f"The schema defines the type {name!r} twice.")
        place: list[Read] = []
        self._named[name] = place
        return place, inner

    def _record(self, schema: dict[str, object], space: str, depth: int) -> Read:
        place, inner = self._define(schema, space)
        entries = schema.get("fields")
        if not isinstance(entries, list):
            raise MalformedSchema(f"The record {schema['name']!r} has no fields.")
        fields: list[tuple[str, Read]] = []
        for entry in entries:
            if not isinstance(entry, dict) or not isinstance(entry.get("name"), str) or "type" not in entry:
                raise MalformedSchema(f"A field of {schema['name']!r} lacks a name or a type.")
            fields.append((entry["name"], self.type_of(entry["type"], inner, depth + 1)))

        def read(reader: Reader, depth: int) -> object:
            reader.count_one(depth)
            return {name: of_field(reader, depth + 1) for name, of_field in fields}

        place.append(read)
        return read

    def _enum(self, schema: dict[str, object], space: str) -> Read:
        place, _ = self._define(schema, space)
        symbols = schema.get("symbols")
        if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
            raise MalformedSchema(f"The enum {schema['name']!r} has no symbols.")

        def read(reader: Reader, depth: int) -> object:
            reader.count_one(depth)
            index = reader.zigzag()
            if not 0 <= index < len(symbols):
                raise Unreadable(f"it has the symbol {index} of an enum of {len(symbols)}")
            return symbols[index]

        place.append(read)
        return read

    def _fixed(self, schema: dict[str, object], space: str) -> Read:
        place, _ = self._define(schema, space)
        size = schema.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise MalformedSchema(f"The fixed {schema['name']!r} has no size.")

        def raw(reader: Reader, depth: int) -> object:
            reader.count_one(depth)
            return reader.take(size)

        place.append(_logical(schema, raw, _hex(raw)))
        return place[0]


def _full_name(schema: dict[str, object], space: str) -> tuple[str, str]:
    """The full name of a type that is defined within a namespace, and the namespace of what is within it."""
    name, own = schema.get("name"), schema.get("namespace", space)
    if not isinstance(name, str) or not isinstance(own, str):
        raise MalformedSchema(f"A type {schema['type']!r} has no name.")
    if "." in name:
        own = name.rpartition(".")[0]
        return name, own
    return f"{own}.{name}" if own else name, own


# Reading


def _integer(reader: Reader, depth: int) -> object:
    reader.count_one(depth)
    return reader.zigzag()


def _float(layout: str, size: int) -> Read:
    def read(reader: Reader, depth: int) -> object:
        reader.count_one(depth)
        number: float = struct.unpack(layout, reader.take(size))[0]
        return number if number - number == 0 else str(number)

    return read


def _null(reader: Reader, depth: int) -> object:
    reader.count_one(depth)
    return None


def _boolean(reader: Reader, depth: int) -> object:
    reader.count_one(depth)
    return reader.take(1) != b"\x00"


def _raw(reader: Reader, depth: int) -> object:
    reader.count_one(depth)
    return reader.take(reader.zigzag())


def _string(reader: Reader, depth: int) -> object:
    reader.count_one(depth)
    try:
        return reader.take(reader.zigzag()).decode()
    except UnicodeDecodeError:
        raise Unreadable("a string is not UTF-8") from None


def _hex(raw: Read) -> Read:
    def read(reader: Reader, depth: int) -> object:
        found = raw(reader, depth)
        assert isinstance(found, bytes)
        return found.hex()

    return read


_BYTES = _hex(_raw)
_PRIMITIVES: dict[str, Read] = {
    "null": _null,
    "boolean": _boolean,
    "int": _integer,
    "long": _integer,
    "float": _float("<f", 4),
    "double": _float("<d", 8),
    "bytes": _BYTES,
    "string": _string,
}


def _union(branches: list[Read]) -> Read:
    def read(reader: Reader, depth: int) -> object:
        branch = reader.zigzag()
        if not 0 <= branch < len(branches):
            raise Unreadable(f"it takes branch {branch} of a union of {len(branches)}")
        return branches[branch](reader, depth + 1)

    return read


def _array(item: Read) -> Read:
    def read(reader: Reader, depth: int) -> object:
        reader.count_one(depth)
        return [item(reader, depth + 1) for _ in _blocks(reader)]

    return read


def _map(value: Read) -> Read:
    def read(reader: Reader, depth: int) -> object:
        reader.count_one(depth)
        return {str(_string(reader, depth + 1)): value(reader, depth + 1) for _ in _blocks(reader)}

    return read


def _blocks(reader: Reader) -> Iterator[None]:
    """One step per item of an array or a map, whose items come in counted blocks."""
    while count := reader.zigzag():
        if count < 0:
            reader.zigzag()  # the block's size in bytes
            count = -count
        for _ in range(count):
            yield


# Logical types


def _logical(schema: dict[str, object], plain: Read, otherwise: Read | None = None) -> Read:
    """A type read as what its logicalType means; `otherwise`, or as it is, where that is none that is known."""
    kind, base = schema.get("logicalType"), schema["type"]
    otherwise = otherwise or plain
    if kind == "decimal" and base in ("bytes", "fixed"):
        scale = schema.get("scale", 0)
        if isinstance(scale, int) and 0 <= scale <= 1_000:
            return _meaning(_raw if base == "bytes" else plain, lambda raw: _decimal(raw, scale))
    elif kind == "uuid" and base == "fixed" and schema.get("size") == 16:
        return _meaning(plain, lambda raw: str(uuid.UUID(bytes=raw)) if isinstance(raw, bytes) else raw)
    elif isinstance(kind, str) and isinstance(base, str) and (kind, base) in _TIMES:
        return _meaning(plain, _TIMES[kind, base])
    return otherwise


def _meaning(plain: Read, meaning: Callable[[object], object]) -> Read:
    return lambda reader, depth: meaning(plain(reader, depth))


def _decimal(raw: object, scale: int) -> object:
    assert isinstance(raw, bytes)
    if len(raw) > 200:
        return raw.hex()
    unscaled = int.from_bytes(raw, "big", signed=True)
    if scale == 0:
        return unscaled if abs(unscaled) < 2**53 else str(unscaled)
    if len(str(abs(unscaled))) <= _EXACT_DIGITS and scale <= _EXACT_DIGITS:
        return float(Decimal(unscaled).scaleb(-scale))
    digits = str(abs(unscaled)).zfill(scale + 1)
    return f"{'-' if unscaled < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"


def _instant(unit: timedelta, precision: str, zone: str) -> Callable[[object], object]:
    def meaning(number: object) -> object:
        assert isinstance(number, int)
        try:
            return (_EPOCH + number * unit).isoformat(timespec=precision) + zone
        except OverflowError:
            return number

    return meaning


def _day(number: object) -> object:
    assert isinstance(number, int)
    try:
        return (date(1970, 1, 1) + timedelta(days=number)).isoformat()
    except OverflowError:
        return number


def _time_of_day(unit: timedelta, precision: str) -> Callable[[object], object]:
    def meaning(number: object) -> object:
        assert isinstance(number, int)
        inside = 0 <= number < timedelta(days=1) // unit
        return (datetime.min + number * unit).time().isoformat(timespec=precision) if inside else number

    return meaning


_MILLI, _MICRO = timedelta(milliseconds=1), timedelta(microseconds=1)
_TIMES: dict[tuple[str, str], Callable[[object], object]] = {
    ("date", "int"): _day,
    ("time-millis", "int"): _time_of_day(_MILLI, "milliseconds"),
    ("time-micros", "long"): _time_of_day(_MICRO, "microseconds"),
    ("timestamp-millis", "long"): _instant(_MILLI, "milliseconds", "Z"),
    ("timestamp-micros", "long"): _instant(_MICRO, "microseconds", "Z"),
    ("local-timestamp-millis", "long"): _instant(_MILLI, "milliseconds", ""),
    ("local-timestamp-micros", "long"): _instant(_MICRO, "microseconds", ""),
}


# Container files


def _container(reader: Reader) -> object:
    """The values of a container file: its header holds the schema, its blocks are marked."""
    meta: dict[str, bytes] = {}
    for _ in _blocks(reader):
        name = str(_string(reader, 0))
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
        inner = Reader(_inflated(block, codec, reader), reader.budget)
        for _ in range(count):
            reader.count_one(0)
            values.append(schema.read(inner, 0))
        if reader.take(16) != mark:
            raise Unreadable("a block of the container does not end with its mark")
    return values


def _inflated(block: bytes, codec: str, reader: Reader) -> bytes:
    if codec == "null":
        return block
    if codec != "deflate":
        raise Unreadable(f"its blocks are compressed by {codec}")
    inflater = zlib.decompressobj(-15)
    try:
        data = inflater.decompress(block, max(reader.budget.inflated, 1))
    except zlib.error as error:
        raise Unreadable(f"a block cannot be inflated: {error}") from None
    reader.budget.inflated -= len(data)
    if inflater.unconsumed_tail or reader.budget.inflated < 0:
        raise Unreadable("its blocks inflate to more than 8 MiB")
    return data
