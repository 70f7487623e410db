"""Metrics that clients push (KIP-714): who subscribes to what, who pushed, and what they reported last.

A client requests its subscription, which is made of all subscriptions that match it, and then pushes at the interval
that it was given. Kafka hands what is pushed to a plugin; here it is read at once, and its last values are kept for
`/metrics` and for `/clients`.

Everything is bounded, because whoever may connect may push: the bytes as sent and unpacked (`telemetry.max.bytes`), the
values that are kept of one client and of all of them, the length of names and attributes, and the number of clients, of
which the one that has been silent for longest makes room. A client is forgotten when the connection on which it was
first seen is closed, as in Kafka, or when it has missed three intervals.

In one thing Kafka is not followed: a client whose push was refused because its subscription changed may request the new
one at once. Kafka means that too, but throttles it until the next interval.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import isnan
from typing import TYPE_CHECKING

from penstock.broker.config.client_metrics import Subscription, subscription
from penstock.broker.metrics import Metric
from penstock.broker.world import SteadyTime
from penstock.records.batch import CorruptBatch
from penstock.records.checksum import crc32c
from penstock.records.codecs import Codec, DecompressionLimit, decompress
from penstock.wire.errors import (
    ErrorCode,
    InvalidRecord,
    InvalidRequest,
    KafkaError,
    TelemetryTooLarge,
    ThrottlingQuotaExceeded,
    UnknownSubscriptionId,
    UnsupportedCompressionType,
)
from penstock.wire.otlp import Attributes, MalformedMetrics, Point, decode_metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from penstock.broker.config import Configs
    from penstock.broker.connection import Connection
    from penstock.broker.world import World

CLIENTS_MAX = 1_000
VALUES_PER_CLIENT_MAX = 256
VALUES_MAX = 50_000
_TEXT_MAX = 200
_SHOWN_MAX = 1_000
_LONGEST_DEFAULT_MS = 300_000
_SHORTEST_LIFE_MS = 60_000
_ALL = "*"
_CODECS = frozenset(Codec)
_LATENCIES = (".latency.avg", ".latency.max", ".time.avg", ".time.max")
_LAST_POLL = ".last.poll.seconds.ago"
_RETRY_AT_ONCE = frozenset({ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE})
ACCEPTED_CODECS = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)

Series = tuple[str, Attributes]


@dataclass(slots=True, eq=False)
class Client:
    """One client instance: a producer, a consumer or an admin client of some program."""

    instance_id: bytes
    client_id: str
    host: str
    port: int
    software: tuple[str, str]
    principal: str
    connection: Connection
    subscription_id: int = 0
    subscribed: tuple[str, ...] = ()
    interval_ms: int = _LONGEST_DEFAULT_MS
    version: int = -1
    requested_ms: int = 0
    pushed_ms: int = 0
    """When it last pushed; 0 before that."""
    seen_ms: int = 0
    last_error: int = ErrorCode.NONE
    is_terminating: bool = False
    values: dict[Series, float] = field(default_factory=dict)
    totals: set[Series] = field(default_factory=set)
    """Which of the values are sums of increments."""

    @property
    def id_text(self) -> str:
        return urlsafe_b64encode(self.instance_id).rstrip(b"=").decode()

    def may_request(self, now_ms: int) -> bool:
        if self.last_error not in _RETRY_AT_ONCE and now_ms - max(self.requested_ms, self.pushed_ms) < self.interval_ms:
            return False
        self.requested_ms = now_ms
        return True

    def may_push(self, now_ms: int) -> bool:
        if self.requested_ms <= self.pushed_ms and now_ms - self.pushed_ms < self.interval_ms:
            return False
        self.pushed_ms = now_ms
        return True


class Telemetry:
    def __init__(self, configs: Configs, world: World, connections: Callable[[], Collection[Connection]]) -> None:
        self._configs = configs
        self._world = world
        self._time = SteadyTime(world)
        self._connections = connections
        self._clients: dict[bytes, Client] = {}  # the one that was silent for longest first
        self._of_connection: dict[Connection, set[bytes]] = {}
        self._subscriptions: list[Subscription] = []
        self._subscriptions_version = -1
        self._kept_values = 0
        self._pushes = 0
        self._dropped = 0
        self._refused: Counter[str] = Counter()

    @property
    def max_bytes(self) -> int:
        config = self._configs.broker
        return config.telemetry_max_bytes

    # -- requests ------------------------------------------------------------------------------------------------------

    def subscribe(self, instance_id: bytes, client_id: str, connection: Connection) -> Client:
        """The client with what it is to push. Raises what it is refused with."""
        now_ms = self._time.now_ms()
        if not any(instance_id):
            instance_id = self._world.new_id()
        client = self._client(instance_id, client_id, connection, now_ms)
        if not client.may_request(now_ms):
            raise self._refusal(client, ThrottlingQuotaExceeded())
        client.last_error = ErrorCode.NONE
        return client

    def push(
        self,
        instance_id: bytes,
        client_id: str,
        connection: Connection,
        subscription_id: int,
        codec: int,
        data: bytes | bytearray | memoryview,
        *,
        is_terminating: bool,
    ) -> None:
        """Take what a client reports. Raises what it is refused with."""
        if not any(instance_id[:15]) and instance_id[15] <= 1:
            raise InvalidRequest("The client instance id is reserved.")
        now_ms = self._time.now_ms()
        client = self._client(instance_id, client_id, connection, now_ms)
        try:
            self._check_push(client, now_ms, subscription_id, codec, len(data), is_terminating)
            if data:
                self._keep(client, self._read(codec, data))
        except KafkaError as error:
            raise self._refusal(client, error) from None
        finally:
            client.is_terminating = is_terminating
        client.last_error = ErrorCode.NONE
        self._pushes += 1

    def _check_push(
        self, client: Client, now_ms: int, subscription_id: int, codec: int, size: int, is_terminating: bool
    ) -> None:
        if client.is_terminating:
            raise InvalidRequest("The client has pushed for the last time already.")
        if not client.may_push(now_ms) and not is_terminating:
            raise ThrottlingQuotaExceeded
        if subscription_id != client.subscription_id:
            raise UnknownSubscriptionId
        if codec not in _CODECS:
            raise UnsupportedCompressionType
        if size > self.max_bytes:
            raise TelemetryTooLarge

    def _read(self, codec: int, data: bytes | bytearray | memoryview) -> list[Point]:
        try:
            unpacked = decompress(codec, data, self.max_bytes)
            points, are_more = decode_metrics(unpacked, VALUES_PER_CLIENT_MAX)
        except DecompressionLimit:
            raise TelemetryTooLarge from None
        except (CorruptBatch, MalformedMetrics) as error:
            raise InvalidRecord(str(error)) from None
        self._dropped += are_more
        return points

    def _keep(self, client: Client, points: list[Point]) -> None:
        before, kept = client.values, dict[Series, float]()
        room = VALUES_MAX - self._kept_values + len(before)
        for point in points:
            if len(point.name) > _TEXT_MAX or any(len(key) + len(value) > _TEXT_MAX for key, value in point.attributes):
                self._dropped += 1
                continue
            series = (point.name, point.attributes)
            if series not in kept and len(kept) >= room:
                self._dropped += 1
                continue
            kept[series] = point.value
            if point.is_delta:
                kept[series] += before.get(series, 0.0)
                client.totals.add(series)
        for series in client.totals - kept.keys():
            # A counter that did not move may be left out of a push of increments, and has its value nevertheless.
            if len(kept) < min(room, VALUES_PER_CLIENT_MAX):
                kept[series] = before.get(series, 0.0)
        client.totals &= kept.keys()
        self._kept_values += len(kept) - len(before)
        client.values = kept

    def _refusal(self, client: Client, error: KafkaError) -> KafkaError:
        client.last_error = error.code
        self._refused[ErrorCode(error.code).name] += 1
        return error

    # -- clients -------------------------------------------------------------------------------------------------------

    def _client(self, instance_id: bytes, client_id: str, connection: Connection, now_ms: int) -> Client:
        self._forget_silent(now_ms)
        client = self._clients.pop(instance_id, None)
        if client is None:
            while len(self._clients) >= CLIENTS_MAX:
                self._forget(next(iter(self._clients)))
            client = Client(
                instance_id,
                client_id[:_TEXT_MAX],
                connection.peer_host,
                connection.peer_port,
                connection.software,
                str(connection.principal),
                connection,
            )
            self._of_connection.setdefault(connection, set()).add(instance_id)
        self._clients[instance_id] = client
        client.seen_ms = now_ms
        if client.version != self._configs.client_metrics_version:
            self._subscribe(client)
        return client

    def _subscribe(self, client: Client) -> None:
        if self._subscriptions_version != self._configs.client_metrics_version:
            self._subscriptions_version = self._configs.client_metrics_version
            self._subscriptions = [
                subscription(self._configs.client_metrics_overrides(name))
                for name in self._configs.client_metrics_names()
            ]
        attributes = {
            "client_instance_id": client.id_text,
            "client_id": client.client_id,
            "client_software_name": client.software[0],
            "client_software_version": client.software[1],
            "client_source_address": client.host,
            "client_source_port": str(client.port),
        }
        matching = [each for each in self._subscriptions if each.is_for(attributes)]
        prefixes = dict.fromkeys(name for each in matching for name in each.metrics)
        client.subscribed = (_ALL,) if _ALL in prefixes else tuple(prefixes)
        client.interval_ms = min((each.interval_ms for each in matching), default=_LONGEST_DEFAULT_MS)
        client.interval_ms = min(client.interval_ms, _LONGEST_DEFAULT_MS)
        described = f"{client.subscribed}{client.interval_ms}".encode()
        hashed = crc32c(described) ^ crc32c(client.instance_id)
        client.subscription_id = hashed - (1 << 32) if hashed >> 31 else hashed
        # One that has nothing to push any more reports nothing that is true.
        if client.version >= 0:
            client.requested_ms = client.pushed_ms = 0
            if not client.subscribed:
                self._kept_values -= len(client.values)
                client.values, client.totals = {}, set()
        client.version = self._configs.client_metrics_version

    def connection_closed(self, connection: Connection) -> None:
        for instance_id in self._of_connection.pop(connection, ()):
            self._forget(instance_id)

    def _forget_silent(self, now_ms: int) -> None:
        while self._clients:
            client = next(iter(self._clients.values()))
            if now_ms - client.seen_ms < max(_SHORTEST_LIFE_MS, 3 * client.interval_ms):
                return
            self._forget(client.instance_id)

    def _forget(self, instance_id: bytes) -> None:
        client = self._clients.pop(instance_id, None)
        if client is None:
            return
        self._kept_values -= len(client.values)
        of_connection = self._of_connection.get(client.connection)
        if of_connection is not None:
            of_connection.discard(instance_id)
            if not of_connection:
                del self._of_connection[client.connection]

    # -- for those who look --------------------------------------------------------------------------------------------

    def metrics(self) -> Iterator[Metric | None]:
        now_ms = self._time.now_ms()
        self._forget_silent(now_ms)
        info, age = Metric("penstock_client_info"), Metric("penstock_client_push_age_seconds")
        polls, reported = Metric("penstock_client_last_poll_age_seconds"), Metric("penstock_client_metric")
        for client in [each for each in self._clients.values() if each.values]:
            id_, name = client.id_text, client.client_id
            since = max(0, now_ms - client.pushed_ms) / 1000
            info.add(1, id_, name, client.host, *client.software, client.principal)
            age.add(since, id_, name)
            if (poll := _last_poll(client, since)) is not None:
                polls.add(poll, id_, name)
            for (metric, attributes), value in client.values.items():
                text = ",".join(f"{key}={value}" for key, value in attributes)
                reported.add(value, id_, name, metric, text)
            yield None
        yield from (info, age, polls, reported)
        yield Metric("penstock_client_metrics_pushes_total").add(self._pushes)
        refused = Metric("penstock_client_metrics_refused_total")
        for error, times in self._refused.items():
            refused.add(times, error)
        yield refused
        yield Metric("penstock_client_metrics_dropped_total").add(self._dropped)

    def view(self, query: Mapping[str, str]) -> object:
        """Connections and pushing clients, the newest first; `client` names one instance, with all its values."""
        now_ms = self._time.now_ms()
        self._forget_silent(now_ms)
        if "client" in query:
            for client in self._clients.values():
                if client.id_text == query["client"]:
                    values = [
                        {"metric": name, "attributes": dict(attributes), "value": value}
                        for (name, attributes), value in client.values.items()
                    ]
                    return {**_summary(client, now_ms), "metrics": values}
            raise LookupError(f"no client {query['client']} pushes metrics")
        connections = list(self._connections())
        clients = list(self._clients.values())
        return {
            "clients": [_summary(each, now_ms) for each in reversed(clients[-_SHOWN_MAX:])],
            "connections": [_connection(each, self._world.precise()) for each in connections[-_SHOWN_MAX:][::-1]],
            "clientCount": len(clients),
            "connectionCount": len(connections),
        }


def _last_poll(client: Client, seconds_since_push: float) -> float | None:
    for (name, _), value in client.values.items():
        if name.endswith(_LAST_POLL) and value >= 0:
            return value + seconds_since_push
    return None


def _summary(client: Client, now_ms: int) -> dict[str, object]:
    since = max(0, now_ms - client.pushed_ms) / 1000 if client.pushed_ms else None
    return {
        "clientInstanceId": client.id_text,
        "clientId": client.client_id,
        "host": client.host,
        "port": client.port,
        "software": client.software[0],
        "version": client.software[1],
        "principal": client.principal,
        "intervalMs": client.interval_ms,
        "lastPushSecondsAgo": since,
        "lastPollSecondsAgo": None if since is None else _last_poll(client, since),
        "latenciesMs": _latencies(client),
    }


def _latencies(client: Client) -> dict[str, float]:
    """Of what a client reports for each broker or topic by itself, the largest."""
    found: dict[str, float] = {}
    for (name, _), value in client.values.items():
        if name.endswith(_LATENCIES) and not isnan(value):
            found[name] = max(value, found.get(name, value))
    return found


def _connection(connection: Connection, now: float) -> dict[str, object]:
    return {
        "clientId": connection.client_id,
        "host": connection.peer_host,
        "port": connection.peer_port,
        "software": connection.software[0],
        "version": connection.software[1],
        "principal": str(connection.principal),
        "listener": connection.listener_name,
        "idleSeconds": max(0.0, now - connection.last_active),
    }
