"""Connections of the simulated network: order, latency, and how they end."""

from __future__ import annotations

import asyncio
import random

import pytest

from penstock.broker.listeners import Address
from penstock.broker.transport import Transport
from penstock.simulation.loop import Process, SimulatedLoop
from penstock.simulation.network import ClientEnd, Network, SimulatedListener


class Peer(asyncio.Protocol):
    def __init__(self) -> None:
        self.received = b""
        self.is_lost = False

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True


class Stage:
    """A network with somebody who listens and keeps what it hears."""

    def __init__(self, seed: int = 1) -> None:
        chance = random.Random(seed)
        self.loop = SimulatedLoop(chance)
        self.network = Network(self.loop, chance)
        self.process = Process("broker")
        self.listener = SimulatedListener(self.network, self.process, Address("PLAINTEXT", "broker", 9092))
        self.transports: list[Transport] = []
        self.heard: list[bytes] = []
        self.listener.start(self.loop, self._accepted)

    def _accepted(self, transport: Transport) -> None:
        self.transports.append(transport)
        transport.add_reader(lambda: self._read(transport))

    def _read(self, transport: Transport) -> None:
        buffer = bytearray(100)
        size = transport.receive_into(memoryview(buffer))
        self.heard.append(bytes(buffer[:size]))
        if not size:
            transport.close()

    async def connect(self) -> tuple[ClientEnd, Peer]:
        transport, protocol = await self.loop.create_connection(Peer, "broker", 9092)
        return transport, protocol

    def run(self, main) -> None:  # type: ignore[no-untyped-def]
        try:
            self.loop.run_until_complete(main)
        finally:
            self.loop.close()


def test_bytes_arrive_in_order_and_later() -> None:
    stage = Stage()

    async def main() -> None:
        client, peer = await stage.connect()
        for number in range(10):
            client.write(b"%d" % number)
        assert stage.heard == []
        await asyncio.sleep(1)
        assert b"".join(stage.heard) == b"0123456789"
        stage.transports[0].send([b"ab", b"cd"], False)
        await asyncio.sleep(1)
        assert peer.received == b"abcd"

    stage.run(main())


def test_between_connections_nothing_is_ordered() -> None:
    orders = set()
    for seed in range(20):
        stage = Stage(seed)

        async def main(stage: Stage = stage) -> None:
            (one, _), (two, _) = await stage.connect(), await stage.connect()
            one.write(b"1")
            two.write(b"2")
            await asyncio.sleep(1)

        stage.run(main())
        orders.add(tuple(stage.heard))
    assert orders == {(b"1", b"2"), (b"2", b"1")}


def test_a_cut_is_heard_of_at_both_ends_and_loses_what_is_under_way() -> None:
    stage = Stage()

    async def main() -> None:
        client, peer = await stage.connect()
        await asyncio.sleep(0.1)
        client.write(b"lost")
        stage.network.connections[0].cut()
        await asyncio.sleep(1)
        assert peer.is_lost
        assert stage.heard[0] == b""

    stage.run(main())


def test_of_a_silent_connection_nobody_hears_anything() -> None:
    stage = Stage()

    async def main() -> None:
        client, peer = await stage.connect()
        await asyncio.sleep(0.1)
        stage.network.connections[0].fall_silent()
        client.write(b"lost")
        stage.transports[0].send([b"lost"], False)
        await asyncio.sleep(1)
        assert not peer.is_lost
        assert not peer.received
        assert not stage.heard

    stage.run(main())


def test_a_client_that_closes_is_heard_of_after_what_it_sent() -> None:
    stage = Stage()

    async def main() -> None:
        client, peer = await stage.connect()
        client.write(b"last words")
        client.close()
        await asyncio.sleep(1)
        assert b"".join(stage.heard[:1]) == b"last words"
        assert b"" in stage.heard
        assert peer.is_lost

    stage.run(main())


def test_a_broker_knows_once_that_a_connection_is_over_also_if_it_closed_it_itself() -> None:
    stage = Stage()
    known: list[str] = []

    async def main() -> None:
        for who in ("client", "broker"):
            client, _ = await stage.connect()
            await asyncio.sleep(0.1)
            stage.network.connections[-1].on_heard = lambda who=who: known.append(who)
            if who == "client":
                client.close()
                assert not known
            else:
                stage.transports[-1].close()
                assert known == ["client", "broker"]
            await asyncio.sleep(1)
        stage.network.connections[-1].cut()
        await asyncio.sleep(1)

    stage.run(main())
    assert known == ["client", "broker"]


@pytest.mark.parametrize("silently", [True, False])
@pytest.mark.parametrize("is_cut_before", [True, False])
def test_a_broker_that_dies_answers_nothing_more(silently: bool, is_cut_before: bool) -> None:
    stage = Stage()
    known: list[str] = []

    async def main() -> None:
        await stage.connect()
        await asyncio.sleep(0.1)
        stage.network.connections[0].on_heard = lambda: known.append("broker")
        stage.loop.pause(stage.process)
        if is_cut_before:
            stage.network.connections[0].cut()
        await asyncio.sleep(1)
        assert not known
        stage.loop.kill(stage.process)
        stage.network.process_died(stage.process, silently=silently)
        assert known == ["broker"]
        await asyncio.sleep(1)

    stage.run(main())
    assert known == ["broker"]


@pytest.mark.parametrize("first", ["broker", "client"])
def test_a_silent_connection_is_over_when_both_ends_are_dead(first: str) -> None:
    stage = Stage()
    known: list[str] = []
    client = Process("client")

    async def main() -> None:
        await asyncio.get_running_loop().create_task(stage.connect(), context=client.context)
        await asyncio.sleep(0.1)
        stage.network.connections[0].on_over = lambda: known.append("over")
        dying = [stage.process, client]
        for process in dying if first == "broker" else reversed(dying):
            assert not known
            stage.loop.kill(process)
            stage.network.process_died(process, silently=True)

    stage.run(main())
    assert known == ["over"]


def test_what_the_broker_sends_is_tapped_whether_it_arrives_or_not() -> None:
    stage = Stage()
    tapped: list[bytes] = []

    async def main() -> None:
        await stage.connect()
        await asyncio.sleep(0.1)
        stage.network.connections[0].tap = tapped.append
        stage.network.connections[0].fall_silent()
        stage.transports[0].send([b"answer"], False)

    stage.run(main())
    assert tapped == [b"answer"]


def test_nobody_connects_to_a_broker_that_does_not_listen() -> None:
    stage = Stage()

    async def main() -> None:
        stage.listener.close()
        with pytest.raises(ConnectionRefusedError):
            await stage.connect()

    stage.run(main())


def test_a_host_that_is_no_machine_of_the_world_is_not_found() -> None:
    stage = Stage()

    async def main() -> None:
        with pytest.raises(OSError, match="there is no machine elsewhere"):
            await stage.loop.create_connection(Peer, "elsewhere", 9092)
        with pytest.raises(ConnectionRefusedError):
            await stage.loop.create_connection(Peer, "broker", 9093)

    stage.run(main())


def test_brokers_listen_at_addresses_of_their_own() -> None:
    stage = Stage()
    other = SimulatedListener(stage.network, Process("other 1", "other"), Address("PLAINTEXT", "other", 9092))
    accepted: list[Transport] = []
    other.start(stage.loop, accepted.append)

    async def main() -> None:
        await stage.loop.create_connection(Peer, "other", 9092)
        await asyncio.sleep(0.1)
        assert len(accepted) == 1
        assert not stage.transports
        other.close()
        with pytest.raises(ConnectionRefusedError):
            await stage.loop.create_connection(Peer, "other", 9092)
        await stage.connect()

    stage.run(main())


def test_a_partition_is_between_two_machines_and_what_was_sent_arrives_when_it_is_healed() -> None:
    stage = Stage()
    arrived: list[str] = []

    async def program(name: str) -> None:
        transport, _ = await stage.loop.create_connection(Peer, "broker", 9092)
        transport.write(name.encode())
        arrived.append(name)

    async def main() -> None:
        stage.network.part_between(["a"], ["broker"])
        tasks = [stage.loop.create_task(program(name), context=Process(name).context) for name in "ab"]
        await asyncio.sleep(1)
        assert arrived == ["b"]
        stage.network.heal()
        await asyncio.gather(*tasks)
        assert arrived == ["b", "a"]

    stage.run(main())


def test_a_machine_that_is_unreachable_does_not_even_refuse() -> None:
    stage = Stage()

    async def main() -> None:
        stage.network.unreachable.add("broker")
        before = stage.loop.time()
        with pytest.raises(TimeoutError):
            await stage.connect()
        assert stage.loop.time() > before + 10

    stage.run(main())
