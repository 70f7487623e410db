"""Connections within the process: a transport and a listener that need no sockets.

    listener = MemoryListener()
    ...                               # hand it to a broker, which starts it
    client = listener.connect()
    client.send(request)
    response = await client.read_frame()

Both ends belong to one event loop. What is under way in a direction is bounded as the buffers of a socket are, so that
a client that does not read holds up the broker just as it would over a network.
"""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import Callable, Sequence

from penstock.broker.file_range import FileRange
from penstock.broker.listeners import Address, Connected

_CAPACITY_BYTES = 64 << 10
_SIZE = struct.Struct(">i")


class MemoryTransport:
    """The broker's end of a connection; the other one is `client`."""

    def __init__(
        self, peer: tuple[str, int], loop: asyncio.AbstractEventLoop, capacity_bytes: int = _CAPACITY_BYTES
    ) -> None:
        self.peer = peer
        self.client = MemoryClient(self)
        self._loop = loop
        self._capacity_bytes = capacity_bytes
        self._received = bytearray()
        self._has_ended = False
        self._is_closed = False
        self._reader: Callable[[], object] | None = None
        self._writer: Callable[[], object] | None = None
        self._is_scheduled = False

    # -- for the connection ----------------------------------------------------------------------------------------

    def receive_into(self, buffer: memoryview, size: int = 0, /) -> int:
        if not self._received and not self._has_ended:
            raise BlockingIOError
        taken = min(len(self._received), size or len(buffer), len(buffer))
        buffer[:taken] = self._received[:taken]
        del self._received[:taken]
        return taken

    def send(self, buffers: Sequence[bytes | memoryview], more: bool, /) -> int:
        room = self._room()
        taken = 0
        for each in buffers:
            piece = each[: room - taken]
            self.client.receive(piece)
            taken += len(piece)
            if taken == room:
                break
        return taken

    def send_file(self, part: FileRange, /) -> int:
        piece = os.pread(part.file.fd, min(part.size, self._room()), part.position)
        self.client.receive(piece)
        return len(piece)

    def _room(self) -> int:
        if self._has_ended:
            raise BrokenPipeError
        room = self._capacity_bytes - len(self.client.received)
        if room <= 0:
            raise BlockingIOError
        return room

    def add_reader(self, callback: Callable[[], object], /) -> None:
        self._reader = callback
        self.look()

    def remove_reader(self) -> None:
        self._reader = None

    def add_writer(self, callback: Callable[[], object], /) -> None:
        self._writer = callback
        self.look()

    def remove_writer(self) -> None:
        self._writer = None

    def close(self) -> None:
        self._reader = self._writer = None
        self._is_closed = True
        self.client.end()

    # -- readiness -------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Call reader and writer soon, if they can do something."""
        if not self._is_scheduled and (self._can_read() or self._can_write()):
            self._is_scheduled = True
            self._loop.call_soon(self._call)

    def _can_read(self) -> bool:
        return self._reader is not None and (bool(self._received) or self._has_ended)

    def _can_write(self) -> bool:
        has_room = len(self.client.received) < self._capacity_bytes
        return self._writer is not None and (has_room or self._has_ended)

    def _call(self) -> None:
        self._is_scheduled = False
        if self._reader is not None and self._can_read():
            self._reader()
        if self._writer is not None and self._can_write():
            self._writer()
        self.look()

    # -- for the client --------------------------------------------------------------------------------------------

    def put(self, data: bytes) -> None:
        if self._is_closed:
            raise BrokenPipeError("the broker closed the connection")
        self._received += data
        self.look()

    def end(self) -> None:
        self._has_ended = True
        self.look()


class MemoryClient:
    """The client's end of a connection."""

    def __init__(self, transport: MemoryTransport) -> None:
        self._transport = transport
        self.received = bytearray()
        """What the broker has sent and nobody has read."""
        self.is_closed = False
        """Whether the broker closed the connection."""
        self._changed = asyncio.Event()

    def send(self, data: bytes) -> None:
        self._transport.put(data)

    async def read(self, size: int) -> bytes:
        """Wait for this many bytes; fewer come only when the broker has closed the connection."""
        data = bytearray()
        while len(data) < size:
            taken = min(size - len(data), len(self.received))
            data += self.received[:taken]
            del self.received[:taken]
            self._transport.look()
            if len(data) < size:
                if self.is_closed and not self.received:
                    break
                self._changed.clear()
                await self._changed.wait()
        return bytes(data)

    async def read_frame(self) -> bytes | None:
        """The next response without its size; None when the broker has closed the connection."""
        size = await self.read(_SIZE.size)
        return await self.read(_SIZE.unpack(size)[0]) if len(size) == _SIZE.size else None

    def close(self) -> None:
        self._transport.end()

    # -- for the transport -----------------------------------------------------------------------------------------

    def receive(self, data: bytes | memoryview) -> None:
        self.received += data
        self._changed.set()

    def end(self) -> None:
        self.is_closed = True
        self._changed.set()


class MemoryListener:
    """A listener that clients of the same process connect to."""

    def __init__(self, address: Address | None = None) -> None:
        self.address = address or Address("PLAINTEXT", "memory", 9092)
        self.port = self.address.port
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connected: Connected | None = None
        self._clients = 0

    def start(self, loop: asyncio.AbstractEventLoop, connected: Connected) -> None:
        self._loop = loop
        self._connected = connected

    def connect(self, host: str = "memory", *, capacity_bytes: int = _CAPACITY_BYTES) -> MemoryClient:
        """Open a connection; `host` is where the broker sees it come from."""
        if self._loop is None or self._connected is None:
            raise ConnectionRefusedError("nobody listens: the broker is not started, or it has stopped")
        self._clients += 1
        transport = MemoryTransport((host, self._clients), self._loop, capacity_bytes)
        self._connected(transport)
        return transport.client

    def close(self) -> None:
        self._loop = self._connected = None
