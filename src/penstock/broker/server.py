"""The broker: one process, one event loop, one owner of all state.

`Broker` puts the rooms together: catalog, logs, coordinators, and the connections in front of them. Everything runs in
the thread of its event loop, so nothing is locked; only syncing files happens elsewhere (`log.flusher`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from penstock import guard
from penstock.broker.assembly import HandlerTable
from penstock.broker.cluster_view import ClusterView
from penstock.broker.config import BrokerConfig, Configs, check_listeners
from penstock.broker.connection import SCRATCH_BYTES, Connection
from penstock.broker.dispatch import Dispatcher
from penstock.broker.durability import Durability
from penstock.broker.features import Features
from penstock.broker.fetch_sessions import FetchSessions
from penstock.broker.http import MonitoringEndpoint
from penstock.broker.listeners import Address, Listener, SocketListener, is_loopback, parse_address, reachable_host
from penstock.broker.metrics import Metrics
from penstock.broker.producer_ids import ProducerIds
from penstock.broker.state_topic import InternalTopics
from penstock.broker.topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC, Partition, Topic, Topics
from penstock.broker.world import LoopWorld, World
from penstock.catalog import Catalog
from penstock.log.files import FolderLock
from penstock.records.batch import parse_header
from penstock.storage.contract import Appended, AppendOrigin, Log, Storage
from penstock.storage.contract import Callback as FlushCallback
from penstock.storage.local import LocalStorage

if TYPE_CHECKING:
    from penstock.broker.admission import TransactionalWrites
    from penstock.broker.cleaning import Cleaning
    from penstock.broker.group_coordinator import GroupCoordinator
    from penstock.broker.share.groups import ShareGroups
    from penstock.broker.transaction_coordinator import TransactionCoordinator
    from penstock.broker.transport import Transport

log = logging.getLogger("penstock.broker")

CATALOG_FILE = "catalog.sqlite"
_SWEEP_SECONDS = 1.0
_CHECKPOINT_SECONDS = 60.0
_CLEAN_SECONDS = 1.0
_STOP_SECONDS = 5.0
_SILENT_SECONDS = 5.0


@dataclass(slots=True)
class Settings:
    """What a broker is started with; `configs` are Kafka's names and string values."""

    data: Path = Path("penstock-data")
    listen: list[str] = field(default_factory=lambda: ["127.0.0.1:9092"])
    advertise: list[str] = field(default_factory=list)
    configs: dict[str, str] = field(default_factory=dict)


class Broker:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.config = BrokerConfig(settings.configs)
        check_listeners(settings.configs, [*settings.listen, *settings.advertise])
        self.node_id = self.config.node_id
        self.loop: asyncio.AbstractEventLoop
        self.folder = settings.data
        self.catalog: Catalog
        self.topics: Topics
        self.configs: Configs
        self.dispatcher: Dispatcher
        self.failure: BaseException | None = None
        self.fetch_sessions = FetchSessions(
            self.config.max_incremental_fetch_session_cache_slots, lambda: self.world.random_between(1, 2**31)
        )
        self.producer_ids = ProducerIds(lambda: self.catalog.allocate_producer_id_block())
        self.metrics = Metrics(self)
        self.monitoring = MonitoringEndpoint(self.metrics)
        self.on_connection_closed: list[Callable[[Connection], None]] = []
        self.on_topic_deleted: list[Callable[[Topic], None]] = []
        self._listeners: list[Listener] = []
        self._timers: list[asyncio.TimerHandle] = []
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._stopping = asyncio.Event()

    # -- life ------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open everything and begin to listen. Raises ListenError, StorageError or ConfigError with what to do."""
        self.loop = asyncio.get_running_loop()
        self.world: World = LoopWorld(self.loop)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = FolderLock(self.folder)
        try:
            self.catalog = Catalog.open(self.folder / CATALOG_FILE)
            self.cluster = ClusterView(self.catalog.cluster_id, self.node_id, self.config.broker_rack)
            self.features = Features(self.catalog, self.config.group_coordinator_rebalance_protocols)
            self.configs = Configs(self.config, self.catalog)
            self.configs.listeners.append(self._configs_changed)
            self.storage: Storage = LocalStorage(
                self.folder, self.now_ms, self.world.call_soon_threadsafe, self._storage_failed
            )
            self.topics = Topics(self.storage, self.catalog, self.configs)
            self.topics.open_all()
            self.durability = Durability(self.storage, self.world, lambda: self.flush_acks_all)
            self.internal_topics = InternalTopics(
                self.topics, self.append_internal, self.durability, self.world, self.on_topic_deleted
            )
            self.dispatcher = Dispatcher(HandlerTable(self).find, self.world, self.connection_closed)
            self.features.listeners.append(self.dispatcher.forget_routes)
            self._load_coordinators()
            self._listen()
            if self.config.penstock_metrics_listen:
                await self.monitoring.start(self.config.penstock_metrics_listen)
                # Each of these registers what it shows, and an idle broker shows it as well.
                self._build("groups", "transactions", "share_groups", "cleaning")
        except BaseException:
            self._lock.release()
            raise
        self._every(_SWEEP_SECONDS, self._sweep)
        self._every(_CHECKPOINT_SECONDS, self._save_checkpoints)
        self._every(_CLEAN_SECONDS, self._clean)
        self._every(self.config.log_retention_check_interval_ms / 1000, self._apply_retention)
        self._every(self.config.producer_id_expiration_check_interval_ms / 1000, self._expire_producers)

    # -- the coordinators: each is built when it is first needed, or at the start when it has state to load ---------

    @cached_property
    def groups(self) -> GroupCoordinator:
        from penstock.broker.group_coordinator import GroupCoordinator
        from penstock.broker.share.actions import ShareActions

        actions = ShareActions(lambda: self.share_groups.coordinator, self.world)
        groups = GroupCoordinator(self.configs, self.topics, self.internal_topics.topic, self.world, actions.request)
        self.on_topic_deleted.append(groups.topic_deleted)
        self.metrics.register(groups.metrics)
        self.monitoring.register("/groups", groups.view)
        return _started(self, "groups", groups)

    @cached_property
    def transactions(self) -> TransactionCoordinator:
        from penstock.broker.transaction_coordinator import TransactionCoordinator

        transactions = TransactionCoordinator(
            self.config,
            self.features,
            self.topics,
            self.internal_topics.topic,
            self.durability,
            self.world,
            new_producer_id=self.producer_ids.next,
            groups=lambda: self.groups.runtime,
            may_have_lost_writes=self.storage.may_have_lost_writes,
            lost_writes_settled=self.storage.lost_writes_settled,
        )
        return _started(self, "transactions", transactions)

    @cached_property
    def share_groups(self) -> ShareGroups:
        from penstock.broker.share.groups import ShareGroups

        groups = ShareGroups(
            self.topics,
            self.config,
            self.configs,
            self.durability,
            self.world,
            self.append_internal,
            self.internal_topics.topic,
        )
        groups.listen(self.on_connection_closed, self.on_topic_deleted, self.features, self.metrics, self.monitoring)
        return _started(self, "share_groups", groups)

    @cached_property
    def transactional_writes(self) -> TransactionalWrites:
        from penstock.broker.admission import TransactionalWrites

        return TransactionalWrites(self.topics, self.transactions, self.config)

    @cached_property
    def cleaning(self) -> Cleaning:
        from penstock.broker.cleaning import Cleaning

        return Cleaning(self)

    def _load_coordinators(self) -> None:
        if self.topics.find(OFFSETS_TOPIC) is not None:
            self._build("groups")
        if self.topics.find(TRANSACTIONS_TOPIC) is not None:
            self._build("transactions")
        else:
            self.storage.lost_writes_settled()
        if self.topics.find(SHARE_STATE_TOPIC) is not None:
            self._build("share_groups")

    def _build(self, *names: str) -> None:
        """Build parts now that would otherwise be built when they are first needed."""
        for name in names:
            getattr(self, name)

    def _listen(self) -> None:
        advertised = [parse_address(text) for text in self.settings.advertise or self.config.advertised_listeners]
        for index, text in enumerate(self.settings.listen):
            address = parse_address(text)
            listener = SocketListener(
                address,
                backlog=self.config.socket_listen_backlog_size,
                send_buffer_bytes=self.config.socket_send_buffer_bytes,
                receive_buffer_bytes=self.config.socket_receive_buffer_bytes,
            )
            self._listeners.append(listener)
            told = next((a for a in advertised if a.name == address.name), None)
            if told is None and len(advertised) == len(self.settings.listen):
                told = advertised[index]
            self.cluster.advertise(
                address.name, told or Address(address.name, reachable_host(address.host), listener.port)
            )
            listener.start(self.loop, partial(self._connected, listener))
            if not is_loopback(address.host):
                log.warning(
                    "listening on %s without authentication: everybody who can reach it can read, write and delete",
                    address,
                )

    @property
    def port(self) -> int:
        """The port of the first listener, also when it was chosen by the system."""
        return self._listeners[0].port

    @property
    def bootstrap(self) -> str:
        """What to put into a client's `bootstrap.servers`."""
        return self.cluster.bootstrap

    async def serve(self) -> None:
        """Serve until `stop` is called or the storage fails."""
        await self._stopping.wait()
        await self._close()
        if self.failure is not None:
            raise self.failure

    def stop(self) -> None:
        self._stopping.set()

    async def _close(self) -> None:
        """Answer what is under way, flush, and leave the data folder clean."""
        for listener in self._listeners:
            listener.close()
        for timer in self._timers:
            timer.cancel()
        if "cleaning" in self.__dict__:
            self.cleaning.stop()
        await self.monitoring.stop()
        await self.dispatcher.stop()
        for name in ("groups", "transactions", "share_groups"):
            if name in self.__dict__:
                getattr(self, name).stop()
        await self._drain()
        for connection in list(self.dispatcher.connections):
            connection.close()
        try:
            self.storage.close()
        finally:
            self.catalog.close()
            self._lock.release()

    async def _drain(self) -> None:
        """Give appends that wait for the disk, and responses on their way, a moment to get out."""
        deadline = self.loop.time() + _STOP_SECONDS
        while self.loop.time() < deadline and self.failure is None:
            busy = [c for c in self.dispatcher.connections if c.has_unsent]
            if not busy and self.durability.is_idle:
                return
            await asyncio.sleep(0.01)

    # -- connections -----------------------------------------------------------------------------------------------

    def _connected(self, listener: Listener, transport: Transport) -> None:
        connections = self.dispatcher.connections
        host, _ = transport.peer
        if len(connections) >= self.config.max_connections:
            log.warning("refused %s: %d connections are open (max.connections)", host, len(connections))
            transport.close()
            return
        allowed = self._connections_per_ip(host)
        if allowed <= len(connections) and sum(each.peer_host == host for each in connections) >= allowed:
            log.warning("refused %s: it has %d connections open (max.connections.per.ip)", host, allowed)
            transport.close()
            return
        connection = Connection(
            transport,
            self.world,
            self.dispatcher,
            self._scratch,
            self.config.socket_request_max_bytes,
            listener.address.name,
        )
        connections.add(connection)

    def _connections_per_ip(self, host: str) -> int:
        overrides = (each.rpartition(":") for each in self.config.max_connections_per_ip_overrides.split(",") if each)
        return {address.strip(): int(count) for address, _, count in overrides}.get(
            host, self.config.max_connections_per_ip
        )

    def connection_closed(self, connection: Connection) -> None:
        for callback in self.on_connection_closed:
            guard.attempt("clearing up after a closed connection", callback, connection)

    # -- time ------------------------------------------------------------------------------------------------------

    def now_ms(self) -> int:
        return self.world.now_ms()

    def _every(self, seconds: float, callback: Callable[[], None]) -> None:
        slot = len(self._timers)

        def run() -> None:
            guard.attempt(f"the timer of {callback.__qualname__}", callback)
            self._timers[slot] = self.loop.call_later(seconds, run)

        self._timers.append(self.loop.call_later(seconds, run))

    def _sweep(self) -> None:
        """Bounds on waiting: idle connections are closed, appends that the disk does not take are answered."""
        now = self.loop.time()
        idle_since = now - self.config.connections_max_idle_ms / 1000
        silent_since = now - _SILENT_SECONDS
        for connection in [c for c in self.dispatcher.connections if c.last_active < silent_since]:
            if connection.last_active < idle_since:
                connection.close()
            else:
                connection.trim()
        self.durability.end_late_waits()

    def _apply_retention(self) -> None:
        now_ms = self.now_ms()
        for topic in self.topics.all():
            for partition in topic.partitions:
                guard.attempt(f"retention of {topic.name}-{partition.index}", _retain, partition, now_ms)

    def _expire_producers(self) -> None:
        """Forget the idempotent producers that were silent for `producer.id.expiration.ms`."""
        now_ms = self.now_ms()
        for each in self.storage.logs():
            what = f"expiry of the producers of {each.topic}-{each.partition}"
            guard.attempt(what, each.expire_producers, now_ms)

    def _clean(self) -> None:
        """Compaction is not even imported before there is a compacted topic."""
        if "cleaning" in self.__dict__ or any(topic.log_config.compacts for topic in self.topics.all()):
            self.cleaning.poll()

    def _save_checkpoints(self) -> None:
        self.storage.save_progress()

    # -- storage ---------------------------------------------------------------------------------------------------

    @property
    def flush_acks_all(self) -> bool:
        return self.config.penstock_acks_all_flush

    def flush(self, partition_log: Log, position: int, callback: FlushCallback) -> None:
        """Call back when the log is on disk up to this offset, or cannot be brought there."""
        self.storage.when_durable(partition_log, position, callback)

    def flush_soon(self, partition_log: Log) -> None:
        self.durability.begin(partition_log)

    def _storage_failed(self, error: BaseException) -> None:
        """The disk did not keep what it took: nothing more can be promised, so stop rather than guess."""
        log.critical("storage failed, stopping: %s", error)
        self.failure = error
        self.stop()

    def append_internal(self, partition: Partition, batch: bytearray, now_ms: int) -> Appended:
        """Append a batch of the broker's own (a coordinator's records)."""
        header = parse_header(batch)
        appended = partition.log.append(memoryview(batch), header, now_ms=now_ms, origin=AppendOrigin.COORDINATOR)
        if partition.waiters:
            partition.wake()
        return appended

    def _configs_changed(self) -> None:
        for topic in self.topics.all():
            self.topics.resolve(topic)

    def delete_topic(self, topic: Topic) -> None:
        for callback in self.on_topic_deleted:
            guard.attempt(f"clearing up after the topic {topic.name}", callback, topic)
        leftovers = self.topics.delete(topic)
        self.world.in_thread(lambda: _run_all(leftovers))


class _Startable(Protocol):
    def start(self) -> None: ...


C = TypeVar("C", bound=_Startable)


def _started(broker: Broker, name: str, coordinator: C) -> C:
    """Start a coordinator that others can see already: loading one may ask for another, and for itself."""
    broker.__dict__[name] = coordinator
    coordinator.start()
    return coordinator


def _retain(partition: Partition, now_ms: int) -> None:
    if partition.log.apply_retention(now_ms):
        log.info("retention deleted segments of %s-%d", partition.topic.name, partition.index)


def _run_all(functions: list[Callable[[], None]]) -> None:
    for function in functions:
        guard.attempt("removing a deleted log", function)
