"""How the bytes of a connection travel: what a `Connection` needs of whatever carries it, and plain sockets.

A transport never blocks. What cannot be done now raises `BlockingIOError`; what will never be possible again raises
another `OSError`, after which the connection closes it.

Readiness is level-triggered: a reader is called again and again while there is something to receive or the peer has
ended, a writer while there is room to send. How a transport knows is its own business. Encryption may have to write
before it can read, or hold decrypted bytes that no file descriptor shows; a transport in memory has no descriptor at
all.

A range of a file is sent from the page cache: the connection has seen to it that the range is there. A transport that
has to see the bytes (encryption does) reads them in pieces of bounded size and sends each before it reads the next.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from penstock import portable
from penstock.broker.file_range import FileRange
from penstock.portable import HAS_SENDFILE
from penstock.security.principals import ANONYMOUS, Principal

_SENDFILE_BYTES = 4 << 20
_READ_BYTES = 256 << 10
_MSG_MORE: int = getattr(socket, "MSG_MORE", 0)  # more follows at once, so the kernel may wait for it


class HandshakeRefused(ConnectionError):
    """The peer was turned away in the handshake of its transport, because of what it sent."""


class Transport(Protocol):
    @property
    def peer(self) -> tuple[str, int]:
        """The host and port of the other side."""
        ...

    @property
    def has_unsent(self) -> bool:
        """Whether bytes that were taken have not been handed to the operating system yet."""
        ...

    def when_secured(self, callback: Callable[[Principal], object], /) -> None:
        """Call back once, before any byte is received, with who the client is as far as the transport has found out."""
        ...

    def receive_into(self, buffer: memoryview, size: int = 0, /) -> int:
        """Receive at most `size` bytes (0: what fits); 0 when the peer has ended. Raises HandshakeRefused."""
        ...

    def send(self, buffers: Sequence[bytes | memoryview], more: bool, /) -> int:
        """Send buffers in order; returns how many bytes were taken. `more`: others follow at once."""
        ...

    def send_file(self, part: FileRange, /) -> int:
        """Send from the beginning of a range; returns how many bytes were taken, 0 when the file ends before it."""
        ...

    def add_reader(self, callback: Callable[[], object], /) -> None: ...

    def remove_reader(self) -> None: ...

    def add_writer(self, callback: Callable[[], object], /) -> None: ...

    def remove_writer(self) -> None: ...

    def close(self) -> None:
        """Give up everything; neither reader nor writer is called again."""
        ...


class SocketTransport:
    """A plain socket. The kernel sends file ranges, so that their bytes never enter this process."""

    __slots__ = ("_fd", "_loop", "_sendmsg", "_socket", "peer", "receive_into")

    has_unsent = False

    def __init__(self, sock: socket.socket, peer: tuple[str, int], loop: asyncio.AbstractEventLoop) -> None:
        self.peer = peer[0], peer[1]
        self._socket = sock
        self._fd = sock.fileno()
        self._loop = loop
        self._sendmsg = _send_buffers(sock)
        self.receive_into = sock.recv_into

    def when_secured(self, callback: Callable[[Principal], object], /) -> None:
        callback(ANONYMOUS)

    def send(self, buffers: Sequence[bytes | memoryview], more: bool, /) -> int:
        return self._sendmsg(buffers, (), _MSG_MORE if more else 0)

    def send_file(self, part: FileRange, /) -> int:
        if not HAS_SENDFILE:
            return self._socket.send(portable.read_at(part.file.fd, min(part.size, _READ_BYTES), part.position))
        return os.sendfile(self._fd, part.file.fd, part.position, min(part.size, _SENDFILE_BYTES))

    def add_reader(self, callback: Callable[[], object], /) -> None:
        self._loop.add_reader(self._fd, callback)

    def remove_reader(self) -> None:
        self._loop.remove_reader(self._fd)

    def add_writer(self, callback: Callable[[], object], /) -> None:
        self._loop.add_writer(self._fd, callback)

    def remove_writer(self) -> None:
        self._loop.remove_writer(self._fd)

    def close(self) -> None:
        self._loop.remove_reader(self._fd)
        self._loop.remove_writer(self._fd)
        self._socket.close()


def _send_buffers(sock: socket.socket) -> Callable[[Sequence[bytes | memoryview], Sequence[Any], int], int]:
    """The socket's `sendmsg`, or, on Windows, what does the same."""
    sendmsg = getattr(sock, "sendmsg", None)
    if sendmsg is not None:
        return sendmsg  # type: ignore[no-any-return]
    return lambda buffers, _, flags: sock.send(b"".join(buffers), flags)
