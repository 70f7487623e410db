from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from penstock.client import Admin, NewTopic, OffsetSpec, Producer, TopicPartition
from penstock.wire.acls import AclOperation
from penstock.wire.errors import (
    InvalidConfig,
    InvalidPartitions,
    OffsetOutOfRange,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)


async def test_topics_are_created_listed_described_and_deleted(admin: Admin, fresh: Callable[[str], str]) -> None:
    name = fresh("topic")
    await admin.create_topic(name, 3, configs={"retention.ms": "1000"})
    with pytest.raises(TopicAlreadyExists):
        await admin.create_topic(name)
    assert name in [topic.name for topic in await admin.list_topics()]
    described = await admin.describe_topic(name)
    assert sorted(described.partitions) == [0, 1, 2]
    assert len(described.topic_id) == 16
    outcome = await admin.create_partitions({name: 5})
    assert outcome == {name: None}
    assert isinstance((await admin.create_partitions({name: 2}))[name], InvalidPartitions)
    assert (await admin.delete_topics([name])) == {name: None}
    async with asyncio.timeout(20):  # the deletion reaches every broker a little later
        with pytest.raises(UnknownTopicOrPartition):  # noqa: PT012
            while True:
                await admin.describe_topic(name)


async def test_several_topics_at_once_tell_what_went_wrong_with_each(admin: Admin, fresh: Callable[[str], str]) -> None:
    good, bad = fresh("good"), fresh("bad")
    outcome = await admin.create_topics([NewTopic(good, 1), NewTopic(bad, 1, configs={"retention.ms": "soon"})])
    assert outcome[good] is None
    assert isinstance(outcome[bad], InvalidConfig)
    await admin.create_topic(fresh("dry"), 1, validate_only=True)


async def test_records_are_deleted_up_to_an_offset(admin: Admin, topic: str, producer: Producer) -> None:
    for _ in range(10):
        await producer.send(topic, b"v")
    await producer.flush()
    tp = TopicPartition(topic, 0)
    assert await admin.delete_records({tp: 4}) == {tp: 4}
    assert (await admin.list_offsets({tp: OffsetSpec.EARLIEST}))[tp].offset == 4
    assert await admin.delete_records({tp: -1}) == {tp: 10}
    with pytest.raises(OffsetOutOfRange):
        await admin.delete_records({tp: 99})
    sizes = {place: size for folder in await admin.describe_log_dirs() for place, size in folder.sizes.items()}
    assert tp in sizes


async def test_an_election_that_is_not_needed_is_no_failure(admin: Admin, topic: str) -> None:
    await admin.elect_leaders([TopicPartition(topic, 0)])
    with pytest.raises(UnknownTopicOrPartition):
        await admin.elect_leaders([TopicPartition(topic, 9)])


async def test_the_cluster_tells_what_a_user_may_do_to_it_when_asked(admin: Admin) -> None:
    assert (await admin.describe_cluster()).operations is None
    operations = (await admin.describe_cluster(include_operations=True)).operations
    assert operations is not None
    assert AclOperation.DESCRIBE in operations
