"""Which module answers which API. What is not here is not advertised.

A handler is named after its API: `handle_fetch` in `handlers/fetch.py` answers Fetch. Its module is imported when the
first request of that kind arrives, so that a broker is up before the code of every capability has been loaded.
"""

from __future__ import annotations

from importlib import import_module
from typing import cast

from penstock.broker.requests import Handler
from penstock.wire.api import ApiKey

_MODULES: dict[str, tuple[ApiKey, ...]] = {
    "cluster": (
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        ApiKey.STREAMS_GROUP_DESCRIBE,
    ),
    "configs": (
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.LIST_CONFIG_RESOURCES,
    ),
    "fetch": (ApiKey.FETCH,),
    "group_offsets": (
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.OFFSET_DELETE,
    ),
    "groups": (
        ApiKey.FIND_COORDINATOR,
        ApiKey.JOIN_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.LIST_GROUPS,
        ApiKey.DELETE_GROUPS,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.SHARE_GROUP_DESCRIBE,
    ),
    "log_dirs": (ApiKey.DESCRIBE_LOG_DIRS,),
    "metadata": (
        ApiKey.METADATA,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    ),
    "offsets": (
        ApiKey.LIST_OFFSETS,
        ApiKey.DELETE_RECORDS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ),
    "produce": (ApiKey.PRODUCE,),
    "producers": (ApiKey.DESCRIBE_PRODUCERS,),
    "queues": (
        ApiKey.SHARE_FETCH,
        ApiKey.SHARE_ACKNOWLEDGE,
    ),
    "security": (
        ApiKey.SASL_HANDSHAKE,
        ApiKey.DESCRIBE_ACLS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    ),
    "share_offsets": (
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    ),
    "share_state": (
        ApiKey.INITIALIZE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE,
        ApiKey.WRITE_SHARE_GROUP_STATE,
        ApiKey.DELETE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    ),
    "topics": (
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
    ),
    "transactions": (
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.END_TXN,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.LIST_TRANSACTIONS,
    ),
    "versions": (ApiKey.API_VERSIONS,),
}

HANDLER_MODULES: dict[ApiKey, str] = {key: module for module, keys in _MODULES.items() for key in keys}


def find_handler(key: ApiKey) -> Handler:
    module = import_module(f"penstock.broker.handlers.{HANDLER_MODULES[key]}")
    return cast(Handler, getattr(module, f"handle_{key.name.lower()}"))
