"""Share groups whose coordinator, states, records and dead letters are on different brokers, with a real client."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path

from penstock.broker.server import Broker
from penstock.broker.share.coordinator import coordinator_key
from penstock.broker.topics import SHARE_STATE_TOPIC
from penstock.client import AcknowledgeType, Admin, Consumer, Producer, ResourceType, ShareConsumer
from penstock.client.types import ConsumerRecord
from tests.broker.test_shared_catalog import pair, start, until

PARTITIONS = 4
GROUPS = ("g1", "g2")
Record = ConsumerRecord[bytes, bytes]


async def prepare(admin: Admin, groups: Iterable[str], configs: dict[str, str] | None = None) -> None:
    for group in groups:
        await admin.alter_configs(
            ResourceType.GROUP,
            group,
            {"share.auto.offset.reset": "earliest", **(configs or {})},
        )


async def send(bootstrap: str, values: Sequence[bytes]) -> None:
    async with Producer(bootstrap_servers=bootstrap) as producer:
        for number, value in enumerate(values):
            await producer.send("jobs", value, partition=number % PARTITIONS)


def worker(bootstrap: str, group: str) -> ShareConsumer[bytes, bytes]:
    return ShareConsumer({"bootstrap.servers": bootstrap, "group.id": group, "share.acknowledgement.mode": "explicit"})


async def work(
    consumer: ShareConsumer[bytes, bytes], count: int, decision: AcknowledgeType = AcknowledgeType.ACCEPT
) -> list[Record]:
    """The records whose decision was confirmed, when there are as many as expected."""
    done: list[Record] = []
    consumer.subscribe(["jobs"])
    async with asyncio.timeout(60):
        while len(done) < count:
            records = await consumer.poll(500)
            for record in records:
                consumer.acknowledge(record, decision)
            confirmed = {partition for partition, error in (await consumer.commit()).items() if error is None}
            done += [record for record in records if (record.topic, record.partition) in confirmed]
    return done


def kept_apart(broker: Broker, group: str) -> list[int]:
    """The share-partitions whose states are kept by another broker than the one that leads the records."""
    cluster, topic = broker.parts.cluster, broker.parts.cluster.topic("jobs")
    runtime = broker.parts.share_groups.coordinator.runtime
    apart = []
    for index in range(PARTITIONS):
        state_partition = runtime.partition_for(coordinator_key((group, topic.topic_id, index)))
        keeper = cluster.leader(cluster.topic(SHARE_STATE_TOPIC), state_partition)
        leader = cluster.leader(topic, index)
        assert keeper is not None
        assert leader is not None
        if keeper.node_id != leader.node_id:
            apart.append(index)
    return apart


async def test_every_record_is_worked_on_once_wherever_its_state_is_kept(tmp_path: Path) -> None:
    async with pair(tmp_path) as (one, two), Admin(bootstrap_servers=one.bootstrap) as admin:
        await until(lambda: one.parts.cluster.node_ids == two.parts.cluster.node_ids == [1, 2])
        one.parts.topics.create("jobs", PARTITIONS, {})
        await prepare(admin, GROUPS)
        values = [b"%d" % number for number in range(80)]
        await send(two.bootstrap, values)
        for group in GROUPS:
            async with worker(two.bootstrap, group) as consumer:
                found = await work(consumer, len(values))
                assert sorted(record.value or b"" for record in found) == sorted(values)
                assert {record.delivery_count for record in found} == {1}
            offsets = await admin.list_share_group_offsets(group)
            assert {(each.start_offset, each.lag) for each in offsets.values()} == {(20, 0)}
            assert len(offsets) == PARTITIONS
        assert any(kept_apart(one, group) for group in GROUPS)
        await admin.alter_share_group_offsets("g1", {("jobs", index): 15 for index in range(PARTITIONS)})
        async with worker(one.bootstrap, "g1") as consumer:
            again = await work(consumer, 5 * PARTITIONS)
        assert {record.offset for record in again} == set(range(15, 20))
        await admin.delete_share_group_offsets("g2", ["jobs"])
        assert await admin.list_share_group_offsets("g2") == {}


async def test_a_record_whose_acceptance_was_confirmed_never_comes_again_though_brokers_stop(tmp_path: Path) -> None:
    started = {node_id: await start(tmp_path, node_id) for node_id in (1, 2)}
    try:
        one = started[1][0]
        await until(lambda: one.parts.cluster.node_ids == [1, 2])
        one.parts.topics.create("jobs", PARTITIONS, {})
        async with Admin(bootstrap_servers=one.bootstrap) as admin:
            await prepare(admin, GROUPS, {"share.record.lock.duration.ms": "15000"})
        values = [b"%d" % number for number in range(200)]
        await send(one.bootstrap, values)
        settings = {"share.acknowledgement.mode": "explicit", "max.poll.records": 10}
        for group, stopped in zip(GROUPS, (2, 1), strict=True):
            bootstrap = ",".join(broker.bootstrap for broker, _ in started.values())
            accepted: list[Record] = []
            unknown: set[bytes] = set()  # values that may have been accepted, although nobody could say so
            consumer = ShareConsumer({"bootstrap.servers": bootstrap, "group.id": group, **settings})

            async def restart(stopped: int = stopped, accepted: list[Record] = accepted) -> None:
                await until(lambda: len(accepted) > 30)
                broker, serving = started[stopped]
                broker.stop()
                await asyncio.wait_for(serving, 30)
                started[stopped] = await start(tmp_path, stopped)

            async with consumer:
                consumer.subscribe(["jobs"])
                restarting = asyncio.create_task(restart())
                async with asyncio.timeout(100):
                    while len({record.value for record in accepted} | unknown) < len(values):
                        records = await consumer.poll(200)
                        for record in records:
                            consumer.accept(record)
                        outcome = await consumer.commit()
                        confirmed = {partition for partition, error in outcome.items() if error is None}
                        accepted += [record for record in records if (record.topic, record.partition) in confirmed]
                        unknown |= {
                            record.value or b""
                            for record in records
                            if (record.topic, record.partition) not in confirmed
                        }
                await restarting
            found = sorted(record.value or b"" for record in accepted)
            assert found == sorted(set(found)), "what was confirmed comes again"
            assert {*found} | unknown == {*values}
    finally:
        for broker, serving in started.values():
            broker.stop()
            await asyncio.wait_for(serving, 30)


async def test_each_rejected_record_has_one_letter_in_a_topic_that_another_broker_leads(tmp_path: Path) -> None:
    async with pair(tmp_path) as (one, two), Admin(bootstrap_servers=one.bootstrap) as admin:
        await until(lambda: one.parts.cluster.node_ids == two.parts.cluster.node_ids == [1, 2])
        one.parts.topics.create("jobs", PARTITIONS, {})
        one.parts.topics.create("dlq.jobs", 1, {"errors.deadletterqueue.group.enable": "true"})
        await prepare(admin, ["g1"], {"errors.deadletterqueue.topic.name": "dlq.jobs"})
        await send(one.bootstrap, [b"%d" % number for number in range(20)])
        async with worker(one.bootstrap, "g1") as consumer:
            await work(consumer, 20, AcknowledgeType.REJECT)
        found: list[Record] = []
        async with Consumer(bootstrap_servers=one.bootstrap) as reader, asyncio.timeout(30):
            reader.assign([("dlq.jobs", 0)])
            reader.seek_to_beginning(("dlq.jobs", 0))
            while len(found) < 20:
                found += await reader.poll(500)
            found += await reader.poll(200)
        headers = [dict(record.headers) for record in found]
        places = [(each["__dlq.errors.partition"], each["__dlq.errors.offset"]) for each in headers]
        assert sorted(places) == sorted((b"%d" % index, b"%d" % offset) for index in range(4) for offset in range(5))
        offsets = await admin.list_share_group_offsets("g1")
        assert {(each.start_offset, each.lag) for each in offsets.values()} == {(5, 0)}
