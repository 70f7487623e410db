"""A broker that serves TLS, in a thread of its own, with certificates that were made for it."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from penstock.broker.foundation import Settings
from penstock.broker.server import Broker
from penstock.certificates import CertificatePaths, create_certificates
from penstock.security.principals import Principal
from penstock.testing.broker import FAST_CONFIGS

WAIT_SECONDS = 30
HOSTS = ("localhost", "127.0.0.1")
API_VERSIONS = struct.pack(">ihhih4s", 14, 18, 0, 7, 4, b"test")


class TlsBroker:
    def __init__(
        self,
        folder: Path,
        configs: Mapping[str, str] | None = None,
        *,
        listen: Sequence[str] = ("SSL://127.0.0.1:0",),
        clients: Sequence[str] = (),
    ) -> None:
        self.folder = folder
        self.paths: CertificatePaths = create_certificates(folder / "tls", HOSTS, clients)
        self.configs = {**FAST_CONFIGS, **self.paths.broker_configs(), **(configs or {})}
        self._listen = list(listen)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self.server: Broker
        self._loop: asyncio.AbstractEventLoop

    async def _serve(self) -> None:
        try:
            self._loop = asyncio.get_running_loop()
            self.server = Broker(Settings(self.folder / "data", self._listen, configs=self.configs))
            await self.server.start()
        except BaseException as error:
            self._failure = error
        self._ready.set()
        if self._failure is None:
            await self.server.serve()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(WAIT_SECONDS)
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self.server.stop)
        self._thread.join(WAIT_SECONDS)

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def bootstrap(self) -> str:
        return f"localhost:{self.port}"

    def principals(self) -> list[Principal]:
        """Who the open connections belong to."""

        async def look() -> list[Principal]:
            return [connection.principal for connection in self.server.parts.dispatcher.connections]

        return asyncio.run_coroutine_threadsafe(look(), self._loop).result(WAIT_SECONDS)

    def metrics(self) -> str:
        async def look() -> str:
            return self.server.parts.metrics.text()

        return asyncio.run_coroutine_threadsafe(look(), self._loop).result(WAIT_SECONDS)

    def connections(self) -> int:
        return len(self.principals())

    def refresh(self) -> None:
        """Look at the certificates now, and not within a second."""

        async def look() -> None:
            self.server.parts.acceptor.refresh()

        asyncio.run_coroutine_threadsafe(look(), self._loop).result(WAIT_SECONDS)

    def context(self, client: str = "") -> ssl.SSLContext:
        """The context of a client that trusts the broker, with a certificate of its own if it is named."""
        context = ssl.create_default_context(cafile=str(self.paths.ca))
        if client:
            context.load_cert_chain(self.paths.clients[client])
        return context

    def connect(self, context: ssl.SSLContext | None = None, host: str = "localhost") -> ssl.SSLSocket:
        sock = socket.create_connection(("127.0.0.1", self.port), WAIT_SECONDS)
        try:
            return (context or self.context()).wrap_socket(sock, server_hostname=host)
        except BaseException:
            sock.close()
            raise


def ask(sock: socket.socket) -> int:
    """Ask for the versions of the APIs; returns the correlation id that comes back."""
    sock.sendall(API_VERSIONS)
    (size,) = struct.unpack(">i", exactly(sock, 4))
    return int(struct.unpack_from(">i", exactly(sock, size))[0])


def exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        received = sock.recv(size - len(data))
        if not received:
            raise ConnectionResetError("the broker has closed the connection")
        data += received
    return data
