"""Every part of a broker, built in one place and handed what it needs.

No part knows this object: each is given the parts that it works with and nothing else. The coordinators, the writes of
transactions and compaction are built when they are first needed, or at the start when there is state to load, so that a
broker is up before the code of every capability has been loaded.
"""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, TypeVar

from penstock import guard
from penstock.broker.acceptor import Acceptor
from penstock.broker.assembly import HandlerTable
from penstock.broker.authentication_counts import AuthenticationCounts
from penstock.broker.cluster_view import ClusterView
from penstock.broker.config import BrokerConfig, Configs
from penstock.broker.connection import Connection
from penstock.broker.connection_rates import ConnectionRates
from penstock.broker.disk_watch import DiskWatch
from penstock.broker.dispatch import Dispatcher
from penstock.broker.durability import Durability
from penstock.broker.features import Features
from penstock.broker.fetch_sessions import FetchSessions
from penstock.broker.foundation import BACKUP_FOLDER
from penstock.broker.gate import Gate
from penstock.broker.http import MonitoringEndpoint
from penstock.broker.metrics import Metric, Metrics
from penstock.broker.newcomers import Newcomers
from penstock.broker.producer_ids import ProducerIds
from penstock.broker.quotas import Quotas
from penstock.broker.state_topic import InternalTopics
from penstock.broker.topic_manager import TopicManager
from penstock.broker.topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from penstock.broker.upkeep import Upkeep
from penstock.broker.vitals import COMPACTION, Vitals
from penstock.broker.world import SteadyTime, World
from penstock.catalog.contract import CatalogError
from penstock.wire.api import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.broker.admission import TransactionalWrites
    from penstock.broker.authentication import Authenticator
    from penstock.broker.backups import Backups
    from penstock.broker.catalog_follower import CatalogFollower
    from penstock.broker.cleaning import Cleaning
    from penstock.broker.credentials import Users
    from penstock.broker.foundation import Foundation, Shared
    from penstock.broker.group_coordinator import GroupCoordinator
    from penstock.broker.measuring import Coordinators, Measuring
    from penstock.broker.peers import Peers
    from penstock.broker.sasl_listeners import SaslListeners
    from penstock.broker.share.groups import ShareGroups
    from penstock.broker.telemetry import Telemetry
    from penstock.broker.topics import Partition
    from penstock.broker.transaction_calls import TransactionCalls
    from penstock.broker.transaction_coordinator import TransactionCoordinator
    from penstock.broker.visitors import LoggedInVisitors
    from penstock.catalog.contract import Catalog
    from penstock.security.authorizer import Authorizer

_TELEMETRY = frozenset({ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY})
_COORDINATORS = ("groups", "transactions", "share_groups")
_COORDINATOR_OF = {OFFSETS_TOPIC: "groups", TRANSACTIONS_TOPIC: "transactions", SHARE_STATE_TOPIC: "share_groups"}


class Parts:
    def __init__(self, config: BrokerConfig, world: World, foundation: Foundation) -> None:
        self.config = config
        self.world = world
        self._foundation = foundation
        self.catalog = foundation.catalog
        self.storage = foundation.storage
        self.configs = Configs(config, self.catalog)
        self.gate = Gate(_authorizer(config, self.catalog), world.monotonic)
        if not self.gate.is_open:
            from penstock.broker import audit

            audit.begin()
        self.features = Features(self.catalog, config.group_coordinator_rebalance_protocols)
        self.cluster = ClusterView(self.catalog.cluster_id, config.node_id, config.broker_rack)
        self.cluster.inter_broker_listener_name = config.listener_of_brokers
        self.topics = TopicManager(self.cluster, self.storage, self.catalog, self.configs, world, foundation.shared)
        self.shared = foundation.shared
        self.membership = None if foundation.shared is None else foundation.shared.membership
        self.follower: CatalogFollower | None = None
        if foundation.shared is not None:
            self.follower = self._follow(foundation.shared)
        self.durability = Durability(self.storage, world, lambda: config.penstock_acks_all_flush)
        self.internal_topics = InternalTopics(self.cluster, self.topics, self.durability, world)
        self.producer_ids = ProducerIds(self.catalog.allocate_producer_id_block)
        self.fetch_sessions = FetchSessions(
            config.max_incremental_fetch_session_cache_slots, lambda: world.random_between(1, 2**31)
        )
        self.on_connection_closed: list[Callable[[Connection], None]] = []
        self.quotas = Quotas(config, self.catalog, world)
        self.dispatcher = Dispatcher(HandlerTable(self).find, world, self._connection_closed, self.quotas)
        self.features.listeners.append(self.dispatcher.forget_routes)
        if self.membership is not None:
            from penstock.broker.current_leaders import CurrentLeaders

            membership = self.membership
            self.cluster.leaders_move = True
            self.cluster.holds_lease = lambda: not membership.is_suspended
            self.dispatcher.finish = CurrentLeaders(self.cluster).fill
            self.dispatcher.may_answer = self.membership.may_answer
            self.cluster.on_leadership_changed.append(self._load_coordinator)
        self.metrics = Metrics(world.precise, lambda: config.penstock_metrics_series_max)
        self.vitals = Vitals(
            self.storage, self.membership, foundation.ownership_confirmed, world.monotonic, self._loading
        )
        self.disk_watch = DiskWatch(self.storage.volume, world.monotonic)
        self.monitoring = MonitoringEndpoint(self.metrics, self.vitals.not_ready, self.build_all)
        self.measuring: Measuring | None = None
        if config.measures:
            self.measuring = self._measure()
        self.newcomers = Newcomers(config, world.monotonic)
        self.authentications = AuthenticationCounts()
        rates = ConnectionRates(config, self.quotas)
        self.acceptor = Acceptor(
            config,
            self.cluster,
            self.dispatcher,
            world,
            rates,
            lambda: self.authenticator,
            self.newcomers,
            self.authentications,
        )
        self.configs.checks.append(self.acceptor.check)
        if not config.measures:
            self.dispatcher.unadvertised = _TELEMETRY
        self.upkeep = Upkeep(config, self.cluster, self.storage, world, sweep=self._sweep, clean=self._clean)
        self.vitals.ages += [self.upkeep.success_ages, self.internal_topics.success_ages, self._cleaner_age]
        if self.measuring is not None:
            self.vitals.ages.append(self.measuring.success_ages)
        self.metrics.register(self._own_metrics)
        self.metrics.register(self.internal_topics.metrics)
        self.metrics.register(self.quotas.metrics)
        self.metrics.register(self.newcomers.metrics)
        self.metrics.register(self.authentications.metrics)

    def _follow(self, shared: Shared) -> CatalogFollower:
        """Hear of what other brokers change."""
        from penstock.broker.catalog_follower import CatalogFollower
        from penstock.catalog.shared import Kind

        def reload_users() -> None:
            if "users" in self.__dict__:
                self.users.reload()

        follower = CatalogFollower(
            shared.catalog,
            self.world,
            {
                Kind.BROKERS: lambda: self.cluster.set_brokers(shared.catalog.brokers()),
                Kind.FEATURES: self.features.reload,
                Kind.CONFIGS: self.configs.reload,
                Kind.TOPICS: self.topics.follow,
                Kind.ACLS: lambda: self.gate.set_rules(shared.catalog.acls()),
                Kind.CREDENTIALS: reload_users,
                Kind.QUOTAS: lambda: self.quotas.apply(shared.catalog.quotas()),
            },
            shared.max_age_seconds,
        )
        self.cluster.is_shared = True
        self.cluster.set_brokers(shared.catalog.brokers())
        self.cluster.on_missing = follower.look
        return follower

    # -- parts that are built when they are first needed -----------------------------------------------------------

    @cached_property
    def users(self) -> Users:
        from penstock.broker.credentials import Users

        return Users(self.catalog, takes_brokers=self.cluster.is_shared)

    @cached_property
    def sasl_listeners(self) -> SaslListeners:
        from penstock.broker.sasl_listeners import SaslListeners

        return SaslListeners(self.config, self.users, self.world)

    @cached_property
    def authenticator(self) -> Authenticator:
        from penstock.broker.authentication import Authenticator

        authenticator = Authenticator(
            self.config, self.sasl_listeners, self.dispatcher, self.newcomers, self.authentications, self.world
        )
        self.metrics.register(authenticator.metrics)
        return authenticator

    @cached_property
    def visitors(self) -> LoggedInVisitors:
        """Raises ConfigError if the certificate for them cannot be used."""
        from penstock.broker.visitors import LoggedInVisitors, open_context

        return LoggedInVisitors(
            open_context(self.config),
            self.users,
            self.sasl_listeners.password_checks,
            self.gate,
            self.config,
            self.world,
        )

    @cached_property
    def groups(self) -> GroupCoordinator:
        from penstock.broker.group_coordinator import GroupCoordinator
        from penstock.broker.share.actions import ShareActions

        time = SteadyTime(self.world)
        actions = ShareActions(lambda: self.share_groups.coordinator, time)
        groups = GroupCoordinator(
            self.configs, self.cluster, self.internal_topics.topic, time, self.world.new_id, actions.request
        )
        self.topics.on_topic_deleted.append(groups.topic_deleted)
        self.metrics.register(groups.metrics)
        self.monitoring.register("/groups", groups.view, about_groups=True)
        return self._started("groups", groups)

    @cached_property
    def transactions(self) -> TransactionCoordinator:
        from penstock.broker.marker_requests import MarkerRequests
        from penstock.broker.transaction_coordinator import TransactionCoordinator

        transactions = TransactionCoordinator(
            self.config,
            self.features,
            self.cluster,
            self.internal_topics.topic,
            self.durability,
            self.world,
            new_producer_id=self.producer_ids.next,
            groups=lambda: self.groups.runtime,
            marker_requests=MarkerRequests(lambda: self.peers, self.world),
            is_deleted=self._is_deleted,
            may_have_lost_writes=self.storage.may_have_lost_writes,
            lost_writes_settled=self.storage.lost_writes_settled,
        )
        self.metrics.register(transactions.metrics)
        return self._started("transactions", transactions)

    @cached_property
    def share_groups(self) -> ShareGroups:
        from penstock.broker.share.groups import ShareGroups

        groups = ShareGroups(
            self.cluster,
            self.topics,
            self.config,
            self.configs,
            self.durability,
            self.world,
            self.internal_topics.topic,
            self.gate,
            lambda: self.peers,
        )
        groups.listen(
            self.on_connection_closed, self.topics.on_topic_deleted, self.features, self.metrics, self.monitoring
        )
        return self._started("share_groups", groups)

    @cached_property
    def transactional_writes(self) -> TransactionalWrites:
        from penstock.broker.admission import TransactionalWrites

        return TransactionalWrites(self.cluster, self.transaction_calls, self.config)

    @cached_property
    def transaction_calls(self) -> TransactionCalls:
        from penstock.broker.transaction_calls import TransactionCalls

        return TransactionCalls(self.cluster, self.transactions, lambda: self.peers, self.world)

    @cached_property
    def peers(self) -> Peers:
        """Requests to the other brokers of the cluster; never built where there are none."""
        from penstock.broker.inter_broker import peers_of

        return peers_of(
            self.config, self.cluster, self.catalog, self.world, lambda name: self.sasl_listeners[name].mechanisms()
        )

    @cached_property
    def cleaning(self) -> Cleaning:
        from penstock.broker.cleaning import Cleaning

        cleaning = Cleaning(self.storage, self.configs, self.world)
        self.topics.on_topic_deleted.append(cleaning.topic_deleted)
        self.metrics.register(cleaning.metrics)
        self.monitoring.register("/cleaner", cleaning.view)
        return cleaning

    @cached_property
    def backups(self) -> Backups:
        from penstock.broker.backups import Backups

        assert self._foundation.backup is not None
        return Backups(self._foundation.backup, self.world)

    @cached_property
    def telemetry(self) -> Telemetry:
        from penstock.broker.telemetry import Telemetry

        telemetry = Telemetry(self.configs, self.world, lambda: self.dispatcher.connections)
        self.on_connection_closed.append(telemetry.connection_closed)
        self.metrics.register(telemetry.metrics)
        self.monitoring.register("/clients", telemetry.view)
        return telemetry

    def _started(self, name: str, coordinator: C) -> C:
        """Start a coordinator that others can see already: loading one may ask for another, and for itself."""
        self.__dict__[name] = coordinator
        coordinator.start()
        return coordinator

    def is_built(self, name: str) -> bool:
        return name in self.__dict__

    # -- life ------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Open every log, and load the coordinators that have state."""
        self.topics.open_all()
        if self.cluster.find_topic(OFFSETS_TOPIC) is not None:
            self.build("groups")
        if self.cluster.find_topic(TRANSACTIONS_TOPIC) is not None:
            self.build("transactions")
        else:
            self.storage.lost_writes_settled()
        if self.cluster.find_topic(SHARE_STATE_TOPIC) is not None:
            self.build("share_groups")

    def build(self, *names: str) -> None:
        """Build parts now that would otherwise be built when they are first needed."""
        for name in names:
            getattr(self, name)

    def build_all(self) -> None:
        """So that every view is there, on an idle broker as well, once somebody looks at one."""
        self.build(*_COORDINATORS, "cleaning", "telemetry")

    def stop_coordinators(self) -> None:
        for name in _COORDINATORS:
            if self.is_built(name):
                getattr(self, name).stop()

    # -- joints ----------------------------------------------------------------------------------------------------

    def _load_coordinator(self, partition: Partition) -> None:
        """A coordinator whose partition is led from here has work to do, whether or not somebody asks for it."""
        name = _COORDINATOR_OF.get(partition.topic.name)
        if name is not None and partition.log.is_leader and not self.is_built(name):
            self.build(name)

    def _connection_closed(self, connection: Connection) -> None:
        self.newcomers.settled(connection)
        for callback in self.on_connection_closed:
            guard.attempt("clearing up after a closed connection", callback, connection)

    def _measure(self) -> Measuring:
        """Measure what costs a little with every request."""
        from penstock.broker.measuring import Measuring

        measuring = Measuring(
            self.config,
            self.cluster,
            self.world,
            self.metrics,
            self.monitoring,
            self._coordinators,
            lambda: self.peers,
            self.topics.on_topic_deleted,
        )
        self.dispatcher.measure(measuring.times)
        return measuring

    def _coordinators(self) -> Coordinators | None:
        if not self.is_built("groups"):
            return None
        from penstock.broker.measuring import Coordinators

        return Coordinators(self.groups, self.share_groups)

    def _is_deleted(self, name: str, index: int) -> bool:
        """Whether a partition is certain not to exist: the catalog knows, also what this broker has not heard of."""
        if not self.cluster.is_shared:
            return True
        try:
            return not any(row.name == name and index < row.partitions for row in self.catalog.topics())
        except CatalogError:
            return False

    def _loading(self) -> list[str]:
        """The internal topics that are being loaded."""
        names = []
        for name in _COORDINATORS:
            if self.is_built(name):
                part = getattr(self, name)
                runtime = part.coordinator.runtime if name == "share_groups" else part.runtime
                if runtime.is_loading:
                    names.append(runtime.topic_name)
        return names

    def _cleaner_age(self) -> dict[str, float]:
        return {COMPACTION: self.cleaning.waiting_seconds()} if self.is_built("cleaning") else {}

    def _own_metrics(self) -> Iterator[Metric | None]:
        from penstock.broker.log_metrics import log_metrics
        from penstock.broker.store_metrics import MeasuredStore, store_metrics
        from penstock.broker.unbuilt_metrics import unbuilt_metrics

        yield from self.vitals.metrics()
        yield Metric("kafka_log_logflushstats_logflushrateandtimems").add_histogram(self._foundation.flush_times)
        yield Metric("penstock_retention_deleted_segments_total").add(self.upkeep.deleted_segments)
        if isinstance(self.storage, MeasuredStore):
            yield from store_metrics(self.storage.figures())
        if self.membership is not None:
            yield Metric("penstock_leases_ended_total").add(self.membership.ended)
            yield Metric("penstock_handed_over_total").add(self.membership.moved_away)
        yield from unbuilt_metrics(self.is_built)
        yield from self.acceptor.metrics()
        yield from self.fetch_sessions.metrics()
        yield from log_metrics(self.cluster, partitions=self.config.penstock_metrics_partitions)

    def _sweep(self) -> None:
        self.acceptor.sweep()
        self.quotas.sweep()
        self.newcomers.sweep()
        self.acceptor.refresh()
        self.durability.end_late_waits()
        self.vitals.sweep()
        self.disk_watch.sweep()
        self._look_for_backup()

    def _look_for_backup(self) -> None:
        """The part is not even imported before there is a command that wants a backup."""
        source = self._foundation.backup
        if source is not None and os.path.exists(source.data / BACKUP_FOLDER):
            self.backups.look()

    def _clean(self) -> None:
        """Compaction is not even imported before there is a compacted topic."""
        if self.is_built("cleaning") or any(topic.log_config.compacts for topic in self.cluster.topics()):
            self.cleaning.poll()


def _authorizer(config: BrokerConfig, catalog: Catalog) -> Authorizer | None:
    """What decides what clients may do; None while everybody may do everything."""
    if not config.authorizer_class_name:
        return None
    from penstock.broker.cluster_login import BROKERS
    from penstock.security.authorizer import Authorizer

    return Authorizer(
        catalog.acls(),
        super_users=[
            str(BROKERS),
            *(text.strip() for text in config.super_users.split(";") if text.strip()),
        ],
        allow_everyone=config.allow_everyone_if_no_acl_found.lower() == "true",
    )


class _Startable(Protocol):
    def start(self) -> None: ...


C = TypeVar("C", bound=_Startable)
