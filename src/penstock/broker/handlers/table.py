"""Which APIs are served, by which handler, and what each of them does to what.

An API that is not here is not advertised. `"fetch"` stands for the handlers in `handlers/fetch.py`, whose method
`fetch` answers Fetch: a handler is named after its API. The module is imported, and its handlers are built
(`broker.assembly`), when the first request of that kind arrives, so that a broker is up before the code of every
capability has been loaded.

The accesses are those that Kafka checks for the API, in its order. Where there are several, the handler knows which
names of the request each of them is about, and whether one of them is enough.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.broker.gate import Access
from penstock.wire.acls import AclOperation, AclResource
from penstock.wire.api import ApiKey

READ_TOPIC = Access(AclOperation.READ, AclResource.TOPIC)
WRITE_TOPIC = Access(AclOperation.WRITE, AclResource.TOPIC)
CREATE_TOPIC = Access(AclOperation.CREATE, AclResource.TOPIC)
DELETE_TOPIC = Access(AclOperation.DELETE, AclResource.TOPIC)
ALTER_TOPIC = Access(AclOperation.ALTER, AclResource.TOPIC)
DESCRIBE_TOPIC = Access(AclOperation.DESCRIBE, AclResource.TOPIC)
DESCRIBE_TOPIC_CONFIGS = Access(AclOperation.DESCRIBE_CONFIGS, AclResource.TOPIC)
ALTER_TOPIC_CONFIGS = Access(AclOperation.ALTER_CONFIGS, AclResource.TOPIC)
READ_GROUP = Access(AclOperation.READ, AclResource.GROUP)
DELETE_GROUP = Access(AclOperation.DELETE, AclResource.GROUP)
DESCRIBE_GROUP = Access(AclOperation.DESCRIBE, AclResource.GROUP)
DESCRIBE_GROUP_CONFIGS = Access(AclOperation.DESCRIBE_CONFIGS, AclResource.GROUP)
ALTER_GROUP_CONFIGS = Access(AclOperation.ALTER_CONFIGS, AclResource.GROUP)
WRITE_TRANSACTIONAL_ID = Access(AclOperation.WRITE, AclResource.TRANSACTIONAL_ID)
DESCRIBE_TRANSACTIONAL_ID = Access(AclOperation.DESCRIBE, AclResource.TRANSACTIONAL_ID)
CREATE_IN_CLUSTER = Access(AclOperation.CREATE, AclResource.CLUSTER)
ALTER_CLUSTER = Access(AclOperation.ALTER, AclResource.CLUSTER)
DESCRIBE_CLUSTER = Access(AclOperation.DESCRIBE, AclResource.CLUSTER)
CLUSTER_ACTION = Access(AclOperation.CLUSTER_ACTION, AclResource.CLUSTER)
DESCRIBE_CLUSTER_CONFIGS = Access(AclOperation.DESCRIBE_CONFIGS, AclResource.CLUSTER)
ALTER_CLUSTER_CONFIGS = Access(AclOperation.ALTER_CONFIGS, AclResource.CLUSTER)
IDEMPOTENT_WRITE = Access(AclOperation.IDEMPOTENT_WRITE, AclResource.CLUSTER)
DESCRIBE_TOKEN = Access(AclOperation.DESCRIBE, AclResource.DELEGATION_TOKEN)
CREATE_TOKENS = Access(AclOperation.CREATE_TOKENS, AclResource.USER)
DESCRIBE_TOKENS = Access(AclOperation.DESCRIBE_TOKENS, AclResource.USER)

EVERYBODY: tuple[Access, ...] = ()
"""For what a client may do before anybody knows who it is, and for what is refused whoever asks."""


class Served(NamedTuple):
    """One API: the module of its handler, and what it does to what."""

    module: str
    accesses: tuple[Access, ...]


SERVED: dict[ApiKey, Served] = {
    # Producing and consuming
    ApiKey.PRODUCE: Served("produce", (WRITE_TRANSACTIONAL_ID, WRITE_TOPIC)),
    ApiKey.FETCH: Served("fetch", (READ_TOPIC, CLUSTER_ACTION)),
    ApiKey.LIST_OFFSETS: Served("offsets", (DESCRIBE_TOPIC,)),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Served("offsets", (DESCRIBE_TOPIC,)),
    ApiKey.DELETE_RECORDS: Served("offsets", (DELETE_TOPIC,)),
    ApiKey.SHARE_FETCH: Served("queues", (READ_GROUP, READ_TOPIC)),
    ApiKey.SHARE_ACKNOWLEDGE: Served("queues", (READ_GROUP, READ_TOPIC)),
    # Groups
    ApiKey.FIND_COORDINATOR: Served("groups", (DESCRIBE_GROUP, DESCRIBE_TRANSACTIONAL_ID, CLUSTER_ACTION)),
    ApiKey.JOIN_GROUP: Served("groups", (READ_GROUP,)),
    ApiKey.HEARTBEAT: Served("groups", (READ_GROUP,)),
    ApiKey.LEAVE_GROUP: Served("groups", (READ_GROUP,)),
    ApiKey.SYNC_GROUP: Served("groups", (READ_GROUP,)),
    ApiKey.DESCRIBE_GROUPS: Served("groups", (DESCRIBE_GROUP,)),
    ApiKey.LIST_GROUPS: Served("groups", (DESCRIBE_CLUSTER, DESCRIBE_GROUP)),
    ApiKey.DELETE_GROUPS: Served("groups", (DELETE_GROUP,)),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Served("groups", (READ_GROUP, DESCRIBE_TOPIC)),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Served("groups", (DESCRIBE_GROUP, DESCRIBE_TOPIC)),
    ApiKey.SHARE_GROUP_HEARTBEAT: Served("groups", (READ_GROUP, DESCRIBE_TOPIC)),
    ApiKey.SHARE_GROUP_DESCRIBE: Served("groups", (DESCRIBE_GROUP, DESCRIBE_TOPIC)),
    ApiKey.STREAMS_GROUP_HEARTBEAT: Served("cluster", (READ_GROUP, DESCRIBE_TOPIC)),
    ApiKey.STREAMS_GROUP_DESCRIBE: Served("cluster", (DESCRIBE_GROUP, DESCRIBE_TOPIC)),
    ApiKey.OFFSET_COMMIT: Served("group_offsets", (READ_GROUP, READ_TOPIC)),
    ApiKey.OFFSET_FETCH: Served("group_offsets", (DESCRIBE_GROUP, DESCRIBE_TOPIC)),
    ApiKey.OFFSET_DELETE: Served("group_offsets", (DELETE_GROUP, READ_TOPIC)),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Served("share_offsets", (DESCRIBE_GROUP, DESCRIBE_TOPIC)),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: Served("share_offsets", (READ_GROUP, READ_TOPIC)),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: Served("share_offsets", (DELETE_GROUP, READ_TOPIC)),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: Served("share_state", (CLUSTER_ACTION,)),
    ApiKey.READ_SHARE_GROUP_STATE: Served("share_state", (CLUSTER_ACTION,)),
    ApiKey.WRITE_SHARE_GROUP_STATE: Served("share_state", (CLUSTER_ACTION,)),
    ApiKey.DELETE_SHARE_GROUP_STATE: Served("share_state", (CLUSTER_ACTION,)),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: Served("share_state", (CLUSTER_ACTION,)),
    # Transactions
    ApiKey.INIT_PRODUCER_ID: Served("transactions", (WRITE_TRANSACTIONAL_ID, IDEMPOTENT_WRITE, WRITE_TOPIC)),
    ApiKey.ADD_PARTITIONS_TO_TXN: Served("transactions", (WRITE_TRANSACTIONAL_ID, WRITE_TOPIC, CLUSTER_ACTION)),
    ApiKey.ADD_OFFSETS_TO_TXN: Served("transactions", (WRITE_TRANSACTIONAL_ID, READ_GROUP)),
    ApiKey.END_TXN: Served("transactions", (WRITE_TRANSACTIONAL_ID,)),
    ApiKey.WRITE_TXN_MARKERS: Served("txn_markers", (ALTER_CLUSTER, CLUSTER_ACTION)),
    ApiKey.TXN_OFFSET_COMMIT: Served("txn_offsets", (WRITE_TRANSACTIONAL_ID, READ_GROUP, READ_TOPIC)),
    ApiKey.DESCRIBE_TRANSACTIONS: Served("transactions", (DESCRIBE_TRANSACTIONAL_ID, DESCRIBE_TOPIC)),
    ApiKey.LIST_TRANSACTIONS: Served("transactions", (DESCRIBE_TRANSACTIONAL_ID,)),
    ApiKey.DESCRIBE_PRODUCERS: Served("producers", (READ_TOPIC,)),
    # Topics and configs
    ApiKey.METADATA: Served("metadata", (DESCRIBE_TOPIC, CREATE_IN_CLUSTER, CREATE_TOPIC)),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Served("metadata", (DESCRIBE_TOPIC,)),
    ApiKey.CREATE_TOPICS: Served("topics", (CREATE_IN_CLUSTER, CREATE_TOPIC)),
    ApiKey.DELETE_TOPICS: Served("topics", (DELETE_TOPIC, DESCRIBE_TOPIC)),
    ApiKey.CREATE_PARTITIONS: Served("topics", (ALTER_TOPIC,)),
    ApiKey.DESCRIBE_CONFIGS: Served(
        "configs", (DESCRIBE_TOPIC_CONFIGS, DESCRIBE_CLUSTER_CONFIGS, DESCRIBE_GROUP_CONFIGS)
    ),
    ApiKey.ALTER_CONFIGS: Served("configs", (ALTER_TOPIC_CONFIGS, ALTER_CLUSTER_CONFIGS, ALTER_GROUP_CONFIGS)),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Served(
        "configs", (ALTER_TOPIC_CONFIGS, ALTER_CLUSTER_CONFIGS, ALTER_GROUP_CONFIGS)
    ),
    ApiKey.LIST_CONFIG_RESOURCES: Served("configs", (DESCRIBE_CLUSTER_CONFIGS,)),
    # Metrics of clients: whoever may connect may push what somebody subscribed to, as in Kafka
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: Served("telemetry", EVERYBODY),
    ApiKey.PUSH_TELEMETRY: Served("telemetry", EVERYBODY),
    # The cluster
    ApiKey.API_VERSIONS: Served("versions", EVERYBODY),
    ApiKey.DESCRIBE_CLUSTER: Served("metadata", (DESCRIBE_CLUSTER,)),
    ApiKey.DESCRIBE_LOG_DIRS: Served("log_dirs", (DESCRIBE_CLUSTER,)),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Served("cluster", (ALTER_CLUSTER,)),
    ApiKey.ELECT_LEADERS: Served("cluster", (ALTER_CLUSTER,)),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Served("cluster", (ALTER_CLUSTER,)),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Served("cluster", (DESCRIBE_CLUSTER,)),
    ApiKey.DESCRIBE_QUORUM: Served("cluster", (DESCRIBE_CLUSTER,)),
    ApiKey.UPDATE_FEATURES: Served("cluster", (ALTER_CLUSTER,)),
    ApiKey.UNREGISTER_BROKER: Served("cluster", (ALTER_CLUSTER,)),
    ApiKey.ADD_RAFT_VOTER: Served("cluster", (ALTER_CLUSTER,)),
    ApiKey.REMOVE_RAFT_VOTER: Served("cluster", (ALTER_CLUSTER,)),
    # Security
    ApiKey.SASL_HANDSHAKE: Served("sasl", EVERYBODY),
    ApiKey.SASL_AUTHENTICATE: Served("sasl", EVERYBODY),
    ApiKey.DESCRIBE_ACLS: Served("acls", (DESCRIBE_CLUSTER,)),
    ApiKey.CREATE_ACLS: Served("acls", (ALTER_CLUSTER,)),
    ApiKey.DELETE_ACLS: Served("acls", (ALTER_CLUSTER,)),
    ApiKey.CREATE_DELEGATION_TOKEN: Served("delegation_tokens", (CREATE_TOKENS,)),
    ApiKey.RENEW_DELEGATION_TOKEN: Served("delegation_tokens", EVERYBODY),
    ApiKey.EXPIRE_DELEGATION_TOKEN: Served("delegation_tokens", EVERYBODY),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: Served("delegation_tokens", (DESCRIBE_TOKEN, DESCRIBE_TOKENS)),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Served("client_quotas", (DESCRIBE_CLUSTER_CONFIGS,)),
    ApiKey.ALTER_CLIENT_QUOTAS: Served("client_quotas", (ALTER_CLUSTER_CONFIGS,)),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Served("scram_credentials", (DESCRIBE_CLUSTER,)),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Served("scram_credentials", (ALTER_CLUSTER,)),
}
