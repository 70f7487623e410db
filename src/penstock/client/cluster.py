"""The cluster as a client sees it: finds the brokers, keeps connections to them, and sends any request to the right
one.

`request` sends once. `call` retries until it succeeds or the timeout expires: it backs off between attempts, requests
fresh metadata when an error says that a partition or a broker has moved, and looks up a coordinator again when the
error says that it has moved. Any API can be called this way, which is what the command line and other tools build on.

Connections are kept per (broker, channel). A broker handles one request at a time per connection, so requests that may
wait for long at the broker (Fetch, JoinGroup) have a channel of their own and delay no others.

When no known broker responds, the addresses of the configuration are tried again (KIP-899).

A broker that hangs keeps its connections open, and a request to it would fail only after its timeout. So when a broker
has not responded for a second, the client requests metadata from another one, every second. When the cluster no longer
lists the silent broker, requests that wait for it fail at once and are sent to the broker that has taken over.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import TypeVar

from penstock.client.authentication import Authenticator, wants_sasl
from penstock.client.config import ClientConfig, parse_addresses
from penstock.client.connection import Build, Connection
from penstock.client.errors import (
    AuthenticationFailed,
    BrokerUnreachable,
    Disconnected,
    IllegalState,
    RequestTimeout,
    TlsFailed,
    check,
    kafka_error,
)
from penstock.client.hedging import first_answer
from penstock.client.metadata import Metadata
from penstock.client.metrics import ConnectionMetrics
from penstock.client.tls import context_of
from penstock.client.types import Node, TopicPartition
from penstock.wire import messages as m
from penstock.wire.conversation import NEWEST
from penstock.wire.errors import (
    CoordinatorNotAvailable,
    ErrorCode,
    KafkaError,
    LeaderNotAvailable,
    NotController,
    NotCoordinator,
    UnknownTopicOrPartition,
)

R = TypeVar("R", bound=m.Message)
T = TypeVar("T")

_BOOTSTRAP = -1  # the node id of a connection to an address of the configuration, until the brokers are known

GROUP, TRANSACTION, SHARE = 0, 1, 2  # FindCoordinator's key types

_STALE_COORDINATOR = (NotCoordinator, CoordinatorNotAvailable, Disconnected, BrokerUnreachable, RequestTimeout)
_WRONG_SETTINGS = (AuthenticationFailed, TlsFailed)  # with which no other broker would answer either
_SILENCE_SECONDS = 1.0  # after which another broker is asked
_NOTHING_NEW = 0.05  # seconds between metadata requests when several parts of a client ask for one at once


class Cluster:
    """Connections to a cluster, and its metadata. Start it with `async with`, or with `start` and `close`."""

    def __init__(self, config: ClientConfig, metrics: ConnectionMetrics | None = None) -> None:
        self.config = config
        self.metadata = Metadata()
        self._metrics = metrics
        self._addresses = parse_addresses(config.bootstrap_servers)
        self._ssl_context = context_of(config)
        self._authenticator = Authenticator.of(config)
        self._connections: dict[tuple[int, str], Connection] = {}
        self._opening: dict[tuple[int, str], asyncio.Task[Connection]] = {}
        self._coordinators: dict[tuple[int, str], int] = {}
        self._topics: set[str] = set()
        self._topic_ids: set[bytes] = set()
        self._all_topics = False
        self._refreshing: asyncio.Task[None] | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._connecting: dict[asyncio.Task[Connection], tuple[int, float]] = {}
        """The node that is being connected to, and since when."""
        self._silent: dict[int, float] = {}
        """Nodes that owe an answer, or did when they were last heard of, and since when that is known."""
        self._refreshed_at = 0.0
        self._listeners: list[Callable[[], None]] = []
        self._closed = False

    async def start(self) -> None:
        """Connect to one of the bootstrap servers and fetch the brokers."""
        if not self.metadata.nodes:
            await self.refresh()
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._keep_fresh(), name="penstock-metadata")
            self._watcher = asyncio.create_task(self._watch(), name="penstock-silence")

    async def close(self) -> None:
        """Close all connections."""
        self._closed = True
        chores = self._keeper, self._watcher, self._refreshing, *self._opening.values()
        tasks = [task for task in chores if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(connection.close() for connection in self._connections.values()))
        self._connections.clear()

    async def __aenter__(self) -> Cluster:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # Connections

    async def connection(self, node_id: int, channel: str = "") -> Connection:
        """The connection to a broker on a channel; it is opened if needed, once for concurrent callers."""
        key = (node_id, channel)
        connection = self._connections.get(key)
        if connection is not None and not connection.closed:
            return connection
        if self._closed:
            raise IllegalState("this client is closed")
        opening = self._opening.get(key)
        if opening is None:
            opening = self._opening[key] = asyncio.create_task(self._open(node_id, channel))
            opening.add_done_callback(lambda task: self._opened(key, task))
        return await asyncio.shield(opening)

    def _opened(self, key: tuple[int, str], task: asyncio.Task[Connection]) -> None:
        self._opening.pop(key, None)
        if not task.cancelled():
            task.exception()  # whoever asked has it; when nobody is left to ask, it is not news

    async def _open(self, node_id: int, channel: str) -> Connection:
        node = self.metadata.nodes.get(node_id)
        if node is None:
            raise BrokerUnreachable(f"broker {node_id} is not part of the cluster")
        connecting = asyncio.create_task(self._connect(node.host, node.port))
        self._connecting[connecting] = node_id, asyncio.get_running_loop().time()
        try:
            connection = await connecting
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is None or current.cancelling():
                connecting.cancel()
                raise
            raise BrokerUnreachable(_left(node_id)) from None
        finally:
            del self._connecting[connecting]
        self._keep(connection, node_id, channel)
        return connection

    def _keep(self, connection: Connection, node_id: int, channel: str = "") -> None:
        self._connections[node_id, channel] = connection
        if self._metrics is not None:
            connection.latency = self._metrics.latency_of(node_id)

    async def _connect(self, host: str, port: int) -> Connection:
        config = self.config
        connection = await Connection.open(
            host,
            port,
            client_id=config.client_id,
            timeout_ms=config.socket_connection_setup_timeout_ms,
            max_in_flight=config.max_in_flight_requests_per_connection,
            max_answer_bytes=config.receive_message_max_bytes,
            ssl_context=self._ssl_context,
            authenticator=self._authenticator,
        )
        if self._metrics is not None:
            self._metrics.created.record()
        return connection

    async def any_connection(self) -> Connection:
        """A connection to any broker: an open one if there is one, else to a known broker or a bootstrap server."""
        for node_id in self._by_trust():
            try:
                return await self.connection(node_id)
            except _WRONG_SETTINGS:
                raise
            except KafkaError:
                continue
        return await self._bootstrap()

    def _by_trust(self) -> list[int]:
        """The nodes that may be asked, those first that answer and have the least to do."""
        open_ = {
            node_id: connection.in_flight
            for (node_id, channel), connection in self._connections.items()
            if not connection.closed and not channel and (node_id in self.metadata.nodes or node_id < 0)
        }
        nodes = list(self.metadata.nodes.keys() | open_.keys())
        random.shuffle(nodes)
        return sorted(nodes, key=lambda node: (node in self._silent, node not in open_, open_.get(node, 0)))

    async def _ask_anybody(self, message: m.Message | Build, response: type[R], at_least: int) -> R:
        """Ask a broker what every broker knows, and another one if it takes long or fails."""

        def attempt(node: int) -> Callable[[], Awaitable[R]]:
            return lambda: self.request(message, response, node=node, at_least=at_least)

        nodes = self._by_trust()
        if nodes:
            try:
                return await first_answer(map(attempt, nodes), _SILENCE_SECONDS)
            except KafkaError as error:
                if not error.retriable:
                    raise
        await self._bootstrap()
        return await self.request(message, response, node=_BOOTSTRAP, at_least=at_least)

    async def _watch(self) -> None:
        """Notice brokers that owe an answer, and give up those that are not part of the cluster any more."""
        while True:
            await asyncio.sleep(_SILENCE_SECONDS)
            owing = self._note_silence()
            if owing and self.metadata.nodes.keys() - self._silent.keys():
                with suppress(KafkaError):  # whoever needs the metadata meets the error where it can be reported
                    await self.refresh()
                for node_id in owing - self.metadata.nodes.keys() - {_BOOTSTRAP}:
                    self._give_up(node_id)

    def _note_silence(self) -> set[int]:
        now, timeout_ms = asyncio.get_running_loop().time(), self.config.request_timeout_ms
        owing = {
            node_id
            for (node_id, _), connection in self._connections.items()
            if not connection.closed and connection.silent_s(timeout_ms) >= _SILENCE_SECONDS
        }
        owing |= {node_id for node_id, since in self._connecting.values() if now - since >= _SILENCE_SECONDS}
        for (node_id, _), connection in self._connections.items():
            if node_id not in owing and connection.answered_at > self._silent.get(node_id, now):
                del self._silent[node_id]
        for node_id in owing:
            self._silent.setdefault(node_id, now)
        return owing

    def _give_up(self, node_id: int) -> None:
        """Fail what waits for a broker that has left the cluster."""
        for (each, _), connection in self._connections.items():
            if each == node_id:
                connection.give_up(Disconnected(_left(node_id)))
        for connecting, (each, _) in self._connecting.items():
            if each == node_id:
                connecting.cancel()
        self._silent.pop(node_id, None)

    async def _bootstrap(self) -> Connection:
        failures: list[str] = []
        for host, port in self._addresses:
            try:
                connection = await self._connect(host, port)
            except _WRONG_SETTINGS:
                raise
            except KafkaError as error:
                failures.append(str(error))
                continue
            self._connections[_BOOTSTRAP, ""] = connection
            return connection
        raise BrokerUnreachable("; ".join(failures))

    def _adopt_bootstrap_connection(self) -> None:
        """Once the brokers are known, the first connection serves on as that of the broker which it reached."""
        connection = self._connections.pop((_BOOTSTRAP, ""), None)
        if connection is None:
            return
        for node in self.metadata.nodes.values():
            if f"{node.host}:{node.port}" == connection.address and (node.node_id, "") not in self._connections:
                self._keep(connection, node.node_id)
                return
        self._connections[_BOOTSTRAP, ""] = connection

    # Requests

    async def request(
        self,
        message: m.Message | Build,
        response: type[R],
        *,
        node: int | None = None,
        channel: str = "",
        timeout_ms: int | None = None,
        at_least: int = 0,
        at_most: int = NEWEST,
    ) -> R:
        """Send once, to broker `node` or to any, and return the response, whatever its error codes."""
        connection = await (self.any_connection() if node is None else self.connection(node, channel))
        timeout = self.config.request_timeout_ms if timeout_ms is None else timeout_ms
        try:
            return await connection.request(message, response, timeout_ms=timeout, at_least=at_least, at_most=at_most)
        except Disconnected:
            if self._authenticator is None and not connection.is_accepted and not self._closed:
                await self._explain_refusal(connection.address)
            raise

    async def _explain_refusal(self, address: str) -> None:
        """Raise AuthenticationFailed if a broker wants SASL: it closes other connections at their first request.

        It tells what it offers whoever asks for a mechanism that nobody has.
        """
        host, _, port = address.rpartition(":")
        try:
            connection = await self._connect(host, int(port))
            try:
                question = m.SaslHandshakeRequest(mechanism="")
                answer = await connection.request(question, m.SaslHandshakeResponse, at_least=1)
            finally:
                await connection.close()
        except KafkaError:
            return  # what made us ask is reported
        if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            raise wants_sasl(address, answer.mechanisms)

    async def call(
        self,
        message: m.Message | Build,
        response: type[R],
        *,
        node: int | None = None,
        check_answer: Callable[[R], None] | None = None,
        timeout_ms: int | None = None,
        at_least: int = 0,
        at_most: int = NEWEST,
    ) -> R:
        """Send, and retry until `check_answer` raises no retriable error or the timeout expires."""

        async def attempt() -> R:
            answer = await self.request(message, response, node=node, at_least=at_least, at_most=at_most)
            if check_answer is not None:
                check_answer(answer)
            return answer

        return await self.retrying(attempt, timeout_ms)

    async def call_controller(
        self,
        message: m.Message | Build,
        response: type[R],
        *,
        check_answer: Callable[[R], None] | None = None,
        timeout_ms: int | None = None,
        at_least: int = 0,
    ) -> R:
        """`call`, to the controller (in KRaft clusters every broker forwards to it)."""

        async def attempt() -> R:
            controller = self.metadata.controller_id
            node = controller if controller in self.metadata.nodes else None
            answer = await self.request(message, response, node=node, at_least=at_least)
            if check_answer is not None:
                check_answer(answer)
            return answer

        return await self.retrying(attempt, timeout_ms)

    async def call_coordinator(
        self,
        kind: int,
        key: str,
        message: m.Message | Build,
        response: type[R],
        *,
        check_answer: Callable[[R], None] | None = None,
        channel: str = "coordinator",
        timeout_ms: int | None = None,
        request_timeout_ms: int | None = None,
        at_least: int = 0,
        at_most: int = NEWEST,
    ) -> R:
        """`call`, to the coordinator of a group, transaction or share-partition, looked up again when it moved."""

        async def attempt() -> R:
            node = await self.coordinator(kind, key)
            try:
                answer = await self.request(
                    message,
                    response,
                    node=node,
                    channel=channel,
                    timeout_ms=request_timeout_ms,
                    at_least=at_least,
                    at_most=at_most,
                )
                if check_answer is not None:
                    check_answer(answer)
            except _STALE_COORDINATOR:
                self.forget_coordinator(kind, key)
                raise
            return answer

        return await self.retrying(attempt, timeout_ms)

    async def retrying(self, attempt: Callable[[], Awaitable[T]], timeout_ms: int | None = None) -> T:
        """Run `attempt` until it raises no retriable error; after the timeout, raise the last one."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms) / 1000
        backoff = Backoff(self.config)
        last: KafkaError = RequestTimeout("the broker did not answer in time")
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    return await attempt()
            except TimeoutError:
                raise last from None
            except KafkaError as error:
                last = error
                pause = backoff.next_pause()
                if not error.retriable or self._closed or loop.time() + pause >= deadline:
                    raise
                await asyncio.sleep(pause)
                if _suggests_new_metadata(error):
                    await self._refresh_quietly(deadline)

    async def _refresh_quietly(self, deadline: float) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                await self.refresh()
        except (KafkaError, TimeoutError):
            pass  # the next attempt will meet the same trouble and report it

    # Metadata

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` after every metadata response."""
        self._listeners.append(listener)

    def want(self, topics: Iterable[str]) -> None:
        """Keep these topics in the metadata from the next refresh on."""
        self._topics.update(topics)

    def want_ids(self, topic_ids: Iterable[bytes]) -> None:
        """Look up the names of topics by id with the next refresh, and keep those topics in the metadata."""
        self._topic_ids = set(topic_ids)

    def set_topics(self, topics: Iterable[str] | None) -> None:
        """Keep exactly these topics in the metadata; None keeps all that the cluster has."""
        self._all_topics = topics is None
        self._topics = set(topics or ())

    async def refresh(self, topics: Iterable[str] = ()) -> None:
        """Fetch the metadata of `topics` and of all topics that are kept. Concurrent calls share one request."""
        added = set(topics)
        if self._refreshing is not None and (added <= self._topics or self._all_topics):
            await asyncio.shield(self._refreshing)
            return
        while self._refreshing is not None:
            await asyncio.wait([self._refreshing])
        self._topics |= added
        self._refreshing = asyncio.create_task(self._refresh())
        self._refreshing.add_done_callback(self._refresh_done)
        await asyncio.shield(self._refreshing)

    def _refresh_done(self, task: asyncio.Task[None]) -> None:
        self._refreshing = None
        if not task.cancelled():
            task.exception()

    async def _refresh(self) -> None:
        loop = asyncio.get_running_loop()
        pause = self._refreshed_at + _NOTHING_NEW - loop.time()
        if pause > 0:
            await asyncio.sleep(pause)
        await self._fetch_metadata(None if self._all_topics else sorted(self._topics))
        unknown = [topic_id for topic_id in self._topic_ids if topic_id not in self.metadata.names]
        if unknown:
            await self._fetch_names(unknown)
        self._topic_ids -= set(self.metadata.names)

    async def refresh_all(self) -> None:
        """Fetch the metadata of every topic of the cluster."""
        await self._fetch_metadata(None)

    async def _fetch_metadata(self, topics: list[str] | None) -> None:
        request_topic = m.MetadataRequest.MetadataRequestTopic

        def build(version: int) -> m.Message:
            named = None if topics is None else [request_topic(name=name) for name in topics]
            create = self.config.allow_auto_create_topics if version >= 4 else True
            return m.MetadataRequest(topics=named, allow_auto_topic_creation=create)

        answer = await self._ask_anybody(build, m.MetadataResponse, 1)
        if answer.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
            await self._forget_brokers()
            raise kafka_error(answer.error_code)
        self.metadata.merge(answer, everything=topics is None)
        self._refreshed_at = asyncio.get_running_loop().time()
        self._adopt_bootstrap_connection()
        for listener in self._listeners:
            listener()

    async def _fetch_names(self, topic_ids: list[bytes]) -> None:
        by_id = m.MetadataRequest.MetadataRequestTopic
        request = m.MetadataRequest(
            topics=[by_id(topic_id=topic_id, name=None) for topic_id in topic_ids], allow_auto_topic_creation=False
        )
        answer = await self._ask_anybody(request, m.MetadataResponse, 12)
        self.metadata.merge(answer, everything=False)
        self._topics.update(topic.name for topic in answer.topics if topic.name and not topic.error_code)
        for listener in self._listeners:
            listener()

    async def _forget_brokers(self) -> None:
        connections, self._connections = self._connections, {}
        self.metadata.nodes = {}
        await asyncio.gather(*(connection.close() for connection in connections.values()))

    async def _keep_fresh(self) -> None:
        """Refresh before the metadata is too old, and close connections that nobody has used for long."""
        interval = max(self.config.metadata_max_age_ms / 1000, 0.05)
        idle = self.config.connections_max_idle_ms / 1000
        while True:
            await asyncio.sleep(interval)
            now = asyncio.get_running_loop().time()
            for key, connection in list(self._connections.items()):
                if connection.closed or (not connection.in_flight and now - connection.last_used > idle):
                    del self._connections[key]
                    await connection.close()
            try:
                await self.refresh()
            except KafkaError:
                continue  # whoever needs the metadata meets the error where it can be reported

    async def topic(self, name: str, timeout_ms: int | None = None) -> None:
        """Wait for the metadata of a topic; raises the last error after the timeout."""
        if name in self.metadata.topics:
            return

        async def attempt() -> None:
            await self.refresh([name])
            if name not in self.metadata.topics:
                code = self.metadata.errors.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                raise kafka_error(code, about=f"topic {name!r}")

        await self.retrying(attempt, timeout_ms)

    async def partitions_of(self, topic: str, timeout_ms: int | None = None) -> list[int]:
        """The numbers of a topic's partitions."""
        await self.topic(topic, timeout_ms)
        return sorted(self.metadata.topics[topic].partitions)

    async def topic_names(self) -> list[str]:
        """All topics of the cluster."""
        await self.retrying(self.refresh_all)
        return sorted(self.metadata.topics)

    async def leader(self, tp: TopicPartition) -> int:
        """The node that leads a partition; raises a retriable error when there is none."""
        node = self.metadata.leader(tp)
        if node >= 0:
            return node
        await self.refresh([tp.topic])
        node = self.metadata.leader(tp)
        if node >= 0:
            return node
        topic = self.metadata.topics.get(tp.topic)
        if topic is None or tp.partition not in topic.partitions:
            code = self.metadata.errors.get(tp.topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            raise kafka_error(code, about=f"partition {tp}")
        raise LeaderNotAvailable(f"partition {tp} has no leader at the moment")

    async def by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Partitions grouped by the node that leads them."""
        groups: dict[int, list[TopicPartition]] = {}
        for tp in partitions:
            groups.setdefault(await self.leader(tp), []).append(tp)
        return groups

    # Coordinators

    async def coordinator(self, kind: int, key: str) -> int:
        """The node that coordinates a group (or transaction, or share-partition)."""
        known = self._coordinators.get((kind, key))
        if known is not None and known in self.metadata.nodes:
            return known

        def build(version: int) -> m.Message:
            if version >= 4:
                return m.FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
            return m.FindCoordinatorRequest(key=key, key_type=kind)

        answer = await self._ask_anybody(build, m.FindCoordinatorResponse, 6 if kind == SHARE else 0)
        found = answer.coordinators[0] if answer.coordinators else answer
        if found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
            # The broker may have been parted from the others: the metadata says whom else to ask.
            with suppress(KafkaError):
                await self.refresh()
        check(found.error_code, found.error_message)
        node = Node(found.node_id, found.host, found.port)
        self.metadata.nodes.setdefault(node.node_id, node)
        self._coordinators[kind, key] = node.node_id
        return node.node_id

    def forget_coordinator(self, kind: int, key: str) -> None:
        """Look up the coordinator again when it is needed next."""
        self._coordinators.pop((kind, key), None)


class Backoff:
    """Pauses that double up to a bound, with a fifth of jitter so that clients do not come back in step (KIP-580)."""

    def __init__(self, config: ClientConfig) -> None:
        self._first = config.retry_backoff_ms / 1000
        self._longest = config.retry_backoff_max_ms / 1000
        self._attempts = 0

    def next_pause(self) -> float:
        pause = min(self._first * 2.0 ** min(self._attempts, 30), self._longest)
        self._attempts += 1
        return pause * random.uniform(0.8, 1.2)

    def reset(self) -> None:
        self._attempts = 0


def _left(node_id: int) -> str:
    return f"broker {node_id} has left the cluster"


def _suggests_new_metadata(error: KafkaError) -> bool:
    return isinstance(
        error, (UnknownTopicOrPartition, LeaderNotAvailable, NotController, Disconnected, BrokerUnreachable)
    ) or error.code in (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REPLICA_NOT_AVAILABLE,
    )
