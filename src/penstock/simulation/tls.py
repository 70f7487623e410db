"""TLS over the connections of a simulated world: the broker's own transport, and that of asyncio for clients.

OpenSSL draws its own random numbers, so the bytes on the way differ from run to run. Their number does not, with keys
whose signatures have always the same length (Ed25519) and without session tickets, nor does anything that is decided
by them. Whoever listens at a connection is told what is sent before it is encrypted.
"""

from __future__ import annotations

import asyncio
import ssl
from asyncio import sslproto
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

from penstock.broker.tls import TlsServer
from penstock.broker.tls_transport import TlsSupport, TlsTransport
from penstock.simulation.network import Connection, SimulatedListener

if TYPE_CHECKING:
    import socket

    from penstock.broker.config import BrokerConfig
    from penstock.broker.listeners import Address, Connected
    from penstock.simulation.loop import Process
    from penstock.simulation.network import Network
    from penstock.testing.memory import MemoryTransport


def listener_of(network: Network, process: Process, address: Address, config: BrokerConfig) -> SimulatedListener:
    """Raises ConfigError if it has TLS, and its configs will not do."""
    if not address.protocol.has_tls:
        return SimulatedListener(network, process, address)
    return _TlsListener(
        network, process, address, TlsServer(config.for_listener(address.name), address.name, address.protocol)
    )


class _TlsListener(SimulatedListener):
    has_tls = True

    def __init__(self, network: Network, process: Process, address: Address, server: TlsServer) -> None:
        super().__init__(network, process, address)
        self._server = server

    def start(self, loop: asyncio.AbstractEventLoop, connected: Connected) -> None:
        self._loop = loop
        self._support = TlsSupport(self._server, loop)
        super().start(loop, connected)

    def transport(self, connection: Connection) -> _TappedTransport:
        return _TappedTransport(connection, self._loop, self._support)

    def check(self, config: BrokerConfig) -> None:
        self._server.check(config.for_listener(self.address.name))

    def refresh(self) -> None:
        self._server.refresh()


class _TappedTransport(TlsTransport):
    """The broker's end."""

    def __init__(self, connection: Connection, loop: asyncio.AbstractEventLoop, support: TlsSupport) -> None:
        end = connection.broker_end
        sock, watched = cast("socket.socket", _Socket(end)), cast("asyncio.AbstractEventLoop", _Watched(end, loop))
        super().__init__(sock, end.peer, watched, support)
        self._connection = connection

    def _encrypt(self, data: bytes | memoryview) -> None:
        piece = bytes(data)
        super()._encrypt(piece)
        self._connection.answers(piece)


class _Socket:
    """What a transport asks of its socket."""

    def __init__(self, end: MemoryTransport) -> None:
        self._end = end
        self.close = end.close

    def fileno(self) -> int:
        return 0

    def recv_into(self, buffer: memoryview, size: int = 0) -> int:
        return self._end.receive_into(buffer, size)

    def send(self, data: bytes | memoryview) -> int:
        return self._end.send([data], False)

    def setsockopt(self, *option: int) -> None:
        """There is no kernel to be told."""


class _Watched:
    """The event loop as the transport of one connection uses it: there are no descriptors."""

    def __init__(self, end: MemoryTransport, loop: asyncio.AbstractEventLoop) -> None:
        self._end = end
        self.call_soon = loop.call_soon
        self.call_later = loop.call_later
        self.time = loop.time

    def add_reader(self, fd: int, callback: Callable[[], object]) -> None:
        self._end.add_reader(callback)

    def remove_reader(self, fd: int) -> None:
        self._end.remove_reader()

    def add_writer(self, fd: int, callback: Callable[[], object]) -> None:
        self._end.add_writer(callback)

    def remove_writer(self, fd: int) -> None:
        self._end.remove_writer()


class _ClientTransport(sslproto._SSLProtocolTransport):
    connection: Connection

    def __del__(self) -> None:
        """A program that was killed has closed nothing."""


class ClientTls(sslproto.SSLProtocol):
    """The client's end: that of asyncio."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        protocol: asyncio.BaseProtocol,
        context: ssl.SSLContext,
        host: str,
    ) -> None:
        self.secured: asyncio.Future[None] = loop.create_future()
        super().__init__(loop, protocol, context, self.secured, server_side=False, server_hostname=host)
        self.connection: Connection
        self.transport: _ClientTransport = self._get_app_transport()
        """What the program holds."""

    def begin(self, connection: Connection) -> None:
        self.connection = self.transport.connection = connection
        self.connection_made(connection.client_end)

    def _get_app_transport(self) -> Any:
        if self._app_transport is None:
            self._app_transport = _ClientTransport(self._loop, self)
        return self._app_transport

    def _write_appdata(self, list_of_data: Iterable[bytes | memoryview]) -> None:
        pieces = [bytes(each) for each in list_of_data]
        if self.connection.request_tap is not None:
            self.connection.request_tap(b"".join(pieces))
        super()._write_appdata(pieces)
