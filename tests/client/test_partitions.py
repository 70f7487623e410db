"""Plain pairs are partitions, in every call that takes one; anything else is refused at once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.client import Admin, Consumer, OffsetSpec, Producer, TopicPartition, UsageError, sync
from penstock.client.partitions import keyed_by_partition, partition_of, partitions_of, whole_offsets
from penstock.client.types import OffsetAndMetadata
from penstock.testing.broker import Broker
from penstock.wire.errors import KafkaError

TP = TopicPartition("t", 0)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as it:
        it.create_topic("t", 2)
        yield it


@pytest.mark.parametrize("given", [TP, ("t", 0), ["t", 0]])
def test_a_pair_is_a_partition(given: TopicPartition) -> None:
    assert partition_of(given) == TP
    assert type(partition_of(given)) is TopicPartition


@pytest.mark.parametrize(
    "given", ["t-0", "t0", ("t",), (0, "t"), ("t", "0"), ("t", 0, 1), ("t", -1), None, 7, [TP, TP]]
)
def test_what_is_no_partition_is_refused_with_what_to_pass(given: TopicPartition) -> None:
    with pytest.raises(UsageError, match=r"is not a partition; pass TopicPartition\('orders', 0\) or \('orders', 0\)"):
        partition_of(given)


def test_one_partition_is_not_taken_for_a_list() -> None:
    with pytest.raises(UsageError, match=r"pass \[\('t', 0\)\]"):
        partitions_of(("t", 0))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="one partition where a list"):
        partitions_of(TP)  # type: ignore[arg-type]


def test_mappings_are_keyed_by_partitions() -> None:
    assert keyed_by_partition({("t", 0): 1, TopicPartition("t", 1): 2}) == {TP: 1, ("t", 1): 2}
    assert all(type(tp) is TopicPartition for tp in keyed_by_partition({("t", 0): 1}))
    assert whole_offsets({("t", 0): 5}) == {TP: OffsetAndMetadata(5)}


async def test_every_call_of_a_consumer_takes_pairs(broker: Broker) -> None:
    async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(5):
            await producer.send_and_wait("t", b"%d" % number, partition=0)
    async with Consumer(bootstrap_servers=broker.bootstrap_servers, group_id="g") as consumer:
        consumer.assign([("t", 0), ("t", 1)])
        consumer.pause(("t", 1))
        assert consumer.paused() == {("t", 1)}
        consumer.resume(("t", 1))
        consumer.seek_to_beginning(("t", 0))
        assert await consumer.position(("t", 0)) == 0
        consumer.seek_to_end(("t", 0))
        assert await consumer.position(("t", 0)) == 5
        consumer.seek(("t", 0), 3)
        assert [record.offset for record in await consumer.poll(20_000)] == [3, 4]
        assert consumer.current_lag(("t", 0)) == 0
        assert await consumer.beginning_offsets([("t", 0)]) == {TP: 0}
        assert await consumer.end_offsets([("t", 0)]) == {TP: 5}
        found = await consumer.offsets_for_times({("t", 0): 0})
        assert [(type(tp), place and place.offset) for tp, place in found.items()] == [(TopicPartition, 0)]
        await consumer.commit({("t", 0): 4})
        await consumer.commit_async({("t", 1): OffsetAndMetadata(0, "note")})
        committed = await consumer.committed([("t", 0), ("t", 1)])
        assert {tp: offset and offset.offset for tp, offset in committed.items()} == {TP: 4, ("t", 1): 0}


async def test_offsets_of_a_transaction_take_pairs(broker: Broker) -> None:
    async with Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="x") as producer:
        async with producer.transaction():
            await producer.send_offsets_to_transaction({("t", 0): 7}, "g")
        producer.begin_transaction()
        with pytest.raises(UsageError, match="is not a partition"):
            await producer.send_offsets_to_transaction({"t-0": 7}, "g")  # type: ignore[type-var]
        await producer.abort_transaction()
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        assert (await admin.list_group_offsets("g", [("t", 0)]))[TP].offset == 7


def test_offsets_of_a_blocking_producers_transaction_take_pairs(broker: Broker) -> None:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "x"}
    with sync.Producer(settings) as producer, producer.transaction():
        producer.send_offsets_to_transaction({("t", 0): 7}, "g")
    with sync.Consumer(bootstrap_servers=broker.bootstrap_servers, group_id="g") as consumer:
        committed = consumer.committed([("t", 0)])[TP]
        assert committed is not None
        assert committed.offset == 7


async def test_every_call_of_an_admin_takes_pairs(broker: Broker) -> None:
    async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        await producer.send_and_wait("t", b"x", partition=0)
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        assert (await admin.list_offsets({("t", 0): OffsetSpec.LATEST}))[TP].offset == 1
        assert await admin.delete_records({("t", 0): 1}) == {TP: 1}
        await admin.alter_group_offsets("g", {("t", 0): 1})
        assert list(await admin.list_group_offsets("g", [("t", 0)])) == [TP]
        await admin.delete_group_offsets("g", [("t", 0)])
        await admin.alter_share_group_offsets("s", {("t", 0): 1})
        assert list(await admin.list_share_group_offsets("s", [("t", 0)])) == [TP]
        await admin.elect_leaders([("t", 0)])
        assert list(await admin.describe_producers([("t", 0)])) == [TP]
        with pytest.raises(KafkaError, match="no transaction that began at offset 0 is open"):
            await admin.abort_transaction(("t", 0), 0)
