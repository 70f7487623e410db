"""The states of a transactional id, and which may follow which.

A *transactional id* is the name a program gives to its producer so that a restarted program is recognized as the same
one. The coordinator keeps one entry per transactional id: which producer id it has at the moment, which epoch of that
producer id may speak, and how far its current transaction is.

The life of one transaction:

1. **Ongoing.** The producer names the partitions it writes to (AddPartitionsToTxn, or, since KIP-890, implicitly with
   the first write). Only after the name is in the coordinator's log may a record go to that partition: so the
   coordinator always knows every partition that could hold a record of the transaction.
2. **PrepareCommit / PrepareAbort.** The producer ends the transaction, or the coordinator aborts it because it took too
   long or because a new producer came with the same transactional id. The moment this record is durable the outcome is
   fixed for ever: after a crash the coordinator finds the record and goes on.
3. A *marker* with the outcome is appended to each of those partitions. A partition that has its marker shows the
   records (commit) or hides them (abort). Writing a marker twice does no harm.
4. **CompleteCommit / CompleteAbort.** All markers are durable. Only now may the next transaction begin.

So a crash between any two writes leaves one of: no Prepare record (the transaction is still open, the producer goes on
or it times out and is aborted), or a Prepare record (the outcome stands, the markers are written again).

A second producer with the same transactional id gets a higher epoch, and whatever the older one (a *zombie*) still
sends is refused. Under the classic protocol the epoch moves only then; since KIP-890 (`transaction.version=2`) it moves
at every end of a transaction, so that a delayed request of one transaction can never touch the next.

**Dead** is the entry of a transactional id that was not used for a week, while its tombstone is being written.
**PrepareEpochFence** exists for the names' sake: Apache Kafka passes through it in memory between the decision to fence
a producer and PrepareAbort; here both happen in one step.
"""

from __future__ import annotations

from enum import IntEnum


class TransactionState(IntEnum):
    """The numbers are those of the records in `__transaction_state`."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """The name that ListTransactions and DescribeTransactions show."""
        return LABELS[self]


_S = TransactionState

LABELS: dict[TransactionState, str] = {
    _S.EMPTY: "Empty",
    _S.ONGOING: "Ongoing",
    _S.PREPARE_COMMIT: "PrepareCommit",
    _S.PREPARE_ABORT: "PrepareAbort",
    _S.COMPLETE_COMMIT: "CompleteCommit",
    _S.COMPLETE_ABORT: "CompleteAbort",
    _S.DEAD: "Dead",
    _S.PREPARE_EPOCH_FENCE: "PrepareEpochFence",
}

STATE_OF_LABEL: dict[str, TransactionState] = {label: state for state, label in LABELS.items()}

# PrepareAbort may follow a state without any open transaction: a KIP-890 producer that cannot know whether its first
# write arrived sends EndTxn(abort) to be sure, and is given a new epoch.
NEXT_STATES: dict[TransactionState, frozenset[TransactionState]] = {
    _S.EMPTY: frozenset({_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT, _S.DEAD}),
    _S.ONGOING: frozenset({_S.ONGOING, _S.PREPARE_COMMIT, _S.PREPARE_ABORT, _S.PREPARE_EPOCH_FENCE}),
    _S.PREPARE_COMMIT: frozenset({_S.COMPLETE_COMMIT}),
    _S.PREPARE_ABORT: frozenset({_S.COMPLETE_ABORT}),
    _S.COMPLETE_COMMIT: frozenset({_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT, _S.DEAD}),
    _S.COMPLETE_ABORT: frozenset({_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT, _S.DEAD}),
    _S.DEAD: frozenset(),
    _S.PREPARE_EPOCH_FENCE: frozenset({_S.PREPARE_ABORT}),
}

# The outcome is decided and the markers are on their way; nothing else may happen to the transactional id meanwhile.
ENDING = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})

# No transaction is open: a new one, a new epoch or the expiry of the id may follow.
IDLE = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})
