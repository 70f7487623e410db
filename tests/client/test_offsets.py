from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from penstock.client import Admin, Producer
from penstock.client.cluster import Cluster
from penstock.client.config import ClientConfig
from penstock.client.errors import CommitFailed
from penstock.client.offsets import commit_offsets, fetch_committed, list_offsets
from penstock.client.transactions import ConsumerGroupMetadata
from penstock.client.types import IsolationLevel, OffsetAndMetadata, OffsetSpec, TopicPartition
from penstock.testing.broker import Broker
from penstock.wire import messages as m
from penstock.wire.api import ApiKey
from penstock.wire.errors import ErrorCode, GroupAuthorizationFailed, UnknownTopicOrPartition, UnstableOffsetCommit
from tests.client.old_brokers import limited
from tests.client.reading import BASE_MS, fill
from tests.client.scripted_broker import scripted_cluster


def nobody(group: str) -> Callable[[], ConsumerGroupMetadata]:
    """Commits as a program that is no member of the group."""
    return lambda: ConsumerGroupMetadata(group)


# By time


async def test_each_partition_is_looked_up_by_its_own_time(
    cluster: Cluster, wide_topic: str, producer: Producer
) -> None:
    for partition in (0, 1, 2):
        await fill(producer, wide_topic, 5, partition)
    first, second, third, empty = (TopicPartition(wide_topic, number) for number in range(4))
    found = await list_offsets(
        cluster,
        {
            first: BASE_MS + 1500,
            second: OffsetSpec.LATEST,
            third: BASE_MS + 3_600_000,
            empty: OffsetSpec.EARLIEST,
        },
    )
    assert {tp.partition: place.offset for tp, place in found.items()} == {0: 2, 1: 5, 2: -1, 3: 0}
    assert found[first].timestamp == BASE_MS + 2000
    assert found[first].leader_epoch >= 0


async def test_for_readers_of_committed_records_the_end_is_before_an_open_transaction(
    bootstrap: str, cluster: Cluster, topic: str, fresh: Callable[[str], str]
) -> None:
    tp = TopicPartition(topic, 0)
    async with Producer(bootstrap_servers=bootstrap, transactional_id=fresh("tx")) as producer:
        async with producer.transaction():
            await producer.send(topic, b"committed")
        producer.begin_transaction()
        await producer.send_and_wait(topic, b"open")
        committed = await list_offsets(cluster, {tp: OffsetSpec.LATEST}, IsolationLevel.READ_COMMITTED)
        everything = await list_offsets(cluster, {tp: OffsetSpec.LATEST})
        await producer.abort_transaction()
    assert (committed[tp].offset, everything[tp].offset) == (2, 3)  # a record and the marker behind it


async def test_a_partition_that_is_not_there_is_waited_for_and_then_said_so(cluster: Cluster, topic: str) -> None:
    with pytest.raises(UnknownTopicOrPartition, match=f"{topic}-9"):
        await list_offsets(cluster, {TopicPartition(topic, 9): OffsetSpec.LATEST}, timeout_ms=200)


async def test_only_what_failed_is_asked_for_again() -> None:
    requested: list[list[int]] = []

    def answer(request: m.Message, version: int) -> m.Message:
        assert isinstance(request, m.ListOffsetsRequest)
        numbers = [p.partition_index for topic in request.topics for p in topic.partitions]
        requested.append(numbers)
        response = m.ListOffsetsResponse
        bad = int(ErrorCode.NOT_LEADER_OR_FOLLOWER) if len(requested) == 1 else 0
        places = [
            response.ListOffsetsPartitionResponse(partition_index=n, offset=100 + n, error_code=bad if n == 1 else 0)
            for n in numbers
        ]
        return response(topics=[response.ListOffsetsTopicResponse(name="t", partitions=places)])

    async with scripted_cluster(partitions=3) as scripted:
        scripted.brokers[0].answers[m.ListOffsetsRequest] = answer
        config = ClientConfig(bootstrap_servers=scripted.bootstrap_servers, retry_backoff_ms=10)
        async with Cluster(config) as cluster:
            found = await list_offsets(cluster, {TopicPartition("t", n): OffsetSpec.LATEST for n in range(3)})
    assert {tp.partition: place.offset for tp, place in found.items()} == {0: 100, 1: 101, 2: 102}
    assert [sorted(numbers) for numbers in requested] == [[0, 1, 2], [1]]


# As committed


@pytest.mark.parametrize("newest", [9, 7, 5])
async def test_what_was_committed_is_found_again_whatever_the_version(
    cluster: Cluster,
    wide_topic: str,
    fresh: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    bootstrap: str,
    newest: int,
) -> None:
    group = fresh("group")
    first, second, third = (TopicPartition(wide_topic, number) for number in range(3))
    await commit_offsets(
        cluster, nobody(group), {first: OffsetAndMetadata(3, "noted", 0), second: OffsetAndMetadata(4)}
    )
    limited(monkeypatch, ApiKey.OFFSET_FETCH, newest)
    async with Cluster(ClientConfig(bootstrap_servers=bootstrap)) as other:
        found = await fetch_committed(other, group, [first, third])
        assert {tp: (place.offset, place.metadata) for tp, place in found.items()} == {first: (3, "noted")}
        assert set(await fetch_committed(other, group, None)) == {first, second}
        assert await fetch_committed(other, fresh("nobody"), None) == {}


async def test_offsets_of_an_open_transaction_are_waited_for_if_they_must_be_stable(
    bootstrap: str, cluster: Cluster, topic: str, fresh: Callable[[str], str]
) -> None:
    group, tp = fresh("group"), TopicPartition(topic, 0)
    await commit_offsets(cluster, nobody(group), {tp: OffsetAndMetadata(1)})
    async with Producer(bootstrap_servers=bootstrap, transactional_id=fresh("tx")) as producer:
        producer.begin_transaction()
        await producer.send_offsets_to_transaction({tp: OffsetAndMetadata(7)}, ConsumerGroupMetadata(group))
        assert (await fetch_committed(cluster, group, [tp]))[tp].offset == 1
        with pytest.raises(UnstableOffsetCommit):
            await fetch_committed(cluster, group, [tp], require_stable=True, timeout_ms=200)
        waiting = asyncio.create_task(fetch_committed(cluster, group, [tp], require_stable=True))
        await producer.commit_transaction()
        async with asyncio.timeout(20):
            assert (await waiting)[tp].offset == 7


# Committing


async def test_nothing_to_commit_asks_nobody(cluster: Cluster) -> None:
    def never() -> ConsumerGroupMetadata:
        raise AssertionError("asked who commits")

    await commit_offsets(cluster, never, {})


async def test_a_generation_that_is_over_says_what_to_do(cluster: Cluster, topic: str, admin: Admin) -> None:
    group, tp = f"over-{topic}", TopicPartition(topic, 0)
    await admin.alter_group_offsets(group, {tp: 1})
    with pytest.raises(CommitFailed, match="raise max_poll_interval_ms"):
        await commit_offsets(cluster, lambda: ConsumerGroupMetadata(group, 5, "gone"), {tp: OffsetAndMetadata(2)})
    assert (await fetch_committed(cluster, group, [tp]))[tp].offset == 1


async def test_a_commit_is_repeated_while_the_trouble_passes_and_carries_the_newest_epoch() -> None:
    epochs = iter([3, 3, 4, 5])  # asked once for the group's name, then before each attempt
    tp = TopicPartition("t", 0)
    with Broker() as broker:
        broker.create_topic("t")
        config = ClientConfig(bootstrap_servers=broker.bootstrap_servers, retry_backoff_ms=10)
        async with Cluster(config) as cluster:
            broker.fail("OffsetCommit", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, times=2)
            await commit_offsets(cluster, nobody("g"), {tp: OffsetAndMetadata(2)})
            assert (await fetch_committed(cluster, "g", [tp]))[tp].offset == 2

            stale = broker.fail("OffsetCommit", ErrorCode.STALE_MEMBER_EPOCH, times=2)
            seen: list[int] = []

            def member() -> ConsumerGroupMetadata:
                seen.append(next(epochs))
                return ConsumerGroupMetadata("g")

            await commit_offsets(cluster, member, {tp: OffsetAndMetadata(3)}, by_epoch=True)
            assert stale.hits == 2
            assert seen == [3, 3, 4, 5]

            broker.fail("OffsetCommit", ErrorCode.GROUP_AUTHORIZATION_FAILED)
            with pytest.raises(GroupAuthorizationFailed, match="offset of t-0"):
                await commit_offsets(cluster, nobody("g"), {tp: OffsetAndMetadata(4)})
            assert (await fetch_committed(cluster, "g", [tp]))[tp].offset == 3
