"""The handlers of each module, built from the parts that they need.

This is the one place that knows which part goes where: a handler is handed what it uses and sees nothing else of the
broker. The module of a handler is imported here, when the first request for it arrives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from penstock.broker.handlers.table import SERVED
from penstock.broker.requests import Handler
from penstock.wire.api import ApiKey

if TYPE_CHECKING:
    from penstock.broker.server import Broker


class HandlerTable:
    """Finds the handler of an API; those of one module are built together, once."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._built: dict[str, object] = {}

    def find(self, key: ApiKey) -> Handler:
        if not self._broker.features.serves(key):
            from penstock.broker.handlers.disabled import DisabledHandlers

            return cast(Handler, getattr(DisabledHandlers(), key.name.lower()))
        module = SERVED[key].module
        if module not in self._built:
            self._built[module] = BUILDERS[module](self._broker)
        return cast(Handler, getattr(self._built[module], key.name.lower()))


def _cluster(broker: Broker) -> object:
    from penstock.broker.handlers.cluster import ClusterHandlers

    return ClusterHandlers(broker.topics, broker.cluster, broker.features, broker.folder, broker.world)


def _configs(broker: Broker) -> object:
    from penstock.broker.handlers.configs import ConfigHandlers

    return ConfigHandlers(broker.topics, broker.configs, broker.cluster)


def _fetch(broker: Broker) -> object:
    from penstock.broker.handlers.fetch import FetchHandlers

    return FetchHandlers(broker.topics, broker.fetch_sessions, broker.config, broker.world)


def _group_offsets(broker: Broker) -> object:
    from penstock.broker.handlers.group_commands import GroupCommands
    from penstock.broker.handlers.group_offsets import GroupOffsetHandlers

    return GroupOffsetHandlers(GroupCommands(broker.groups, broker.world), broker.groups, broker.topics)


def _groups(broker: Broker) -> object:
    from penstock.broker.handlers.group_commands import GroupCommands
    from penstock.broker.handlers.groups import GROUP, SHARE, TRANSACTION, GroupHandlers

    return GroupHandlers(
        GroupCommands(broker.groups, broker.world),
        broker.groups,
        broker.cluster,
        {
            GROUP: lambda: broker.groups.runtime.ensure_topic(),
            TRANSACTION: lambda: broker.transactions.runtime.ensure_topic(),
            SHARE: lambda: broker.share_groups.coordinator.runtime.ensure_topic(),
        },
    )


def _log_dirs(broker: Broker) -> object:
    from penstock.broker.handlers.log_dirs import LogDirHandlers

    return LogDirHandlers(broker.topics, broker.folder)


def _metadata(broker: Broker) -> object:
    from penstock.broker.handlers.metadata import MetadataHandlers

    return MetadataHandlers(broker.topics, broker.cluster, broker.config)


def _offsets(broker: Broker) -> object:
    from penstock.broker.handlers.offsets import OffsetHandlers

    return OffsetHandlers(broker.topics, broker.world)


def _produce(broker: Broker) -> object:
    from penstock.broker.handlers.produce import ProduceHandlers

    return ProduceHandlers(broker.topics, broker.durability, broker.world, lambda: broker.transactional_writes)


def _producers(broker: Broker) -> object:
    from penstock.broker.handlers.producers import ProducerHandlers

    return ProducerHandlers(broker.topics)


def _queues(broker: Broker) -> object:
    from penstock.broker.handlers.queues import QueueHandlers

    return QueueHandlers(broker.share_groups, broker.world)


def _security(broker: Broker) -> object:
    from penstock.broker.handlers.security import SecurityHandlers

    return SecurityHandlers()


def _share_offsets(broker: Broker) -> object:
    from penstock.broker.handlers.share_offsets import ShareOffsetHandlers

    return ShareOffsetHandlers(broker.topics, broker.groups, broker.share_groups.coordinator, broker.world)


def _share_state(broker: Broker) -> object:
    from penstock.broker.handlers.share_state import ShareStateHandlers

    return ShareStateHandlers(broker.share_groups, broker.world)


def _topics(broker: Broker) -> object:
    from penstock.broker.handlers.topics import TopicHandlers

    return TopicHandlers(
        broker.topics, broker.cluster, broker.config, broker.configs, broker.world, broker.delete_topic
    )


def _transactions(broker: Broker) -> object:
    from penstock.broker.handlers.transactions import TransactionHandlers

    return TransactionHandlers(
        broker.topics,
        broker.groups,
        broker.transactions,
        broker.producer_ids,
        broker.world,
    )


def _txn_markers(broker: Broker) -> object:
    from penstock.broker.handlers.txn_markers import TxnMarkerHandlers

    return TxnMarkerHandlers(broker.topics, broker.transactions.markers, broker.durability)


def _txn_offsets(broker: Broker) -> object:
    from penstock.broker.handlers.txn_offsets import TxnOffsetHandlers

    return TxnOffsetHandlers(broker.topics, broker.groups, broker.transactions, broker.config, broker.world)


def _versions(broker: Broker) -> object:
    from penstock.broker.handlers.versions import VersionHandlers

    return VersionHandlers(broker.dispatcher.advertised, broker.features)


BUILDERS: dict[str, Callable[[Broker], object]] = {
    "cluster": _cluster,
    "configs": _configs,
    "fetch": _fetch,
    "group_offsets": _group_offsets,
    "groups": _groups,
    "log_dirs": _log_dirs,
    "metadata": _metadata,
    "offsets": _offsets,
    "produce": _produce,
    "producers": _producers,
    "queues": _queues,
    "security": _security,
    "share_offsets": _share_offsets,
    "share_state": _share_state,
    "topics": _topics,
    "transactions": _transactions,
    "txn_markers": _txn_markers,
    "txn_offsets": _txn_offsets,
    "versions": _versions,
}
