"""The differences from Apache Kafka that are meant: requests that no client would send."""

from __future__ import annotations

from .allowed import Pair, meant
from .compare import ABSENT
from .meant_share import TEXT, under

TWO_MARKERS = (
    "A transaction marker for a partition that is named twice is written twice and answered; Kafka 4.3.1 never answers."
)
NEVER_BACK = (
    "Writes of a share-partition's state never move its start offset back, in whatever order they arrive; Kafka keeps "
    "the last one."
)
NO_DEBT = "The lag of a share group that starts past the end of the log is 0; Kafka's is negative."
NO_WAITING = (
    "There is no controller to wait for: a request with a timeout of 0 or less is carried out; Kafka answers "
    "REQUEST_TIMED_OUT."
)
TOO_MANY = (
    "More than 10,000 new partitions in one request are refused with POLICY_VIOLATION, as when a topic is created; "
    "Kafka's CreatePartitions fails internally (UNKNOWN_SERVER_ERROR)."
)
NO_LOGGERS = "Penstock's loggers have names and levels of their own."
TWO_RESOURCES = (
    "An AlterConfigs request that names a resource twice is refused; Kafka 4.3.1 never answers it (its "
    "IncrementalAlterConfigs does refuse)."
)
OVERFLOW = (
    "A cursor far past the last partition is past the end; in Kafka the number overflows, and the next cursor is "
    "negative."
)
BOTH_BATCHES = (
    "Two batches for one partition in one request are both appended and answered one by one; Kafka silently drops the "
    "first."
)
ANY_SESSION = (
    "A fetch session's id may be any number; Kafka fails internally (UNKNOWN_SERVER_ERROR) with some of the largest."
)
NO_TEXT = "A request with text that is not UTF-8 is malformed; Kafka accepts it with replacement characters."

NOTHING = "00000000-0000-0000-0000-000000000000"


def second_append(topic: str) -> dict[str, Pair]:
    fields: dict[str, Pair] = {
        "index": (ABSENT, 0),
        "error_code": (ABSENT, "NONE"),
        "error_message": (ABSENT, None),
        "base_offset": (ABSENT, 8),
        "log_append_time": (ABSENT, -1),
        "log_start_offset": (ABSENT, 0),
        "record_errors": (ABSENT, []),
        "current_leader.leader_id": (ABSENT, -1),
        "current_leader.leader_epoch": (ABSENT, -1),
    }
    return under(f"response.responses[{topic}].partition_responses[1]", fields)


ODD = (
    *meant(
        TWO_MARKERS,
        "odd_transactions/write-odd-markers",
        "write_txn_markers: a partition twice",
        {
            "outcome": ("no answer", ABSENT),
            "response.markers[0].producer_id": (ABSENT, "<producer 2>"),
            "response.markers[0].topics[markers-topic].name": (ABSENT, "markers-topic"),
            "response.markers[0].topics[markers-topic].partitions[0].partition_index": (ABSENT, 0),
            "response.markers[0].topics[markers-topic].partitions[0].error_code": (ABSENT, "NONE"),
        },
    ),
    *meant(
        NO_DEBT,
        "odd_share/odd-share-group-offsets",
        "describe_share_group_offsets: after past the end",
        {"response.groups[0].topics[0].partitions[0].lag": (4 - ((1 << 63) - 1), 0)},
    ),
    *meant(
        NEVER_BACK,
        "odd_share/odd-share-state-values",
        "read_share_group_state: after a start below all",
        {"response.results[0].partitions[0].start_offset": (-5, 0)},
    ),
    *meant(
        NEVER_BACK,
        "odd_share/odd-share-state-values",
        "read_share_group_state: after a start further back",
        {"response.results[0].partitions[0].start_offset": (10, 20)},
    ),
    *meant(
        NO_WAITING,
        "odd_topics/create-odd-topics",
        "create_topics: no patience",
        under(
            "response.topics[hasty]",
            {
                "error_code": ("REQUEST_TIMED_OUT", "NONE"),
                "num_partitions": (-1, 1),
                "replication_factor": (-1, 1),
                "topic_id": (NOTHING, "<topic 8>"),
            },
        ),
    ),
    *meant(
        NO_WAITING,
        "odd_topics/delete-odd-topics",
        ["delete_topics: no patience", "delete_topics: negative patience"],
        under(
            "response.responses[absent]",
            {"error_code": ("REQUEST_TIMED_OUT", "UNKNOWN_TOPIC_OR_PARTITION"), "error_message": TEXT},
        ),
    ),
    *meant(
        NO_WAITING,
        "odd_topics/create-odd-partitions",
        ["create_partitions: no patience", "create_partitions: negative patience"],
        {"response.results[t].error_code": ("REQUEST_TIMED_OUT", "NONE")},
    ),
    *meant(
        TOO_MANY,
        "odd_topics/create-odd-partitions",
        "create_partitions: ten thousand and three",
        under(
            "response.results[t]",
            {"error_code": ("UNKNOWN_SERVER_ERROR", "POLICY_VIOLATION"), "error_message": TEXT},
        ),
    ),
    *meant(
        NO_LOGGERS,
        "odd_topics/describe-odd-configs",
        "describe_configs: a broker's loggers",
        {"response.results[0].configs[root].value": ("ERROR", "WARN")},
    ),
    *meant(
        TWO_RESOURCES,
        "odd_topics/alter-odd-configs",
        "alter_configs: a topic twice",
        {
            "outcome": ("no answer", ABSENT),
            "response.throttle_time": (ABSENT, "<throttle>"),
            **{
                f"response.responses[{number}].{name}": (ABSENT, value)
                for number in (0, 1)
                for name, value in (
                    ("error_code", "INVALID_REQUEST"),
                    ("error_message", "<text>"),
                    ("resource_type", 2),
                    ("resource_name", "t"),
                )
            },
        },
    ),
    *meant(
        OVERFLOW,
        "odd_topics/describe-odd-topic-partitions",
        "describe_topic_partitions: a cursor far past the end",
        {
            "response.next_cursor": (
                {"topic_name": "describe-odd-topic-partitions-v0-t", "partition_index": -2147481649},
                None,
            )
        },
    ),
    *meant(
        BOTH_BATCHES,
        "odd_records/produce-oddly",
        "produce: a partition twice",
        {**second_append("t"), **second_append("0")},
    ),
    *meant(
        ANY_SESSION,
        "odd_records/fetch-in-odd-sessions",
        "fetch: the largest session, epoch -1",
        {"response.error_code": ("UNKNOWN_SERVER_ERROR", "NONE"), "response.session_id": ("<session 8>", 0)},
    ),
    *meant(
        ANY_SESSION,
        "odd_records/fetch-in-odd-sessions",
        "fetch: the largest session, epoch 0",
        {"response.error_code": ("UNKNOWN_SERVER_ERROR", "NONE")},
    ),
    *meant(
        ANY_SESSION,
        "odd_records/fetch-in-odd-sessions",
        "fetch: the largest session, epoch 1",
        {
            "response.error_code": ("UNKNOWN_SERVER_ERROR", "FETCH_SESSION_ID_NOT_FOUND"),
            "response.session_id": ("<session 8>", 0),
        },
    ),
    *meant(
        NO_TEXT,
        "odd_frames/odd-bodies",
        "end_txn: an id that is no text",
        {"answer": ("0000000700000000", ABSENT), "outcome": (ABSENT, "connection closed")},
    ),
)
