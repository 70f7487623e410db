"""The handlers of each module, built from the parts that they need.

This is the one place that knows which part goes where: a handler is handed what it uses and sees nothing else of the
broker. The module of a handler is imported here, when the first request for it arrives.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, cast

from penstock.broker.handlers.table import SERVED
from penstock.broker.requests import Handler
from penstock.wire.api import ApiKey

if TYPE_CHECKING:
    from penstock.broker.parts import Parts
    from penstock.broker.traffic import Traffic
    from penstock.coordination.runtime import CoordinatorRuntime


class HandlerTable:
    """Finds the handler of an API; those of one module are built together, once."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._built: dict[str, object] = {}

    def find(self, key: ApiKey) -> Handler:
        if not self._parts.features.serves(key):
            from penstock.broker.handlers.disabled import DisabledHandlers

            return cast(Handler, getattr(DisabledHandlers(), key.name.lower()))
        module = SERVED[key].module
        if module not in self._built:
            self._built[module] = BUILDERS[module](self._parts)
        handler = cast(Handler, getattr(self._built[module], key.name.lower()))
        if self._parts.membership is not None:
            handler = after(self._parts.membership.check, handler)
            if key not in _NEVER_ASK_THE_CATALOG:
                handler = before_answering(self._parts.membership.check, handler)
        if self._parts.storage.can_lose_appends and key in _FROM_MEMORY:
            from penstock.broker.settled_answers import settled

            handler = settled(handler, _FROM_MEMORY[key](self._parts))
        if self._parts.follower is not None and key in ABOUT_METADATA:
            handler = after(self._parts.follower.look, handler)
        if key in _CHANGING:
            from penstock.broker.audit import audited

            handler = audited(key, handler)
        return handler


# What a client may have been told of by another broker, and what is changed on the basis of what is there.
ABOUT_METADATA = frozenset(
    {
        ApiKey.METADATA,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.FIND_COORDINATOR,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.LIST_CONFIG_RESOURCES,
        ApiKey.DESCRIBE_ACLS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.UPDATE_FEATURES,
    }
)


def after(look: Callable[[], object], handler: Handler) -> Handler:
    """A handler before which something is looked at: what other brokers have changed, or the lease."""

    @wraps(handler)
    def handle(request: Any) -> Any:
        look()
        return handler(request)

    return handle


def before_answering(look: Callable[[], object], handler: Handler) -> Handler:
    """A handler after which something is looked at: the lease, which is over if the catalog has taken too long."""

    @wraps(handler)
    def handle(request: Any) -> Any:
        answer = handler(request)
        look()
        return answer

    return handle


_NEVER_ASK_THE_CATALOG = frozenset({ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE})
"""What makes up the load, and is spared a second look."""


# What the audit log tells of.
_CHANGING = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.DELETE_RECORDS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.DELETE_GROUPS,
        ApiKey.OFFSET_DELETE,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        ApiKey.UPDATE_FEATURES,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    }
)

# Answers that coordinators give from memory, outside of any command.
_FROM_MEMORY: dict[ApiKey, Callable[[Parts], CoordinatorRuntime[Any]]] = {
    **dict.fromkeys(
        (
            ApiKey.LIST_GROUPS,
            ApiKey.DESCRIBE_GROUPS,
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            ApiKey.SHARE_GROUP_DESCRIBE,
            ApiKey.OFFSET_FETCH,
        ),
        lambda parts: parts.groups.runtime,
    ),
    **dict.fromkeys((ApiKey.LIST_TRANSACTIONS, ApiKey.DESCRIBE_TRANSACTIONS), lambda parts: parts.transactions.runtime),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: lambda parts: parts.share_groups.coordinator.runtime,
}


def _cluster(parts: Parts) -> object:
    from penstock.broker.handlers.cluster import ClusterHandlers

    moves = None
    if parts.membership is not None:
        from penstock.broker.leader_moves import LeaderMoves

        moves = LeaderMoves(parts.cluster, parts.membership.catalog)
    return ClusterHandlers(parts.cluster, parts.features, parts.storage, parts.world, parts.gate, moves)


def _configs(parts: Parts) -> object:
    from penstock.broker.handlers.configs import ConfigHandlers

    return ConfigHandlers(parts.topics, parts.configs, parts.cluster, parts.gate)


def _fetch(parts: Parts) -> object:
    from penstock.broker.handlers.fetch import FetchHandlers

    return FetchHandlers(
        parts.cluster, parts.fetch_sessions, parts.config, parts.world, parts.gate, parts.quotas, _traffic(parts)
    )


def _group_offsets(parts: Parts) -> object:
    from penstock.broker.handlers.group_commands import GroupCommands
    from penstock.broker.handlers.group_offsets import GroupOffsetHandlers

    return GroupOffsetHandlers(GroupCommands(parts.groups, parts.gate), parts.groups, parts.cluster, parts.gate)


def _groups(parts: Parts) -> object:
    from penstock.broker.handlers.group_commands import GroupCommands
    from penstock.broker.handlers.groups import GROUP, SHARE, TRANSACTION, GroupHandlers

    return GroupHandlers(
        GroupCommands(parts.groups, parts.gate),
        parts.groups,
        parts.cluster,
        {
            GROUP: lambda: parts.groups.runtime,
            TRANSACTION: lambda: parts.transactions.runtime,
            SHARE: lambda: parts.share_groups.coordinator.runtime,
        },
        parts.gate,
    )


def _log_dirs(parts: Parts) -> object:
    from penstock.broker.handlers.log_dirs import LogDirHandlers

    return LogDirHandlers(parts.cluster, parts.storage, parts.gate)


def _metadata(parts: Parts) -> object:
    from penstock.broker.handlers.metadata import MetadataHandlers

    return MetadataHandlers(parts.topics, parts.cluster, parts.config, parts.gate, parts.quotas)


def _offsets(parts: Parts) -> object:
    from penstock.broker.handlers.offsets import OffsetHandlers

    return OffsetHandlers(parts.cluster, parts.durability, parts.world, parts.gate)


def _produce(parts: Parts) -> object:
    from penstock.broker.handlers.produce import ProduceHandlers

    return ProduceHandlers(
        parts.cluster, parts.durability, parts.world, lambda: parts.transactional_writes, parts.gate, _traffic(parts)
    )


def _producers(parts: Parts) -> object:
    from penstock.broker.handlers.producers import ProducerHandlers

    return ProducerHandlers(parts.cluster, parts.gate)


def _queues(parts: Parts) -> object:
    from penstock.broker.handlers.queues import QueueHandlers

    return QueueHandlers(parts.share_groups, parts.cluster, parts.world, parts.gate, parts.quotas, _traffic(parts))


def _acls(parts: Parts) -> object:
    from penstock.broker.handlers.acls import AclHandlers

    return AclHandlers(parts.catalog, parts.gate)


def _client_quotas(parts: Parts) -> object:
    from penstock.broker.handlers.client_quotas import ClientQuotaHandlers

    return ClientQuotaHandlers(parts.quotas, parts.gate)


def _delegation_tokens(parts: Parts) -> object:
    from penstock.broker.handlers.delegation_tokens import DelegationTokenHandlers

    return DelegationTokenHandlers(parts.gate)


def _sasl(parts: Parts) -> object:
    from penstock.broker.handlers.sasl import SaslHandlers

    return SaslHandlers()


def _scram_credentials(parts: Parts) -> object:
    from penstock.broker.handlers.scram_credentials import ScramCredentialHandlers

    return ScramCredentialHandlers(parts.users, parts.gate)


def _share_offsets(parts: Parts) -> object:
    from penstock.broker.handlers.share_offsets import ShareOffsetHandlers

    return ShareOffsetHandlers(parts.cluster, parts.groups, parts.share_groups, parts.gate)


def _share_state(parts: Parts) -> object:
    from penstock.broker.handlers.share_state import ShareStateHandlers

    return ShareStateHandlers(parts.share_groups, parts.cluster, parts.world, parts.gate)


def _telemetry(parts: Parts) -> object:
    from penstock.broker.handlers.telemetry import TelemetryHandlers

    return TelemetryHandlers(parts.telemetry)


def _topics(parts: Parts) -> object:
    from penstock.broker.handlers.topics import TopicHandlers

    return TopicHandlers(
        parts.topics, parts.cluster, parts.config, parts.configs, parts.world, parts.gate, parts.quotas
    )


def _transactions(parts: Parts) -> object:
    from penstock.broker.handlers.transactions import TransactionHandlers

    return TransactionHandlers(
        parts.cluster,
        parts.groups,
        parts.transactions,
        parts.producer_ids,
        parts.gate,
    )


def _txn_markers(parts: Parts) -> object:
    from penstock.broker.handlers.txn_markers import TxnMarkerHandlers

    return TxnMarkerHandlers(parts.cluster, parts.transactions.markers, parts.durability, parts.gate)


def _txn_offsets(parts: Parts) -> object:
    from penstock.broker.handlers.txn_offsets import TxnOffsetHandlers

    return TxnOffsetHandlers(
        parts.cluster, parts.groups, parts.transaction_calls, parts.config, parts.world, parts.gate
    )


def _versions(parts: Parts) -> object:
    from penstock.broker.handlers.versions import VersionHandlers

    return VersionHandlers(parts.dispatcher.advertised, parts.features)


def _traffic(parts: Parts) -> Traffic | None:
    return None if parts.measuring is None else parts.measuring.traffic


BUILDERS: dict[str, Callable[[Parts], object]] = {
    "acls": _acls,
    "client_quotas": _client_quotas,
    "cluster": _cluster,
    "configs": _configs,
    "delegation_tokens": _delegation_tokens,
    "fetch": _fetch,
    "group_offsets": _group_offsets,
    "groups": _groups,
    "log_dirs": _log_dirs,
    "metadata": _metadata,
    "offsets": _offsets,
    "produce": _produce,
    "producers": _producers,
    "queues": _queues,
    "sasl": _sasl,
    "scram_credentials": _scram_credentials,
    "share_offsets": _share_offsets,
    "share_state": _share_state,
    "telemetry": _telemetry,
    "topics": _topics,
    "transactions": _transactions,
    "txn_markers": _txn_markers,
    "txn_offsets": _txn_offsets,
    "versions": _versions,
}
