"""A way to PostgreSQL on which connections can be cut in the middle of a change."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

_BYTES = 65536
ANYTHING = b""
"""For faults that are to meet whatever is sent next."""


class PostgresProxy:
    """Listens on a port of 127.0.0.1 and passes bytes on. Each fault happens once, to the connection that meets it."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._sockets: list[socket.socket] = []
        self._is_open = True
        self.cut_before: bytes | None = None
        """Cut when a client sends this, and do not pass it on."""
        self.cut_after: bytes | None = None
        """Pass this on when a client sends it, and cut when the server answers."""
        self.swallow: bytes | None = None
        """Pass on neither this nor anything after it, and cut nothing."""
        self.backend_pid: int | None = None
        """What clients are told as the process id of their backend."""
        self.refuses = False
        """Whether new connections are closed at once."""
        self.after_cut: Callable[[], None] = lambda: None
        self.faults = 0

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_open = False
        self._listener.close()
        self.cut_all()

    def cut_all(self) -> None:
        for each in self._sockets:
            _end(each)

    def _accept(self) -> None:
        while self._is_open:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.refuses:
                client.close()
                continue
            server = socket.create_connection(("127.0.0.1", self._target))
            self._sockets += [client, server]
            _Way(self, client, server)


class _Way:
    """One connection through the proxy."""

    def __init__(self, proxy: PostgresProxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy, self._client, self._server = proxy, client, server
        self._cuts_answer = self._swallows = False
        for run in (self._to_server, self._to_client):
            threading.Thread(target=run, daemon=True).start()

    def _to_server(self) -> None:
        proxy = self._proxy
        try:
            while data := self._client.recv(_BYTES):
                if proxy.swallow is not None and proxy.swallow in data:
                    self._swallows, proxy.swallow = True, None
                    proxy.faults += 1
                if self._swallows:
                    continue
                if proxy.cut_before is not None and proxy.cut_before in data:
                    proxy.cut_before = None
                    self._cut()
                    return
                if proxy.cut_after is not None and proxy.cut_after in data:
                    self._cuts_answer, proxy.cut_after = True, None
                self._server.sendall(data)
        except OSError:
            pass
        self._close()

    def _to_client(self) -> None:
        try:
            while data := self._server.recv(_BYTES):
                if self._cuts_answer:
                    self._cut()
                    return
                if self._proxy.backend_pid is not None:
                    data = _with_backend_pid(data, self._proxy.backend_pid)
                self._client.sendall(data)
        except OSError:
            pass
        self._close()

    def _cut(self) -> None:
        self._proxy.faults += 1
        self._proxy.after_cut()
        self._close()

    def _close(self) -> None:
        _end(self._client)
        _end(self._server)


def _end(side: socket.socket) -> None:
    try:
        side.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    side.close()


def _with_backend_pid(data: bytes, pid: int) -> bytes:
    """BackendKeyData is K, a length of 12, the process id and a key."""
    found = data.find(b"K" + struct.pack(">i", 12))
    return data if found < 0 else data[: found + 5] + struct.pack(">i", pid) + data[found + 9 :]
