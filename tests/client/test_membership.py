"""Consumers in groups, both protocols, all assignors; with members of other client libraries too."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from penstock.client import Admin, Consumer, Producer, RebalanceListener, TopicPartition
from penstock.client.assignors import Assignment, Assignor, MemberSubscription
from penstock.client.errors import CommitFailed
from penstock.wire.errors import FencedInstanceId, KafkaError, UnsupportedVersion
from tests.client.old_brokers import without_apis

PROTOCOLS = ["classic", "consumer"]
STRATEGIES = ["range", "roundrobin", "sticky", "cooperative-sticky"]


class Listener(RebalanceListener):
    def __init__(self) -> None:
        self.events: list[tuple[str, list[TopicPartition]]] = []

    async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self.events.append(("assigned", partitions))

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self.events.append(("revoked", partitions))

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        self.events.append(("lost", partitions))


@asynccontextmanager
async def member(
    bootstrap: str, group: str, topics: Sequence[str], listener: RebalanceListener | None = None, **settings: Any
) -> AsyncIterator[Consumer[bytes, bytes]]:
    given = {
        "bootstrap_servers": bootstrap,
        "group_id": group,
        "auto_offset_reset": "earliest",
        "heartbeat_interval_ms": 100,
        **settings,
    }
    async with Consumer(given) as consumer:
        consumer.subscribe(topics, listener=listener)
        yield consumer


async def settle(
    consumers: Sequence[Consumer[bytes, bytes]], done: Callable[[], bool], seconds: float = 30
) -> list[bytes | None]:
    """Poll all consumers until `done`; returns what they read."""
    values: list[bytes | None] = []
    async with asyncio.timeout(seconds):
        while not done():
            for records in await asyncio.gather(*(consumer.poll(100) for consumer in consumers)):
                values += [record.value for record in records]
    return values


async def spread(producer: Producer, topic: str, count: int) -> None:
    """Send so many different values, evenly over four partitions."""
    for number in range(count):
        await producer.send(topic, b"%d" % number, partition=number % 4)
    await producer.flush()


def shares(consumers: Sequence[Consumer[bytes, bytes]]) -> list[int]:
    return sorted(len(consumer.assignment()) for consumer in consumers)


def disjoint(consumers: Sequence[Consumer[bytes, bytes]]) -> bool:
    held = [tp for consumer in consumers for tp in consumer.assignment()]
    return len(held) == len(set(held))


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_two_members_share_the_partitions_and_one_takes_over_when_the_other_leaves(
    bootstrap: str, wide_topic: str, producer: Producer, fresh: Callable[[str], str], protocol: str
) -> None:
    group = fresh("group")
    await spread(producer, wide_topic, 40)
    async with member(bootstrap, group, [wide_topic], group_protocol=protocol) as one:
        read = await settle([one], lambda: shares([one]) == [4])
        async with member(bootstrap, group, [wide_topic], group_protocol=protocol) as two:
            read += await settle([one, two], lambda: shares([one, two]) == [2, 2])
            assert disjoint([one, two])
        read += await settle([one], lambda: shares([one]) == [4])
        async with asyncio.timeout(20):
            while len(set(read)) < 40:
                read += [record.value for record in await one.poll(500)]


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_every_assignor_hands_out_everything_once(
    bootstrap: str, wide_topic: str, fresh: Callable[[str], str], strategy: str
) -> None:
    group = fresh("group")
    async with (
        member(bootstrap, group, [wide_topic], partition_assignment_strategy=strategy) as one,
        member(bootstrap, group, [wide_topic], partition_assignment_strategy=strategy) as two,
        member(bootstrap, group, [wide_topic], partition_assignment_strategy=strategy) as three,
    ):
        await settle([one, two, three], lambda: shares([one, two, three]) == [1, 1, 2])
        assert disjoint([one, two, three])


async def test_a_cooperative_member_keeps_what_it_keeps(
    bootstrap: str, wide_topic: str, fresh: Callable[[str], str]
) -> None:
    group, listener = fresh("group"), Listener()
    settings: dict[str, Any] = {"partition_assignment_strategy": "cooperative-sticky"}
    async with member(bootstrap, group, [wide_topic], listener, **settings) as one:
        await settle([one], lambda: shares([one]) == [4])
        listener.events.clear()
        async with member(bootstrap, group, [wide_topic], **settings) as two:
            await settle([one, two], lambda: shares([one, two]) == [2, 2])
        revoked = [tp for kind, tps in listener.events if kind == "revoked" for tp in tps]
        assert len(revoked) == 2
        assert not set(revoked) & set(one.assignment())


async def test_an_eager_member_gives_everything_up_first(
    bootstrap: str, wide_topic: str, fresh: Callable[[str], str]
) -> None:
    group, listener = fresh("group"), Listener()
    async with member(bootstrap, group, [wide_topic], listener, partition_assignment_strategy="range") as one:
        await settle([one], lambda: shares([one]) == [4])
        async with member(bootstrap, group, [wide_topic], partition_assignment_strategy="range") as two:
            await settle([one, two], lambda: shares([one, two]) == [2, 2])
        kinds = [(kind, len(tps)) for kind, tps in listener.events if tps]
        assert kinds[:3] == [("assigned", 4), ("revoked", 4), ("assigned", 2)]


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_what_was_consumed_is_committed_before_a_partition_moves(
    bootstrap: str, wide_topic: str, producer: Producer, fresh: Callable[[str], str], protocol: str
) -> None:
    group = fresh("group")
    await spread(producer, wide_topic, 100)
    async with member(bootstrap, group, [wide_topic], group_protocol=protocol) as one:
        read: list[bytes | None] = []
        async with asyncio.timeout(20):
            while len(read) < 100:
                read += [record.value for record in await one.poll(500)]
        async with member(bootstrap, group, [wide_topic], group_protocol=protocol) as two:
            again = await settle([one, two], lambda: shares([one, two]) == [2, 2])
            again += [record.value for record in await two.poll(300)]
    assert again == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_pattern_follows_topics_as_they_come(
    bootstrap: str, admin: Admin, fresh: Callable[[str], str], protocol: str
) -> None:
    prefix = fresh("pattern")
    await admin.create_topic(f"{prefix}.a", 1)
    async with Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": fresh("group"),
            "group.protocol": protocol,
            "heartbeat.interval.ms": 100,
            "metadata.max.age.ms": 200,
        }
    ) as consumer:
        consumer.subscribe(re.compile(re.escape(prefix) + r"\..*"))
        await settle([consumer], lambda: shares([consumer]) == [1])
        await admin.create_topic(f"{prefix}.b", 2)
        await settle([consumer], lambda: shares([consumer]) == [3])


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_new_partitions_are_picked_up(
    bootstrap: str, admin: Admin, topic: str, fresh: Callable[[str], str], protocol: str
) -> None:
    settings: dict[str, Any] = {"group_protocol": protocol, "metadata_max_age_ms": 200}
    async with member(bootstrap, fresh("group"), [topic], **settings) as consumer:
        await settle([consumer], lambda: shares([consumer]) == [1])
        await admin.create_partitions({topic: 3})
        await settle([consumer], lambda: shares([consumer]) == [3])


async def test_a_static_member_comes_back_to_its_partitions_without_a_rebalance(
    bootstrap: str, wide_topic: str, fresh: Callable[[str], str]
) -> None:
    group, listener = fresh("group"), Listener()
    async with member(bootstrap, group, [wide_topic], listener, group_instance_id="one") as one:
        async with member(bootstrap, group, [wide_topic], group_instance_id="two") as two:
            await settle([one, two], lambda: shares([one, two]) == [2, 2])
            before = set(two.assignment())
        listener.events.clear()
        async with member(bootstrap, group, [wide_topic], group_instance_id="two") as two:
            await settle([one, two], lambda: shares([one, two]) == [2, 2])
            assert set(two.assignment()) == before
        assert listener.events == []


async def test_a_second_static_member_of_the_same_name_fences_the_first(
    bootstrap: str, wide_topic: str, fresh: Callable[[str], str]
) -> None:
    group = fresh("group")
    async with member(bootstrap, group, [wide_topic], group_instance_id="x") as one:
        await settle([one], lambda: shares([one]) == [4])
        async with member(bootstrap, group, [wide_topic], group_instance_id="x") as two:
            await settle([two], lambda: shares([two]) == [4])
            with pytest.raises(FencedInstanceId, match="group_instance_id 'x'"):
                await settle([one], lambda: False)


async def test_a_static_member_of_the_new_protocol_comes_back(
    bootstrap: str, wide_topic: str, fresh: Callable[[str], str]
) -> None:
    group = fresh("group")
    settings: dict[str, Any] = {"group_protocol": "consumer", "group_instance_id": "x"}
    async with member(bootstrap, group, [wide_topic], **settings) as one:
        await settle([one], lambda: shares([one]) == [4])
    async with member(bootstrap, group, [wide_topic], **settings) as one:
        await settle([one], lambda: shares([one]) == [4])


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_heartbeats_keep_going_while_a_handler_is_slow(
    bootstrap: str, wide_topic: str, fresh: Callable[[str], str], protocol: str
) -> None:
    settings: dict[str, Any] = {"group_protocol": protocol, "session_timeout_ms": 600}
    listener = Listener()
    async with member(bootstrap, fresh("group"), [wide_topic], listener, **settings) as consumer:
        await settle([consumer], lambda: shares([consumer]) == [4])
        listener.events.clear()
        await asyncio.sleep(1.5)  # the handler: more than two session timeouts
        await consumer.poll(300)
        assert listener.events == []
        assert shares([consumer]) == [4]


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_member_that_stops_polling_loses_its_place_and_gets_it_back(
    bootstrap: str, wide_topic: str, fresh: Callable[[str], str], protocol: str
) -> None:
    group, listener = fresh("group"), Listener()
    settings: dict[str, Any] = {"group_protocol": protocol, "max_poll_interval_ms": 500}
    async with member(bootstrap, group, [wide_topic], listener, **settings) as slow:
        await settle([slow], lambda: shares([slow]) == [4])
        async with member(bootstrap, group, [wide_topic], group_protocol=protocol) as quick:
            await settle([quick], lambda: shares([quick]) == [4])
            with pytest.raises(KafkaError):
                await slow.commit({TopicPartition(wide_topic, 0): 1})
        await settle([slow], lambda: ("lost" in dict(listener.events)) and shares([slow]) == [4])


async def test_a_commit_of_a_generation_that_is_over_says_so(
    bootstrap: str, wide_topic: str, fresh: Callable[[str], str]
) -> None:
    group = fresh("group")
    settings: dict[str, Any] = {"max_poll_interval_ms": 500, "enable_auto_commit": False}
    async with member(bootstrap, group, [wide_topic], **settings) as slow:
        await settle([slow], lambda: shares([slow]) == [4])
        async with member(bootstrap, group, [wide_topic]) as quick:
            await settle([quick], lambda: shares([quick]) == [4])
            with pytest.raises(CommitFailed, match="max_poll_interval_ms"):
                await slow.commit({TopicPartition(wide_topic, 0): 1})


class EverythingToTheFirst(Assignor):
    name = "everything-to-the-first"

    def assign(self, partitions: dict[str, int], members: dict[str, MemberSubscription]) -> Assignment:  # type: ignore[override]
        first = min(members)
        everything = [TopicPartition(topic, n) for topic, count in partitions.items() for n in range(count)]
        return {name: everything if name == first else [] for name in members}


async def test_an_assignor_of_ones_own_is_used(
    bootstrap: str, admin: Admin, wide_topic: str, fresh: Callable[[str], str]
) -> None:
    group = fresh("group")
    config = {"bootstrap.servers": bootstrap, "group.id": group, "heartbeat.interval.ms": 100}
    async with (
        Consumer(config, assignors=[EverythingToTheFirst()]) as one,
        Consumer(config, assignors=[EverythingToTheFirst()]) as two,
    ):
        one.subscribe([wide_topic])
        two.subscribe([wide_topic])
        await settle([one, two], lambda: shares([one, two]) == [0, 4])
        assert (await admin.describe_group(group)).assignor == "everything-to-the-first"


async def test_unsubscribing_leaves_the_group(bootstrap: str, wide_topic: str, fresh: Callable[[str], str]) -> None:
    group = fresh("group")
    async with (
        member(bootstrap, group, [wide_topic]) as one,
        member(bootstrap, group, [wide_topic]) as two,
    ):
        await settle([one, two], lambda: shares([one, two]) == [2, 2])
        await two.unsubscribe()
        assert two.assignment() == []
        await settle([one], lambda: shares([one]) == [4])
        two.subscribe([wide_topic])
        await settle([one, two], lambda: shares([one, two]) == [2, 2])


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
async def test_members_of_librdkafka_and_of_ours_rebalance_together(
    bootstrap: str, wide_topic: str, fresh: Callable[[str], str], strategy: str
) -> None:
    confluent = pytest.importorskip("confluent_kafka")
    group = fresh("group")
    other = confluent.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "partition.assignment.strategy": strategy,
            "heartbeat.interval.ms": 100,
            "session.timeout.ms": 6000,
        }
    )
    held: list[object] = []
    other.subscribe([wide_topic])

    def poll_other() -> None:
        other.poll(0.1)
        held[:] = other.assignment()

    try:
        async with member(bootstrap, group, [wide_topic], partition_assignment_strategy=strategy) as ours:
            async with asyncio.timeout(30):
                while len(held) != 2 or shares([ours]) != [2]:
                    await asyncio.gather(asyncio.to_thread(poll_other), ours.poll(100))
            theirs = {TopicPartition(tp.topic, tp.partition) for tp in held}  # type: ignore[attr-defined]
            assert not theirs & set(ours.assignment())
        async with asyncio.timeout(30):
            while len(held) != 4:
                await asyncio.to_thread(poll_other)
    finally:
        await asyncio.to_thread(other.close)


async def test_a_broker_without_the_new_protocol_is_said_so(
    bootstrap: str, wide_topic: str, fresh: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    without_apis(monkeypatch, 68)
    async with member(bootstrap, fresh("group"), [wide_topic], group_protocol="consumer") as consumer:
        with pytest.raises(UnsupportedVersion, match="use group_protocol='classic'"):
            await settle([consumer], lambda: False)
