"""The intended differences from Apache Kafka, each with its reason. Pages of docs/reference are made from this list.

See `allowed` for what an entry has to say.
"""

from __future__ import annotations

from .allowed import Allowed, Pair, meant
from .compare import ABSENT
from .meant_odd import ODD
from .meant_secured import SECURED
from .meant_share import INTERVAL, PARTITION, SENTENCE, SETTLING, SHARE, TEXT
from .reasons import CREATED_AT_ONCE, NOTHING, PLAIN_DEFAULT, SAYS_WHAT, STREAMS

WHOLE_BATCHES = (
    "A fetch returns whole batches only; Kafka may append the beginning of a batch, which the reader has to drop."
)
UNOPENED = (
    "The records inside a compressed batch are not opened when they are appended, so a batch with damaged compressed "
    "data is detected by its reader and not refused to its writer."
)
NO_RECORDS = "A produce request without records is refused with INVALID_RECORD; Kafka 4.3.1 never answers it."
NO_TRANSACTIONS = "An AddPartitionsToTxn request for no transaction is answered; Kafka 4.3.1 never answers it."
NO_CONTROLLER = (
    "The quorum of one is reached at the listener that the request came through; there is no separate controller "
    "listener."
)
ROOM = (
    "A coordinator's record may be as large as a segment of its topic; above max.message.bytes, Kafka fails "
    "internally (UNKNOWN_SERVER_ERROR), and the group cannot work until it shrinks."
)


def produced(topic: str, fields: dict[str, Pair]) -> dict[str, Pair]:
    """Fields of a produce response's partition; up to version 12 a topic has its name, then its id."""
    return {
        f"response.responses[{key}].partition_responses[0].{name}": pair
        for key in (topic, "0")
        for name, pair in fields.items()
    }


def created(*steps: tuple[str, str]) -> tuple[Allowed, ...]:
    return tuple(
        entry
        for step, topic in steps
        for entry in meant(
            PLAIN_DEFAULT,
            "topics/create-topics" if topic not in ("good", "default") else "topics/create-topics-with-assignments",
            f"create_topics: {step}",
            {f"response.topics[{topic}].configs[min.insync.replicas].config_source": (3, 5)},
        )
    )


def described(scenario: str, step: str, fields: dict[str, Pair]) -> tuple[Allowed, ...]:
    prefix = "response.results[0].configs[min.insync.replicas]"
    return meant(
        PLAIN_DEFAULT, scenario, f"describe_configs: {step}", {f"{prefix}.{name}": p for name, p in fields.items()}
    )


SYNONYMS: dict[str, Pair] = {
    "config_source": (3, 5),
    "synonyms[0].source": (3, 5),
    "synonyms[1].name": ("min.insync.replicas", ABSENT),
    "synonyms[1].source": (5, ABSENT),
    "synonyms[1].value": ("1", ABSENT),
}

GROUPS = (
    *meant(
        SETTLING,
        "consumer_groups/consumer-group-heartbeat",
        [
            f"consumer_group_heartbeat: {note}"
            for note in (
                "first: joins",
                "first: has taken it all",
                "second: joins",
                "first: is to give two up",
                "second: waits",
                "first: has given two up",
                "second: gets them",
                "second: has taken them",
                "first: nothing new",
                "first: gets them back",
                "first: has taken them",
            )
        ],
        INTERVAL,
    ),
    *meant(
        SETTLING,
        "consumer_groups/consumer-group-heartbeat-wrongly",
        ["consumer_group_heartbeat: member: joins", "consumer_group_heartbeat: member: still there"],
        INTERVAL,
    ),
    *meant(
        SETTLING,
        "consumer_groups/consumer-group-static-members",
        [
            f"consumer_group_heartbeat: {note}"
            for note in ("first: joins", "first: has taken them", "again: joins", "again: has taken them again")
        ],
        INTERVAL,
    ),
    *meant(SETTLING, "consumer_groups/consumer-group-patterns", "consumer_group_heartbeat: m: pattern", INTERVAL),
    *meant(
        SETTLING,
        "expiry/consumer-member-expires",
        "consumer_group_heartbeat: m: joins",
        {"response.heartbeat_interval": (500, 100)},
    ),
    *meant(
        ROOM,
        "too_large/assignment-too-large",
        "sync_group: an assignment of a megabyte",
        {
            "response.assignment": ("", bytes((1 << 20) + 1000).hex()),
            "response.error_code": ("UNKNOWN_SERVER_ERROR", "NONE"),
            "response.protocol_name": (None, "range"),
            "response.protocol_type": (None, "consumer"),
        },
    ),
    *meant(
        ROOM,
        "too_large/assignment-too-large",
        "heartbeat: after it",
        {"response.error_code": ("REBALANCE_IN_PROGRESS", "NONE")},
    ),
    *meant(
        ROOM,
        "too_large/subscription-too-large",
        "consumer_group_heartbeat: m: to a megabyte of names",
        {
            "response.assignment": (None, {"topic_partitions": []}),
            "response.error_code": ("UNKNOWN_SERVER_ERROR", "NONE"),
            "response.heartbeat_interval": (0, 5000),
            "response.member_epoch": (0, 2),
            "response.member_id": (None, "<member 1>"),
        },
    ),
    *meant(
        ROOM,
        "too_large/subscription-too-large",
        "consumer_group_heartbeat: m: to one topic",
        {"response.member_epoch": (2, 3)},
    ),
)

STREAMS_GROUPS = (
    *meant(
        STREAMS,
        "metadata/api-versions",
        ["api_versions", "api_versions: asked twice"],
        {
            "response.finalized_features[streams.version].max_version_level": (1, ABSENT),
            "response.finalized_features[streams.version].min_version_level": (1, ABSENT),
            "response.finalized_features[streams.version].name": ("streams.version", ABSENT),
        },
    ),
    *meant(
        STREAMS,
        "streams/streams-group-heartbeat",
        ["streams_group_heartbeat: empty group id", "streams_group_heartbeat: without a topology"],
        {"response.error_code": ("INVALID_REQUEST", "UNSUPPORTED_VERSION")},
    ),
    *meant(
        STREAMS,
        "streams/streams-group-heartbeat",
        "streams_group_heartbeat: joins",
        {
            "response.active_tasks": ([], None),
            "response.error_code": ("NONE", "UNSUPPORTED_VERSION"),
            "response.error_message": TEXT,
            "response.heartbeat_interval": (5000, 0),
            "response.member_epoch": (1, 0),
            "response.member_id": ("<member 1>", ""),
            "response.standby_tasks": ([], None),
            "response.status[0].status_code": (5, ABSENT),
            "response.status[0].status_detail": (
                "Assignment delayed due to the configured initial rebalance delay.",
                ABSENT,
            ),
            "response.warmup_tasks": ([], None),
        },
    ),
    *meant(
        STREAMS,
        "streams/streams-group-heartbeat",
        "streams_group_heartbeat: leaves",
        {
            "response.error_code": ("NONE", "UNSUPPORTED_VERSION"),
            "response.error_message": TEXT,
            "response.member_epoch": (-1, 0),
            "response.member_id": ("<member 1>", ""),
        },
    ),
    *meant(
        STREAMS,
        "streams/streams-group-describe",
        "streams_group_describe: unknown group",
        {"response.groups[0].error_code": ("GROUP_ID_NOT_FOUND", "UNSUPPORTED_VERSION")},
    ),
)

BARE = (
    *meant(
        NO_TRANSACTIONS,
        "bare/bare-requests",
        "add_partitions_to_txn: bare",
        {
            "outcome": ("no answer", ABSENT),
            "response.throttle_time": (ABSENT, "<throttle>"),
            "response.error_code": (ABSENT, "NONE"),
            "response.results_by_transaction": (ABSENT, []),
        },
    ),
    *meant(
        SENTENCE,
        "bare/bare-requests",
        ["share_group_heartbeat: bare", "share_fetch: bare", "share_acknowledge: bare"],
        {"response.error_message": TEXT},
    ),
    *meant(
        STREAMS,
        "bare/bare-requests",
        "streams_group_heartbeat: bare",
        {"response.error_code": ("INVALID_REQUEST", "UNSUPPORTED_VERSION")},
    ),
)

RECORDS = (
    *meant(
        WHOLE_BATCHES,
        "fetch/fetch",
        "fetch: one batch and a bit",
        {f"{PARTITION}.records[1]": ("15 bytes of a cut batch", ABSENT)},
    ),
    *meant(
        UNOPENED,
        "produce/produce-broken-compression",
        "produce: not compressed although it says gzip",
        produced("t", {"base_offset": (-1, 0), "error_code": ("UNKNOWN_SERVER_ERROR", "NONE")}),
    ),
    *meant(
        NO_RECORDS,
        "produce/produce-broken-batches",
        "produce: no records",
        {
            "outcome": ("no answer", ABSENT),
            "response.throttle_time": (ABSENT, "<throttle>"),
            "response.node_endpoints": (ABSENT, []),
            "response.responses[t].name": (ABSENT, "t"),
            "response.responses[0].topic_id": (ABSENT, "<topic 1>"),
            **produced(
                "t",
                {
                    "index": (ABSENT, 0),
                    "error_code": (ABSENT, "INVALID_RECORD"),
                    "error_message": (ABSENT, None),
                    "base_offset": (ABSENT, -1),
                    "log_append_time": (ABSENT, -1),
                    "log_start_offset": (ABSENT, -1),
                    "record_errors": (ABSENT, []),
                    "current_leader.leader_id": (ABSENT, -1),
                    "current_leader.leader_epoch": (ABSENT, -1),
                },
            ),
        },
    ),
)

METADATA = (
    *meant(
        CREATED_AT_ONCE,
        "metadata/metadata-creates-topics",
        "metadata: first time",
        {
            "response.topics[auto].error_code": ("UNKNOWN_TOPIC_OR_PARTITION", "NONE"),
            "response.topics[auto].topic_id": (NOTHING, "<topic 1>"),
            "response.topics[auto].partitions[0].error_code": (ABSENT, "NONE"),
            "response.topics[auto].partitions[0].partition_index": (ABSENT, 0),
            "response.topics[auto].partitions[0].leader_id": (ABSENT, 1),
            "response.topics[auto].partitions[0].leader_epoch": (ABSENT, 0),
            "response.topics[auto].partitions[0].replica_nodes[0]": (ABSENT, 1),
            "response.topics[auto].partitions[0].isr_nodes[0]": (ABSENT, 1),
            "response.topics[auto].partitions[0].offline_replicas": (ABSENT, []),
        },
    ),
    *meant(
        SAYS_WHAT,
        "metadata/metadata-by-topic-id",
        "metadata: neither name nor id",
        {
            "response.error_code": ("UNKNOWN_SERVER_ERROR", "NONE"),
            "response.topics[0].error_code": ("UNKNOWN_SERVER_ERROR", "UNKNOWN_TOPIC_ID"),
            "response.topics[0].name": ("", None),
            "response.controller_id": (-1, 1),
            "response.brokers[0].node_id": (ABSENT, 1),
            "response.brokers[0].host": (ABSENT, "<host>"),
            "response.brokers[0].port": (ABSENT, "<port>"),
            "response.brokers[0].rack": (ABSENT, None),
        },
    ),
    *meant(
        SAYS_WHAT,
        "metadata/describe-topic-partitions",
        "describe_topic_partitions: unknown ''",
        {
            "response.topics[0].error_code": ("UNKNOWN_SERVER_ERROR", "INVALID_TOPIC_EXCEPTION"),
            "response.topics[0].topic_authorized_operations": (-2147483648, 3576),
        },
    ),
    *meant(
        SAYS_WHAT,
        "configs/incremental-alter-configs",
        "incremental_alter_configs: unknown operation",
        {
            "response.responses[0].error_code": ("UNKNOWN_SERVER_ERROR", "INVALID_REQUEST"),
            "response.responses[0].error_message": TEXT,
        },
    ),
    *meant(
        NO_CONTROLLER,
        "quorum/describe-quorum-of-the-metadata",
        "describe_quorum: the quorum",
        {
            "response.nodes[0].listeners[CONTROLLER].name": ("CONTROLLER", ABSENT),
            "response.nodes[0].listeners[CONTROLLER].host": ("<host>", ABSENT),
            "response.nodes[0].listeners[CONTROLLER].port": ("<port>", ABSENT),
            "response.nodes[0].listeners[PLAINTEXT].name": (ABSENT, "PLAINTEXT"),
            "response.nodes[0].listeners[PLAINTEXT].host": (ABSENT, "<host>"),
            "response.nodes[0].listeners[PLAINTEXT].port": (ABSENT, "<port>"),
        },
    ),
)

CONFIGS = (
    *created(
        ("plain", "plain"),
        ("validate only", "dry"),
        ("two at once, one wrong", "x"),
        ("with configs", "set"),
        ("collides with dots and underscores", "a.b"),
        ("two partitions by hand", "good"),
        ("defaults", "default"),
    ),
    *described("configs/describe-topic-configs", "all of a topic, synonyms, documentation", SYNONYMS),
    *described("configs/describe-topic-configs", "empty list of keys", {"config_source": (3, 5)}),
    *described("configs/describe-broker-configs", "some keys", SYNONYMS),
    *described(
        "configs/describe-broker-configs",
        "cluster-wide default",
        {
            "name": ("min.insync.replicas", ABSENT),
            "value": ("1", ABSENT),
            "config_source": (3, ABSENT),
            "config_type": (3, ABSENT),
            "documentation": ("<text>", ABSENT),
            "is_sensitive": (False, ABSENT),
            "read_only": (False, ABSENT),
            "synonyms": ([], ABSENT),
        },
    ),
)

ALLOWED: tuple[Allowed, ...] = (
    *METADATA,
    *CONFIGS,
    *RECORDS,
    *GROUPS,
    *SHARE,
    *STREAMS_GROUPS,
    *BARE,
    *ODD,
    *SECURED,
)
