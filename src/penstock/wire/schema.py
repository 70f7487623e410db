"""Reads the schema tables: what fields a message has, in which versions, with which types and defaults.

A table (`schemas/*.schema`) has one block per message. The first line of a block is

    NAME VERSIONS flexible VERSIONS [record TYPE]

and each line below it is one field, indented by two blanks per level of nesting:

    NAME TYPE VERSIONS [null VERSIONS] [tag NUMBER VERSIONS] [= DEFAULT] [~]

`VERSIONS` is `3`, `3-7`, `3+` or `none`. `[]T` is an array of T. A type with a capital letter is a struct; its fields
are the deeper lines that follow, or those of a `struct NAME VERSIONS` block of the same message. `~` marks a field that
is dropped without complaint by versions that cannot carry it (Kafka's "ignorable"). `record` is the type number
of a record in an internal topic. Names are Kafka's own.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from functools import cache

_UNBOUNDED = 32767
# A plain path, because importlib.resources would cost a tenth of the broker's start.
_FOLDER = os.path.join(os.path.dirname(__file__), "schemas")

# Messages that are not the request or response of an API live in tables named after their topic.
_RECORD_TABLES = ("group_records", "transaction_records", "share_records", "consumer_protocol", "metadata_records")

INTEGER_SIZES = {"int8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8}


@dataclass(slots=True, frozen=True)
class Versions:
    low: int
    high: int

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high


NEVER = Versions(1, 0)


@dataclass(slots=True)
class Field:
    name: str
    kafka_name: str
    type: str  # without the "[]"
    is_array: bool
    versions: Versions
    nullable: Versions
    tag: int | None
    tagged: Versions
    default: str | None  # as written in the table; None when the table gives none
    ignorable: bool
    struct: Struct | None = None


@dataclass(slots=True)
class Struct:
    name: str
    fields: list[Field] = field(default_factory=list)


@dataclass(slots=True)
class Message(Struct):
    versions: Versions = NEVER
    flexible: Versions = NEVER
    record_type: int | None = None
    structs: dict[str, Struct] = field(default_factory=dict)


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def parse_versions(text: str) -> Versions:
    if text == "none":
        return NEVER
    if text.endswith("+"):
        return Versions(int(text[:-1]), _UNBOUNDED)
    low, _, high = text.partition("-")
    return Versions(int(low), int(high or low))


def _parse_field(words: list[str]) -> Field:
    kafka_name, type_name, versions = words[:3]
    is_array = type_name.startswith("[]")
    parsed = Field(
        name=snake_case(kafka_name),
        kafka_name=kafka_name,
        type=type_name.removeprefix("[]"),
        is_array=is_array,
        versions=parse_versions(versions),
        nullable=NEVER,
        tag=None,
        tagged=NEVER,
        default=None,
        ignorable=False,
    )
    rest = iter(words[3:])
    for word in rest:
        if word == "null":
            parsed.nullable = parse_versions(next(rest))
        elif word == "tag":
            parsed.tag = int(next(rest))
            parsed.tagged = parse_versions(next(rest))
        elif word == "=":
            parsed.default = next(rest)
        elif word == "~":
            parsed.ignorable = True
        else:
            raise ValueError(f"unknown word {word!r} in the schema of field {kafka_name}")
    return parsed


def _parse_message(block: str) -> Message:
    lines = block.splitlines()
    head = lines[0].split()
    message = Message(name=head[0], versions=parse_versions(head[1]), flexible=parse_versions(head[3]))
    if len(head) > 4:
        message.record_type = int(head[5])
    open_structs: list[Struct] = [message]
    for line in lines[1:]:
        words = line.split()
        depth = (len(line) - len(line.lstrip())) // 2
        del open_structs[depth:]
        if words[0] == "struct":
            # A struct that is used above its own block stands there already, still empty.
            common = message.structs.setdefault(words[1], Struct(words[1]))
            open_structs.append(common)
            continue
        parsed = _parse_field(words)
        open_structs[-1].fields.append(parsed)
        if parsed.type[0].isupper():
            parsed.struct = message.structs.setdefault(parsed.type, Struct(parsed.type))
            open_structs.append(parsed.struct)
    return message


def _parse_table(name: str) -> dict[str, Message]:
    with open(os.path.join(_FOLDER, f"{name}.schema"), encoding="utf-8") as file:
        text = file.read()
    return {message.name: message for message in map(_parse_message, text.strip().split("\n\n"))}


def table_names() -> list[str]:
    """The names of all tables, for tools and tests that walk over every message."""
    return sorted(name.removesuffix(".schema") for name in os.listdir(_FOLDER) if name.endswith(".schema"))


@cache
def table(name: str) -> dict[str, Message]:
    return _parse_table(name)


def find(message_name: str) -> Message:
    """The schema of one message. Only the table that holds it is read."""
    api_name = message_name.removesuffix("Request").removesuffix("Response")
    if api_name != message_name:
        try:
            return table(api_name)[message_name]
        except (FileNotFoundError, KeyError):
            raise LookupError(f"no Kafka message is called {message_name!r}") from None
    for name in _RECORD_TABLES:
        found = table(name).get(message_name)
        if found is not None:
            return found
    raise LookupError(f"no Kafka message is called {message_name!r}")
