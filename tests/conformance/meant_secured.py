"""The differences from Apache Kafka that are meant: what a secured broker answers its users, and strangers."""

from __future__ import annotations

from .allowed import Pair, meant
from .compare import ABSENT
from .meant_share import TEXT, under
from .reasons import CREATED_AT_ONCE, NOTHING, PLAIN_DEFAULT, SAYS_WHAT, STREAMS

NO_HINT = (
    "A SCRAM login under a name that no user has gets a salt and fails at the proof, as with a wrong password; Kafka "
    "fails at the first message, which reveals which users exist."
)
BINDING = (
    "A SCRAM proof with another channel binding than the first message is refused, as RFC 5802 requires; Kafka does "
    "not check."
)
CLOSED_UNREAD = (
    "Before a client has authenticated, no request but ApiVersions, SaslHandshake and SaslAuthenticate is decoded: one "
    "in place of a token closes the connection. Kafka answers it with ILLEGAL_SASL_STATE first."
)
NO_IDS = (
    "AlterShareGroupOffsets does not reveal the id of a topic to users who may not read it; Kafka returns it with the "
    "refusal."
)
ANSWERED = "A request for all SCRAM credentials without the right to see them is refused; Kafka 4.3.1 never answers it."

CLOSED: dict[str, Pair] = {"outcome": (ABSENT, "connection closed")}
THROTTLE: dict[str, Pair] = {"response.throttle_time": ("<throttle>", ABSENT)}
ILLEGAL_METADATA: dict[str, Pair] = {
    "response.brokers": ([], ABSENT),
    "response.cluster_id": ("<cluster>", ABSENT),
    "response.controller_id": (-1, ABSENT),
    "response.topics": ([], ABSENT),
    **THROTTLE,
    **CLOSED,
}
ILLEGAL_CLUSTER: dict[str, Pair] = {
    "response.brokers": ([], ABSENT),
    "response.cluster_authorized_operations": (-2147483648, ABSENT),
    "response.cluster_id": ("<cluster>", ABSENT),
    "response.controller_id": (-1, ABSENT),
    "response.error_code": ("ILLEGAL_SASL_STATE", ABSENT),
    "response.error_message": ("<text>", ABSENT),
    **THROTTLE,
    **CLOSED,
}
TOKENLESS = "as yet unknown: instead of a token"

SASL = (
    *meant(CLOSED_UNREAD, "secured_sasl/secured-sasl-handshake", f"metadata {TOKENLESS}", ILLEGAL_METADATA),
    *meant(
        CLOSED_UNREAD, "secured_sasl/secured-requests-before-authentication", f"metadata {TOKENLESS}", ILLEGAL_METADATA
    ),
    *meant(
        CLOSED_UNREAD,
        "secured_sasl/secured-requests-before-authentication",
        f"describe_cluster {TOKENLESS}",
        ILLEGAL_CLUSTER,
    ),
    *meant(
        CLOSED_UNREAD,
        "secured_sasl/secured-requests-before-authentication",
        f"produce {TOKENLESS}",
        {"response.responses": ([], ABSENT), **THROTTLE, **CLOSED},
    ),
    *meant(
        CLOSED_UNREAD,
        "secured_sasl/secured-requests-before-authentication",
        f"create_acls {TOKENLESS}",
        {"response.results": ([], ABSENT), **THROTTLE, **CLOSED},
    ),
    *meant(CLOSED_UNREAD, "secured_sasl/secured-reauthentication", f"describe_cluster {TOKENLESS}", ILLEGAL_CLUSTER),
    *meant(
        BINDING,
        "secured_sasl/secured-sasl-scram",
        "sasl_authenticate as yet unknown: wrong channel binding: proves",
        {
            "response.error_code": ("NONE", "SASL_AUTHENTICATION_FAILED"),
            "response.error_message": TEXT,
            "response.session_lifetime": (3_600_000, 0),
        },
    ),
    *meant(
        BINDING,
        "secured_sasl/secured-sasl-scram",
        "describe_cluster as yet unknown: wrong channel binding: then asks",
        {
            "response.brokers[0].broker_id": (1, ABSENT),
            "response.brokers[0].host": ("<host>", ABSENT),
            "response.brokers[0].port": ("<port>", ABSENT),
            "response.brokers[0].rack": (None, ABSENT),
            "response.cluster_authorized_operations": (-2147483648, ABSENT),
            "response.cluster_id": ("<cluster>", ABSENT),
            "response.controller_id": (1, ABSENT),
            "response.error_code": ("NONE", ABSENT),
            "response.error_message": (None, ABSENT),
            **THROTTLE,
            **CLOSED,
        },
    ),
    *meant(
        NO_HINT,
        "secured_sasl/secured-sasl-scram",
        "sasl_authenticate as yet unknown: unknown user: begins",
        {
            "response.error_code": ("SASL_AUTHENTICATION_FAILED", "NONE"),
            "response.error_message": ("<text>", None),
        },
    ),
    *meant(
        NO_HINT,
        "secured_sasl/secured-sasl-scram",
        "sasl_authenticate as yet unknown: unknown user: proves",
        {
            "outcome": ("connection closed", ABSENT),
            "response.error_code": (ABSENT, "SASL_AUTHENTICATION_FAILED"),
            "response.error_message": (ABSENT, "<text>"),
            "response.auth_bytes": (ABSENT, "<hidden>"),
            "response.session_lifetime": (ABSENT, 0),
        },
    ),
)

SHARE_GROUPS = (
    *meant(
        NO_IDS,
        "secured_share/secured-share-group-offsets",
        [f"alter_share_group_offsets as alice: {note}" for note in ("g.read", "g.all", "no such group")],
        {
            f"response.responses[{place}].topic_id": (f"<topic {word}>", NOTHING)
            for place, word in ((2, "alter"), (3, "delete"), (4, "describe"), (5, "none"), (7, "write"))
        },
    ),
    *meant(
        STREAMS,
        "secured_share/secured-streams-groups",
        [f"streams_group_heartbeat as {user}: denied" for user in ("alice", "nobody")],
        {
            "response.error_code": ("GROUP_AUTHORIZATION_FAILED", "UNSUPPORTED_VERSION"),
            "response.error_message": TEXT,
        },
    ),
    *meant(
        STREAMS,
        "secured_share/secured-streams-groups",
        "streams_group_describe as nobody: denied",
        {
            "response.groups[0].error_code": ("GROUP_AUTHORIZATION_FAILED", "UNSUPPORTED_VERSION"),
            "response.groups[0].error_message": TEXT,
        },
    ),
    *meant(
        SAYS_WHAT,
        "secured_share/secured-share-fetch",
        "share_fetch as bob: opens with a topic that is not there",
        {
            "response.acquisition_lock_timeout": (0, 30_000),
            "response.error_code": ("UNKNOWN_SERVER_ERROR", "NONE"),
            "response.responses[0].topic_id": (ABSENT, "<topic absent, made up>"),
            **under(
                "response.responses[0].partitions[0]",
                {
                    "partition_index": (ABSENT, 0),
                    "error_code": (ABSENT, "UNKNOWN_TOPIC_ID"),
                    "error_message": (ABSENT, "<text>"),
                    "acknowledge_error_code": (ABSENT, 0),
                    "acknowledge_error_message": (ABSENT, None),
                    "current_leader.leader_id": (ABSENT, 0),
                    "current_leader.leader_epoch": (ABSENT, 0),
                    "records": (ABSENT, ""),
                    "acquired_records": (ABSENT, []),
                },
            ),
        },
    ),
)

TOPICS = (
    *(
        entry
        for step, topic, number in (
            ("metadata as alice: creates", "absent.all", 1),
            ("metadata as creator: creates absent.read", "absent.read", 2),
        )
        for entry in meant(
            CREATED_AT_ONCE,
            "secured_topics/secured-metadata-creates",
            step,
            under(
                f"response.topics[{topic}]",
                {
                    "error_code": ("UNKNOWN_TOPIC_OR_PARTITION", "NONE"),
                    "topic_id": (NOTHING, f"<topic {number}>"),
                    "partitions[0].error_code": (ABSENT, "NONE"),
                    "partitions[0].partition_index": (ABSENT, 0),
                    "partitions[0].leader_id": (ABSENT, 1),
                    "partitions[0].leader_epoch": (ABSENT, 0),
                    "partitions[0].replica_nodes[0]": (ABSENT, 1),
                    "partitions[0].isr_nodes[0]": (ABSENT, 1),
                    "partitions[0].offline_replicas": (ABSENT, []),
                },
            ),
        )
    ),
    *(
        entry
        for step, topic in (
            ("alice: tries", "new.all"),
            ("alice: some", "new.all"),
            ("bob: by a prefix", "bobs-seen"),
            ("outcast: denied in the cluster", "by-outcast"),
            ("admin: the administrator", "by-admin"),
        )
        for entry in meant(
            PLAIN_DEFAULT,
            "secured_topics/secured-create-topics",
            f"create_topics as {step}",
            {f"response.topics[{topic}].configs[min.insync.replicas].config_source": (3, 5)},
        )
    ),
    *meant(
        PLAIN_DEFAULT,
        "secured_topics/secured-alter-configs",
        [f"alter_configs as {user}: everything" for user in ("config-writer", "owner", "admin")],
        {
            "response.responses[0].error_code": ("INVALID_CONFIG", "NONE"),
            "response.responses[0].error_message": ("<text>", None),
        },
    ),
)

RULES_AND_USERS = (
    *meant(
        SAYS_WHAT,
        "secured_acls/secured-create-odd-acls",
        [
            f"create_acls as admin: {note}"
            for note in ("any operation", "any permission", "any type", "any pattern", "a matching pattern")
        ],
        {
            "response.results[0].error_code": ("UNKNOWN_SERVER_ERROR", "INVALID_REQUEST"),
            "response.results[0].error_message": TEXT,
        },
    ),
    *meant(
        SAYS_WHAT,
        "secured_users/secured-alter-scram-credentials",
        "alter_user_scram_credentials as admin: no password",
        {
            "response.results[0].error_code": ("UNKNOWN_SERVER_ERROR", "UNACCEPTABLE_CREDENTIAL"),
            "response.results[0].error_message": TEXT,
        },
    ),
    *meant(
        ANSWERED,
        "secured_users/secured-describe-scram-credentials",
        [
            f"describe_user_scram_credentials as {user}: all"
            for user in ("nobody", "alice", "config-reader", "config-writer", "outcast")
        ],
        {
            "outcome": ("no answer", ABSENT),
            "response.throttle_time": (ABSENT, "<throttle>"),
            "response.error_code": (ABSENT, "CLUSTER_AUTHORIZATION_FAILED"),
            "response.error_message": (ABSENT, None),
            "response.results": (ABSENT, []),
        },
    ),
)

SECURED = (*SASL, *SHARE_GROUPS, *TOPICS, *RULES_AND_USERS)
