"""One partition: a copy that knows when it is none."""

from __future__ import annotations

from penstock.client import Producer, TopicPartition
from penstock.mirror.copying import Progress, first_difference
from penstock.records.record import Record
from penstock.testing.broker import Broker
from penstock.wire.errors import ErrorCode
from tests.mirror.conftest import caught_up, mirroring, until
from tests.mirror.test_source import produce

TP = TopicPartition("t", 0)


def record(offset: int, value: bytes = b"v") -> Record:
    return Record(offset, 0, None, value, [])


def test_sides_differ_in_a_record_or_in_one_that_is_missing() -> None:
    three = [record(1), record(2), record(5)]
    assert first_difference(three, list(three), is_compacted=False) is None
    assert first_difference(three, [record(1), record(2, b"w"), record(5)], is_compacted=False) == 2
    assert first_difference(three, [record(1), record(5)], is_compacted=False) == 2
    assert first_difference(three, [*three, record(6)], is_compacted=False) == 6
    assert first_difference(three, three[:2], is_compacted=False) == 5


def test_compaction_may_take_records_but_not_change_them() -> None:
    three = [record(1), record(2), record(5)]
    assert first_difference(three, [record(2), record(7)], is_compacted=True) is None
    assert first_difference(three, [record(2, b"w")], is_compacted=True) == 2


def test_lag_is_not_known_before_the_target_was_looked_at() -> None:
    assert Progress().lag == -1
    assert Progress(end=3, source_end=10).lag == 7


async def test_a_target_with_other_records_is_refused(source: Broker, target: Broker) -> None:
    for broker, start in ((source, 0), (target, 100)):
        broker.create_topic("t")
        await produce(broker, 10, start)
    async with mirroring(source, target) as mirror:
        await until(lambda: mirror.status().problems)
        assert "t-0 holds something else at offset 0" in mirror.status().problems[0]
        assert "Delete the topic at the target" in mirror.status().problems[0]


async def test_a_target_that_is_ahead_is_refused(source: Broker, target: Broker) -> None:
    for broker, count in ((source, 10), (target, 11)):
        broker.create_topic("t")
        await produce(broker, count)
    async with mirroring(source, target) as mirror:
        await until(lambda: mirror.status().problems)
        assert "ends at offset 11 at the target, and at 10 at the source" in mirror.status().problems[0]


async def test_somebody_who_writes_to_the_target_is_found_out(source: Broker, target: Broker) -> None:
    source.create_topic("t")
    source.create_topic("u")
    await produce(source, 10)
    async with mirroring(source, target) as mirror:
        await caught_up(mirror, t=10, u=0)
        async with Producer(bootstrap_servers=target.bootstrap_servers) as producer:
            await producer.send_and_wait("t", b"foreign", partition=0)
        await until(lambda: mirror.status().problems)
        assert "somebody else writes there" in mirror.status().problems[0]
        await produce(source, 5, topic="u")
        await caught_up(mirror, u=5)


async def test_a_foreign_record_in_front_of_the_next_one_stops_the_topic(source: Broker, target: Broker) -> None:
    source.create_topic("t")
    await produce(source, 10)
    async with mirroring(source, target) as mirror:
        await caught_up(mirror, t=10)
        async with Producer(bootstrap_servers=target.bootstrap_servers) as producer:
            await producer.send_and_wait("t", b"foreign", partition=0)
        await produce(source, 10, 10)
        await until(lambda: mirror.status().problems)


async def test_troubles_at_the_target_are_waited_out(source: Broker, target: Broker) -> None:
    source.create_topic("t")
    async with mirroring(source, target) as mirror:
        await caught_up(mirror, t=0)
        for error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS):
            target.fail("Produce", error, times=2)
            target.drop("Produce")
            end = mirror.ends()[TP]
            await produce(source, 50, end)
            await caught_up(mirror, t=end + 50)
        assert mirror.status().problems == []
