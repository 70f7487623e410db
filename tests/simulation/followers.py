"""Streams whose readers are consumers of `penstock.client`, which follow the partitions from their beginnings."""

from __future__ import annotations

import asyncio

from penstock.client.consumer import Consumer
from penstock.client.types import TopicPartition
from penstock.wire.errors import KafkaError
from tests.simulation.raw import access
from tests.simulation.stream_requests import PARTITIONS, TOPIC
from tests.simulation.streams import Streams

_RETRY_SECONDS = 0.1
_QUIET_POLLS = 3


class Followed(Streams):
    def _follower(self, isolation: int) -> Consumer[bytes, bytes]:
        return Consumer(
            **access(self.world),
            auto_offset_reset="none",
            isolation_level=("read_uncommitted", "read_committed")[isolation],
            request_timeout_ms=2_000,
            fetch_max_wait_ms=200,
        )

    async def _read(self, name: str, isolation: int) -> None:
        """Follow both partitions from the beginning."""
        while not self.stopped:
            try:
                async with self._follower(isolation) as consumer:
                    self._from_the_beginning(consumer, name)
                    while not self.stopped:
                        await self._saw(consumer, name, isolation)
            except KafkaError as error:
                self.world.tell(name, f"begins anew: {error!r}")
                await asyncio.sleep(_RETRY_SECONDS)

    def _from_the_beginning(self, consumer: Consumer[bytes, bytes], name: str, topic: str = TOPIC) -> None:
        places = [TopicPartition(topic, index) for index in range(PARTITIONS)]
        consumer.assign(places)
        for place in places:
            consumer.seek(place, 0)
        self.history.add("moved", process=name)

    async def _saw(self, consumer: Consumer[bytes, bytes], name: str, isolation: int) -> bool:
        records = await consumer.poll(300)
        seen = [[each.topic, each.partition, each.offset, bytes(each.value or b"").decode()] for each in records]
        if seen:
            level = "read_committed" if isolation else "read_uncommitted"
            self.history.add("poll", process=name, records=seen, how="assign", isolation=level)
        return bool(seen)

    async def read_all(self, name: str, isolation: int, topic: str = TOPIC) -> None:
        """Read everything there is, when all is well."""

        async def read() -> None:
            async with self._follower(isolation) as consumer:
                self._from_the_beginning(consumer, name, topic)
                quiet = 0
                while quiet < _QUIET_POLLS:
                    quiet = 0 if await self._saw(consumer, name, isolation) else quiet + 1

        await self.world.spawn(name, read).task
