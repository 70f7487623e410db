"""Who is let in, what address clients are told, and which connections are closed again."""

from __future__ import annotations

import asyncio
from typing import NoReturn

import pytest

from penstock.broker import acceptor as acceptor_module
from penstock.broker.acceptor import SILENT_SECONDS, Acceptor
from penstock.broker.authentication_counts import AuthenticationCounts
from penstock.broker.cluster_view import ClusterView
from penstock.broker.config import BrokerConfig
from penstock.broker.connection import Connection
from penstock.broker.connection_rates import ConnectionRates
from penstock.broker.dispatch import Dispatcher
from penstock.broker.listeners import Address, ListenError
from penstock.broker.newcomers import Newcomers
from penstock.broker.quotas import Quotas
from penstock.broker.requests import Handler
from penstock.catalog.contract import replaced_by
from penstock.catalog.memory import MemoryCatalog
from penstock.testing.memory import MemoryClient, MemoryListener
from penstock.wire import messages as m
from penstock.wire.api import ApiKey
from penstock.wire.frames import request_frame
from tests.broker.simulated_world import SimulatedWorld

WAIT_SECONDS = 30


def no_handler(key: ApiKey) -> Handler:
    return lambda request: m.ApiVersionsResponse()


class Shell:
    """An acceptor with listeners in memory, in a world of simulated time."""

    def __init__(self, configs: dict[str, str] | None = None) -> None:
        self.world = SimulatedWorld()
        self.cluster = ClusterView("cluster", 1, None)
        self.closed: list[Connection] = []
        config = BrokerConfig(configs or {})
        self.catalog = MemoryCatalog()
        self.quotas = Quotas(config, self.catalog, self.world)
        self.dispatcher = Dispatcher(no_handler, self.world, self.closed.append, self.quotas)
        rates = ConnectionRates(config, self.quotas)
        newcomers = Newcomers(config, self.world.monotonic)
        self.acceptor = Acceptor(
            config,
            self.cluster,
            self.dispatcher,
            self.world,
            rates,
            self.no_authenticator,
            newcomers,
            AuthenticationCounts(),
        )
        self.listener = MemoryListener(Address("PLAINTEXT", "localhost", 9092))

    def no_authenticator(self) -> NoReturn:
        raise AssertionError("no listener of these tests has SASL")

    def start(self) -> None:
        self.acceptor.start([self.listener], [])

    def counts(self) -> dict[str, float]:
        """What the metrics say of the listener."""
        found: dict[str, float] = {}
        for metric in self.acceptor.metrics():
            ((labels, value),) = metric.samples
            assert labels == ("PLAINTEXT",)
            found[
                metric.name.removeprefix("kafka_server_socket_server_metrics_").removeprefix("penstock_connections_")
            ] = value
        return found

    def connect(self, host: str = "10.0.0.1") -> MemoryClient:
        return self.listener.connect(host)


class TestBounds:
    async def test_so_many_connections_are_taken_in(self, caplog: pytest.LogCaptureFixture) -> None:
        shell = Shell({"max.connections": "2"})
        shell.start()
        first, second, third = shell.connect(), shell.connect(), shell.connect()
        assert [each.is_closed for each in (first, second, third)] == [False, False, True]
        assert "max.connections" in caplog.text

    async def test_connections_are_counted_by_listener(self) -> None:
        shell = Shell({"max.connections": "2"})
        shell.start()
        assert shell.counts() == {"connection_count": 0, "connection_creation_total": 0, "refused_total": 0}
        first, *_ = [shell.connect() for _ in range(5)]
        assert shell.counts() == {"connection_count": 2, "connection_creation_total": 2, "refused_total": 3}
        first.close()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        shell.connect()
        assert shell.counts() == {"connection_count": 2, "connection_creation_total": 3, "refused_total": 3}

    async def test_many_that_are_refused_do_not_fill_the_log(self, caplog: pytest.LogCaptureFixture) -> None:
        shell = Shell({"max.connections": "1"})
        shell.start()
        for _ in range(1000):
            shell.connect()
        assert 0 < len(caplog.messages) < 100
        assert shell.counts()["refused_total"] == 999

    async def test_one_that_is_closed_makes_room(self) -> None:
        shell = Shell({"max.connections": "1"})
        shell.start()
        shell.connect().close()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(shell.closed) == 1
        assert not shell.connect().is_closed

    async def test_a_listener_may_have_a_bound_of_its_own(self) -> None:
        shell = Shell({"listener.name.plaintext.max.connections": "1"})
        other = MemoryListener(Address("OTHER", "localhost", 9093))
        shell.acceptor.start([shell.listener, other], [])
        clients = [shell.connect(), shell.connect(), other.connect("10.0.0.1"), other.connect("10.0.0.1")]
        assert [each.is_closed for each in clients] == [False, True, False, False]

    async def test_one_address_may_have_so_many_and_others_are_not_concerned(self) -> None:
        shell = Shell({"max.connections.per.ip": "1"})
        shell.start()
        mine, mine_too, other = shell.connect("10.0.0.1"), shell.connect("10.0.0.1"), shell.connect("10.0.0.2")
        assert [each.is_closed for each in (mine, mine_too, other)] == [False, True, False]

    async def test_an_address_may_have_a_bound_of_its_own(self) -> None:
        shell = Shell({"max.connections.per.ip": "1", "max.connections.per.ip.overrides": "10.0.0.1:2, 10.0.0.2:0"})
        shell.start()
        allowed = {host: [not shell.connect(host).is_closed for _ in range(3)] for host in ("10.0.0.1", "10.0.0.2")}
        assert allowed == {"10.0.0.1": [True, True, False], "10.0.0.2": [False, False, False]}


class TestAddresses:
    LISTENERS = (Address("INSIDE", "127.0.0.1", 9092), Address("OUTSIDE", "127.0.0.1", 9093))

    def advertised(self, *advertised: Address) -> list[tuple[str, int]]:
        shell = Shell()
        listeners = [MemoryListener(address) for address in self.LISTENERS]
        shell.acceptor.start(listeners, advertised)
        assert shell.acceptor.port == 9092
        brokers = [shell.cluster.this_broker(address.name) for address in self.LISTENERS]
        return [(broker.host, broker.port) for broker in brokers]

    async def test_clients_are_told_the_address_that_is_listened_on(self) -> None:
        assert self.advertised() == [("127.0.0.1", 9092), ("127.0.0.1", 9093)]

    async def test_an_advertised_address_is_found_by_the_name_of_its_listener(self) -> None:
        outside = Address("OUTSIDE", "example.org", 19093)
        assert self.advertised(outside) == [("127.0.0.1", 9092), ("example.org", 19093)]

    async def test_or_by_its_place_where_there_is_one_for_each(self) -> None:
        first, second = Address("X", "a.example.org", 1), Address("Y", "b.example.org", 2)
        assert self.advertised(first, second) == [("a.example.org", 1), ("b.example.org", 2)]

    async def test_an_address_of_a_listener_that_there_is_not_is_refused(self) -> None:
        with pytest.raises(ListenError, match=r"listener HOST, which is not opened \(there is INSIDE, OUTSIDE\)"):
            self.advertised(Address("HOST", "a.example.org", 1))

    async def test_the_name_counts_more_than_the_place(self) -> None:
        first, second = Address("OUTSIDE", "a.example.org", 1), Address("INSIDE", "b.example.org", 2)
        assert self.advertised(first, second) == [("b.example.org", 2), ("a.example.org", 1)]


class TestSweeping:
    async def test_a_connection_that_was_idle_for_too_long_is_closed(self) -> None:
        shell = Shell({"connections.max.idle.ms": "60000"})
        shell.start()
        idle = shell.connect()
        shell.world.pass_ms(40_000)
        active = shell.connect()
        shell.world.pass_ms(30_000)
        shell.acceptor.sweep()
        assert (idle.is_closed, active.is_closed) == (True, False)

    async def test_a_request_keeps_a_connection_open(self) -> None:
        shell = Shell({"connections.max.idle.ms": "60000"})
        shell.start()
        client = shell.connect()
        shell.world.pass_ms(40_000)
        client.send(b"".join(request_frame(m.ApiVersionsRequest(), 0, 1, "test")))
        assert await asyncio.wait_for(client.read_frame(), WAIT_SECONDS) is not None
        shell.world.pass_ms(40_000)
        shell.acceptor.sweep()
        assert not client.is_closed

    async def test_one_that_is_only_silent_gives_memory_back(self, monkeypatch: pytest.MonkeyPatch) -> None:
        trimmed: list[Connection] = []
        monkeypatch.setattr(Connection, "trim", lambda connection: trimmed.append(connection))
        shell = Shell()
        shell.start()
        client = shell.connect()
        shell.acceptor.sweep()
        assert trimmed == []
        shell.world.pass_ms(int(SILENT_SECONDS * 1000) + 1)
        shell.acceptor.sweep()
        assert trimmed == list(shell.dispatcher.connections)
        assert not client.is_closed


async def test_after_the_listeners_are_closed_clients_are_served_but_nobody_new_comes() -> None:
    shell = Shell()
    shell.start()
    client = shell.connect()
    shell.acceptor.close_listeners()
    with pytest.raises(ConnectionRefusedError):
        shell.connect()
    assert not client.is_closed
    shell.acceptor.close_connections()
    assert client.is_closed
    assert shell.dispatcher.connections == {}


class TestRates:
    async def test_whoever_comes_too_soon_is_let_in_later_and_the_listener_pauses(self) -> None:
        shell = Shell({"max.connection.creation.rate": "1"})
        shell.start()
        for _ in range(10):
            shell.connect()
        assert len(shell.dispatcher.connections) == 10
        late = shell.connect()
        assert len(shell.dispatcher.connections) == 10
        assert not late.is_closed
        assert shell.listener.paused_seconds == 1.0
        shell.world.pass_ms(1000)
        assert len(shell.dispatcher.connections) == 11

    async def test_an_address_that_comes_too_often_is_held_and_closed(self) -> None:
        shell = Shell()
        shell.quotas.change({(("ip", "10.0.0.1"),): replaced_by({"connection_creation_rate": 1})})
        shell.start()
        clients = [shell.connect() for _ in range(11)]
        other = shell.connect("10.0.0.2")
        assert len(shell.dispatcher.connections) == 11
        assert not clients[-1].is_closed
        shell.world.pass_ms(1000)
        assert [each.is_closed for each in clients] == [False] * 10 + [True]
        assert not other.is_closed

    async def test_so_many_are_held(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(acceptor_module, "MAX_HELD", 2)
        shell = Shell()
        shell.quotas.change({(("ip", None),): replaced_by({"connection_creation_rate": 1})})
        shell.start()
        clients = [shell.connect() for _ in range(13)]
        assert [each.is_closed for each in clients[10:]] == [False, False, True]

    async def test_those_that_are_held_are_closed_with_the_broker(self) -> None:
        shell = Shell({"max.connection.creation.rate": "1"})
        shell.start()
        clients = [shell.connect() for _ in range(11)]
        shell.acceptor.close_connections()
        shell.world.pass_ms(2000)
        assert all(each.is_closed for each in clients)
        assert not shell.dispatcher.connections
