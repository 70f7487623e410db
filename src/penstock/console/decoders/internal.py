"""The records of Kafka's internal topics, by Kafka's own schemas.

A key begins with its record type, a value with its version; no value is a tombstone.
"""

from __future__ import annotations

import base64
from functools import cache

from penstock.console.decoders.bounds import Unreadable
from penstock.wire import messages as m
from penstock.wire import schema
from penstock.wire.codec import MalformedMessage, decode_prefix, decode_versioned

TOPICS = {
    "__consumer_offsets": "group_records",
    "__transaction_state": "transaction_records",
    "__share_group_state": "share_records",
}


def decode(topic: str, key: bytes | None, value: bytes | None) -> tuple[object, object]:
    """Key and value of a record of an internal topic, as data that JSON can hold; None for a tombstone's value."""
    if key is None or len(key) < 2:
        raise Unreadable("a record of an internal topic has a key that begins with its type")
    number = int.from_bytes(key[:2], "big", signed=True)
    types = _types(TOPICS[topic])
    if number not in types:
        raise Unreadable(f"records of type {number} are not known in {topic}")
    key_class, value_class = types[number]
    try:
        shown = {"type": key_class.__name__.removesuffix("Key"), **_fields(decode_prefix(key_class, key, 0, 2)[0])}
        if value is None:
            return shown, None
        version = int.from_bytes(value[:2], "big", signed=True)
        return shown, {"version": version, **_fields(decode_versioned(value_class, value))}
    except MalformedMessage as error:
        raise Unreadable(str(error)) from None


@cache
def _types(table: str) -> dict[int, tuple[type[m.Message], type[m.Message]]]:
    """Record type -> classes of key and value."""
    found = {}
    for name in schema.table(table):
        if name.endswith("Key") and not name.startswith("Legacy"):
            key = m.message_class(name)
            found[key.RECORD_TYPE] = (key, m.message_class(name.removesuffix("Key") + "Value"))
    if table == "group_records":
        # Type 0 is the offset commit of brokers before 0.9.
        found[0] = (m.message_class("LegacyOffsetCommitKey"), m.message_class("LegacyOffsetCommitValue"))
    return found


def _fields(struct: m.Struct) -> dict[str, object]:
    return {_camel(name): _plain(getattr(struct, name)) for name in type(struct).__slots__}  # type: ignore[attr-defined]


def _plain(value: object) -> object:
    if isinstance(value, m.Struct):
        return _fields(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bytes | bytearray | memoryview):
        raw = bytes(value)
        return base64.urlsafe_b64encode(raw).decode().rstrip("=") if len(raw) == 16 else raw.hex()
    return value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
