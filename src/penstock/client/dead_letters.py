"""Dead letters (KIP-1191): reading those of a queue, and putting their records back.

The headers of a letter say which record of which topic was given up, and why. `redrive` produces that record to its
topic again: the original with its headers, if the topic still has it, or else the copy in the letter. The committed
offsets of the group `redrive.QUEUE` on the dead-letter topic remember which letters have been put back: everything
before the offset, and the offsets in its metadata. A program that dies in between puts a record back twice, but loses
none.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field

from penstock.client.admin import Admin, ResourceType
from penstock.client.consumer import Consumer
from penstock.client.errors import UsageError
from penstock.client.producer import Producer
from penstock.client.types import ConsumerRecord, OffsetAndMetadata, OffsetSpec, TopicPartition
from penstock.wire.errors import KafkaError

TOPIC_CONFIG = "errors.deadletterqueue.topic.name"
REDRIVEN = "penstock.redriven"
MAX_SINGLES = 300  # letters put back one by one that the metadata of a commit has room for
_PREFIX = "__dlq.errors."
_POLL_MS = 2_000
_AT_ONCE = 1_000


@dataclass(slots=True)
class Letter:
    """A dead letter, and the record that it stands for."""

    place: TopicPartition
    offset: int
    timestamp: int
    topic: str
    partition: int
    record_offset: int
    deliveries: int
    message: str
    record: ConsumerRecord[bytes, bytes]


@dataclass(slots=True)
class Outcome:
    """What a redrive did: letters whose records are back, and letters whose records are nowhere any more."""

    back: int = 0
    gone: int = 0


@dataclass(slots=True)
class _Mark:
    """What has been put back of one partition."""

    before: int
    singles: set[int] = field(default_factory=set)

    def covers(self, offset: int) -> bool:
        return offset < self.before or offset in self.singles

    def add(self, offset: int) -> None:
        self.singles.add(offset)
        while self.before in self.singles:
            self.before += 1
        self.singles = {single for single in self.singles if single > self.before}
        if len(self.singles) > MAX_SINGLES:
            raise UsageError(f"more than {MAX_SINGLES} letters were put back one by one; put back the rest together")

    def commit(self) -> OffsetAndMetadata:
        singles = sorted(single for single in self.singles if single > self.before)
        return OffsetAndMetadata(self.before, ",".join(map(str, singles)))


def mark_group(group_id: str) -> str:
    """The group whose offsets remember what was put back."""
    return f"redrive.{group_id}"


async def dead_letter_topic(admin: Admin, group_id: str) -> str | None:
    """The topic that takes a queue's dead letters, if it has one."""
    try:
        configs = await admin.describe_configs(ResourceType.GROUP, group_id)
    except KafkaError:
        return None
    return configs[TOPIC_CONFIG].value or None if TOPIC_CONFIG in configs else None


async def read_letters(
    admin: Admin, consumer: Consumer[bytes, bytes], group_id: str, topic: str, *, limit: int
) -> tuple[list[Letter], bool]:
    """The oldest `limit` letters of a queue that have not been put back, and whether there are more."""
    marks = await _marks(admin, group_id, topic)
    found: list[Letter] = []
    async for letter in _letters(consumer, group_id, marks, await _ends(admin, topic)):
        if len(found) == limit:
            return found, True
        found.append(letter)
    return found, False


async def redrive(
    admin: Admin,
    consumer: Consumer[bytes, bytes],
    producer: Producer,
    group_id: str,
    topic: str,
    *,
    only: tuple[int, int] | None = None,
) -> Outcome:
    """Put back every letter of a queue that is there now, or the one at (partition, offset)."""
    marks, ends = await _marks(admin, group_id, topic), await _ends(admin, topic)
    if only is not None:
        return await _redrive_one(
            admin, consumer, producer, group_id, marks, ends, TopicPartition(topic, only[0]), only[1]
        )
    outcome = Outcome()
    while letters := await _some(_letters(consumer, group_id, marks, ends)):
        for letter in letters:
            await _put_back(admin, consumer, producer, letter, outcome)
            marks[letter.place].before = letter.offset + 1
        await _commit(admin, group_id, marks)
    await _commit(admin, group_id, {tp: _Mark(end) for tp, end in ends.items()})
    return outcome


async def _redrive_one(
    admin: Admin,
    consumer: Consumer[bytes, bytes],
    producer: Producer,
    group_id: str,
    marks: dict[TopicPartition, _Mark],
    ends: dict[TopicPartition, int],
    tp: TopicPartition,
    offset: int,
) -> Outcome:
    if tp not in marks or not 0 <= offset < ends[tp]:
        raise UsageError(f"{tp} has no letter at offset {offset}")
    mark = marks[tp]
    letters = await _some(
        _letters(consumer, group_id, {tp: _Mark(max(mark.before, offset), mark.singles)}, {tp: offset + 1})
    )
    if not letters:
        raise UsageError(
            f"the record at {tp} offset {offset} is not a dead letter of {group_id}, or has already been put back"
        )
    mark.add(offset)
    outcome = Outcome()
    await _put_back(admin, consumer, producer, letters[0], outcome)
    await _commit(admin, group_id, {tp: mark})
    return outcome


async def _some(letters: AsyncIterator[Letter]) -> list[Letter]:
    found: list[Letter] = []
    async for letter in letters:
        found.append(letter)
        if len(found) == _AT_ONCE:
            break
    return found


async def _put_back(
    admin: Admin, consumer: Consumer[bytes, bytes], producer: Producer, letter: Letter, outcome: Outcome
) -> None:
    record = await _original(admin, consumer, letter)
    if record is None:
        outcome.gone += 1
        return
    headers = [*record.headers, (REDRIVEN, f"{letter.place}@{letter.offset}".encode())]
    await producer.send_and_wait(
        letter.topic, record.value, key=record.key, partition=letter.partition, headers=headers
    )
    outcome.back += 1


async def _commit(admin: Admin, group_id: str, marks: dict[TopicPartition, _Mark]) -> None:
    await admin.alter_group_offsets(mark_group(group_id), {tp: mark.commit() for tp, mark in marks.items()})


async def _marks(admin: Admin, group_id: str, topic: str) -> dict[TopicPartition, _Mark]:
    partitions = [TopicPartition(topic, number) for number in (await admin.describe_topic(topic)).partitions]
    first = await admin.list_offsets(dict.fromkeys(partitions, int(OffsetSpec.EARLIEST)))
    committed = await admin.list_group_offsets(mark_group(group_id), partitions)
    marks = {}
    for tp in partitions:
        known = committed.get(tp, OffsetAndMetadata(-1))
        singles = {int(word) for word in known.metadata.split(",") if word.isdigit()}
        marks[tp] = _Mark(max(known.offset, first[tp].offset), singles)
    return marks


async def _ends(admin: Admin, topic: str) -> dict[TopicPartition, int]:
    partitions = [TopicPartition(topic, number) for number in (await admin.describe_topic(topic)).partitions]
    found = await admin.list_offsets(dict.fromkeys(partitions, int(OffsetSpec.LATEST)))
    return {tp: offset.offset for tp, offset in found.items()}


async def _letters(
    consumer: Consumer[bytes, bytes], group_id: str, marks: dict[TopicPartition, _Mark], ends: dict[TopicPartition, int]
) -> AsyncIterator[Letter]:
    """The letters of a queue between its marks and the ends."""
    left = {tp: end for tp, end in ends.items() if marks[tp].before < end}
    consumer.assign(left)
    for tp in left:
        consumer.seek(tp, marks[tp].before)
    while left:
        for record in await consumer.poll(_POLL_MS):
            tp = record.topic_partition
            if record.offset < ends[tp] and not marks[tp].covers(record.offset):
                letter = letter_of(record, group_id)
                if letter is not None:
                    yield letter
        for tp in list(left):
            if await consumer.position(tp) >= left[tp]:
                del left[tp]
                consumer.pause(tp)


def letter_of(record: ConsumerRecord[bytes, bytes], group_id: str) -> Letter | None:
    """What a record of a dead-letter topic tells, if it is a letter of this queue."""
    details = {name.removeprefix(_PREFIX): value for name, value in record.headers if name.startswith(_PREFIX)}
    try:
        if (details["group"] or b"").decode() != group_id:
            return None
        return Letter(
            record.topic_partition,
            record.offset,
            record.timestamp,
            (details["topic"] or b"").decode(),
            int(details["partition"] or b""),
            int(details["offset"] or b""),
            int(details.get("delivery.count") or b"0"),
            (details.get("message") or b"").decode(errors="replace"),
            record,
        )
    except (KeyError, ValueError):
        return None


async def _original(
    admin: Admin, consumer: Consumer[bytes, bytes], letter: Letter
) -> ConsumerRecord[bytes, bytes] | None:
    """The record as it stands in its topic, or the copy in the letter, or None."""
    tp = TopicPartition(letter.topic, letter.partition)
    try:
        first = (await admin.list_offsets({tp: int(OffsetSpec.EARLIEST)}))[tp].offset
    except KafkaError:
        first = -1
    if 0 <= first <= letter.record_offset:
        consumer.assign([tp])
        consumer.seek(tp, letter.record_offset)
        record = await consumer.get_one(_POLL_MS)
        if record is not None and record.offset == letter.record_offset:
            return record
    copy = letter.record
    if copy.key is None and copy.value is None:
        return None
    return copy._replace(headers=_own(copy.headers))


def _own(headers: Iterable[tuple[str, bytes | None]]) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((name, value) for name, value in headers if not name.startswith(_PREFIX))
