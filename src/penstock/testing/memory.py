"""A broker within the process that has neither files nor sockets, and the connections to it.

    async with MemoryBroker() as broker:
        client = broker.connect()
        response = await client.ask(m.MetadataRequest(), m.MetadataResponse)

Its catalog, storage and listener are in memory, and a test can make them do what disks and networks rarely do:
`broker.catalog.refuse_changes(...)`, `broker.storage.hold_commits()`, `broker.storage.refuse_appends(log)`,
`broker.storage.lose_leadership(log)`, `broker.storage.gain_leadership(log)`.

Both ends of a connection belong to one event loop. The data under way in each direction is bounded like the buffers of
a socket, so that a client that does not read holds up the broker just as it would over a network.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self, TypeVar

from penstock import portable
from penstock.broker.config import BrokerConfig
from penstock.broker.file_range import FileRange
from penstock.broker.foundation import Foundation, LayFoundation, OnFailure, Settings
from penstock.broker.listeners import Address, Connected
from penstock.broker.parts import Parts
from penstock.broker.server import Broker as Server
from penstock.broker.world import World
from penstock.catalog.memory import MemoryCatalog
from penstock.security.principals import ANONYMOUS, Principal
from penstock.storage.memory import MemoryStorage
from penstock.testing.broker import FAST_CONFIGS
from penstock.wire import messages as m
from penstock.wire.api import api_of
from penstock.wire.conversation import Conversation

R = TypeVar("R", bound=m.Message)

_STOP_SECONDS = 30.0
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

    has_unsent = False

    def when_secured(self, callback: Callable[[Principal], object], /) -> None:
        callback(ANONYMOUS)

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
        piece = portable.read_at(part.file.fd, min(part.size, self._room()), part.position)
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

    @property
    def waits_for_room(self) -> bool:
        """Whether it makes a difference that the client has received something."""
        return self._writer is not None

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
        self.paused_seconds = 0.0
        """How long the broker wanted to take in nobody, the last time that too many connected at once."""

    def pause(self, seconds: float) -> None:
        self.paused_seconds = seconds

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

    def check(self, config: BrokerConfig) -> None:
        """It serves with any configs."""

    def refresh(self) -> None:
        """There is nothing to read again."""

    def close(self) -> None:
        self._loop = self._connected = None


class WireClient:
    """Whole requests over a connection, in the newest version or one of your choice."""

    def __init__(self, connection: MemoryClient, client_id: str) -> None:
        self.connection = connection
        self._conversation = Conversation("memory", client_id)

    def post(self, request: m.Message, version: int | None = None) -> None:
        """Send a request; its response, unless it is one that gets none (`acks=0`), is still to be taken."""
        info = api_of(type(request))
        is_answered = not isinstance(request, m.ProduceRequest) or request.acks != 0
        newest = info.max_version if version is None else version
        self.connection.send(b"".join(self._conversation.send(request, info.response if is_answered else None, newest)))

    async def take(self, response: type[R]) -> R:
        """Wait for the response to the oldest request that has none."""
        frame = await self.connection.read_frame()
        if frame is None:
            raise ConnectionError("the broker closed the connection")
        view = memoryview(frame)
        message = self._conversation.answered(view).decode(view)
        assert isinstance(message, response)
        return message

    async def ask(self, request: m.Message, response: type[R], version: int | None = None) -> R:
        """Send a request and wait for its response."""
        self.post(request, version)
        return await self.take(response)

    def close(self) -> None:
        self.connection.close()


def memory_foundation(catalog: MemoryCatalog, storage: MemoryStorage, listener: MemoryListener) -> LayFoundation:
    """What a broker without files and sockets stands on."""

    def lay(settings: Settings, config: BrokerConfig, world: World, on_failure: OnFailure) -> Foundation:
        return Foundation(catalog, storage, lambda: [listener])

    return lay


class MemoryBroker:
    """A broker in the running event loop. `acks=all` waits until the storage has committed, which it does at once."""

    def __init__(self, configs: Mapping[str, object] | None = None) -> None:
        own = {name: str(value) for name, value in (configs or {}).items()}
        self._configs = {**FAST_CONFIGS, "penstock.acks.all.flush": "true", **own}
        self.catalog = MemoryCatalog()
        self.storage = MemoryStorage(lambda callback: asyncio.get_running_loop().call_soon(callback))
        self._listener = MemoryListener(Address("PLAINTEXT", "localhost", 9092))
        self._server: Server | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start serving."""
        if self._task is not None:
            raise RuntimeError("the broker is running already")
        settings = Settings(configs=dict(self._configs))
        server = Server(settings, memory_foundation(self.catalog, self.storage, self._listener))
        await server.start()
        self._server = server
        self._task = asyncio.create_task(server.serve())

    async def stop(self) -> None:
        """Stop serving. Catalog and storage keep what they have, and `start` serves it again."""
        server, task = self._server, self._task
        self._server = self._task = None
        if server is not None and task is not None:
            server.stop()
            await asyncio.wait_for(task, _STOP_SECONDS)

    async def restart(self) -> None:
        """Stop the broker and start it again, with what was committed."""
        await self.stop()
        await self.start()

    @property
    def parts(self) -> Parts:
        """The parts of the running broker, for tests of single ones."""
        if self._server is None:
            raise RuntimeError("the broker is not running: use it in an `async with` block, or call start()")
        return self._server.parts

    def connect(self, client_id: str = "memory") -> WireClient:
        """A client whose connection is in memory: `await client.ask(request, response)`."""
        return WireClient(self._listener.connect(), client_id)

    def create_topic(self, name: str, partitions: int = 1, **configs: object) -> None:
        """Create a topic; configs with underscores for dots: `create_topic("t", cleanup_policy="compact")`."""
        named = {key.replace("_", "."): str(value) for key, value in configs.items()}
        self.parts.topics.create(name, partitions, named)
