"""What happens to a transactional id when nobody speaks: timeouts of transactions, expiry of unused ids.

A transaction that is open for longer than its producer's `transaction.timeout.ms` is aborted by the coordinator: until
then it holds back every `read_committed` reader of its partitions. The producer is fenced by the abort. A timeout of
2^31-1 marks a transaction of KIP-939 (two-phase commit), which waits for ever.

A transactional id without an open transaction that was not used for `transactional.id.expiration.ms` is removed (a
tombstone in the log); a producer that comes back later starts anew.
"""

from __future__ import annotations

from penstock.transactions.metadata import TransactionMetadata
from penstock.transactions.states import IDLE, TransactionState

NEVER_MS = 2**31 - 1


def abort_deadline_ms(meta: TransactionMetadata) -> int | None:
    """The first millisecond at which the open transaction has lasted too long; None if there is no such."""
    if meta.state != TransactionState.ONGOING or meta.timeout_ms == NEVER_MS:
        return None
    return meta.start_timestamp_ms + meta.timeout_ms + 1


def is_expired(meta: TransactionMetadata, expiration_ms: int, now_ms: int) -> bool:
    return meta.state in IDLE and meta.last_update_timestamp_ms <= now_ms - expiration_ms
