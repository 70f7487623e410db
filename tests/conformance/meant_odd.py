"""The differences from Apache Kafka that are meant: requests that no client would send."""

from __future__ import annotations

from .allowed import meant
from .compare import ABSENT

TWO_MARKERS = (
    "A transaction marker for a partition that is named twice is written twice and answered; Kafka 4.3.1 never answers."
)

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
)
