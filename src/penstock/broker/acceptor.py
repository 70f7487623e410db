"""Takes in clients: opens the listeners, says where clients find the broker, bounds how many connect, and how fast."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from penstock import guard
from penstock.broker.bounded_log import BoundedLog
from penstock.broker.connection import SCRATCH_BYTES, Connection
from penstock.broker.listeners import Address, Listener, ListenError, reachable_host
from penstock.broker.metrics import Metric

if TYPE_CHECKING:
    from penstock.broker.authentication import Authenticator
    from penstock.broker.authentication_counts import AuthenticationCounts
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.config import BrokerConfig
    from penstock.broker.connection_rates import ConnectionRates
    from penstock.broker.dispatch import Dispatcher
    from penstock.broker.newcomers import Newcomers
    from penstock.broker.transport import Transport
    from penstock.broker.world import World

log = logging.getLogger("penstock.broker")

SILENT_SECONDS = 5.0
MAX_HELD = 1000
"""Connections that wait to be let in or closed, because they came too soon."""


class Acceptor:
    def __init__(
        self,
        config: BrokerConfig,
        cluster: ClusterView,
        dispatcher: Dispatcher,
        world: World,
        rates: ConnectionRates,
        authenticator: Callable[[], Authenticator],
        newcomers: Newcomers,
        authentications: AuthenticationCounts,
    ) -> None:
        """`authenticator` is called for listeners with SASL only; `newcomers` bounds handshakes that are under way."""
        self._authentications = authentications
        self._config = config
        self._authenticator = authenticator
        self._newcomers = newcomers
        self._cluster = cluster
        self._dispatcher = dispatcher
        self._world = world
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._rates = rates
        self._listeners: list[Listener] = []
        self._held: set[Transport] = set()
        self._log = BoundedLog(log, world.monotonic, "connections were refused")
        self._admitted: Counter[str] = Counter()
        self._refusals: Counter[str] = Counter()

    def start(self, listeners: Sequence[Listener], advertised: Sequence[Address]) -> None:
        """Take in clients. `advertised` is found by a listener's name or, where there is one for each, by its place.

        Raises ListenError if one of them is the address of a listener that there is not: its clients would be sent to
        another one.
        """
        names = [listener.address.name for listener in listeners]
        homeless = [each.name for each in advertised if each.name not in names]
        if homeless and len(advertised) != len(listeners):
            raise ListenError(
                f"an address is advertised for the listener {homeless[0]}, which is not opened (there is "
                f"{', '.join(names)}): add {homeless[0]}://HOST:PORT to the listeners, or remove the address"
            )
        loop = asyncio.get_running_loop()
        for index, listener in enumerate(listeners):
            address = listener.address
            self._listeners.append(listener)
            found = next((each for each in advertised if each.name == address.name), None)
            if found is None and len(advertised) == len(listeners):
                found = advertised[index]
            self._cluster.advertise(
                address.name, found or Address(address.name, reachable_host(address.host), listener.port)
            )
            if address.protocol.has_sasl or address.protocol.has_tls:
                self._authentications.open(address.name)
            if address.protocol.has_sasl:
                self._authenticator().prepare(address)
            listener.start(loop, partial(self.connected, listener))

    @property
    def port(self) -> int:
        """The port of the first listener, also when it was chosen by the system."""
        return self._listeners[0].port

    def connected(self, listener: Listener, transport: Transport) -> None:
        """Take over a connection that a client has opened: now, or later if there were many of late."""
        throttle_ms = self._rates.opened(listener.address.name)
        if not throttle_ms:
            self._admit(listener, transport)
            return
        listener.pause(throttle_ms / 1000)
        self._hold(listener, transport, throttle_ms, partial(self._admit, listener, transport))

    def _hold(self, listener: Listener, transport: Transport, throttle_ms: int, then: Callable[[], object]) -> None:
        if len(self._held) >= MAX_HELD:
            self._refuse(listener, transport, "refused %s: %d connections wait to be let in", MAX_HELD)
            return
        self._held.add(transport)
        self._world.call_later(throttle_ms / 1000, self._release, transport, then)

    def _release(self, transport: Transport, then: Callable[[], object]) -> None:
        if transport in self._held:
            self._held.discard(transport)
            guard.attempt("accepting a connection", then)

    def _admit(self, listener: Listener, transport: Transport) -> None:
        """Take over a connection, unless there are too many."""
        throttle_ms = self._rates.admitted(listener.address.name, transport.peer[0])
        if throttle_ms:
            self._refusals[listener.address.name] += 1  # its client finds out when it has waited
            self._hold(listener, transport, throttle_ms, transport.close)
            return
        connections = self._dispatcher.connections
        host, _ = transport.peer
        if len(connections) >= self._config.max_connections and not self._newcomers.make_room():
            self._refuse(listener, transport, "refused %s: %d connections are open (max.connections)", len(connections))
            return
        name = listener.address.name
        allowed = int(self._config.for_listener(name).text("max.connections"))
        if allowed <= len(connections) and sum(each.listener_name == name for each in connections) >= allowed:
            why = "refused %s: %d connections are open through listener %s (max.connections)"
            self._refuse(listener, transport, why, allowed, name)
            return
        allowed = self._connections_per_ip(host)
        if allowed <= len(connections) and sum(each.peer_host == host for each in connections) >= allowed:
            why = "refused %s: it has %d connections open (max.connections.per.ip)"
            self._refuse(listener, transport, why, allowed)
            return
        self._admitted[name] += 1
        connection = Connection(
            transport,
            self._world,
            self._dispatcher,
            self._scratch,
            self._config.socket_request_max_bytes,
            listener.address,
        )
        connections[connection] = None
        if listener.address.protocol.has_tls:
            connection.on_refused = self._refused
        if listener.address.protocol.has_sasl:
            self._authenticator().connected(connection)
        elif listener.address.protocol.has_tls:
            connection.on_secured = self._secured
            self._newcomers.add(connection)

    def _refuse(self, listener: Listener, transport: Transport, why: str, *args: object) -> None:
        self._refusals[listener.address.name] += 1
        self._log.warning(why, transport.peer[0], *args)
        transport.close()

    def metrics(self) -> Iterator[Metric]:
        """Connections by listener, those without any included."""
        is_open = Counter(each.listener_name for each in self._dispatcher.connections)
        for name, counts in (
            ("kafka_server_socket_server_metrics_connection_count", is_open),
            ("kafka_server_socket_server_metrics_connection_creation_total", self._admitted),
            ("penstock_connections_refused_total", self._refusals),
        ):
            metric = Metric(name)
            for listener in sorted({each.address.name for each in self._listeners}):
                metric.add(counts[listener], listener)
            yield metric

    def _secured(self, connection: Connection) -> None:
        self._authentications.succeeded(connection.listener_name)
        self._newcomers.settled(connection)

    def _refused(self, connection: Connection) -> None:
        self._authentications.failed(connection.listener_name)

    def _connections_per_ip(self, host: str) -> int:
        overrides = (each.rpartition(":") for each in self._config.max_connections_per_ip_overrides.split(",") if each)
        return {address.strip(): int(count) for address, _, count in overrides}.get(
            host, self._config.max_connections_per_ip
        )

    def sweep(self) -> None:
        """Close the connections that were idle for too long; those that are only silent give memory back."""
        now = self._world.precise()
        idle_since = now - self._config.connections_max_idle_ms / 1000
        silent_since = now - SILENT_SECONDS
        for connection in [c for c in self._dispatcher.connections if c.last_active < silent_since]:
            if connection.last_active < idle_since and not connection.is_muted:
                connection.close()
            else:
                connection.trim()

    def check(self, config: BrokerConfig) -> None:
        """Raise ConfigError if a listener could not go on with these configs."""
        for listener in self._listeners:
            listener.check(config)

    def refresh(self) -> None:
        """Have the listeners take over certificates that have changed."""
        for listener in self._listeners:
            guard.attempt(f"the certificates of listener {listener.address.name}", listener.refresh)

    def close_listeners(self) -> None:
        for listener in self._listeners:
            listener.close()

    def close_connections(self) -> None:
        for transport in self._held:
            transport.close()
        self._held.clear()
        for connection in list(self._dispatcher.connections):
            connection.close()
