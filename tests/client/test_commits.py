from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from penstock.client.cluster import Cluster
from penstock.client.commits import Commits
from penstock.client.errors import CommitFailed
from penstock.client.membership import NoMembership
from penstock.client.metrics import Metrics
from penstock.client.offsets import fetch_committed
from penstock.client.subscription import Subscription
from penstock.client.types import OffsetAndMetadata, TopicPartition


class Consumer:
    """What commits need of one: it holds two partitions, as if a group had assigned them."""

    def __init__(self, cluster: Cluster, group_id: str, topic: str) -> None:
        self._cluster = cluster
        self.group_id = group_id
        self.first, self.second = TopicPartition(topic, 0), TopicPartition(topic, 1)
        self.membership = NoMembership(group_id)
        self.subscription = Subscription()
        self.subscription.choose([topic])
        self.subscription.assign([self.first, self.second])
        self.commits = Commits(cluster, self.subscription, lambda: self.membership, Metrics("c"))
        self.commits.polled()

    def offsets(self, *offsets: int) -> dict[TopicPartition, OffsetAndMetadata]:
        return {tp: OffsetAndMetadata(offset) for tp, offset in zip((self.first, self.second), offsets, strict=False)}

    async def committed(self) -> list[int]:
        found = await fetch_committed(self._cluster, self.group_id, [self.first, self.second])
        return [found[tp].offset for tp in (self.first, self.second) if tp in found]


@pytest.fixture
async def consumer(cluster: Cluster, wide_topic: str, fresh: Callable[[str], str]) -> Consumer:
    return Consumer(cluster, fresh("group"), wide_topic)


async def test_commits_are_sent_in_the_order_in_which_they_were_requested(consumer: Consumer) -> None:
    tasks = [consumer.commits.begin(consumer.offsets(number, number), 5_000) for number in range(5)]
    assert consumer.commits.is_busy
    await consumer.commits.wait(20)
    assert all(task.done() for task in tasks)
    assert not consumer.commits.is_busy
    assert await consumer.committed() == [4, 4]


async def test_a_callback_hears_how_a_commit_ended(consumer: Consumer) -> None:
    heard: list[object] = []
    offsets = consumer.offsets(7)
    await consumer.commits.begin(offsets, 5_000, lambda *ended: heard.append(ended))
    assert heard == [(offsets, None)]


async def expelled(consumer: Consumer) -> None:
    consumer.membership.losses += 1


async def given_up(consumer: Consumer) -> None:
    consumer.subscription.assign([consumer.second])


async def given_up_and_taken_back(consumer: Consumer) -> None:
    consumer.subscription.assign([consumer.second])
    consumer.subscription.assign([consumer.first, consumer.second])


async def left(consumer: Consumer) -> None:
    consumer.membership = NoMembership(consumer.group_id)
    consumer.commits.begin_anew()


@pytest.mark.parametrize(
    ("happens", "why"),
    [
        (expelled, "expelled from its group"),
        (given_up, "went to another member"),
        (given_up_and_taken_back, "went to another member"),
        (left, "has left its group"),
    ],
)
async def test_what_is_under_way_is_not_committed_when_others_may_have_the_partitions(
    consumer: Consumer, happens: Callable[[Consumer], Awaitable[None]], why: str
) -> None:
    heard: list[Exception | None] = []
    consumer.commits.begin(consumer.offsets(7, 7), 5_000, lambda offsets, failure: heard.append(failure))
    # A poll, before the task has taken its first step.
    await happens(consumer)
    consumer.commits.polled()
    await consumer.commits.wait(20)
    assert isinstance(heard[0], CommitFailed)
    assert why in str(heard[0])
    assert await consumer.committed() == []


async def test_what_is_committed_after_the_poll_that_learned_of_it_is_committed(consumer: Consumer) -> None:
    await expelled(consumer)
    with pytest.raises(CommitFailed, match="expelled"):
        await consumer.commits.commit(consumer.offsets(7), 5_000)
    consumer.commits.polled()
    await consumer.commits.commit(consumer.offsets(8), 5_000)
    assert await consumer.committed() == [8]


async def test_who_has_left_its_group_may_commit_as_nobody(consumer: Consumer) -> None:
    """As a consumer does that was given its partitions by `assign`."""
    await expelled(consumer)
    consumer.commits.polled()
    await left(consumer)
    await consumer.commits.commit(consumer.offsets(9), 5_000)
    assert await consumer.committed() == [9]


async def test_a_commit_that_is_cancelled_before_it_begins_leaves_nothing_behind(consumer: Consumer) -> None:
    task = consumer.commits.begin(consumer.offsets(7), 5_000)
    task.cancel()
    await asyncio.wait([task])
    assert not consumer.commits.is_busy
    assert await consumer.committed() == []
