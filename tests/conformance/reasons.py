"""The reasons for differences that are meant which several lists have in common, and values that occur in them."""

from __future__ import annotations

STREAMS = "Kafka Streams groups (KIP-1071) are not served; Streams applications run with the classic protocol."
CREATED_AT_ONCE = (
    "A topic that a Metadata request creates is in the response to that same request; Kafka tells the client to try "
    "again."
)
PLAIN_DEFAULT = (
    "min.insync.replicas is a plain default; Kafka's eligible-leader-replicas feature writes it as a cluster-wide "
    "setting."
)
SAYS_WHAT = (
    "Requests that make Kafka fail internally (UNKNOWN_SERVER_ERROR) get the error that says what is wrong with them."
)
NOTHING = "00000000-0000-0000-0000-000000000000"
