"""The network of a simulated world: connections in memory with latency, and with the ways in which they end.

Bytes of one direction of a connection arrive in order, each piece after its own latency; between connections nothing is
ordered. A connection is *cut* (both ends hear of it, each in its own time, and what is under way is lost) or falls
*silent* (half-open: nothing arrives any more, and nobody hears of it).

Machines have names: a broker's is the host of its address, a program's is its own name. A partition is between two of
them. Connections stay open, and what is sent waits until the partition is healed.
"""

from __future__ import annotations

import asyncio
import random
import zlib
from collections.abc import Callable
from itertools import product
from socket import EAI_NONAME, gaierror
from typing import TYPE_CHECKING, Any

from penstock.broker.config import BrokerConfig
from penstock.broker.listeners import Address, Connected
from penstock.simulation.loop import Process, SimulatedLoop, current_process
from penstock.testing.memory import MemoryClient, MemoryTransport

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable

    from penstock.broker.transport import Transport

_CONNECT_SECONDS = 20.0
_CONNECT_RETRY_SECONDS = 0.05


class Network:
    """All connections of a world. Its chance decides every latency."""

    def __init__(self, loop: SimulatedLoop, chance: random.Random) -> None:
        self.latency_seconds = (0.0002, 0.003)
        self.connections: list[Connection] = []
        self.hosts: set[str] = set()
        """The machines of brokers, running or not."""
        self.unreachable: set[str] = set()
        """Machines that do not answer."""
        self._parted: set[tuple[str, str]] = set()
        """Machines between which nothing passes."""
        self.digest = 0
        """A checksum of every byte that has arrived, and when."""
        self.delivered_bytes = 0
        self.on_connection: Callable[[Connection], object] | None = None
        """Called with each new connection, before anything is sent on it."""
        self.on_answer: Callable[[Process], object] | None = None
        """Called with the process of a broker that sends something to a client."""
        self._loop = loop
        self._chance = chance
        self._listeners: dict[tuple[str, int], SimulatedListener] = {}
        self._opened = 0
        loop.connector = self._connect

    def listen(self, listener: SimulatedListener) -> None:
        self.hosts.add(listener.address.host)
        self._listeners[listener.address.host, listener.address.port] = listener

    def end_listening(self, listener: SimulatedListener) -> None:
        place = (listener.address.host, listener.address.port)
        if self._listeners.get(place) is listener:
            del self._listeners[place]

    def listener(self, host: str, port: int) -> SimulatedListener | None:
        """Who accepts connections at an address."""
        listener = self._listeners.get((host, port))
        return None if listener is None or listener.process.is_dead else listener

    def latency(self) -> float:
        low, high = self.latency_seconds
        return low + (high - low) * self._chance.random()

    async def _connect(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        context: ssl.SSLContext | None = None,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        await asyncio.sleep(self.latency())
        if host not in self.hosts:
            raise gaierror(EAI_NONAME, f"there is no machine {host}")
        await self._reachable(host, port)
        listener = self.listener(host, port)
        if listener is None:
            await asyncio.sleep(self.latency())
            raise ConnectionRefusedError(f"nobody listens at {host}:{port}")
        self._opened += 1
        protocol, tls = protocol_factory(), None
        if context is not None:
            from penstock.simulation.tls import ClientTls

            tls = ClientTls(self._loop, protocol, context, host)
        below = protocol if tls is None else tls
        connection = Connection(self, self._loop, listener.process, current_process(), below, self._opened)
        connection.is_encrypted = listener.has_tls
        self.connections.append(connection)
        if self.on_connection is not None:
            self.on_connection(connection)
        self._loop.call_soon(listener.accept, connection, context=listener.process.context)
        if tls is None:
            protocol.connection_made(connection.client_end)
            return connection.client_end, protocol
        tls.begin(connection)
        try:
            await tls.secured
        except BaseException:
            connection.client_end.abort()
            raise
        return tls.transport, protocol

    async def _reachable(self, host: str, port: int) -> None:
        """Packets to a host behind a partition vanish; whoever connects tries on for a while."""
        process = current_process()
        give_up = self._loop.time() + _CONNECT_SECONDS
        while self.is_silent(process, host):
            await asyncio.sleep(_CONNECT_RETRY_SECONDS)
            if self._loop.time() > give_up:
                raise TimeoutError(f"nothing is heard from {host}:{port}")

    def arrived(self, data: bytes, *, is_encrypted: bool) -> None:
        self.delivered_bytes += len(data)
        self.note(b"%d" % len(data) if is_encrypted else data)

    def note(self, data: bytes) -> None:
        """Add something to the digest."""
        self.digest = zlib.crc32(data, self.digest ^ hash(self._loop.time()) & 0xFFFFFFFF)

    # -- what can happen to connections ----------------------------------------------------------------------------

    def of(self, process: Process) -> list[Connection]:
        return [each for each in self.connections if process in (each.broker, each.client) and not each.is_over]

    def part(self, *names: str) -> None:
        """Let nothing pass between these programs and any broker."""
        self.part_between(names, self.hosts)

    def part_between(self, machines: Iterable[str], others: Iterable[str]) -> None:
        """Let nothing pass between some machines and others."""
        self._parted.update(_pair(*each) for each in product(machines, others))

    def heal(self, machines: Iterable[str] | None = None, others: Iterable[str] = ()) -> None:
        """End every partition, or those between some machines and others: what has waited arrives."""
        if machines is None:
            self._parted.clear()
        else:
            self._parted.difference_update(_pair(*each) for each in product(machines, others))
        for connection in self.connections:
            connection.go_on()

    def is_parted(self, process: Process | None, machine: str) -> bool:
        """Whether nothing passes between a process and a machine."""
        return bool(self._parted) and process is not None and _pair(process.machine, machine) in self._parted

    def is_silent(self, process: Process | None, machine: str) -> bool:
        """Whether a process hears nothing from a machine, not even that nobody listens there."""
        return machine in self.unreachable or self.is_parted(process, machine)

    def process_died(self, process: Process, *, silently: bool) -> None:
        """Its connections are reset by its operating system, or fall silent with the whole machine."""
        process.is_silent = silently
        for connection in self.of(process):
            connection.fall_silent() if silently else connection.cut()
        for connection in self.connections:
            if process in (connection.broker, connection.client):
                connection.end_died()


class Connection:
    def __init__(
        self,
        network: Network,
        loop: SimulatedLoop,
        broker: Process,
        client: Process | None,
        protocol: asyncio.BaseProtocol,
        number: int,
    ) -> None:
        self.broker = broker
        self.client = client
        self.is_silent = False
        self.is_over = False
        self.is_encrypted = False
        """Whether what travels is not the same in two runs, though there is as much of it."""
        self.tap: Callable[[bytes], object] | None = None
        """Called with what the broker sends, at the time when it is sent, whether it arrives or not."""
        self.request_tap: Callable[[bytes], object] | None = None
        """The same for what the client sends."""
        self.on_over: Callable[[], object] | None = None
        """Called once, when the connection is cut, one end closes it, or both are dead; not when it falls silent."""
        self.on_heard: Callable[[], object] | None = None
        """Called once, when the broker hears of that, which may be much later: until then it does what it is sent. A
        broker that dies does nothing more either."""
        self._network = network
        self._loop = loop
        self._arrivals = {True: 0.0, False: 0.0}
        self._held: list[tuple[bool, Callable[..., object], tuple[object, ...]]] = []
        self.broker_end = MemoryTransport((client.name if client else "world", number), loop)
        self.broker_end.client = _Outgoing(self)
        self.client_end = ClientEnd(self, protocol)

    def answers(self, piece: bytes) -> None:
        """The broker sends something."""
        if self._network.on_answer is not None:
            self._network.on_answer(self.broker)
        if self.is_encrypted:
            self._network.note(piece)
        if self.tap is not None:
            self.tap(piece)

    def carry(self, data: bytes, to_broker: bool, deliver: Callable[[bytes], object]) -> None:
        if self.is_silent or self.is_over:
            return
        self._later(to_broker, self._arrive, to_broker, data, deliver)

    def _later(self, to_broker: bool, callback: Callable[..., object], *args: object) -> None:
        receiver = self.broker if to_broker else self.client
        when = max(self._arrivals[to_broker], self._loop.time() + self._network.latency())
        self._arrivals[to_broker] = when
        context = receiver.context if receiver else None
        self._loop.call_at(when, self._pass, to_broker, callback, args, context=context)

    def _pass(self, to_broker: bool, callback: Callable[..., object], args: tuple[object, ...]) -> None:
        if self._held or self._network.is_parted(self.client, self.broker.machine):
            self._held.append((to_broker, callback, args))
        else:
            callback(*args)

    def go_on(self) -> None:
        held, self._held = self._held, []
        for to_broker, callback, args in held:
            self._later(to_broker, callback, *args)

    def _arrive(self, to_broker: bool, data: bytes, deliver: Callable[[bytes], object]) -> None:
        if self.is_silent or self.is_over:
            return
        self._network.arrived(data, is_encrypted=self.is_encrypted)
        deliver(data)

    def end(self, to_broker: bool) -> None:
        """One end has closed; the other hears of it after what is under way."""
        self._tell_over()
        if not to_broker:
            self._tell_heard()
        if not self.is_silent and not self.is_over:
            self._later(to_broker, self._peer_closed, to_broker)

    def cut(self) -> None:
        """Both ends hear that the connection is reset, each in its own time."""
        if not self.is_over:
            self.is_over = True
            self._tell_over()
            for to_broker in (True, False):
                self._later(to_broker, self._peer_closed, to_broker)

    def end_died(self) -> None:
        """A dead broker answers nothing more; with both ends dead nobody is left who would close the connection."""
        if self.broker.is_dead:
            self._tell_heard()
            if self.client is not None and self.client.is_dead:
                self._tell_over()

    def _tell_over(self) -> None:
        ended, self.on_over = self.on_over, None
        if ended is not None:
            ended()

    def _tell_heard(self) -> None:
        heard, self.on_heard = self.on_heard, None
        if heard is not None:
            heard()

    def fall_silent(self) -> None:
        self.is_silent = True

    def _peer_closed(self, to_broker: bool) -> None:
        if to_broker:
            self.broker_end.end()
            self._tell_heard()
        else:
            self.is_over = True
            self.client_end.lost(ConnectionResetError("the connection was reset"))


class _Outgoing(MemoryClient):
    """What the broker has sent and the client has not received: its bound is that of a socket's buffer."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection.broker_end)
        self._connection = connection

    def receive(self, data: bytes | memoryview) -> None:
        piece = bytes(data)
        self.received += piece
        if not self._connection.is_encrypted:
            self._connection.answers(piece)
        self._connection.carry(piece, False, self._arrived)

    def _arrived(self, piece: bytes) -> None:
        del self.received[: len(piece)]
        connection = self._connection
        connection.client_end.received(piece)
        if connection.broker_end.waits_for_room:
            connection._loop.call_soon(connection.broker_end.look, context=connection.broker.context)

    def end(self) -> None:
        self.is_closed = True
        self._connection.end(to_broker=False)


class ClientEnd(asyncio.Transport):
    """What a program holds of its connection, as asyncio hands it out."""

    def __init__(self, connection: Connection, protocol: asyncio.BaseProtocol) -> None:
        super().__init__()
        self.connection = connection
        self._protocol = protocol
        self._is_closing = False
        self._is_lost = False

    def write(self, data: bytes | bytearray | memoryview) -> None:  # type: ignore[override,unused-ignore]
        if not self._is_closing:
            piece = bytes(data)
            if self.connection.request_tap is not None and not self.connection.is_encrypted:
                self.connection.request_tap(piece)
            self.connection.carry(piece, True, self._put)

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def _put(self, data: bytes) -> None:
        try:
            self.connection.broker_end.put(data)
        except BrokenPipeError:  # the broker has closed it, and the client is about to hear of it
            pass

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self.connection.end(to_broker=True)
            self.connection._loop.call_soon(self.lost, None)

    def _force_close(self, exc: BaseException | None) -> None:
        """What TLS calls when it cannot go on."""
        self.abort()

    # -- from the network ------------------------------------------------------------------------------------------

    def received(self, data: bytes) -> None:
        if self._is_closing:
            return
        protocol = self._protocol
        if not isinstance(protocol, asyncio.BufferedProtocol):
            assert isinstance(protocol, asyncio.Protocol)
            protocol.data_received(data)
            return
        view = memoryview(data)
        while view and not self._is_closing:
            buffer = memoryview(protocol.get_buffer(len(view)))
            taken = min(len(buffer), len(view))
            buffer[:taken] = view[:taken]
            protocol.buffer_updated(taken)
            view = view[taken:]

    def lost(self, error: Exception | None) -> None:
        self._is_closing = True
        if not self._is_lost:
            self._is_lost = True
            self._protocol.connection_lost(error)


class SimulatedListener:
    """The listener of one broker process."""

    has_tls = False

    def __init__(self, network: Network, process: Process, address: Address) -> None:
        self.address = address
        self.port = self.address.port
        self.process = process
        self._network = network
        self._connected: Connected | None = None

    def start(self, loop: asyncio.AbstractEventLoop, connected: Connected) -> None:
        self._connected = connected
        self._network.listen(self)

    def accept(self, connection: Connection) -> None:
        if self._connected is None:
            connection.broker_end.close()
        else:
            self._connected(self.transport(connection))

    def transport(self, connection: Connection) -> Transport:
        """The broker's end of a connection."""
        return connection.broker_end

    def pause(self, seconds: float) -> None:
        """Connections that come too soon are held by the broker."""

    def check(self, config: BrokerConfig) -> None:
        """It serves with any configs."""

    def refresh(self) -> None:
        """There is nothing to read again."""

    def close(self) -> None:
        self._connected = None
        self._network.end_listening(self)


def _pair(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one <= other else (other, one)
