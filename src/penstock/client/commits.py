"""The commits of a consumer: for which member they are made, in which order, and what must no longer be committed.

The contents of a commit are fixed when it is requested. Before its task starts to run, a poll may already have learned
that the group has expelled this consumer, or may have given up partitions: earlier offsets must not overwrite those of
the current owner.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from functools import partial

from penstock.client.cluster import Cluster
from penstock.client.errors import CommitFailed
from penstock.client.membership import Membership
from penstock.client.metrics import Metrics
from penstock.client.offsets import commit_offsets
from penstock.client.subscription import Subscription
from penstock.client.transactions import ConsumerGroupMetadata
from penstock.client.types import OffsetAndMetadata, TopicPartition
from penstock.wire.errors import KafkaError

Offsets = dict[TopicPartition, OffsetAndMetadata]
Callback = Callable[[Offsets, Exception | None], object]

_log = logging.getLogger("penstock.client")


class Commits:
    def __init__(
        self, cluster: Cluster, subscription: Subscription, membership: Callable[[], Membership], metrics: Metrics
    ) -> None:
        """`membership` is the consumer's present one."""
        self._cluster = cluster
        self._subscription = subscription
        self._membership = membership
        self._count = metrics.sensor("consumer-coordinator-metrics", "commit", "rate", "total")
        self._latency = metrics.sensor("consumer-coordinator-metrics", "commit-latency", "avg", "max")
        self._polled_as: ConsumerGroupMetadata | None = None
        self._losses = 0
        """How often the membership had lost everything when the consumer last polled."""
        self._turn = asyncio.Lock()
        self._in_background: set[asyncio.Task[None]] = set()

    # Who commits

    def polled(self) -> None:
        """The consumer has done what its group wanted, and is about to return records."""
        membership = self._membership()
        self._losses = membership.losses
        identity = membership.identity()
        if identity.generation_id >= 0:  # else it is not a member yet, or not again
            self._polled_as = identity

    def begin_anew(self) -> None:
        """The consumer has another membership, or none."""
        self._losses = 0
        self._polled_as = None

    def identity(self) -> ConsumerGroupMetadata:
        """Who the consumer was when it last polled.

        A member that was expelled since may have joined again, or be nobody, in the background. What it has polled is
        not its own any more, and must be refused by the group: so it commits as who it was.
        """
        return self._polled_as or self._membership().identity()

    # Committing

    def commit(self, offsets: Offsets, timeout_ms: int | None) -> Coroutine[None, None, None]:
        """Commit; what is returned has to be awaited. Raises CommitFailed if others may have the partitions by then."""
        return self._prepared(offsets, timeout_ms)()

    def begin(self, offsets: Offsets, timeout_ms: int, callback: Callback | None = None) -> asyncio.Task[None]:
        """Commit in the background; `callback` hears how it ended."""
        task = asyncio.create_task(self._work(self._prepared(offsets, timeout_ms), offsets, callback))
        self._in_background.add(task)
        task.add_done_callback(self._in_background.discard)
        return task

    def _prepared(self, offsets: Offsets, timeout_ms: int | None) -> Callable[[], Coroutine[None, None, None]]:
        """A commit as it is requested now, to be carried out whenever its task comes to run."""
        self._count.record()
        membership, losses = self._membership(), self._losses
        held = {tp: self._subscription.partitions[tp] for tp in offsets if tp in self._subscription.partitions}

        def has_given_up(tp: TopicPartition) -> bool:
            return self._subscription.is_by_group and self._subscription.partitions.get(tp) is not held[tp]

        def member() -> ConsumerGroupMetadata:
            if given_up := sorted(filter(has_given_up, held)):
                raise CommitFailed(
                    f"the offsets were not committed: {given_up[0]} went to another member of the group meanwhile. "
                    "The next commit is about what this consumer has now"
                )
            if self._membership() is not membership:
                raise CommitFailed("the offsets were not committed: this consumer has left its group")
            if membership.losses != losses:
                raise CommitFailed(
                    "the offsets were not committed: this consumer was expelled from its group, and its partitions may "
                    "belong to another member. If handling what one poll returns takes long, raise "
                    "max_poll_interval_ms or lower max_poll_records"
                )
            return membership.identity()

        return partial(self._send, member, offsets, timeout_ms, by_epoch=membership.by_epoch)

    async def _send(
        self, member: Callable[[], ConsumerGroupMetadata], offsets: Offsets, timeout_ms: int | None, *, by_epoch: bool
    ) -> None:
        async with self._turn:  # an earlier commit that is tried again must not overwrite a later one
            began = time.monotonic()
            await commit_offsets(self._cluster, member, offsets, timeout_ms, by_epoch=by_epoch)
            self._latency.record((time.monotonic() - began) * 1000)

    async def _work(
        self, commit: Callable[[], Coroutine[None, None, None]], offsets: Offsets, callback: Callback | None
    ) -> None:
        failure: Exception | None = None
        try:
            await commit()
        except KafkaError as error:
            failure = error
        if callback is not None:
            callback(offsets, failure)
        elif failure is not None:
            _log.warning("offsets were not committed: %s", failure)

    @property
    def is_busy(self) -> bool:
        """Whether a commit in the background is under way."""
        return bool(self._in_background)

    async def wait(self, seconds: float) -> None:
        """Let the commits in the background come to their end."""
        if self._in_background:
            await asyncio.wait(self._in_background, timeout=seconds)
