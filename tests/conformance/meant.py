"""The differences from Apache Kafka that are meant, each with its reason. docs/compatibility.md is made from this list.

See `allowed` for what an entry has to say.
"""

from __future__ import annotations

from .allowed import Allowed, OneOf, Pair, meant
from .batches import record
from .compare import ABSENT

SETTLING = (
    "While partitions move, the heartbeat interval that a consumer or share group's members are told is short, so that "
    "the group settles at once; it grows back to the configured one when the group is stable."
)
STREAMS = "Kafka Streams groups (KIP-1071) are not served; Streams applications run with the classic protocol."
SENTENCE = "A share group's error carries a sentence that says what is wrong where Kafka sends only the code."
WHOLE_BATCHES = (
    "A fetch answers with whole batches only; Kafka may add the beginning of a batch that the reader has to drop."
)
UNOPENED = (
    "The records inside a compressed batch are not opened when they are appended, so a batch whose compressed part is "
    "broken is found by its reader, not refused to its writer."
)
NO_RECORDS = "A produce request without records is refused with INVALID_RECORD; Kafka 4.3.1 never answers it."
CREATED_AT_ONCE = (
    "A topic that a Metadata request creates is there in the answer to that same request; Kafka tells the client to "
    "ask again."
)
PLAIN_DEFAULT = (
    "min.insync.replicas is a plain default; Kafka's eligible-leader-replicas feature writes it as a cluster-wide "
    "setting."
)
SAYS_WHAT = (
    "Requests that make Kafka fail inside (UNKNOWN_SERVER_ERROR) get the error that says what is wrong with them."
)
CUT = (
    "A share fetch is answered with the acquired records only: a producer's batch that is acquired in part is cut, "
    "where Kafka sends all of it."
)
NO_QUOTAS = (
    "Client quotas are not enforced, so setting one is refused; a promise that is not kept would be worse. There are "
    "none to describe, and removing one succeeds."
)
NO_AUTHORIZER = (
    "An ACL request with kinds that do not exist is answered with SECURITY_DISABLED, as any other without an "
    "authorizer; Kafka closes the connection."
)
NO_TRANSACTIONS = "An AddPartitionsToTxn request for no transaction is answered; Kafka 4.3.1 never answers it."
NO_SCRAM = "There is no SASL listener, so SCRAM credentials are refused, and there are none to describe or delete."
NO_CONTROLLER = (
    "The quorum of one is reached at the listener that the request came through; no other is for controllers."
)
AT_ONCE = (
    "A new share group gets its partitions at its first heartbeat; Kafka's needs a second one, and so its epochs are "
    "one ahead from then on."
)
LIMIT = (
    "A share fetch acquires no more records than it asks for, in either acquire mode; in the batch-optimized one Kafka "
    "acquires whole batches, and leaves nothing for the next."
)
START = (
    "The start offset that share.auto.offset.reset leads to is kept at once; Kafka keeps it with the first "
    "acknowledgement, and until then a restart may skip records."
)
ROOM = (
    "A coordinator's record may be as large as a segment of its topic; Kafka fails inside (UNKNOWN_SERVER_ERROR) above "
    "max.message.bytes, and the group cannot work until it shrinks."
)

NOTHING = "00000000-0000-0000-0000-000000000000"
INTERVAL: dict[str, Pair] = {"response.heartbeat_interval": (5000, OneOf((100, 200, 500)))}
TEXT: Pair = (None, "<text>")
PARTITION = "response.responses[0].partitions[0]"


def jobs(first: int, last: int) -> str:
    """The bytes of the jobs that the share conversations write, in one batch."""
    return b"".join(record(n, None, f"job {n}".encode(), n) for n in range(first, last + 1)).hex()


def cut(count: int, first: int, last: int) -> dict[str, Pair]:
    """Of a batch of `count` jobs, only those from `first` to `last`."""
    size = 49 + len(jobs(0, count - 1)) // 2
    fields: dict[str, Pair] = {
        "batch_length": (size, 49 + len(jobs(first, last)) // 2),
        "payload": (jobs(0, count - 1), jobs(first, last)),
        "records_count": (count, last - first + 1),
    }
    if last != count - 1:
        fields["last_offset_delta"] = (count - 1, last)
    return {f"{PARTITION}.records[0].{name}": pair for name, pair in fields.items()}


def whole(first: int, last: int, newest_ms: int) -> dict[str, Pair]:
    """A batch of jobs that only Penstock has."""
    fields = {
        "base_offset": 0,
        "batch_length": 49 + len(jobs(first, last)) // 2,
        "partition_leader_epoch": 0,
        "magic": 2,
        "crc": True,
        "attributes": 0,
        "last_offset_delta": last,
        "base_timestamp": 1_700_000_000_000,
        "max_timestamp": newest_ms,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "records_count": last - first + 1,
        "payload": jobs(first, last),
    }
    return {name: (ABSENT, value) for name, value in fields.items()}


def under(path: str, fields: dict[str, Pair]) -> dict[str, Pair]:
    return {f"{path}.{name}": pair for name, pair in fields.items()}


def epochs(note: str, **fields: int) -> tuple[Allowed, ...]:
    """Kafka's epochs after a share group's second heartbeat, each one ahead of Penstock's."""
    api = "share_group_describe" if "group_epoch" in fields else "share_group_heartbeat"
    return meant(
        AT_ONCE,
        "share/share-group-heartbeats",
        f"{api}: {note}",
        {
            ("response." if api == "share_group_heartbeat" else "response.groups[0].")
            + name.replace("first_", "members[0].").replace("second_", "members[1]."): (epoch, epoch - 1)
            for name, epoch in fields.items()
        },
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

REFUSED = (
    *meant(
        NO_QUOTAS,
        "quotas/alter-client-quotas",
        [f"alter_client_quotas: {note}" for note in ("only tries", "sets one", "two users at once")],
        {
            "response.entries[0].error_code": ("NONE", "INVALID_REQUEST"),
            "response.entries[0].error_message": TEXT,
        },
    ),
    *meant(
        NO_QUOTAS,
        "quotas/alter-client-quotas",
        "describe_client_quotas: one is set",
        {
            "response.entries[0].entity[0].entity_name": ("user", ABSENT),
            "response.entries[0].entity[0].entity_type": ("user", ABSENT),
            "response.entries[0].values[0].key": ("producer_byte_rate", ABSENT),
            "response.entries[0].values[0].value": (1000.0, ABSENT),
        },
    ),
    *meant(
        NO_SCRAM,
        "quotas/alter-user-scram-credentials",
        "alter_user_scram_credentials: sets one",
        {
            "response.results[0].error_code": ("NONE", "UNSUPPORTED_SASL_MECHANISM"),
            "response.results[0].error_message": TEXT,
        },
    ),
    *meant(
        NO_SCRAM,
        "quotas/alter-user-scram-credentials",
        "alter_user_scram_credentials: deletes it",
        {
            "response.results[0].error_code": ("NONE", "RESOURCE_NOT_FOUND"),
            "response.results[0].error_message": TEXT,
        },
    ),
    *meant(
        NO_SCRAM,
        "quotas/alter-user-scram-credentials",
        "describe_user_scram_credentials: one is set",
        {
            "response.results[0].credential_infos[0].iterations": (4096, ABSENT),
            "response.results[0].credential_infos[0].mechanism": (1, ABSENT),
            "response.results[0].error_code": ("NONE", "RESOURCE_NOT_FOUND"),
            "response.results[0].error_message": TEXT,
        },
    ),
)

CLOSED: dict[str, Pair] = {"outcome": ("connection closed", ABSENT), "response.throttle_time": (ABSENT, "<throttle>")}
DISABLED: dict[str, Pair] = {"error_code": (ABSENT, "SECURITY_DISABLED"), "error_message": (ABSENT, "<text>")}
DESCRIBED: dict[str, Pair] = {**CLOSED, **under("response", DISABLED), "response.resources": (ABSENT, [])}

BARE = (
    *meant(NO_AUTHORIZER, "bare/bare-requests", "describe_acls: bare", DESCRIBED),
    *meant(NO_AUTHORIZER, "bare/bare-elements", "describe_acls: unknown kinds", DESCRIBED),
    *meant(
        NO_AUTHORIZER,
        "bare/bare-elements",
        "create_acls: unknown kinds",
        {**CLOSED, **under("response.results[0]", DISABLED)},
    ),
    *meant(
        NO_AUTHORIZER,
        "bare/bare-elements",
        "delete_acls: unknown kinds",
        {**CLOSED, **under("response.filter_results[0]", {**DISABLED, "matching_acls": (ABSENT, [])})},
    ),
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

SHARE = (
    *meant(
        SENTENCE,
        "share/share-sessions",
        [
            *(
                f"share_fetch: worker: {note}"
                for note in (
                    "no session yet",
                    "closes what is not open",
                    "acknowledges while opening",
                    "no group",
                    "no member",
                    "empty member",
                    "long member",
                    "too far ahead",
                    "too far back",
                    "after closing",
                )
            ),
            "share_acknowledge: worker: cannot open",
            "share_acknowledge: worker: too far ahead",
        ],
        {"response.error_message": TEXT},
    ),
    *meant(
        SENTENCE,
        "share/share-sessions",
        "share_fetch: worker: adds an unknown partition",
        {f"{PARTITION}.error_message": TEXT},
    ),
    *meant(
        SENTENCE,
        "share/share-acknowledge-malformed",
        [
            f"share_acknowledge: worker: {note}"
            for note in (
                "backwards",
                "out of order",
                "without types",
                "too few types",
                "unknown type",
                "negative type",
                "renewal unannounced",
            )
        ],
        {f"{PARTITION}.error_message": TEXT},
    ),
    *meant(
        SENTENCE,
        "share/share-renewal",
        "share_fetch: worker: renews and asks for records",
        {"response.error_message": TEXT},
    ),
    *meant(
        SENTENCE,
        "share/share-group-heartbeat-faults",
        ["share_group_heartbeat: no member id", "share_group_heartbeat: long member id"],
        {"response.error_message": TEXT},
    ),
    *meant(CUT, "share/share-acquire-and-acknowledge", "share_fetch: worker: gets the released ones", cut(10, 3, 4)),
    *meant(CUT, "share/share-two-workers", "share_fetch: second: takes them", cut(6, 0, 3)),
    *meant(CUT, "share/share-two-workers", "share_fetch: second: takes the rest", cut(6, 4, 5)),
    *meant(CUT, "share/share-suspects", "share_fetch: worker: delivery 4, the first half", cut(8, 0, 3)),
    *meant(CUT, "share/share-suspects", "share_fetch: worker: delivery 5, the first one", cut(8, 0, 0)),
    *meant(CUT, "share/share-suspects", "share_fetch: worker: delivery 5, the second one", cut(8, 1, 1)),
    *meant(CUT, "share/share-record-limit", "share_fetch: worker: three", cut(10, 0, 2)),
    *meant(CUT, "share/share-record-limit", "share_fetch: worker: three more", cut(10, 3, 5)),
    *meant(
        CUT,
        "share/share-record-limit",
        "share_fetch: worker: four more, one of them again",
        {**cut(10, 1, 1), **under(f"{PARTITION}.records[1]", whole(6, 8, 1_700_000_000_009))},
    ),
    *meant(
        LIMIT,
        "share/share-batch-limit",
        "share_fetch: worker: asks for two",
        {**cut(5, 0, 1), f"{PARTITION}.acquired_records[0].last_offset": (4, 1)},
    ),
    *meant(
        LIMIT,
        "share/share-batch-limit",
        "share_fetch: worker: asks for two more",
        {
            "response.responses[0].topic_id": (ABSENT, "<topic 1>"),
            f"{PARTITION}.partition_index": (ABSENT, 0),
            f"{PARTITION}.error_code": (ABSENT, "NONE"),
            f"{PARTITION}.error_message": (ABSENT, None),
            f"{PARTITION}.acknowledge_error_code": (ABSENT, 0),
            f"{PARTITION}.acknowledge_error_message": (ABSENT, None),
            f"{PARTITION}.current_leader.leader_id": (ABSENT, 0),
            f"{PARTITION}.current_leader.leader_epoch": (ABSENT, 0),
            f"{PARTITION}.acquired_records[0].first_offset": (ABSENT, 2),
            f"{PARTITION}.acquired_records[0].last_offset": (ABSENT, 3),
            f"{PARTITION}.acquired_records[0].delivery_count": (ABSENT, 1),
            **under(f"{PARTITION}.records[0]", whole(2, 3, 1_700_000_000_004)),
        },
    ),
    *meant(
        START,
        "share/share-start-is-kept",
        "describe_share_group_offsets: after the first fetch",
        under("response.groups[0].topics[0].partitions[0]", {"start_offset": (-1, 3), "lag": (-1, 0)}),
    ),
    *meant(
        AT_ONCE,
        "share/share-group-heartbeats",
        "share_group_heartbeat: first: joins",
        under(
            "response.assignment.topic_partitions[0]",
            {"topic_id": (ABSENT, "<topic 1>"), "partitions[0]": (ABSENT, 0)},
        ),
    ),
    *meant(
        AT_ONCE,
        "share/share-group-heartbeats",
        "share_group_heartbeat: first: again",
        {"response.assignment": ({"topic_partitions": [{"partitions": [0], "topic_id": "<topic 1>"}]}, None)},
    ),
    *epochs("first: again", member_epoch=3),
    *epochs("first: nothing new", member_epoch=3),
    *epochs("one member", group_epoch=3, assignment_epoch=3, first_member_epoch=3),
    *epochs("second: joins", member_epoch=4),
    *epochs("first: while there are two", member_epoch=4),
    *epochs("second: nothing new", member_epoch=4),
    *epochs("two members", group_epoch=4, assignment_epoch=4, first_member_epoch=4, second_member_epoch=4),
    *epochs("first: wants nothing", member_epoch=5),
    *epochs("second: is alone with it", member_epoch=5),
    *epochs("one is left", group_epoch=6, assignment_epoch=5, first_member_epoch=5),
    *epochs("nobody is left", group_epoch=7, assignment_epoch=5),
    *meant(
        SETTLING,
        "share/share-group-heartbeats",
        [
            f"share_group_heartbeat: {note}"
            for note in (
                "first: joins",
                "first: again",
                "first: nothing new",
                "second: joins",
                "first: while there are two",
                "second: nothing new",
                "first: wants nothing",
                "second: is alone with it",
            )
        ],
        INTERVAL,
    ),
)

ALLOWED: tuple[Allowed, ...] = (
    *METADATA,
    *CONFIGS,
    *RECORDS,
    *GROUPS,
    *SHARE,
    *STREAMS_GROUPS,
    *REFUSED,
    *BARE,
)
