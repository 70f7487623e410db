"""The differences from Apache Kafka that are meant: requests that no client would send."""

from __future__ import annotations

from .allowed import meant
from .compare import ABSENT

TWO_MARKERS = (
    "A transaction marker for a partition that is named twice is written twice and answered; Kafka 4.3.1 never answers."
)
NEVER_BACK = (
    "What a share-partition's owner writes never moves its start offset back, whatever order the writes arrive in; "
    "Kafka keeps whatever comes last."
)
NO_DEBT = "The lag of a share group that starts past the end of the log is 0; Kafka's is negative."

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
)
