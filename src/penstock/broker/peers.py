"""Requests from this broker to the others of its cluster, in Kafka's own protocol.

Whatever the parts of one broker call on each other (a transaction's markers, share-group state, dead letters) is a call
while the partition that it is about is led from here, and a request of this module when another broker leads it. Who
sends one says to whom, and is called back once: with the answer, or with `PeerFailed`. Repeating is up to the caller,
who knows what a request that was perhaps carried out means.

A broker answers the requests of a connection in order, so one that has to wait holds up all behind it. Requests that
wait for different things therefore travel in *lanes*, each with a connection of its own, which is opened when it is
first needed. Everything is bounded: what waits for a connection, the time to open one, the time for an answer. After a
connection could not be opened, requests fail at once for a while, which doubles each time, so that a broker that is
down costs those who need it next to nothing.
"""

from __future__ import annotations

import logging
import ssl
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from penstock.broker.bounded_log import BoundedLog
from penstock.broker.peer_connection import Call, Connect, Login, PeerAddress, PeerConnection, PeerFailed, connect
from penstock.wire import messages as m
from penstock.wire.conversation import NEWEST

if TYPE_CHECKING:
    from penstock.broker.world import Task, World

log = logging.getLogger("penstock.peers")

TIMEOUT_SECONDS = 10.0
MAX_QUEUED = 1000
MAX_IN_FLIGHT = 1000
_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 1.0

R = TypeVar("R", bound=m.Message)


class Lane(Enum):
    """What must not wait behind each other."""

    MARKERS = "transaction markers"
    TRANSACTIONS = "additions to transactions, which may wait for the end of the one before"
    SHARE_STATE = "states of share-partitions"
    RECORDS = "dead letters and look-ups"
    TIMES = "look-ups by time, which may wait for a disk"


def client_id_of(node_id: int) -> str:
    """As what the requests of a broker to others are known."""
    return f"broker-{node_id}"


class Peers:
    def __init__(
        self,
        node_id: int,
        world: World,
        find: Callable[[int], PeerAddress | None],
        *,
        login: Login | None = None,
        tls: Callable[[], ssl.SSLContext | None] = lambda: None,
        connect: Connect = connect,
    ) -> None:
        """`find` gives the address of a broker as of now, None for one that is not there."""
        self._world = world
        self._find = find
        self.login = login
        self._tls = tls
        self._connect = connect
        self._client_id = client_id_of(node_id)
        self._links: dict[tuple[int, Lane], _Link] = {}
        self._failures = BoundedLog(log, world.monotonic, "requests to other brokers failed")
        self._is_stopped = False

    def send(
        self,
        node_id: int,
        lane: Lane,
        message: m.Message,
        response: type[R],
        done: Callable[[R | PeerFailed], None],
        *,
        at_least: int = 0,
        at_most: int = NEWEST,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        """Send a request to a broker; `done` is called once, never before this returns."""
        call = Call(message, response, done, at_least, at_most, timeout_seconds)
        if self._is_stopped:
            self._world.call_soon(call.answer, PeerFailed("this broker is stopping", is_unsent=True))
            return
        link = self._links.get((node_id, lane))
        if link is None:
            link = self._links[node_id, lane] = _Link(self, node_id, lane)
        link.send(call)

    def stop(self) -> None:
        self._is_stopped = True
        for link in self._links.values():
            link.stop()

    def new_connection(self, address: PeerAddress, on_change: Callable[[], None]) -> PeerConnection:
        return PeerConnection(address, self._client_id, self._world, on_change)

    async def open(self, connection: PeerConnection) -> None:
        await connection.open(self._tls(), self.login, self._connect)

    def address(self, node_id: int) -> PeerAddress:
        address = self._find(node_id)
        if address is None:
            raise PeerFailed(f"broker {node_id} is not there", is_unsent=True)
        return address

    def log_failure(self, node_id: int, lane: Lane, failure: PeerFailed) -> None:
        self._failures.warning("cannot reach broker %d for %s: %s", node_id, lane.value, failure)

    @property
    def world(self) -> World:
        return self._world


class _Link:
    """The connection to one broker in one lane, and what waits for it."""

    def __init__(self, peers: Peers, node_id: int, lane: Lane) -> None:
        self._peers = peers
        self._world = peers.world
        self._node_id = node_id
        self._lane = lane
        self._connection: PeerConnection | None = None
        self._opening: Task | None = None
        self._queue: deque[Call] = deque()
        self._pause_seconds = _FIRST_PAUSE_SECONDS
        self._retry_at = 0.0
        self._why = PeerFailed("", is_unsent=True)
        self._is_stopped = False

    def send(self, call: Call) -> None:
        connection = self._connection
        if connection is not None and not self._queue and self._takes(connection):
            connection.send(call)
        elif len(self._queue) >= MAX_QUEUED:
            full = PeerFailed(f"{MAX_QUEUED} requests to broker {self._node_id} wait already", is_unsent=True)
            self._world.call_soon(call.answer, full)
        elif connection is None and self._world.monotonic() < self._retry_at:
            self._world.call_soon(call.answer, self._why)
        else:
            self._queue.append(call)
            self._go_on()

    def _takes(self, connection: PeerConnection) -> bool:
        has_room = connection.is_writable and connection.in_flight < MAX_IN_FLIGHT
        return has_room and not self._is_over(connection) and not connection.is_closed

    def _is_over(self, connection: PeerConnection) -> bool:
        """Whether the session of a connection ends: another takes its place when everything is answered."""
        return connection.ends_at is not None and self._world.monotonic() >= connection.ends_at

    def _go_on(self) -> None:
        """Send what waits, as far as the connection takes it; open one if there is none."""
        connection = self._connection
        if connection is not None and connection.is_closed:
            connection = self._connection = None
        if connection is not None and not connection.in_flight and self._is_over(connection):
            self._connection = None
            connection.close()
            connection = None
        if connection is None:
            if self._queue and self._opening is None and not self._is_stopped:
                self._opening = self._world.spawn(self._open())
            return
        while self._queue and self._takes(connection):
            connection.send(self._queue.popleft())

    async def _open(self) -> None:
        try:
            connection = self._peers.new_connection(self._peers.address(self._node_id), self._changed)
            await self._peers.open(connection)
        except PeerFailed as failure:
            self._opening = None
            self._retry_at = self._world.monotonic() + self._pause_seconds
            self._pause_seconds = min(2 * self._pause_seconds, _LONGEST_PAUSE_SECONDS)
            self._why = failure
            self._peers.log_failure(self._node_id, self._lane, failure)
            self._fail_queue(failure)
        else:
            self._opening = None
            self._pause_seconds = _FIRST_PAUSE_SECONDS
            self._connection = connection
            self._go_on()

    def _changed(self) -> None:
        if self._opening is None:
            self._go_on()

    def _fail_queue(self, failure: PeerFailed) -> None:
        queue, self._queue = self._queue, deque()
        for call in queue:
            call.answer(failure)

    def stop(self) -> None:
        self._is_stopped = True
        if self._opening is not None:
            self._opening.cancel()
            self._opening = None
        self._fail_queue(PeerFailed("this broker is stopping", is_unsent=True))
        if self._connection is not None:
            self._connection.close()
