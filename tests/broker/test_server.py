"""Who is let in, and what a failure costs."""

from __future__ import annotations

import asyncio
import socket

import pytest

from penstock.broker.config import BrokerConfig
from penstock.broker.foundation import Foundation, OnFailure, Settings
from penstock.broker.listeners import Address, Listener, ListenError
from penstock.broker.server import Broker as Server
from penstock.broker.world import World
from penstock.catalog.memory import MemoryCatalog
from penstock.log.partition import PartitionLog
from penstock.storage.contract import StorageError
from penstock.storage.memory import MemoryStorage
from penstock.testing import AsyncBroker, Broker
from penstock.testing.memory import MemoryListener
from penstock.wire import messages as m
from tests.broker.raw import RawClient


def is_served(client: RawClient) -> bool:
    return not client.ask(m.ApiVersionsRequest(), m.ApiVersionsResponse, 0).error_code


def test_one_address_may_have_so_many_connections() -> None:
    with Broker({"max.connections.per.ip": 2}) as broker, RawClient(broker.port) as first:
        with RawClient(broker.port) as second:
            assert is_served(first)
            assert is_served(second)
            with RawClient(broker.port) as third:
                assert third.is_closed_by_broker()
        assert is_served(first)


def test_an_address_may_be_excepted_from_the_limit() -> None:
    configs = {"max.connections.per.ip": 0, "max.connections.per.ip.overrides": "10.0.0.1:0,127.0.0.1:1"}
    with Broker(configs) as broker, RawClient(broker.port) as first:
        assert is_served(first)
        with RawClient(broker.port) as second:
            assert second.is_closed_by_broker()


class TestFailures:
    """Each costs whoever caused it, and nobody else."""

    async def test_a_timer_whose_function_fails_runs_again(self) -> None:
        runs: list[str] = []
        twice = asyncio.Event()

        def fail() -> None:
            runs.append("run")
            if len(runs) == 2:
                twice.set()
            raise ValueError("a fault of this timer alone")

        async with AsyncBroker() as broker:
            broker._running().parts.upkeep.every("a test", 0.001, fail)
            await asyncio.wait_for(twice.wait(), 30)

    async def test_a_partition_that_fails_does_not_end_the_retention_of_the_others(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[str] = []

        def fail(self: PartitionLog, now_ms: int) -> bool:
            seen.append(self.folder.name)
            raise ValueError("a fault of this log alone")

        async with AsyncBroker() as broker:
            broker.create_topic("t", partitions=3)
            monkeypatch.setattr(PartitionLog, "apply_retention", fail)
            broker._running().parts.upkeep.apply_retention()
        assert seen == ["t-0", "t-1", "t-2"]

    async def test_a_partition_that_fails_does_not_end_the_expiry_of_the_producers_of_the_others(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[object] = []

        def fail(self: object, now_ms: int) -> None:
            seen.append(self)
            raise ValueError("a fault of this log alone")

        async with AsyncBroker() as broker:
            broker.create_topic("t", partitions=3)
            monkeypatch.setattr(PartitionLog, "expire_producers", fail)
            broker._running().parts.upkeep.expire_producers()
        assert len(seen) == 3

    async def test_everybody_hears_of_a_closed_connection_though_one_fails(self) -> None:
        heard = asyncio.Event()

        def fail(_: object) -> None:
            raise ValueError("a fault of this listener alone")

        async with AsyncBroker() as broker:
            broker._running().parts.on_connection_closed += [fail, lambda _: heard.set()]
            _, writer = await asyncio.open_connection("127.0.0.1", broker.port)
            writer.close()
            await asyncio.wait_for(heard.wait(), 30)

    async def test_a_topic_is_deleted_though_one_of_those_who_hear_of_it_fails(self) -> None:
        heard: list[object] = []

        def fail(_: object) -> None:
            raise ValueError("a fault of this listener alone")

        async with AsyncBroker() as broker:
            broker.create_topic("t")
            server = broker._running()
            server.parts.topics.on_topic_deleted += [fail, heard.append]
            topic = server.parts.cluster.find_topic("t")
            assert topic is not None
            server.parts.topics.delete(topic)
            assert heard == [topic]
            assert server.parts.cluster.find_topic("t") is None


class Life:
    """A server over a foundation in memory; `steps` is what happened to it, in order."""

    def __init__(self, configs: dict[str, str] | None = None) -> None:
        self.steps: list[str] = []
        self.listener = MemoryListener(Address("PLAINTEXT", "localhost", 9092))
        self.can_listen = True
        self.on_failure: OnFailure
        self.server = Server(Settings(configs=configs or {}), self.lay)

    def lay(self, settings: Settings, config: BrokerConfig, world: World, on_failure: OnFailure) -> Foundation:
        steps = self.steps

        class Catalog(MemoryCatalog):
            def close(self) -> None:
                steps.append("catalog closed")

        class Storage(MemoryStorage):
            def opened(self) -> None:
                super().opened()
                steps.append("logs opened")

            def close(self) -> None:
                super().close()
                steps.append("storage closed")

        self.on_failure = on_failure
        return Foundation(Catalog(), Storage(world.call_soon), self.listen, lambda: steps.append("released"))

    def listen(self) -> list[Listener]:
        if not self.can_listen:
            raise ListenError("the address is in use")
        self.steps.append("listening")
        return [self.listener]


class TestLife:
    async def test_clients_can_connect_when_the_logs_are_open_and_everything_is_closed_in_order(self) -> None:
        life = Life()
        await life.server.start()
        assert life.steps == ["logs opened", "listening"]
        client = life.listener.connect()
        life.server.stop()
        await asyncio.wait_for(life.server.serve(), 30)
        assert life.steps[2:] == ["storage closed", "catalog closed", "released"]
        assert client.is_closed

    async def test_a_broker_that_cannot_listen_gives_back_what_it_holds(self) -> None:
        life = Life()
        life.can_listen = False
        with pytest.raises(ListenError):
            await life.server.start()
        assert life.steps == ["logs opened", "catalog closed", "released"]

    async def test_a_broker_that_cannot_start_does_not_go_on_listening(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            life = Life({"penstock.metrics.listen": f"127.0.0.1:{taken.getsockname()[1]}"})
            with pytest.raises(ListenError):
                await life.server.start()
        with pytest.raises(ConnectionRefusedError):
            life.listener.connect()
        assert life.steps[-2:] == ["catalog closed", "released"]

    async def test_a_storage_that_fails_stops_the_broker(self) -> None:
        life = Life()
        await life.server.start()
        life.on_failure(StorageError("the disk is gone"))
        with pytest.raises(StorageError, match="the disk is gone"):
            await asyncio.wait_for(life.server.serve(), 30)
        assert life.steps[-1] == "released"
