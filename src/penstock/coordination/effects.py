"""What a coordinator command requests of the runtime.

A coordinator is an event-sourced machine: a command looks at memory, changes no lasting state, and returns `Effects`.
The runtime then appends `records` to the shard's internal topic as one batch, hands each record to `shard.replay`, and
sends `replies` once the batch is as durable as configured (or at once, where the command says so). If the append fails,
nothing is replayed and every reply becomes an error (`Effects.fail`). A restart replays the same records, so memory
after a crash is memory before it.

A command is handed a function that sends its response (`Respond`). A request that must wait (a JoinGroup in a
rebalance) has no reply in its own effects: the shard keeps the function, and a later command's effects carry the reply.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeAlias, TypeVar

from penstock.wire.errors import ErrorCode

R = TypeVar("R")

Respond: TypeAlias = Callable[[R], None]
"""Sends the response to one request; called once."""


class CoordinatorRecord(NamedTuple):
    """One record of an internal topic; a value of None is a tombstone."""

    key: bytes
    value: bytes | None


class Reply(NamedTuple):
    """A response that waits for the records beside it: either it is sent, or an error in its place."""

    send: Callable[[], None]
    fail: Callable[[ErrorCode], None]


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
    # Work for another coordinator, run by the runtime after the records were replayed (e.g. InitializeShareState).
    actions: list[object] = field(default_factory=list)

    def reply(self, respond: Respond[R], response: R, failed: Callable[[ErrorCode], R]) -> None:
        """Answer a request; `failed` makes the response to send instead when the records cannot be written."""
        self.replies.append(Reply(partial(respond, response), lambda error: respond(failed(error))))

    def extend(self, other: Effects) -> None:
        assert other.transaction is None or other.transaction == self.transaction
        self.records.extend(other.records)
        self.replies.extend(other.replies)
        self.actions.extend(other.actions)

    def send(self) -> None:
        for reply in self.replies:
            reply.send()

    def fail(self, error: ErrorCode) -> None:
        """The records could not be written: whoever waits for them gets an error."""
        for reply in self.replies:
            reply.fail(error)


def answered(respond: Respond[R], response: R, failed: Callable[[ErrorCode], R] | None = None) -> Effects:
    """The effects of a command that writes nothing.

    `failed` makes the response to send instead when the records before it are lost; without it the response holds
    whatever becomes of them.
    """
    effects = Effects()
    effects.reply(respond, response, failed or (lambda _: response))
    return effects
