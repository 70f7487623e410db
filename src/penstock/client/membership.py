"""A consumer's membership in a group, with either group protocol.

Both protocols divide the work in the same way. The conversation with the coordinator continues in the background, so
heartbeats are sent while the program handles records. But partitions are assigned and revoked only inside `poll`: it
awaits `advance`, which commits and calls the listener before a partition is given up and after one is received. A
handler that runs between two polls therefore never loses a partition meanwhile, unless it takes longer than
`max_poll_interval_ms`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from penstock.client.transactions import ConsumerGroupMetadata
from penstock.client.types import TopicPartition


class RebalanceListener:
    """Receives changes of the assignment. Subclass it and pass it to `Consumer.subscribe`. Methods may be `async`."""

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """These partitions were added. Called before their first record is returned; seek here if you keep offsets."""
        return None

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """These partitions are about to be revoked; their offsets can still be committed."""
        return None

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """These partitions belong to other members already (this one was too slow); committing them would fail."""
        return self.on_partitions_revoked(partitions)


@dataclass(slots=True)
class Hooks:
    """What a membership asks of its consumer."""

    subscribed: Callable[[], set[str]]  # topic names, a pattern resolved
    server_pattern: Callable[[], str | None]  # what the broker is to match topic names with
    owned: Callable[[], list[TopicPartition]]
    revoke: Callable[[list[TopicPartition]], Awaitable[None]]  # commit, call the listener, let go
    lose: Callable[[list[TopicPartition]], Awaitable[None]]
    assign: Callable[[list[TopicPartition]], Awaitable[None]]  # hold also these, call the listener
    wake: Callable[[], None]  # let a waiting poll look again
    refresh: Callable[[], None]  # ask for fresh metadata in the background


class Membership(ABC):
    """One member of one group."""

    by_epoch = False  # whether offsets are committed with a member epoch (KIP-848)
    losses = 0
    """How often what this member held was lost, because the coordinator no longer knew it."""

    @abstractmethod
    def identity(self) -> ConsumerGroupMetadata:
        """Who commits."""

    @abstractmethod
    async def advance(self, deadline: float) -> None:
        """Do what the group wants done now; wait for it no longer than `deadline`. Raises what is wrong for good."""

    @abstractmethod
    def is_settled(self) -> bool:
        """Whether `advance` has nothing to do."""

    @abstractmethod
    def subscription_changed(self) -> None: ...

    @abstractmethod
    async def leave(self) -> None:
        """Give the partitions up and leave the group."""

    @abstractmethod
    def enforce_rebalance(self) -> None: ...


class NoMembership(Membership):
    """For `assign`: offsets may be committed under a group id, but nobody joins."""

    def __init__(self, group_id: str) -> None:
        self._identity = ConsumerGroupMetadata(group_id)

    def identity(self) -> ConsumerGroupMetadata:
        return self._identity

    async def advance(self, deadline: float) -> None:
        return None

    def is_settled(self) -> bool:
        return True

    def subscription_changed(self) -> None:
        return None

    async def leave(self) -> None:
        return None

    def enforce_rebalance(self) -> None:
        return None
