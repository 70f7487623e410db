"""Listening sockets: where clients connect, and the address that they are told to come back to."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from penstock import guard
from penstock.broker.config.listeners import protocol_of
from penstock.broker.transport import SocketTransport, Transport
from penstock.security.protocols import SecurityProtocol

if TYPE_CHECKING:
    from penstock.broker.config import BrokerConfig
    from penstock.broker.tls import TlsServer

log = logging.getLogger("penstock.broker")

DEFAULT_PORT = 9092
_ACCEPTED_AT_ONCE = 64
_PAUSE_SECONDS = 1.0


class ListenError(Exception):
    """An address that cannot be listened on; the message says what to do."""


@dataclass(slots=True, frozen=True)
class Address:
    name: str
    host: str
    port: int
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str, default_name: str = "PLAINTEXT") -> Address:
    """`HOST:PORT`, `PORT`, `[::1]:9092`, or Kafka's `NAME://HOST:PORT`; an empty host means all interfaces."""
    name, separator, rest = text.strip().partition("://")
    if not separator:
        name, rest = default_name, text.strip()
    host, colon, port = rest.rpartition(":")
    if not colon:
        host, port = ("127.0.0.1", rest) if rest.isdigit() else (rest, str(DEFAULT_PORT))
    host = host.strip("[]")
    if not port.isdigit() or int(port) > 65535:
        raise ListenError(f"{text!r} is not an address; write HOST:PORT, for example 127.0.0.1:{DEFAULT_PORT}")
    return Address(name.upper(), host, int(port))


def resolve_addresses(
    texts: Iterable[str], config: BrokerConfig, unnamed: str = SecurityProtocol.PLAINTEXT.value
) -> list[Address]:
    """Addresses with their security protocols; those of controllers, which nobody opens, are left out.

    Names are unique, because clients are told the address of the listener that they came through: further addresses
    that were given without a name are numbered. Raises ListenError or ConfigError with what to write.
    """
    of_controllers = {name.upper() for name in config.controller_listener_names}
    found: dict[str, Address] = {}
    for text in texts:
        address = parse_address(text, unnamed)
        if address.name in of_controllers:
            continue
        name = address.name
        if name in found and "://" not in text:
            name = f"{name}-{len(found) + 1}"
        elif name in found:
            raise ListenError(
                f"two listeners are named {name}; name one of them otherwise, for example INSIDE://HOST:PORT with "
                f"listener.security.protocol.map=INSIDE:{name}"
            )
        found[name] = replace(address, name=name, protocol=protocol_of(address.name, config.static))
    return list(found.values())


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def reachable_host(host: str) -> str:
    """What to tell clients when nothing is advertised: this machine's name stands for "all interfaces"."""
    return socket.gethostname() if host in ("", "0.0.0.0", "::") else host


Connected = Callable[[Transport], object]
"""Takes over a connection that a client has opened."""


class Listener(Protocol):
    """Where clients connect."""

    @property
    def address(self) -> Address: ...

    @property
    def port(self) -> int:
        """The port of the address, or the one that was chosen when it is 0."""
        ...

    def start(self, loop: asyncio.AbstractEventLoop, connected: Connected) -> None:
        """Hand over connections until the listener is closed."""
        ...

    def pause(self, seconds: float) -> None:
        """Hand over no connection for a while; those who come meanwhile wait."""
        ...

    def check(self, config: BrokerConfig) -> None:
        """Raise ConfigError if the listener could not serve with these configs."""
        ...

    def refresh(self) -> None:
        """Take over certificates that have changed."""
        ...

    def close(self) -> None: ...


def bind(address: Address) -> socket.socket:
    """A socket that has the address, and does not listen yet. Raises ListenError with what to do."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address.host, address.port))
    except OSError as error:
        sock.close()
        raise ListenError(_why(address, error)) from error
    return sock


class SocketListener:
    """One listening socket, accepting until it is closed."""

    def __init__(
        self,
        address: Address,
        *,
        backlog: int = 1024,
        send_buffer_bytes: int = -1,
        receive_buffer_bytes: int = -1,
        tls: TlsServer | None = None,
        bound: socket.socket | None = None,
    ) -> None:
        """The sockets accepted inherit the sizes of the buffers; -1 leaves one to the operating system.

        `bound` is a socket that has the address already, and maybe clients who wait.
        """
        self.address = address
        self._tls = tls
        self._wrap: Callable[[socket.socket, tuple[str, int], asyncio.AbstractEventLoop], Transport] = SocketTransport
        self._socket = bound if bound is not None else bind(address)
        try:
            if send_buffer_bytes > 0:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
            if receive_buffer_bytes > 0:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
            self._socket.setblocking(False)
            self._socket.listen(backlog)
        except OSError as error:
            self._socket.close()
            raise ListenError(_why(address, error)) from error
        self.port: int = self._socket.getsockname()[1]
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_paused = False

    def start(self, loop: asyncio.AbstractEventLoop, connected: Connected) -> None:
        if self._tls is not None:
            from penstock.broker.tls_transport import TlsSupport, TlsTransport

            self._wrap = partial(TlsTransport, support=TlsSupport(self._tls, loop))
        self._listen(loop, connected)

    def check(self, config: BrokerConfig) -> None:
        if self._tls is not None:
            self._tls.check(config.for_listener(self.address.name))

    def refresh(self) -> None:
        if self._tls is not None:
            self._tls.refresh()

    def _listen(self, loop: asyncio.AbstractEventLoop, connected: Connected) -> None:
        self._loop = loop
        self._connected = connected
        loop.add_reader(self._socket.fileno(), self._accept, loop, connected)

    def pause(self, seconds: float) -> None:
        if self._loop is not None and not self._is_paused:
            self._is_paused = True
            self._loop.remove_reader(self._socket.fileno())
            self._loop.call_later(seconds, self._resume)

    def _accept(self, loop: asyncio.AbstractEventLoop, connected: Connected) -> None:
        """Accept what waits, up to a bound so that a flood of connections does not starve those at work."""
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                sock, peer = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # No descriptors are left, most likely. The connection goes on waiting: do not spin on it.
                log.warning("cannot accept a connection: %s", error.strerror)
                self.pause(_PAUSE_SECONDS)
                return
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            guard.attempt("accepting a connection", connected, self._wrap(sock, peer, loop))
            if self._is_paused:
                return

    def _resume(self) -> None:
        self._is_paused = False
        if self._loop is not None:
            self._listen(self._loop, self._connected)

    def close(self) -> None:
        if self._loop is not None:
            self._loop.remove_reader(self._socket.fileno())
            self._loop = None
        self._socket.close()


def _why(address: Address, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"{address} is in use by another program (maybe another Penstock); stop it, or listen elsewhere: "
            f"penstock serve --listen {address.host or '127.0.0.1'}:{address.port + 1}"
        )
    if error.errno == errno.EACCES:
        return f"{address} needs privileges; choose a port above 1023: penstock serve --listen {address.host}:9092"
    if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
        return f"{address.host!r} is not an address of this machine; try --listen 127.0.0.1:{address.port}"
    return f"cannot listen on {address}: {error.strerror}"
