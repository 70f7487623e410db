"""What passes the broker's door: requests when they are sent, answers when the broker gives them.

A client alone cannot say what a broker has done: an answer may be lost on its way. At the door it is known what the
broker has said, to whom, and when. Whoever listens gets *exchanges*, of every client alike, and hears of requests that
will never be answered because their connection is over.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass

from penstock.simulation.network import Connection
from penstock.simulation.world import SimulatedWorld
from penstock.wire import messages as m
from penstock.wire.api import API_TABLE, ApiKey
from penstock.wire.codec import decode
from penstock.wire.conversation import Expected
from penstock.wire.frames import SIZE, parse_request_header

_KEY = struct.Struct(">h")


@dataclass(slots=True, eq=False)
class Exchange:
    """A request, and its answer when there is one."""

    connection: Connection
    client: str
    """The name of the program that has sent it."""
    request: m.Message
    sent_ms: int
    answer: m.Message | None = None
    number: int = 0
    """In the order in which requests were sent."""


Listener = Callable[[Exchange], object]


class Door:
    """Listens at every connection of a world. Assign what is to be called."""

    def __init__(self, world: SimulatedWorld, apis: Collection[ApiKey]) -> None:
        """The APIs are those whose exchanges somebody listens for."""
        self.apis = frozenset(apis)
        self.on_request: Listener | None = None
        self.on_answer: Listener | None = None
        self.on_unanswered: Listener | None = None
        """The connection is over: its client will never know. The broker may still do what was requested, and answer:
        then `on_answer` is called as well.
        """
        self.on_over: Callable[[Connection], object] | None = None
        self.on_unanswerable: Listener | None = None
        """The broker has heard that the connection is over, or has closed it itself, or has died: it will not answer
        either."""
        self._world = world
        self._sent = 0
        world.network.on_connection = self._connected

    def sent(self) -> int:
        """The number of the next request."""
        self._sent += 1
        return self._sent

    def _connected(self, connection: Connection) -> None:
        listening = _Listening(self, self._world, connection)
        connection.request_tap = listening.requested
        connection.tap = listening.answered
        connection.on_over = listening.over
        connection.on_heard = listening.heard


class _Listening:
    def __init__(self, door: Door, world: SimulatedWorld, connection: Connection) -> None:
        self._door = door
        self._world = world
        self._connection = connection
        self._client = connection.client.name if connection.client is not None else "world"
        self._requests = _Frames()
        self._answers = _Frames()
        self._pending: deque[tuple[Expected, Exchange] | None] = deque()
        """What waits for its answer; None for each exchange that nobody listens for."""

    def requested(self, data: bytes) -> None:
        for frame in self._requests.add(data):
            number = self._door.sent()
            key = _KEY.unpack_from(frame)[0]
            if key not in self._door.apis and key != ApiKey.PRODUCE:  # which may be one that is not answered
                self._pending.append(None)
                continue
            view = memoryview(frame)
            header, position = parse_request_header(view)
            info = API_TABLE[header.api_key]
            request = decode(info.request, view[position:], header.api_version)
            exchange = Exchange(self._connection, self._client, request, self._world.now_ms, number=number)
            if header.api_key != ApiKey.PRODUCE or getattr(request, "acks", 1) != 0:
                expected = Expected(header.correlation_id, info.response, header.api_version)
                self._pending.append((expected, exchange) if key in self._door.apis else None)
            if self._door.on_request is not None and key in self._door.apis:
                self._door.on_request(exchange)

    def answered(self, data: bytes) -> None:
        for frame in self._answers.add(data):
            pending = self._pending.popleft()
            if pending is None:
                continue
            expected, exchange = pending
            exchange.answer = expected.decode(memoryview(frame))
            if self._door.on_answer is not None:
                self._door.on_answer(exchange)

    def over(self) -> None:
        for exchange in self._exchanges():
            if self._door.on_unanswered is not None:
                self._door.on_unanswered(exchange)
        if self._door.on_over is not None:
            self._door.on_over(self._connection)

    def heard(self) -> None:
        for exchange in self._exchanges():
            if self._door.on_unanswerable is not None:
                self._door.on_unanswerable(exchange)

    def _exchanges(self) -> list[Exchange]:
        return [exchange for _, exchange in filter(None, self._pending)]


class _Frames:
    """Whole frames out of a stream of bytes."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add(self, data: bytes) -> list[bytes]:
        self._bytes += data
        frames = []
        while len(self._bytes) >= 4 and len(self._bytes) >= 4 + (size := SIZE.unpack_from(self._bytes)[0]):
            frames.append(bytes(self._bytes[4 : 4 + size]))
            del self._bytes[: 4 + size]
        return frames
