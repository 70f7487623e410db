"""Offsets of groups: equal on both sides, never ahead of the records, never of groups that have moved."""

from __future__ import annotations

import pytest

from penstock.client import Admin, Consumer, OffsetAndMetadata, ShareConsumer, TopicPartition
from penstock.mirror.groups import GroupCopy
from penstock.mirror.lease import Lease
from penstock.testing.broker import Broker
from tests.mirror.test_source import produce

TP = TopicPartition("t", 0)
LEFT_OUT = TopicPartition("secret", 0)


@pytest.fixture
async def copy(source: Broker, target: Broker, from_: Admin, to: Admin) -> GroupCopy:
    for broker in (source, target):
        broker.create_topic("t")
        broker.create_topic("secret")
        await produce(broker, 20)
    lease = Lease(to.cluster, "penstock-mirror-x")
    await lease.take()
    return GroupCopy(from_, to, lease, lambda topic: topic == "t")


async def offsets(admin: Admin, group: str) -> dict[TopicPartition, int]:
    return {tp: at.offset for tp, at in (await admin.list_group_offsets(group)).items()}


async def test_offsets_follow_the_source_in_both_directions(copy: GroupCopy, from_: Admin, to: Admin) -> None:
    await from_.alter_group_offsets("g", {TP: OffsetAndMetadata(7, "note"), LEFT_OUT: 3})
    await copy.copy({TP: 20})
    assert (await to.list_group_offsets("g"))[TP][:2] == (7, "note")
    assert await offsets(to, "g") == {TP: 7}
    await from_.alter_group_offsets("g", {TP: 2})
    await copy.copy({TP: 20})
    assert await offsets(to, "g") == {TP: 2}
    assert await copy.differences() == []
    await from_.alter_group_offsets("g", {TP: 3})
    assert await copy.differences() == ["group g: t-0 is at 3 at the source, and at 2 at the target"]


async def test_an_offset_waits_for_its_records(copy: GroupCopy, from_: Admin, to: Admin) -> None:
    await from_.alter_group_offsets("g", {TP: 15})
    await copy.copy({TP: 14})
    assert (copy.held_back, await offsets(to, "g")) == (1, {})
    await copy.copy({TP: 15})
    assert (copy.held_back, await offsets(to, "g")) == (0, {TP: 15})


async def test_groups_and_offsets_that_the_source_deletes_go(copy: GroupCopy, from_: Admin, to: Admin) -> None:
    await from_.alter_group_offsets("g", {TP: 5})
    await from_.alter_group_offsets("h", {TP: 5, LEFT_OUT: 5})
    await to.alter_group_offsets("own", {TP: 5})
    await copy.copy({TP: 20})
    await from_.delete_groups(["g"])
    await from_.delete_group_offsets("h", [TP])
    await copy.copy({TP: 20})
    assert {group.group_id for group in await to.list_groups()} & {"g", "own"} == {"own"}
    assert await offsets(to, "h") == {}


async def test_a_group_that_works_at_the_target_already_is_left_alone(
    copy: GroupCopy, target: Broker, from_: Admin, to: Admin
) -> None:
    await from_.alter_group_offsets("g", {TP: 5})
    async with Consumer(bootstrap_servers=target.bootstrap_servers, group_id="g") as consumer:
        consumer.subscribe(["t"])
        await consumer.poll(timeout_ms=1000)
        await copy.copy({TP: 20})
        assert copy.active == ["g"]
    assert (await offsets(to, "g")).get(TP) != 5


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_members_go_on_at_the_target_where_they_were(
    copy: GroupCopy, source: Broker, target: Broker, protocol: str
) -> None:
    settings = {"group_id": "g", "group_protocol": protocol, "auto_offset_reset": "earliest", "max_poll_records": 8}
    seen: list[int] = []
    for broker in (source, target):
        async with Consumer({"bootstrap.servers": broker.bootstrap_servers, **settings}) as consumer:
            consumer.subscribe(["t"])
            while len(seen) < (8 if broker is source else 20):
                seen += [record.offset for record in await consumer.poll(timeout_ms=1000)]
            await consumer.commit()
        await copy.copy({TP: 20})
    assert seen == list(range(20))


async def test_a_queue_begins_at_the_target_where_it_stood(
    copy: GroupCopy, source: Broker, target: Broker, from_: Admin, to: Admin
) -> None:
    await from_.alter_share_group_offsets("q", {TP: 0})
    settings = {"group_id": "q", "share_acknowledgement_mode": "implicit", "max_poll_records": 5}
    async with ShareConsumer({"bootstrap.servers": source.bootstrap_servers, **settings}) as consumer:
        consumer.subscribe(["t"])
        taken = len(await consumer.poll(timeout_ms=5000))
        await consumer.commit()
    stands = (await from_.list_share_group_offsets("q"))[TP].start_offset
    assert stands == taken > 0
    await copy.copy({TP: 20})
    assert (await to.list_share_group_offsets("q"))[TP].start_offset == stands
    assert await copy.differences() == []
    async with ShareConsumer({"bootstrap.servers": target.bootstrap_servers, **settings}) as consumer:
        consumer.subscribe(["t"])
        assert (await consumer.poll(timeout_ms=5000))[0].offset == stands


async def test_the_mirrors_own_group_is_not_copied(copy: GroupCopy, from_: Admin, to: Admin) -> None:
    await from_.alter_group_offsets("penstock-mirror-y", {TP: 5})
    await copy.copy({TP: 20})
    assert await to.list_groups() == []
