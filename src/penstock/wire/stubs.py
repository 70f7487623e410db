"""Writes `messages.pyi`, which tells type checkers what `penstock.wire.messages` builds at run time.

python -m penstock.wire.stubs    (a test fails when the file is not what this would write)
"""

from __future__ import annotations

from pathlib import Path

from penstock.wire import schema
from penstock.wire.messages import default_source

_HEAD = """\
# Made by `python -m penstock.wire.stubs`; do not edit.
from collections.abc import Sized
from typing import ClassVar

from penstock.wire import schema

ZERO_UUID: bytes

class Struct: ...

class Message(Struct):
    SCHEMA: ClassVar[schema.Message]
    RECORD_TYPE: ClassVar[int]
    ENCODERS: ClassVar[dict[int, object]]
    RESPONSE_ENCODERS: ClassVar[dict[int, object]]
    DECODERS: ClassVar[dict[int, object]]

def default_source(field: schema.Field) -> str: ...
def message_class(name: str) -> type[Message]: ...
"""

_TYPES = {
    "bool": "bool",
    "float64": "float",
    "string": "str",
    "uuid": "bytes",
    "bytes": "bytes | bytearray | memoryview",
    # Whatever has a length: bytes on the way in, a range of a file on the way out.
    "records": "bytes | bytearray | memoryview | Sized",
}


def _type(field: schema.Field, message: schema.Message) -> str:
    kind = _TYPES.get(field.type, "int") if field.struct is None else f"{message.name}.{field.struct.name}"
    if field.is_array:
        kind = f"list[{kind}]"
    if field.nullable != schema.NEVER or default_source(field) == "None":
        kind += " | None"
    return kind


def _class(struct: schema.Struct, base: str, message: schema.Message, indent: str) -> list[str]:
    lines = [f"{indent}class {struct.name}({base}):"]
    if struct is message:
        for nested in message.structs.values():
            lines += _class(nested, "Struct", message, indent + "    ")
    lines += [f"{indent}    {field.name}: {_type(field, message)}" for field in struct.fields]
    parameters = "".join(f", {field.name}: {_type(field, message)} = ..." for field in struct.fields)
    lines.append(f"{indent}    def __init__(self{parameters}) -> None: ...")
    return lines


def render() -> str:
    lines = [_HEAD]
    for name in schema.table_names():
        for message in schema.table(name).values():
            lines += [*_class(message, "Message", message, ""), ""]
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    Path(__file__).with_name("messages.pyi").write_text(render(), "utf-8")


if __name__ == "__main__":
    main()
