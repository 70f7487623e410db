"""A broker in memory whose time passes when the test says so, and clients that are throttled in it."""

from __future__ import annotations

import asyncio

from penstock.broker.connection import Connection
from penstock.broker.listeners import Address
from penstock.records.builder import build_batch
from penstock.security.quotas import QuotaEntity
from penstock.testing.memory import MemoryListener, WireClient
from penstock.wire import messages as m
from tests.broker.memory_parts import MemoryFoundation

TOPIC = "t"


class Stage:
    def __init__(self, configs: dict[str, str] | None = None) -> None:
        foundation = MemoryFoundation()
        self.world = foundation.world
        self.parts = foundation.parts(configs)
        self.quotas = self.parts.quotas
        self._listener = MemoryListener(Address("PLAINTEXT", "localhost", 9092))
        self.parts.acceptor.start([self._listener], [])
        self.parts.topics.create(TOPIC, 1, {})

    def set(self, quota: str, value: float, **entity: str | None) -> None:
        key: QuotaEntity = tuple(sorted((kind.replace("_", "-"), name) for kind, name in entity.items()))
        self.quotas.change({key: lambda found: {**found, quota: value}})

    def client(self, client_id: str = "app") -> Client:
        before = set(self.parts.dispatcher.connections)
        wire = WireClient(self._listener.connect("10.0.0.1"), client_id)
        (connection,) = self.parts.dispatcher.connections.keys() - before
        return Client(self, wire, connection)

    async def pass_seconds(self, seconds: float) -> None:
        self.world.pass_ms(round(seconds * 1000))
        await settle()


class Client:
    def __init__(self, stage: Stage, wire: WireClient, connection: Connection) -> None:
        self.stage = stage
        self.wire = wire
        self.connection = connection

    async def produce(self, size: int = 1000, acks: int = 1) -> int:
        """Produce so many bytes; returns how long to wait."""
        self.post_produce(size, acks)
        return await self.take_produced() if acks else 0

    def post_produce(self, size: int = 1000, acks: int = 1) -> None:
        records = bytes(build_batch([(1000, None, b"x" * max(size - 150, 1), [])]))
        topic = m.ProduceRequest.TopicProduceData(
            name=TOPIC, partition_data=[m.ProduceRequest.PartitionProduceData(index=0, records=records)]
        )
        self.wire.post(m.ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[topic]), 9)

    async def take_produced(self) -> int:
        await settle()
        await self.stage.pass_seconds(0)  # the storage in memory says later that records are durable
        response = await asyncio.wait_for(self.wire.take(m.ProduceResponse), 30)
        assert response.responses[0].partition_responses[0].error_code == 0
        return response.throttle_time_ms

    async def fetch(self, offset: int = 0, **settings: int) -> m.FetchResponse:
        settings = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 30, **settings}
        partition = m.FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 30)
        topic = m.FetchRequest.FetchTopic(topic=TOPIC, partitions=[partition])
        request = m.FetchRequest(topics=[topic], **settings)  # type: ignore[arg-type]
        return await asyncio.wait_for(self.wire.ask(request, m.FetchResponse, 12), 30)


async def settle() -> None:
    """Let everything happen that is due."""
    for _ in range(20):
        await asyncio.sleep(0)
