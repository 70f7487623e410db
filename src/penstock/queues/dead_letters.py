"""What a dead letter looks like (KIP-1191): where the record came from and why it was given up, in headers.

Key and value are there only if the group wants copies (`errors.deadletterqueue.copy.record.enable`); otherwise the
headers say where to find the record while the log still has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from penstock.queues.transitions import DeadLetterRange
from penstock.records.record import Record

_PREFIX = "__dlq.errors."
TOPIC, PARTITION, OFFSET = _PREFIX + "topic", _PREFIX + "partition", _PREFIX + "offset"
GROUP, DELIVERY_COUNT, MESSAGE = _PREFIX + "group", _PREFIX + "delivery.count", _PREFIX + "message"

Headers: TypeAlias = list[tuple[str, bytes]]
Letter: TypeAlias = tuple[int, bytes | None, bytes | None, Headers]
"""Timestamp, key, value, headers: what a batch is built from."""


class Origin(NamedTuple):
    group_id: str
    topic: str
    partition: int


def letters(origin: Origin, dead: DeadLetterRange, copies: Iterable[Record], now_ms: int) -> list[Letter]:
    """One letter per offset of the range; `copies` are the records themselves, as far as they are wanted and there."""
    by_offset = {record.offset: record for record in copies}
    made: list[Letter] = []
    for offset in range(dead.first_offset, dead.last_offset + 1):
        record = by_offset.get(offset)
        headers: Headers = [
            (TOPIC, origin.topic.encode()),
            (PARTITION, b"%d" % origin.partition),
            (OFFSET, b"%d" % offset),
            (GROUP, origin.group_id.encode()),
            (DELIVERY_COUNT, b"%d" % dead.delivery_count),
            (MESSAGE, dead.cause.value.encode()),
        ]
        made.append(
            (now_ms, record.key if record is not None else None, record.value if record is not None else None, headers)
        )
    return made


def buried_offsets(origin: Origin, records: Iterable[Record]) -> set[int]:
    """Offsets of this origin whose letters are among the records, so that none is written twice after a crash."""
    wanted = {
        TOPIC: origin.topic.encode(),
        PARTITION: b"%d" % origin.partition,
        GROUP: origin.group_id.encode(),
    }
    found = set()
    for record in records:
        headers = dict(record.headers)
        offset = headers.get(OFFSET)
        if offset is not None and all(headers.get(name) == value for name, value in wanted.items()):
            found.add(int(offset))
    return found


def without(ranges: Sequence[DeadLetterRange], offsets: set[int]) -> list[DeadLetterRange]:
    """The ranges without some offsets."""
    return [
        DeadLetterRange(offset, offset, dead.delivery_count, dead.cause)
        for dead in ranges
        for offset in range(dead.first_offset, dead.last_offset + 1)
        if offset not in offsets
    ]
