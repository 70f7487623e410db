"""`penstock offsets`: the decoded contents of `__consumer_offsets`."""

from __future__ import annotations

import asyncio
import sys
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from penstock.cli.connecting import connection_settings
from penstock.cli.failures import Failure
from penstock.cli.options import CONTEXT_SETTINGS, Group, bootstrap_option, option
from penstock.cli.output import note, print_json

if TYPE_CHECKING:
    from penstock.client.consumer import Consumer
    from penstock.client.types import ConsumerRecord, TopicPartition
    from penstock.wire.messages import Message

_TOPIC = "__consumer_offsets"
# Record types in the order of their numbers; each has a Key and a Value message.
_NAMES = (
    "LegacyOffsetCommit",
    "OffsetCommit",
    "GroupMetadata",
    "ConsumerGroupMetadata",
    "ConsumerGroupPartitionMetadata",
    "ConsumerGroupMemberMetadata",
    "ConsumerGroupTargetAssignmentMetadata",
    "ConsumerGroupTargetAssignmentMember",
    "ConsumerGroupCurrentMemberAssignment",
    "ShareGroupMemberMetadata",
    "ShareGroupMetadata",
    "ShareGroupTargetAssignmentMetadata",
    "ShareGroupTargetAssignmentMember",
    "ShareGroupCurrentMemberAssignment",
    "ShareGroupStatePartitionMetadata",
    "ConsumerGroupRegularExpression",
)


@click.group(cls=Group, context_settings=CONTEXT_SETTINGS)
def offsets() -> None:
    """Inspect the topic in which brokers keep groups and offsets."""


@offsets.command("dump")
@option("--group", "group_id", metavar="GROUP", help="Only records of this group.")
@option("--partition", type=click.IntRange(0), help="Only this partition of __consumer_offsets.")
@option("--follow", is_flag=True, help="Continue with new records, until Ctrl-C.")
@bootstrap_option
@option("--json", "as_json", is_flag=True, help="Print one JSON object per record.")
def dump(group_id: str | None, partition: int | None, follow: bool, bootstrap: str, as_json: bool) -> None:
    """Print every record of __consumer_offsets, decoded."""
    asyncio.run(_dump(group_id, partition, follow, connection_settings(bootstrap), as_json))


async def _dump(
    group_id: str | None, partition: int | None, follow: bool, settings: dict[str, object], as_json: bool
) -> None:
    from penstock.client.consumer import Consumer

    async with Consumer(
        settings,
        client_id="penstock-cli",
        auto_offset_reset="earliest",
        isolation_level="read_uncommitted",
        enable_auto_commit=False,
        allow_auto_create_topics=False,
        max_poll_records=5_000,
    ) as consumer:
        ends = await _begin(consumer, partition)
        while follow or await _behind(consumer, ends):
            for record in await consumer.poll(200):
                _print(record, group_id, as_json)
            sys.stdout.flush()


async def _begin(consumer: Consumer[bytes, bytes], partition: int | None) -> dict[TopicPartition, int]:
    from penstock.client.types import TopicPartition

    if _TOPIC not in await consumer.topic_names():
        raise Failure("This broker has no groups yet: __consumer_offsets is created when the first one begins.")
    found = await consumer.partitions_for(_TOPIC)
    chosen = [TopicPartition(_TOPIC, index) for index in found if partition is None or index == partition]
    if not chosen:
        raise Failure(f"{_TOPIC} has no partition {partition}; it has {len(found)}.")
    consumer.assign(chosen)
    consumer.seek_to_beginning(*chosen)
    return await consumer.end_offsets(chosen)


async def _behind(consumer: Consumer[bytes, bytes], ends: dict[TopicPartition, int]) -> bool:
    for tp, end in ends.items():
        if await consumer.position(tp) < end:
            return True
    return False


def _print(record: ConsumerRecord[bytes, bytes], group_id: str | None, as_json: bool) -> None:
    from penstock.wire.codec import MalformedMessage

    try:
        decoded = decode_record(record.key, record.value)
    except MalformedMessage as error:
        note(f"partition {record.partition} offset {record.offset}: cannot be read ({error})")
        return
    if decoded is None:
        return
    name, key, value = decoded
    if group_id is not None and group_id not in (key.get("group"), key.get("group_id")):
        return
    if as_json:
        position = {"partition": record.partition, "offset": record.offset, "timestamp": record.timestamp}
        print_json({**position, "type": name, "key": key, "value": value})
        return
    text = "deleted" if value is None else " ".join(_pairs(value))
    click.echo(f"{record.partition}:{record.offset}  {name}  {' '.join(_pairs(key))}  →  {text}")


def decode_record(
    key: bytes | None, value: bytes | None
) -> tuple[str, dict[str, object], dict[str, object] | None] | None:
    """Name, key and value (None: a tombstone) of a record, or None for a type that is not known."""
    from penstock.wire.codec import MalformedMessage, decode_key, decode_versioned
    from penstock.wire.messages import message_class

    if key is None or len(key) < 2:
        raise MalformedMessage("no record type")
    types = {message_class(f"{name}Key").RECORD_TYPE: name for name in _NAMES}
    record_type = int.from_bytes(key[:2], "big", signed=True)
    name = types.get(record_type)
    if name is None:
        return None
    parsed = _fields(decode_key(key, {record_type: message_class(f"{name}Key")}))
    return name, parsed, None if value is None else _fields(decode_versioned(message_class(f"{name}Value"), value))


def _fields(message: Message) -> dict[str, object]:
    plain = _plain(message)
    assert isinstance(plain, dict)
    return plain


def _plain(value: object) -> object:
    """Structs as dictionaries; 16 bytes are a topic id, as Kafka prints it; blobs as hexadecimal text."""
    slots = getattr(type(value), "__slots__", None)
    if slots is not None:
        return {name: _plain(getattr(value, name)) for name in slots}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        return urlsafe_b64encode(data).rstrip(b"=").decode() if len(data) == 16 else data.hex()
    return value


def _pairs(fields: dict[str, object]) -> Iterator[str]:
    return (f"{name}={value}" for name, value in fields.items())
