"""One connection to one broker over a blocking socket: one request at a time, no event loop.

For code that reads in threads of its own (Spark's tasks); everything else uses `penstock.client.connection`. Both use
the same protocol core (`penstock.wire.conversation`). `close` may be called from another thread, and wakes one that is
waiting for a response.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections import deque
from contextlib import suppress
from typing import TypeVar

from penstock.client.authentication import Authenticator, authenticate, renewal_after_s
from penstock.client.connection import hello
from penstock.client.errors import BrokerUnreachable, Disconnected, RequestTimeout
from penstock.client.tls import explained
from penstock.wire import messages as m
from penstock.wire.conversation import NEWEST, Conversation
from penstock.wire.frames import FrameBuffer, ProtocolViolation

R = TypeVar("R", bound=m.Message)

_RECEIVE_BUFFER = 4 * 1024 * 1024


class BlockingConnection:
    """Open one with `BlockingConnection.open`; send with `request`; `close` when done."""

    def __init__(
        self,
        connected: socket.socket,
        address: tuple[str, int],
        client_id: str,
        authenticator: Authenticator | None = None,
    ) -> None:
        self.address = address
        self._name = f"{address[0]}:{address[1]}"
        self._socket = connected
        self._conversation = Conversation(self._name, client_id)
        self._frames = FrameBuffer()
        self._arrived: deque[memoryview] = deque()
        self._authenticator = authenticator
        self._renew_at: float | None = None

    @classmethod
    def open(
        cls,
        host: str,
        port: int,
        *,
        client_id: str = "penstock",
        connect_s: float = 10.0,
        timeout_s: float = 30.0,
        ssl_context: ssl.SSLContext | None = None,
        authenticator: Authenticator | None = None,
    ) -> BlockingConnection:
        """Connect, negotiate versions and authenticate."""
        try:
            connected = socket.create_connection((host, port), connect_s)
        except OSError as error:
            raise BrokerUnreachable(f"no broker answers at {host}:{port} ({error.strerror or error})") from error
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with suppress(OSError):
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        if ssl_context is not None:
            connected = _encrypted(connected, ssl_context, host, port)
        connected.settimeout(timeout_s)
        connection = cls(connected, (host, port), client_id, authenticator)
        try:
            connection._negotiate()
            connection._authenticate()
        except BaseException:
            connection.close()
            raise
        return connection

    def _negotiate(self) -> None:
        conversation = self._conversation
        while not conversation.learn(self._ask(hello(), m.ApiVersionsResponse, conversation.hello_version)):
            pass

    def _authenticate(self) -> None:
        if self._authenticator is None:
            return
        mechanism = self._authenticator.begin_blocking()
        exchange = authenticate(self._conversation, self._name, self._authenticator, mechanism)
        try:
            question = next(exchange)
            while True:
                question = exchange.send(self._ask(*question))
        except StopIteration as over:
            lifetime_ms: int = over.value
        self._renew_at = time.monotonic() + renewal_after_s(lifetime_ms) if lifetime_ms else None

    def offers(self, response: type[m.Message], version: int = 0) -> bool:
        """Whether the broker speaks `version` or a newer one of an API."""
        return self._conversation.offers(response, version)

    def request(self, message: m.Message, response: type[R], *, at_most: int = NEWEST) -> R:
        """Send one request and wait for its answer."""
        if self._renew_at is not None and time.monotonic() >= self._renew_at:
            self._authenticate()
        return self._ask(message, response, self._conversation.version_for(response, at_most=at_most))

    def _ask(self, message: m.Message, response: type[R], version: int) -> R:
        frame = self._conversation.send(message, response, version)
        try:
            self._socket.sendall(b"".join(frame))
            while not self._arrived:
                self._receive()
            answer = self._arrived.popleft()
            decoded = self._conversation.answered(answer).decode(answer)
        except TimeoutError as error:
            raise RequestTimeout(f"{self._name} did not answer {type(message).__name__} in time") from error
        except ssl.SSLError as error:
            raise explained(self._name, error) from error
        except (OSError, ProtocolViolation) as error:
            raise Disconnected(f"the connection to {self._name} is lost: {error}") from error
        assert isinstance(decoded, response)
        return decoded

    def _receive(self) -> None:
        count = self._socket.recv_into(self._frames.get_buffer())
        if not count:
            raise ConnectionError("the broker closed it")
        self._arrived.extend(self._frames.received(count))

    def close(self) -> None:
        # A shutdown wakes the thread that waits in recv; a close alone would not.
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def _encrypted(connected: socket.socket, context: ssl.SSLContext, host: str, port: int) -> socket.socket:
    try:
        return context.wrap_socket(connected, server_hostname=host)
    except BaseException as error:
        connected.close()
        if isinstance(error, ssl.SSLError):
            raise explained(f"{host}:{port}", error) from error
        if isinstance(error, OSError):
            raise BrokerUnreachable(
                f"{host}:{port} closed the connection in the TLS handshake: is it a plaintext listener?"
            ) from error
        raise
