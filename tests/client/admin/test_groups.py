from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from penstock.client import Admin, Consumer, Producer, ResourceType, ShareConsumer, TopicPartition
from penstock.wire.errors import (
    GroupIdNotFound,
    NonEmptyGroup,
)


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
