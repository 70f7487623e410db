"""A producer whose requests of an earlier epoch arrive when it has begun a later one: the log alone can refuse them.

A transactional zombie is refused by its coordinator. An idempotent one has none, so the epoch that the partition
remembers is all that stands between a delayed batch and the log.
"""

from __future__ import annotations

import asyncio
import random

from penstock.records.builder import build_batch
from penstock.wire import messages as m
from tests.simulation.raw import Lost, RawClient
from tests.simulation.stream_requests import PARTITIONS, TOPIC, request_of
from tests.simulation.streams import Streams

_ROUNDS = 8


class Zombies(Streams):
    """Idempotent producers whose batches of an earlier epoch arrive after those of a later one."""

    name = "zombies"

    async def load(self) -> None:
        names = ("zombie-0", "zombie-1")
        programs = [self.world.spawn(name, self._return, name) for name in names]
        await asyncio.gather(*(each.task for each in programs))

    async def _return(self, name: str) -> None:
        chance = random.Random(f"{name} of {self.seed}")
        for number in range(_ROUNDS):
            await asyncio.sleep(chance.uniform(0.05, 0.4))
            try:
                client = await self.connect(name)
                await self._return_too_late(client, f"{name}-{number}", chance.randrange(PARTITIONS))
                client.close()
            except Lost:
                continue

    async def _return_too_late(self, client: RawClient, name: str, partition: int) -> None:
        """Write in one epoch, then in the next, then once more in the first."""
        request = m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
        begun = await client.ask(request, m.InitProducerIdResponse)
        if begun.error_code:
            return
        producer_id, epoch = begun.producer_id, begun.producer_epoch
        for number, later in enumerate((epoch, epoch + 1)):
            batch = _batch(f"{name}-{number}", producer_id, later)
            if await self._send(client, f"{name}-{number}", partition, batch):
                return
        if await self._send(client, f"{name}-late", partition, _batch(f"{name}-late", producer_id, epoch)) == 0:
            self.find("zombie", f"producer {producer_id} wrote with epoch {epoch}, after {epoch + 1}")

    async def _send(self, client: RawClient, value: str, partition: int, batch: bytearray) -> int:
        sent = {"process": value, "topic": TOPIC, "partition": partition, "value": value}
        try:
            answer = await client.ask(request_of(partition, batch), m.ProduceResponse, 12)
        except Lost:
            self.history.add("send", **sent, result="unknown")
            raise
        [result] = answer.responses[0].partition_responses
        outcome = {"result": "ok", "offset": result.base_offset} if not result.error_code else {"result": "unknown"}
        self.history.add("send", **sent, **outcome)
        return result.error_code


def _batch(value: str, producer_id: int, epoch: int) -> bytearray:
    return build_batch([(0, None, value.encode(), ())], producer_id=producer_id, producer_epoch=epoch, base_sequence=0)
