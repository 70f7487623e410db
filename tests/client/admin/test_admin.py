from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from penstock.client import Admin, Consumer, NewTopic, OffsetSpec, Producer, ResourceType, ShareConsumer, TopicPartition
from penstock.client.errors import UsageError
from penstock.wire.errors import (
    GroupIdNotFound,
    InvalidConfig,
    InvalidPartitions,
    NonEmptyGroup,
    OffsetOutOfRange,
    SecurityDisabled,
    TopicAlreadyExists,
    TransactionalIdNotFound,
    UnknownTopicOrPartition,
    UnsupportedVersion,
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


async def test_configs_are_set_and_taken_back(admin: Admin, topic: str) -> None:
    before = (await admin.describe_configs(ResourceType.TOPIC, topic))["retention.ms"]
    await admin.alter_configs(ResourceType.TOPIC, topic, {"retention.ms": "12345"})
    changed = await admin.describe_configs(ResourceType.TOPIC, topic, ["retention.ms"])
    assert list(changed) == ["retention.ms"]
    assert changed["retention.ms"].value == "12345"
    assert not changed["retention.ms"].is_default
    await admin.alter_configs(ResourceType.TOPIC, topic, {"retention.ms": None})
    assert (await admin.describe_configs(ResourceType.TOPIC, topic))["retention.ms"] == before
    with pytest.raises(InvalidConfig):
        await admin.alter_configs(ResourceType.TOPIC, topic, {"retention.ms": "soon"})
    with pytest.raises(UsageError):
        await admin.alter_configs(ResourceType.TOPIC, topic, {})


async def test_the_cluster_its_brokers_and_their_configs_are_described(admin: Admin) -> None:
    cluster = await admin.describe_cluster()
    assert cluster.cluster_id
    assert cluster.controller in {node.node_id for node in cluster.nodes}
    broker = str(cluster.nodes[0].node_id)
    configs = await admin.describe_configs(ResourceType.BROKER, broker)
    assert "num.partitions" in configs
    with pytest.raises(UsageError, match="node id"):
        await admin.describe_configs(ResourceType.BROKER, "first")
    assert (ResourceType.BROKER, broker) in await admin.list_config_resources()


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


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_groups_are_listed_described_and_deleted(
    admin: Admin, bootstrap: str, wide_topic: str, fresh: Callable[[str], str], protocol: str
) -> None:
    name, tp = fresh("group"), TopicPartition(wide_topic, 1)
    async with Consumer(
        {"bootstrap.servers": bootstrap, "group.id": name, "group.protocol": protocol, "client.id": "me"}
    ) as consumer:
        consumer.subscribe([wide_topic])
        async with asyncio.timeout(20):
            while len(consumer.assignment()) < 4:
                await consumer.poll(100)
        await consumer.commit({tp: 0})
        listed = {group.group_id: group for group in await admin.list_groups()}[name]
        assert listed.type.lower() == protocol
        described = await admin.describe_group(name)
        assert described.type.lower() == protocol
        (member,) = described.members
        assert member.client_id == "me"
        assert member.assignment == sorted(consumer.assignment())
        assert member.topics == [wide_topic]
        assert isinstance((await admin.delete_groups([name]))[name], NonEmptyGroup)
    await admin.alter_group_offsets(name, {tp: 7, TopicPartition(wide_topic, 2): 8})
    offsets = await admin.list_group_offsets(name)
    assert {place.partition: found.offset for place, found in offsets.items() if place.partition in (1, 2)} == {
        1: 7,
        2: 8,
    }
    await admin.delete_group_offsets(name, [tp])
    assert tp not in await admin.list_group_offsets(name)
    assert await admin.delete_groups([name]) == {name: None}
    with pytest.raises(GroupIdNotFound):
        await admin.describe_group(name)


async def test_groups_are_listed_by_type_and_state(admin: Admin, topic: str, fresh: Callable[[str], str]) -> None:
    name = fresh("simple")
    await admin.alter_group_offsets(name, {TopicPartition(topic, 0): 0})
    assert name in [group.group_id for group in await admin.list_groups(types=["classic"], states=["Empty"])]
    assert name not in [group.group_id for group in await admin.list_groups(types=["share"])]


async def test_static_members_are_removed(
    admin: Admin, bootstrap: str, topic: str, fresh: Callable[[str], str]
) -> None:
    name = fresh("group")
    async with Consumer(bootstrap_servers=bootstrap, group_id=name, group_instance_id="one") as consumer:
        consumer.subscribe([topic])
        async with asyncio.timeout(20):
            while not consumer.assignment():
                await consumer.poll(100)
    assert [member.group_instance_id for member in (await admin.describe_group(name)).members] == ["one"]
    await admin.remove_members(name, ["one"])
    assert (await admin.describe_group(name)).members == []


async def test_share_groups_are_described_and_their_offsets_moved(
    admin: Admin, bootstrap: str, topic: str, producer: Producer, fresh: Callable[[str], str]
) -> None:
    name, tp = fresh("share"), TopicPartition(topic, 0)
    await admin.alter_configs(ResourceType.GROUP, name, {"share.auto.offset.reset": "earliest"})
    for _ in range(5):
        await producer.send(topic, b"v")
    await producer.flush()
    async with ShareConsumer(bootstrap_servers=bootstrap, group_id=name) as worker:
        worker.subscribe([topic])
        async with asyncio.timeout(20):
            while not await worker.poll(1000):
                continue
        await worker.commit()
        described = await admin.describe_group(name)
        assert (described.type, described.state, len(described.members)) == ("Share", "Stable", 1)
        assert described.members[0].assignment == [tp]
    async with asyncio.timeout(20):
        while (await admin.list_share_group_offsets(name))[tp].lag != 0:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    await admin.alter_share_group_offsets(name, {tp: 2})
    assert (await admin.list_share_group_offsets(name, [tp]))[tp].start_offset == 2
    await admin.delete_share_group_offsets(name, [topic])
    assert await admin.delete_groups([name]) == {name: None}


async def test_transactions_are_listed_described_and_their_producers_fenced(
    admin: Admin, bootstrap: str, topic: str, fresh: Callable[[str], str]
) -> None:
    name, tp = fresh("tx"), TopicPartition(topic, 0)
    with pytest.raises(TransactionalIdNotFound):
        await admin.describe_transaction(name)
    async with Producer(bootstrap_servers=bootstrap, transactional_id=name) as producer:
        producer.begin_transaction()
        await producer.send_and_wait(topic, b"open")
        described = await admin.describe_transaction(name)
        assert (described.state, described.partitions) == ("Ongoing", [tp])
        assert name in [listing.transactional_id for listing in await admin.list_transactions(states=["Ongoing"])]
        (state,) = (await admin.describe_producers([tp]))[tp]
        assert (state.producer_id, state.current_transaction_start_offset) == (described.producer_id, 0)
        await admin.fence_producers(name)
        async with asyncio.timeout(20):
            while (await admin.describe_producers([tp]))[tp][0].current_transaction_start_offset >= 0:  # noqa: ASYNC110
                await asyncio.sleep(0.02)


async def test_acls_need_an_authorizer(admin: Admin) -> None:
    with pytest.raises((SecurityDisabled, UnsupportedVersion)):
        await admin.describe_acls()
