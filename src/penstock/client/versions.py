"""The API versions at which something changes for the client; each is named once, here."""

from __future__ import annotations

# Topics are named up to these versions, and carry their ids from the next one on.
FETCH_LAST_NAMED = 12
PRODUCE_LAST_NAMED = 12
OFFSETS_LAST_NAMED = 9  # OffsetCommit and OffsetFetch

FETCH_FIRST_WITH_SESSIONS = 7
CONSUMER_HEARTBEAT_FIRST_WITH_PATTERN = 1

# Transactions: up to these versions the client adds partitions itself, and the epoch stays as it is when one ends;
# from the next one on, writing adds the partition and ending renews the epoch (KIP-890).
PRODUCE_LAST_OF_OLD_TRANSACTIONS = 11
TXN_OFFSET_COMMIT_LAST_OF_OLD_TRANSACTIONS = 4
END_TXN_LAST_OF_OLD_TRANSACTIONS = 4

ADD_PARTITIONS_LAST_FOR_CLIENTS = 3  # later ones are for brokers
INIT_PRODUCER_ID_LAST_KNOWN = 5  # later ones prepare transactions of two phases (KIP-939)
