"""What a coordinator command asks of the shell.

A coordinator is an event-sourced machine: a command looks at memory, changes no lasting state, and returns `Effects`.
The shell then appends `records` to the shard's internal topic as one batch, hands each record to `shard.replay`, and
sends `replies` once the batch is as durable as configured (or at once, where the command says so). If the append fails,
nothing is replayed and the replies of `shard.append_failed(effects)` are sent instead. A restart replays the same
records, so memory after a crash is memory before it.

A request that must wait (a JoinGroup in a rebalance) has no reply in its own effects: a later command's effects carry
the reply, under the token that came with the request.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class CoordinatorRecord(NamedTuple):
    """One record of an internal topic; a value of None is a tombstone."""

    key: bytes
    value: bytes | None


class Reply(NamedTuple):
    """A response for the request that came with this token."""

    token: object
    response: object


class TransactionalProducer(NamedTuple):
    """The producer on whose behalf a batch is written inside a transaction."""

    producer_id: int
    producer_epoch: int


@dataclass(slots=True)
class Effects:
    records: list[CoordinatorRecord] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    # Set when the records belong to an open transaction: the batch is then a transactional one.
    transaction: TransactionalProducer | None = None
    # False: the replies go out when the records are written; the end of their transaction will wait for the disk.
    replies_wait: bool = True
    # Work for another coordinator, run by the shell after the records were replayed (e.g. InitializeShareState).
    actions: list[object] = field(default_factory=list)

    def reply(self, token: object, response: object) -> None:
        self.replies.append(Reply(token, response))

    def extend(self, other: Effects) -> None:
        assert other.transaction is None or other.transaction == self.transaction
        self.records.extend(other.records)
        self.replies.extend(other.replies)
        self.actions.extend(other.actions)
