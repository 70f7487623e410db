"""Topics whose records go away while a storm blows: compacted, deleted up to an offset, dropped by size; and look-ups.

One program writes each topic, so what has to be left of it is known: the newest value of each key, and everything from
where it was deleted to. Whatever is not known to have been acknowledged may be there or not.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from penstock.client import Admin, Consumer, Producer, TopicPartition
from penstock.client.types import ConsumerRecord
from penstock.wire.errors import KafkaError

LATEST, TRIMMED = "latest", "trimmed"
_KEYS = 10
_VALUE_BYTES = 10_000
_RETENTION_BYTES = 2 << 20
_SEGMENT = {"segment.bytes": str(1 << 20)}
CONFIGS = {
    LATEST: {**_SEGMENT, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
    TRIMMED: {**_SEGMENT, "retention.bytes": str(_RETENTION_BYTES)},
}
BROKER_CONFIGS: dict[str, object] = {"log.cleaner.backoff.ms": 1000, "log.retention.check.interval.ms": 3000}
_LOOK_UPS = 20

Settings = dict[str, Any]


class Maintained:
    def __init__(self, settings: Settings, producers: Settings, seed: int, is_over: Callable[[], bool]) -> None:
        """`settings` of all clients but `producers`, which have their own."""
        self.acknowledged: Counter[str] = Counter()
        self.removed: Counter[str] = Counter()
        """How many offsets of each topic hold nothing any more, as `judge` has found."""
        self._settings = settings
        self._producers = producers
        self._chance = random.Random(f"maintenance of {seed}")
        self._is_over = is_over
        self._attempted: Counter[str] = Counter()
        self._newest: Counter[str] = Counter()
        """The newest value of each key that was acknowledged."""
        self._kept: dict[int, int] = {}
        """Offset and value of what was acknowledged in the topic that is trimmed."""
        self._values = 0
        self._deleted_to = self._maybe_deleted_to = 0
        self._wrong: list[str] = []

    # -- programs --------------------------------------------------------------------------------------------------

    async def overwrite(self) -> None:
        async with Producer(**self._producers) as producer:
            while not self._is_over():
                key = f"key-{self._chance.randrange(_KEYS)}"
                self._attempted[key] += 1
                number = self._attempted[key]
                await producer.send_and_wait(LATEST, self._body(number), key=key.encode(), partition=0)
                self._newest[key] = number
                self.acknowledged[LATEST] += 1
                await asyncio.sleep(self._chance.uniform(0, 0.1))

    async def trim(self) -> None:
        place = TopicPartition(TRIMMED, 0)
        async with (
            Producer(**self._producers) as producer,
            Consumer(**self._settings) as consumer,
            Admin(**self._settings) as admin,
        ):
            while not self._is_over():
                for _ in range(self._chance.randint(5, 30)):
                    self._values += 1
                    record = await producer.send_and_wait(TRIMMED, self._body(self._values), partition=0)
                    self._kept[record.offset] = self._values
                    self.acknowledged[TRIMMED] += 1
                    time_ms = record.timestamp
                    await asyncio.sleep(self._chance.uniform(0, 0.1))
                found = (await consumer.offsets_for_times({place: time_ms}))[place]
                if found is not None and found.timestamp < time_ms:
                    self._wrong.append(f"a look-up for {time_ms} in {TRIMMED} found {found}")
                offset = max(self._kept) - self._chance.randrange(40)
                if offset > self._maybe_deleted_to:
                    self._maybe_deleted_to = offset
                    start = (await admin.delete_records({place: offset}))[place]
                    self._deleted_to = max(self._deleted_to, offset)
                    if start < offset:
                        self._wrong.append(f"{TRIMMED} begins at {start} after it was deleted up to {offset}")

    def _body(self, number: int) -> bytes:
        return b"%d|" % number + self._chance.randbytes(_VALUE_BYTES)

    # -- the end ---------------------------------------------------------------------------------------------------

    async def judge(self, stream: list[TopicPartition]) -> list[str]:
        """What is wrong, when nobody writes any more. Look-ups are judged by the `stream`, which nothing removes."""
        async with Consumer(**self._settings, auto_offset_reset="earliest") as consumer:
            found = {place: await _everything(consumer, place) for place in (_LATEST, _TRIMMED, *stream)}
            starts = await consumer.beginning_offsets([_LATEST, _TRIMMED])
            ends = await consumer.end_offsets([_LATEST, _TRIMMED])
            for place in (_LATEST, _TRIMMED):
                self.removed[place.topic] = ends[place] - len(found[place])
            wrong = [*self._wrong, *self._misplaced(found[_LATEST]), *self._missing(found[_TRIMMED], starts[_TRIMMED])]
            for place in stream:
                wrong += await self._look_ups(consumer, place, found[place])
        return wrong

    def _misplaced(self, records: list[ConsumerRecord[bytes, bytes]]) -> list[str]:
        wrong = []
        last: Counter[str] = Counter()
        for record in records:
            key = (record.key or b"").decode()
            if _number(record) <= last[key]:
                wrong.append(f"{LATEST}: {key} is {_number(record)} at offset {record.offset}, after {last[key]}")
            last[key] = _number(record)
        for key, number in self._newest.items():
            if not number <= last[key] <= self._attempted[key]:
                wrong.append(f"{LATEST}: {key} is {last[key]} in the end; {number} was acknowledged")
        return wrong

    def _missing(self, records: list[ConsumerRecord[bytes, bytes]], start: int) -> list[str]:
        wrong = []
        there = {record.offset: _number(record) for record in records}
        if start < self._deleted_to:
            wrong.append(f"{TRIMMED} begins at {start}, and was deleted up to {self._deleted_to}")
        size = sum(len(record.value or b"") for record in records)
        if start > self._maybe_deleted_to and size < _RETENTION_BYTES * 0.9:
            wrong.append(f"{TRIMMED} begins at {start} with {size} bytes: more was dropped than its retention allows")
        for offset, value in self._kept.items():
            if offset >= start and there.get(offset) != value:
                wrong.append(f"{TRIMMED}: offset {offset} holds {there.get(offset)}; {value} was acknowledged there")
        return wrong

    async def _look_ups(
        self, consumer: Consumer[bytes, bytes], place: TopicPartition, records: list[ConsumerRecord[bytes, bytes]]
    ) -> list[str]:
        wrong = []
        for sought in self._chance.sample(records, min(_LOOK_UPS, len(records))):
            expected = next(each.offset for each in records if each.timestamp >= sought.timestamp)
            found = (await consumer.offsets_for_times({place: sought.timestamp}))[place]
            if found is None or found.offset != expected:
                wrong.append(f"a look-up for {sought.timestamp} in {place} found {found}, and not {expected}")
        return wrong


_LATEST, _TRIMMED = TopicPartition(LATEST, 0), TopicPartition(TRIMMED, 0)


async def _everything(consumer: Consumer[bytes, bytes], place: TopicPartition) -> list[ConsumerRecord[bytes, bytes]]:
    found: list[ConsumerRecord[bytes, bytes]] = []
    consumer.assign([place])
    consumer.seek_to_beginning(place)
    end = (await consumer.end_offsets([place]))[place]
    while await consumer.position(place) < end:
        try:
            found += await consumer.poll(500)
        except KafkaError as error:
            if not error.retriable:
                raise
    return found


def _number(record: ConsumerRecord[bytes, bytes]) -> int:
    return int((record.value or b"").partition(b"|")[0])
