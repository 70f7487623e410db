"""Producers that send again what they have sent, to whoever leads by then, and partitions that look alike.

An idempotent producer repeats a batch whose answer it has not got, at once or much later: its leader, and each
successor, has to know the last five of every producer. Those of a producer that has been quiet for a while are in no
batch of the tail any more, only in the snapshot of the last stored segment.

Each round is one record of equal size for every partition, in one request to each leader. So the partitions have the
same offsets and sizes, and what is committed together lies side by side in one object: whoever puts the bytes of one
partition into the place of another's is contradicted by nothing but the contents.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from dataclasses import dataclass, field

from penstock.client.consumer import Consumer
from penstock.client.types import TopicPartition
from penstock.records.builder import build_batch
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
from tests.simulation.clusters import OnCluster
from tests.simulation.raw import Lost
from tests.simulation.stores import REMOVED_SOON
from tests.simulation.stream_requests import TOPIC

_PARTITIONS = 6
_ROUNDS = 9
_KNOWN_BATCHES = 5
"""How many batches of a producer a leader knows at the least."""
_RETRY_SECONDS = 0.05
_QUIET_POLLS = 3
_SMALL_SEGMENTS = {"internal.segment.bytes": "400"}
_NOT_INLINE = {"penstock.store.tails.bytes": "1"}
"""Nothing goes into PostgreSQL, and tails stay tails for long."""


@dataclass
class _Sent:
    """A batch for a partition, and where it is known to be."""

    partition: int
    value: str
    records: bytes
    offset: int | None = None


@dataclass
class _Repeater:
    name: str
    producer_id: int = -1
    latest: dict[int, deque[_Sent]] = field(
        default_factory=lambda: {index: deque(maxlen=_KNOWN_BATCHES) for index in range(_PARTITIONS)}
    )


class Repeats(OnCluster):
    """Raw idempotent producers send batches again, to whoever leads by then; partitions that look alike share objects.
    By turns segments are small, or commits put all bytes into the store."""

    name = "cluster-repeats"

    @classmethod
    def configs(cls, seed: int) -> dict[str, str]:
        return {**REMOVED_SOON, **({} if seed % 2 else _NOT_INLINE)}

    async def prepare(self) -> None:
        await self.create_topic(TOPIC, _PARTITIONS, _SMALL_SEGMENTS if self.seed % 2 else {})

    async def load(self) -> None:
        repeaters = [_Repeater(f"repeater-{number}") for number in range(3)]
        programs = [self.world.spawn(each.name, self._repeat, each) for each in repeaters]
        await asyncio.gather(*(each.task for each in programs))

    async def finish(self) -> None:
        await self.world.spawn("last", self._read_all).task
        self.history.add("drained")

    async def _repeat(self, repeater: _Repeater) -> None:
        chance = random.Random(f"{repeater.name} of {self.seed}")
        while repeater.producer_id < 0:
            repeater.producer_id = await self._new_producer_id(repeater)
        for number in range(_ROUNDS):
            await asyncio.sleep(chance.choice([0.05, 0.3, 2.0]) * chance.random())
            await self._settle([self._next(repeater, number, index) for index in range(_PARTITIONS)])
            await asyncio.sleep(chance.choice([0.0, 0.1, 1.5]) * chance.random())
            again = [chance.choice(repeater.latest[index]) for index in range(_PARTITIONS)]
            await self._settle([each for each in again if chance.random() < 0.5])

    async def _new_producer_id(self, repeater: _Repeater) -> int:
        try:
            client = await self.connect(repeater.name)
            request = m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
            answer = await client.ask(request, m.InitProducerIdResponse)
            client.close()
        except Lost:
            return -1
        await asyncio.sleep(_RETRY_SECONDS)
        return -1 if answer.error_code else answer.producer_id

    def _next(self, repeater: _Repeater, number: int, partition: int) -> _Sent:
        value = f"{repeater.name}-{number}-{partition}"
        records = build_batch(
            [(0, None, value.encode(), ())], producer_id=repeater.producer_id, producer_epoch=0, base_sequence=number
        )
        sent = _Sent(partition, value, bytes(records))
        repeater.latest[partition].append(sent)
        return sent

    async def _settle(self, batches: list[_Sent]) -> None:
        """Send batches, again and again until each was confirmed."""
        waiting = batches
        while waiting:
            leaders: dict[int, list[_Sent]] = {}
            for each in waiting:
                leaders.setdefault(self._leader(TOPIC, each.partition), []).append(each)
            waiting = [each for some in leaders.values() for each in await self._send(some)]
            if waiting:
                await asyncio.sleep(_RETRY_SECONDS)

    async def _send(self, batches: list[_Sent]) -> list[_Sent]:
        """To one leader. Returns what has to be sent once more."""
        name = batches[0].value.rpartition("-")[0]
        data = [m.ProduceRequest.PartitionProduceData(each.partition, bytearray(each.records)) for each in batches]
        request = m.ProduceRequest(
            acks=-1, timeout_ms=2_000, topic_data=[m.ProduceRequest.TopicProduceData(name=TOPIC, partition_data=data)]
        )
        try:
            client = await self.connect(name, batches[0].partition)
            answer = await client.ask(request, m.ProduceResponse, 12)
            client.close()
        except Lost:
            return batches
        results = {each.index: each for each in answer.responses[0].partition_responses}
        return [each for each in batches if not self._is_settled(each, results[each.partition])]

    def _is_settled(self, sent: _Sent, result: m.ProduceResponse.PartitionProduceResponse) -> bool:
        if result.error_code in (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID):
            self.find("forgotten", f"{sent.value} for partition {sent.partition} is refused: error {result.error_code}")
            return True
        if result.error_code:
            return False
        if sent.offset is None:
            sent.offset = result.base_offset
            self.history.add(
                "send",
                process=sent.value.rpartition("-")[0],
                topic=TOPIC,
                partition=sent.partition,
                value=sent.value,
                result="ok",
                offset=sent.offset,
            )
        else:
            self.figures["batches repeated"] += 1
            if result.base_offset != sent.offset:
                self.find("repeated", f"{sent.value} was at offset {sent.offset}, and is at {result.base_offset}")
        return True

    async def _read_all(self) -> None:
        consumer = Consumer[bytes, bytes](
            bootstrap_servers=self.world.bootstrap, auto_offset_reset="none", request_timeout_ms=2_000
        )
        async with consumer:
            places = [TopicPartition(TOPIC, index) for index in range(_PARTITIONS)]
            consumer.assign(places)
            for place in places:
                consumer.seek(place, 0)
            quiet = 0
            while quiet < _QUIET_POLLS:
                records = await consumer.poll(300)
                quiet = 0 if records else quiet + 1
                self.history.add(
                    "poll",
                    process="last",
                    records=[
                        [each.topic, each.partition, each.offset, bytes(each.value or b"").decode()] for each in records
                    ],
                    how="assign",
                    isolation="read_uncommitted",
                )
