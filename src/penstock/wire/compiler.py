"""Writes the encoder and the decoder of one message in one version as Python source, and compiles it.

The source is flat: nested structs become nested loops in one function, and neighboring fields of fixed size are read
or written by one `struct` call. That is what makes a request with one partition cost microseconds.

A decoder is `decode(buffer, position) -> (message, position)` over a memoryview of bytes. It checks every length
against the end of the buffer before it uses it, so that a hostile length can neither read past the end nor allocate.
An encoder is `encode(message, out)`; it appends byte strings to the list `out`, and puts the value of a `records` field
there as it is (bytes, a memoryview, or a range of a file that is sent by the kernel). The encoder of a broker's
responses also returns the error codes that it has written, or None: it has them at hand, and a search would cost more.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from penstock.wire import schema
from penstock.wire.messages import Message, Struct, default_source

Decoder: TypeAlias = Callable[[memoryview, int], tuple[Message, int]]
Encoder: TypeAlias = Callable[[Message, list[object]], None]
ResponseEncoder: TypeAlias = Callable[[Message, list[object]], list[int] | None]

_FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}


ERROR_CODES = frozenset({"error_code", "partition_error_code"})
"""Fields of responses that hold an error code, 0 for none."""

# A hundred megabytes of empty names would keep the event loop busy for a minute and fill the memory. No message that
# makes sense comes near this.
MAX_ELEMENTS = 1_000_000


class MalformedMessage(ValueError):
    """The bytes are not a message of this kind and version."""


class UnsupportedField(ValueError):
    """A field has a value that this version of the message cannot carry."""


def read_uvarint(buffer: memoryview, position: int, first: int) -> tuple[int, int]:
    """Continue an unsigned varint whose first byte (with the high bit set) was read already."""
    value, shift = first & 0x7F, 7
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 28:
            raise MalformedMessage("a varint is longer than five bytes")


def uvarint(value: int) -> bytes:
    if value < 0x80:
        return _ONE_BYTE[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_ONE_BYTE = [bytes([value]) for value in range(0x80)]


def bad_length(name: str, length: int) -> MalformedMessage:
    return MalformedMessage(f"field {name} claims a length of {length}, which the message does not hold")


def too_many() -> MalformedMessage:
    return MalformedMessage(f"the arrays of the message have more than {MAX_ELEMENTS} elements")


def unsupported(name: str, version: int) -> UnsupportedField:
    return UnsupportedField(f"{name} cannot be sent in version {version}")


class _Writer:
    """Collects source lines; names of variables and constants are made unique."""

    def __init__(self, message: schema.Message, cls: type[Message], version: int) -> None:
        self.message = message
        self.cls = cls
        self.version = version
        self.flexible = version in message.flexible
        self.lines: list[str] = []
        self.constants: dict[str, object] = {
            "MalformedMessage": MalformedMessage,
            "bad_length": bad_length,
            "too_many": too_many,
            "read_uvarint": read_uvarint,
            "uvarint": uvarint,
            "unsupported": unsupported,
            "new": object.__new__,
            "ZERO_UUID": bytes(16),
            "ONE": _ONE_BYTE,
        }
        self.counter = 0

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def name(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def constant(self, prefix: str, value: object) -> str:
        name = self.name(prefix)
        self.constants[name] = value
        return name

    def class_of(self, item: schema.Struct) -> str:
        cls = self.cls if item is self.message else getattr(self.cls, item.name)
        return self.constant(f"C_{item.name}_", cls)

    def struct_call(self, method: str, formats: str) -> str:
        compiled = struct.Struct(">" + formats)
        return self.constant(f"{method}_", getattr(compiled, method))

    def fields(self, item: schema.Struct) -> tuple[list[schema.Field], list[schema.Field], list[schema.Field]]:
        """The plain, the tagged and the absent fields of a struct in this version."""
        plain, tagged, absent = [], [], []
        for field in item.fields:
            if self.version in field.tagged:
                tagged.append(field)
            elif self.version in field.versions:
                plain.append(field)
            else:
                absent.append(field)
        return plain, sorted(tagged, key=lambda f: f.tag or 0), absent

    def compile(self, function: str) -> object:
        namespace = dict(self.constants)
        filename = f"<{self.message.name} v{self.version} {function}>"
        exec(compile("\n".join(self.lines), filename, "exec"), namespace)
        return namespace[function]


def _is_fixed(field: schema.Field) -> bool:
    return not field.is_array and field.type in _FORMATS


def _element(field: schema.Field) -> schema.Field:
    """One element of an array of plain values, as a field that is always there and never null."""
    return replace(field, is_array=False, nullable=schema.NEVER, tag=None, tagged=schema.NEVER)


class _DecoderWriter(_Writer):
    def write(self) -> Decoder:
        self.line(0, "def decode(buf, pos):")
        self.line(1, f"end = len(buf); left = {MAX_ELEMENTS}")
        target = self.read_struct(1, self.message)
        self.line(1, f"return {target}, pos")
        return self.compile("decode")  # type: ignore[return-value]

    def read_struct(self, depth: int, item: schema.Struct) -> str:
        target = self.name("o")
        self.line(depth, f"{target} = new({self.class_of(item)})")
        plain, tagged, absent = self.fields(item)
        index = 0
        while index < len(plain):
            run = index
            while run < len(plain) and _is_fixed(plain[run]):
                run += 1
            if run > index:
                self.read_fixed(depth, plain[index:run], target)
                index = run
            else:
                self.read_field(depth, plain[index], f"{target}.{plain[index].name}")
                index += 1
        for field in absent + tagged:
            self.line(depth, f"{target}.{field.name} = {self.default(field)}")
        if self.flexible:
            self.read_tags(depth, tagged, target)
        return target

    def default(self, field: schema.Field) -> str:
        source = default_source(field)
        if field.struct is not None and source.endswith("()"):
            return f"{self.class_of(field.struct)}()"
        return source

    def read_fixed(self, depth: int, run: list[schema.Field], target: str) -> None:
        formats = "".join(_FORMATS[field.type] for field in run)
        unpack = self.struct_call("unpack_from", formats)
        left = ", ".join(f"{target}.{field.name}" for field in run)
        self.line(depth, f"{left}{',' if len(run) == 1 else ''} = {unpack}(buf, pos)")
        self.line(depth, f"pos += {struct.calcsize('>' + formats)}")

    def read_uvarint(self, depth: int, variable: str) -> None:
        self.line(depth, f"{variable} = buf[pos]; pos += 1")
        self.line(depth, f"if {variable} > 127: {variable}, pos = read_uvarint(buf, pos, {variable})")

    def read_length(self, depth: int, field: schema.Field, wide: bool) -> str:
        """The length prefix of a string (`wide` false), bytes or array; -1 is null."""
        length = self.name("n")
        if self.flexible:
            self.read_uvarint(depth, length)
            self.line(depth, f"{length} -= 1")
        else:
            unpack = self.struct_call("unpack_from", "i" if wide else "h")
            self.line(depth, f"{length}, = {unpack}(buf, pos); pos += {4 if wide else 2}")
        return length

    def read_null(self, depth: int, field: schema.Field, length: str, place: str) -> int:
        """Write the check for null; returns the depth at which the non-null case goes on."""
        label = repr(f"{self.message.name}.{field.name}")
        if self.version in field.nullable:
            # Kafka reads any negative length as null.
            self.line(depth, f"if {length} < 0: {place} = None")
            self.line(depth, "else:")
            depth += 1
        # A compact length could hold more, but Kafka's strings end at 32767 bytes in every version.
        too_long = f" or {length} > 32767" if field.type == "string" and not field.is_array and self.flexible else ""
        self.line(depth, f"if {length} < 0 or {length} > end - pos{too_long}: raise bad_length({label}, {length})")
        return depth

    def read_field(self, depth: int, field: schema.Field, place: str) -> None:
        if field.is_array:
            self.read_array(depth, field, place)
        elif field.struct is not None:
            self.read_nested(depth, field, place)
        elif field.type in _FORMATS:
            unpack = self.struct_call("unpack_from", _FORMATS[field.type])
            self.line(depth, f"{place}, = {unpack}(buf, pos); pos += {struct.calcsize('>' + _FORMATS[field.type])}")
        else:
            length = self.read_length(depth, field, wide=field.type != "string")
            depth = self.read_null(depth, field, length, place)
            cut = f"buf[pos:pos + {length}]"
            value = {"string": f"str({cut}, 'utf-8')", "bytes": f"bytes({cut})", "records": cut}[field.type]
            self.line(depth, f"{place} = {value}; pos += {length}")

    def read_nested(self, depth: int, field: schema.Field, place: str) -> None:
        assert field.struct is not None
        if self.version in field.nullable:
            # The byte before a struct is -1 for null; before a tagged one it is a varint, and 0 for null.
            null = "buf[pos] == 0" if self.version in field.tagged else "buf[pos] > 127"
            self.line(depth, f"if {null}: {place} = None; pos += 1")
            self.line(depth, "else:")
            depth += 1
            self.line(depth, "pos += 1")
        target = self.read_struct(depth, field.struct)
        self.line(depth, f"{place} = {target}")

    def read_array(self, depth: int, field: schema.Field, place: str) -> None:
        length = self.read_length(depth, field, wide=True)
        depth = self.read_null(depth, field, length, place)
        self.line(depth, f"left -= {length}")
        self.line(depth, "if left < 0: raise too_many()")
        if field.struct is None and field.type in schema.INTEGER_SIZES:
            size = schema.INTEGER_SIZES[field.type]
            unpack = self.constant("unpack_", struct.unpack_from)
            label = repr(f"{self.message.name}.{field.name}")
            self.line(depth, f"if {length} * {size} > end - pos: raise bad_length({label}, {length})")
            self.line(depth, f"{place} = list({unpack}('>%d{_FORMATS[field.type]}' % {length}, buf, pos))")
            self.line(depth, f"pos += {length} * {size}")
            return
        items = self.name("a")
        self.line(depth, f"{items} = []; {place} = {items}")
        self.line(depth, f"for _ in range({length}):")
        if field.struct is not None:
            value = self.read_struct(depth + 1, field.struct)
        else:
            value = self.name("v")
            element = _element(field)
            self.read_field(depth + 1, element, value)
        self.line(depth + 1, f"{items}.append({value})")

    def read_tags(self, depth: int, tagged: list[schema.Field], target: str) -> None:
        count, tag, size, stop = self.name("t"), self.name("k"), self.name("s"), self.name("e")
        self.read_uvarint(depth, count)
        self.line(depth, f"if {count}:")
        depth += 1
        self.line(depth, f"for _ in range({count}):")
        depth += 1
        self.read_uvarint(depth, tag)
        self.read_uvarint(depth, size)
        self.line(depth, f"{stop} = pos + {size}")
        self.line(depth, f"if {stop} > end: raise bad_length('of a tagged field', {size})")
        for position, field in enumerate(tagged):
            self.line(depth, f"{'if' if position == 0 else 'elif'} {tag} == {field.tag}:")
            self.read_field(depth + 1, field, f"{target}.{field.name}")
            self.line(depth + 1, f"if pos != {stop}: raise bad_length('of tagged field {field.name}', {size})")
        self.line(depth, f"pos = {stop}")


class _EncoderWriter(_Writer):
    def write(self) -> object:
        self.line(0, "def encode(m, out):")
        self.line(1, "put = out.append")
        self.write_struct(1, self.message, "m", "put")
        self.line(1, "return None")
        return self.compile("encode")

    def write_struct(self, depth: int, item: schema.Struct, source: str, put: str) -> None:
        plain, tagged, absent = self.fields(item)
        if not plain and not self.flexible:
            self.line(depth, "pass")
        for field in absent:
            self.check_absent(depth, field, source)
        index = 0
        while index < len(plain):
            run = index
            while run < len(plain) and _is_fixed(plain[run]):
                run += 1
            if run > index:
                formats = "".join(_FORMATS[field.type] for field in plain[index:run])
                values = ", ".join(f"{source}.{field.name}" for field in plain[index:run])
                self.line(depth, f"{put}({self.struct_call('pack', formats)}({values}))")
                for field in plain[index:run]:
                    self.packed(depth, field, f"{source}.{field.name}")
                index = run
            else:
                self.write_field(depth, plain[index], f"{source}.{plain[index].name}", put)
                index += 1
        if self.flexible:
            self.write_tags(depth, tagged, source, put)

    def packed(self, depth: int, field: schema.Field, place: str) -> None:
        """Called with each number that was written."""

    def default(self, field: schema.Field) -> str:
        source = default_source(field)
        if field.struct is not None and source.endswith("()"):
            return self.constant("default_", getattr(self.cls, field.struct.name)())
        return source

    def check_absent(self, depth: int, field: schema.Field, source: str) -> None:
        if field.ignorable:
            return
        default = self.default(field)
        place = f"{source}.{field.name}"
        if default == "[]":
            test = place
        elif default == "None":
            test = f"{place} is not None"
        else:
            test = f"{place} != {default}"
        label = repr(f"{self.message.name}.{field.name}")
        self.line(depth, f"if {test}: raise unsupported({label}, {self.version})")

    def write_length(self, depth: int, length: str, wide: bool, put: str) -> None:
        if self.flexible:
            self.line(depth, f"{put}(ONE[{length} + 1] if {length} < 127 else uvarint({length} + 1))")
        else:
            self.line(depth, f"{put}({self.struct_call('pack', 'i' if wide else 'h')}({length}))")

    def write_null(self, depth: int, field: schema.Field, value: str, wide: bool, put: str) -> int:
        label = repr(f"{self.message.name}.{field.name} = null")
        if self.version in field.nullable:
            null = b"\0" if self.flexible else (b"\xff\xff\xff\xff" if wide else b"\xff\xff")
            self.line(depth, f"if {value} is None: {put}({null!r})")
            self.line(depth, "else:")
            return depth + 1
        self.line(depth, f"if {value} is None: raise unsupported({label}, {self.version})")
        return depth

    def write_field(self, depth: int, field: schema.Field, place: str, put: str) -> None:
        if not field.is_array and field.type in _FORMATS:
            self.line(depth, f"{put}({self.struct_call('pack', _FORMATS[field.type])}({place}))")
            return
        value = self.name("v")
        self.line(depth, f"{value} = {place}")
        if field.is_array:
            depth = self.write_null(depth, field, value, True, put)
            self.write_array(depth, field, value, put)
        elif field.struct is not None:
            if self.version in field.nullable:
                null = "\\0" if self.version in field.tagged else "\\xff"
                self.line(depth, f"if {value} is None: {put}(b'{null}')")
                self.line(depth, "else:")
                depth += 1
                self.line(depth, f"{put}(b'\\x01')")
            self.write_struct(depth, field.struct, value, put)
        else:
            wide = field.type != "string"
            depth = self.write_null(depth, field, value, wide, put)
            if field.type == "string":
                self.line(depth, f"{value} = {value}.encode()")
            length = self.name("n")
            self.line(depth, f"{length} = len({value})")
            if field.type == "string":
                label = repr(f"a string of {self.message.name}.{field.name} over 32767 bytes")
                self.line(depth, f"if {length} > 32767: raise unsupported({label}, {self.version})")
            self.write_length(depth, length, wide, put)
            self.line(depth, f"if {length}: {put}({value})")

    def write_array(self, depth: int, field: schema.Field, value: str, put: str) -> None:
        length = self.name("n")
        self.line(depth, f"{length} = len({value})")
        self.write_length(depth, length, True, put)
        if field.struct is None and field.type in schema.INTEGER_SIZES:
            pack = self.constant("pack_", struct.pack)
            self.line(depth, f"{put}({pack}('>%d{_FORMATS[field.type]}' % {length}, *{value}))")
            return
        item = self.name("i")
        self.line(depth, f"for {item} in {value}:")
        if field.struct is not None:
            self.write_struct(depth + 1, field.struct, item, put)
        else:
            element = _element(field)
            self.write_field(depth + 1, element, item, put)

    def write_tags(self, depth: int, tagged: list[schema.Field], source: str, put: str) -> None:
        if not tagged:
            self.line(depth, f"{put}(b'\\0')")
            return
        present = self.name("tags")
        self.line(depth, f"{present} = []")
        for field in tagged:
            default = self.default(field)
            place = f"{source}.{field.name}"
            test = {"[]": place, "None": f"{place} is not None"}.get(default, f"{place} != {default}")
            self.line(depth, f"if {test}:")
            inner, inner_put, joined = self.name("b"), self.name("p"), self.name("j")
            self.line(depth + 1, f"{inner} = []; {inner_put} = {inner}.append")
            self.write_field(depth + 1, field, place, inner_put)
            self.line(depth + 1, f"{joined} = b''.join({inner})")
            self.line(depth + 1, f"{present}.append(uvarint({field.tag}) + uvarint(len({joined})) + {joined})")
        self.line(depth, f"{put}(ONE[len({present})])")
        self.line(depth, f"{put}(b''.join({present}))")


class _ResponseEncoderWriter(_EncoderWriter):
    """Leaves out what the version cannot carry instead of refusing it, and returns the error codes that it writes."""

    def write(self) -> object:
        self.line(0, "def encode(m, out):")
        self.line(1, "found = None")
        self.line(1, "put = out.append")
        self.write_struct(1, self.message, "m", "put")
        self.line(1, "return found")
        return self.compile("encode")

    def packed(self, depth: int, field: schema.Field, place: str) -> None:
        if field.name in ERROR_CODES:
            self.line(depth, f"if {place}: found = [*(found or ()), {place}]")

    def check_absent(self, depth: int, field: schema.Field, source: str) -> None:
        pass


def compile_decoder(cls: type[Message], version: int) -> Decoder:
    return _DecoderWriter(cls.SCHEMA, cls, version).write()


def compile_encoder(cls: type[Message], version: int) -> Encoder:
    return _EncoderWriter(cls.SCHEMA, cls, version).write()  # type: ignore[return-value]


def compile_response_encoder(cls: type[Message], version: int) -> ResponseEncoder:
    return _ResponseEncoderWriter(cls.SCHEMA, cls, version).write()  # type: ignore[return-value]


__all__ = [
    "ERROR_CODES",
    "Decoder",
    "Encoder",
    "MalformedMessage",
    "ResponseEncoder",
    "Struct",
    "UnsupportedField",
    "compile_decoder",
    "compile_encoder",
    "compile_response_encoder",
]
