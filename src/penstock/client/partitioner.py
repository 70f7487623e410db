"""Which partition a record goes to, chosen exactly as Java's producer chooses.

A record with a key goes to `murmur2(key)` modulo the number of partitions, so that programs in both languages agree.
Records without a key go to one partition until its batch is sent, and then to another one, chosen at random (KIP-480,
KIP-794): fewer, fuller batches than with round-robin.
"""

from __future__ import annotations

import random
from functools import lru_cache

from penstock.wire.hashing import murmur2


@lru_cache(maxsize=65_536)
def partition_for_key(key: bytes, partitions: int) -> int:
    """Java's `BuiltInPartitioner.partitionForKey`. Keys repeat, and hashing one in Python costs more than a lookup."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def other_partition(current: int, partitions: int) -> int:
    """A partition at random, another one than `current` if there is another."""
    if partitions <= 1:
        return 0
    if not 0 <= current < partitions:
        return random.randrange(partitions)
    chosen = random.randrange(partitions - 1)
    return chosen if chosen < current else chosen + 1
