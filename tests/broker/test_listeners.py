"""Addresses, and the sockets that listen on them."""

from __future__ import annotations

import asyncio
import errno
import socket

import pytest

from penstock.broker import listeners
from penstock.broker.config import BrokerConfig, ConfigError
from penstock.broker.config.listeners import PROTOCOL_MAP
from penstock.broker.listeners import (
    Address,
    ListenError,
    SocketListener,
    is_loopback,
    parse_address,
    reachable_host,
    resolve_addresses,
)
from penstock.broker.transport import Transport
from penstock.security.protocols import SecurityProtocol

WAIT_SECONDS = 30
ANY_PORT = Address("PLAINTEXT", "127.0.0.1", 0)


class TestAddresses:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("127.0.0.1:9092", Address("PLAINTEXT", "127.0.0.1", 9092)),
            ("9093", Address("PLAINTEXT", "127.0.0.1", 9093)),
            ("broker.example", Address("PLAINTEXT", "broker.example", 9092)),
            ("[::1]:9092", Address("PLAINTEXT", "::1", 9092)),
            ("internal://:9094", Address("INTERNAL", "", 9094)),
        ],
    )
    def test_they_are_written_as_in_kafka_or_shorter(self, text: str, expected: Address) -> None:
        assert parse_address(text) == expected

    @pytest.mark.parametrize("text", ["localhost:http", "localhost:70000", "PLAINTEXT://localhost:"])
    def test_a_port_that_is_none_is_refused_with_an_example(self, text: str) -> None:
        with pytest.raises(ListenError, match="HOST:PORT"):
            parse_address(text)

    def test_they_are_printed_as_clients_write_them(self) -> None:
        assert str(Address("PLAINTEXT", "127.0.0.1", 9092)) == "127.0.0.1:9092"
        assert str(Address("PLAINTEXT", "::1", 9092)) == "[::1]:9092"

    @pytest.mark.parametrize(
        ("host", "expected"),
        [("127.0.0.1", True), ("localhost", True), ("::1", True), ("0.0.0.0", False), ("example.org", False)],
    )
    def test_some_are_reachable_from_this_machine_only(self, host: str, expected: bool) -> None:
        assert is_loopback(host) == expected

    def test_all_interfaces_are_advertised_by_the_name_of_the_machine(self) -> None:
        assert reachable_host("0.0.0.0") == reachable_host("") == socket.gethostname()
        assert reachable_host("10.0.0.1") == "10.0.0.1"


class TestProtocols:
    @staticmethod
    def protocols(configs: dict[str, str], *texts: str) -> list[SecurityProtocol]:
        return [address.protocol for address in resolve_addresses(texts, BrokerConfig(configs))]

    def test_the_name_of_a_protocol_stands_for_it(self) -> None:
        names = [each.value for each in SecurityProtocol]
        assert self.protocols({}, *(f"{name}://:0" for name in names)) == list(SecurityProtocol)
        assert self.protocols({}, "127.0.0.1:0") == [SecurityProtocol.PLAINTEXT]

    def test_the_map_says_what_other_names_mean(self) -> None:
        configs = {PROTOCOL_MAP: "INTERNAL:PLAINTEXT, OUT:SASL_SSL"}
        assert self.protocols(configs, "INTERNAL://:1", "out://:2", "SSL://:3") == [
            SecurityProtocol.PLAINTEXT,
            SecurityProtocol.SASL_SSL,
            SecurityProtocol.SSL,
        ]

    def test_a_name_without_a_protocol_is_refused_with_what_to_write(self) -> None:
        with pytest.raises(ConfigError, match=rf"Set {PROTOCOL_MAP}=A:SSL,INTERNAL:SASL_SSL, with the protocol"):
            self.protocols({PROTOCOL_MAP: "A:SSL"}, "INTERNAL://:1")
        with pytest.raises(ConfigError, match=r"'TLS' of INTERNAL is not a security protocol. Use one of PLAINTEXT"):
            self.protocols({PROTOCOL_MAP: "INTERNAL:TLS"}, "INTERNAL://:1")

    def test_listeners_of_controllers_are_not_opened(self) -> None:
        config = BrokerConfig({"controller.listener.names": "CONTROLLER"})
        addresses = resolve_addresses(["PLAINTEXT://:1", "CONTROLLER://:2"], config)
        assert [address.name for address in addresses] == ["PLAINTEXT"]

    def test_two_of_one_name_are_refused(self) -> None:
        with pytest.raises(ListenError, match=r"INSIDE://HOST:PORT with .*=INSIDE:PLAINTEXT"):
            self.protocols({}, "127.0.0.1:1", "PLAINTEXT://127.0.0.1:2")

    def test_several_without_names_are_numbered(self) -> None:
        addresses = resolve_addresses(["127.0.0.1:1", "127.0.0.1:2"], BrokerConfig())
        assert [address.name for address in addresses] == ["PLAINTEXT", "PLAINTEXT-2"]


class TestListening:
    async def test_whoever_connects_is_handed_over(self) -> None:
        listener = SocketListener(ANY_PORT)
        connected: asyncio.Queue[Transport] = asyncio.Queue()
        listener.start(asyncio.get_running_loop(), connected.put_nowait)
        with socket.create_connection(("127.0.0.1", listener.port), WAIT_SECONDS) as client:
            transport = await asyncio.wait_for(connected.get(), WAIT_SECONDS)
            assert transport.peer == client.getsockname()
            client.sendall(b"hello")
            readable = asyncio.Event()
            transport.add_reader(readable.set)
            await asyncio.wait_for(readable.wait(), WAIT_SECONDS)
            buffer = bytearray(10)
            assert transport.receive_into(memoryview(buffer)) == 5
            transport.close()
        listener.close()

    async def test_nobody_can_connect_when_it_is_closed(self) -> None:
        listener = SocketListener(ANY_PORT)
        listener.start(asyncio.get_running_loop(), lambda transport: transport.close())
        listener.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", listener.port), WAIT_SECONDS)

    async def test_one_that_cannot_be_served_does_not_cost_the_next(self) -> None:
        listener = SocketListener(ANY_PORT)
        connected: asyncio.Queue[Transport] = asyncio.Queue()
        seen: list[Transport] = []

        def fail_first(transport: Transport) -> None:
            seen.append(transport)
            if len(seen) == 1:
                raise ValueError("a fault of this connection alone")
            connected.put_nowait(transport)

        listener.start(asyncio.get_running_loop(), fail_first)
        clients = [socket.create_connection(("127.0.0.1", listener.port), WAIT_SECONDS) for _ in range(2)]
        await asyncio.wait_for(connected.get(), WAIT_SECONDS)
        for each in seen:
            each.close()
        for client in clients:
            client.close()
        listener.close()

    async def test_it_pauses_when_no_descriptors_are_left_and_accepts_later(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(listeners, "_PAUSE_SECONDS", 0.05)
        listener = SocketListener(ANY_PORT)
        real = listener._socket

        class Exhausted:
            def accept(self) -> object:
                listener._socket = real
                raise OSError(errno.EMFILE, "Too many open files")

            def fileno(self) -> int:
                return real.fileno()

        listener._socket = Exhausted()  # type: ignore[assignment]
        connected: asyncio.Queue[Transport] = asyncio.Queue()
        listener.start(asyncio.get_running_loop(), connected.put_nowait)
        with socket.create_connection(("127.0.0.1", listener.port), WAIT_SECONDS):
            transport = await asyncio.wait_for(connected.get(), WAIT_SECONDS)
            transport.close()
        assert caplog.text.count("Too many open files") == 1
        listener.close()


class TestRefusals:
    def test_a_port_in_use_names_the_next_one(self) -> None:
        first = SocketListener(ANY_PORT)
        with pytest.raises(ListenError, match=f"--listen 127.0.0.1:{first.port + 1}"):
            SocketListener(Address("PLAINTEXT", "127.0.0.1", first.port))
        first.close()

    def test_an_address_of_another_machine_is_refused(self) -> None:
        with pytest.raises(ListenError, match="is not an address of this machine"):
            SocketListener(Address("PLAINTEXT", "192.0.2.1", 0))


async def test_a_paused_listener_hands_over_nobody_until_it_goes_on() -> None:
    listener = SocketListener(ANY_PORT)
    accepted: asyncio.Queue[Transport] = asyncio.Queue()

    def connected(transport: Transport) -> None:
        listener.pause(0.05)
        accepted.put_nowait(transport)

    listener.start(asyncio.get_running_loop(), connected)
    clients = [socket.create_connection(("127.0.0.1", listener.port)) for _ in range(3)]
    try:
        first = await asyncio.wait_for(accepted.get(), WAIT_SECONDS)
        assert accepted.empty()
        rest = [await asyncio.wait_for(accepted.get(), WAIT_SECONDS) for _ in range(2)]
        for transport in (first, *rest):
            transport.close()
    finally:
        listener.close()
        for client in clients:
            client.close()
