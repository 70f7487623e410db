"""The differences from Apache Kafka that are meant: share groups, and what they share with the others."""

from __future__ import annotations

from .allowed import Allowed, OneOf, Pair, meant
from .batches import record
from .compare import ABSENT

SETTLING = (
    "While partitions move, the members of a consumer or share group get a short heartbeat interval, so that the "
    "group settles at once; they get the configured one when the group is stable."
)
SENTENCE = "A share group's error carries a sentence that says what is wrong where Kafka sends only the code."
INTERVAL: dict[str, Pair] = {"response.heartbeat_interval": (5000, OneOf((100, 200, 500)))}
TEXT: Pair = (None, "<text>")
PARTITION = "response.responses[0].partitions[0]"
CUT = (
    "A share fetch returns the acquired records only: a producer's batch that is acquired in part is split, where "
    "Kafka sends all of it."
)
AT_ONCE = (
    "A new share group gets its partitions at its first heartbeat; Kafka's needs a second one, and so its epochs are "
    "one ahead from then on."
)
LIMIT = (
    "A share fetch acquires no more records than it requested, in either acquire mode; in the batch-optimized mode "
    "Kafka acquires whole batches, which may leave nothing for other consumers."
)
START = (
    "The start offset that results from share.auto.offset.reset is stored at once; Kafka stores it with the first "
    "acknowledgement, and until then a restart may skip records."
)


def under(path: str, fields: dict[str, Pair]) -> dict[str, Pair]:
    return {f"{path}.{name}": pair for name, pair in fields.items()}


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
