"""Transactions whose coordinator, partitions and group are on three different brokers, with real clients."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

import confluent_kafka
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from penstock.broker.topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from penstock.catalog.contract import replaced_by
from tests.broker.hand_made_cluster import HandMadeCluster

T = TypeVar("T")
WAIT_SECONDS = 60.0
COORDINATOR, RECORDS, OFFSETS = 1, 2, 3


def apart(topic: str, index: int) -> int:
    """The coordinators of transactions on one broker, records on the next, offsets on the third."""
    return {TRANSACTIONS_TOPIC: COORDINATOR, OFFSETS_TOPIC: OFFSETS}.get(topic, RECORDS)


def spread(topic: str, index: int) -> int:
    return 1 + index % 3


async def run(work: Callable[[], T]) -> T:
    return await asyncio.wait_for(asyncio.to_thread(work), WAIT_SECONDS)


def producer(cluster: HandMadeCluster, transactional_id: str = "shop", **settings: object) -> Producer:
    return Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "transactional.id": transactional_id,
            "retry.backoff.ms": 20,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            **settings,
        }
    )


def read(cluster: HandMadeCluster, topic: str, expected: int, partitions: int = 3) -> list[bytes]:
    """All committed records, when there are as many as expected."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "judge",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    found: list[bytes] = []
    ended: set[int] = set()
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline and not (len(found) >= expected and len(ended) == partitions):
        message = consumer.poll(0.2)
        if message is None:
            continue
        error = message.error()
        if error is None:
            value = message.value()
            assert value is not None
            found.append(value)
            ended.discard(message.partition() or 0)
        elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
            ended.add(message.partition() or 0)
    consumer.close()
    return sorted(found)


def transaction(client: Producer, name: str, *, commit: bool = True) -> None:
    client.begin_transaction()
    for index in range(3):
        client.produce("orders", f"{name}-{index}".encode(), partition=index)
    client.flush(WAIT_SECONDS)
    if commit:
        client.commit_transaction(WAIT_SECONDS)
    else:
        client.abort_transaction(WAIT_SECONDS)


async def test_a_transaction_is_whole_when_its_coordinator_and_its_records_are_on_different_brokers() -> None:
    async with HandMadeCluster(apart, {"orders": 3}) as cluster:

        def work() -> list[bytes]:
            client = producer(cluster)
            client.init_transactions(WAIT_SECONDS)
            transaction(client, "first")
            transaction(client, "second", commit=False)
            transaction(client, "third")
            return read(cluster, "orders", 6)

        expected = sorted(f"{name}-{index}".encode() for name in ("first", "third") for index in range(3))
        assert await run(work) == expected


async def test_the_classic_protocol_is_verified_by_the_coordinator_elsewhere() -> None:
    """Without transaction.version=2 the broker of the records asks whether the partition was added."""
    made = HandMadeCluster(apart, {"orders": 3})
    made.catalog.change_features(replaced_by({"transaction.version": 1}))
    async with made as cluster:

        def work() -> list[bytes]:
            client = producer(cluster)
            client.init_transactions(WAIT_SECONDS)
            transaction(client, "one")
            transaction(client, "two", commit=False)
            return read(cluster, "orders", 3)

        assert await run(work) == [b"one-0", b"one-1", b"one-2"]


async def test_offsets_of_a_group_elsewhere_are_committed_with_the_transaction() -> None:
    async with HandMadeCluster(apart, {"orders": 3, "bills": 3}) as cluster:

        def committed(consumer: Consumer) -> int:
            return consumer.committed([TopicPartition("orders", 0)], timeout=WAIT_SECONDS)[0].offset

        def work() -> tuple[int, int]:
            client = producer(cluster)
            consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "billing"})
            client.init_transactions(WAIT_SECONDS)
            client.begin_transaction()
            client.produce("bills", b"1", partition=0)
            client.send_offsets_to_transaction(
                [TopicPartition("orders", 0, 5)], consumer.consumer_group_metadata(), WAIT_SECONDS
            )
            client.abort_transaction(WAIT_SECONDS)
            aborted = committed(consumer)
            client.begin_transaction()
            client.produce("bills", b"2", partition=0)
            client.send_offsets_to_transaction(
                [TopicPartition("orders", 0, 7)], consumer.consumer_group_metadata(), WAIT_SECONDS
            )
            client.commit_transaction(WAIT_SECONDS)
            after = committed(consumer)
            consumer.close()
            return aborted, after

        assert await run(work) == (confluent_kafka.OFFSET_INVALID, 7)


async def test_markers_reach_a_broker_that_is_away_while_the_transaction_commits() -> None:
    async with HandMadeCluster(apart, {"orders": 3}) as cluster:
        client = await run(lambda: producer(cluster))
        await run(lambda: client.init_transactions(WAIT_SECONDS))

        def begin() -> None:
            client.begin_transaction()
            for index in range(3):
                client.produce("orders", b"%d" % index, partition=index)
            assert client.flush(WAIT_SECONDS) == 0

        await run(begin)
        await cluster.kill(RECORDS)
        await run(lambda: client.commit_transaction(WAIT_SECONDS))
        await asyncio.sleep(0.5)  # markers are tried again several times
        await cluster.start(RECORDS)
        assert await run(lambda: read(cluster, "orders", 3)) == [b"0", b"1", b"2"]


async def test_a_coordinator_that_dies_after_its_decision_completes_the_transaction_when_it_is_back() -> None:
    async with HandMadeCluster(apart, {"orders": 3}) as cluster:
        client = await run(lambda: producer(cluster))
        await run(lambda: client.init_transactions(WAIT_SECONDS))

        def begin() -> None:
            client.begin_transaction()
            for index in range(3):
                client.produce("orders", b"%d" % index, partition=index)
            assert client.flush(WAIT_SECONDS) == 0

        await run(begin)
        await cluster.kill(RECORDS)
        await run(lambda: client.commit_transaction(WAIT_SECONDS))
        await cluster.kill(COORDINATOR)
        await cluster.start(RECORDS)
        await cluster.start(COORDINATOR)
        assert await run(lambda: read(cluster, "orders", 3)) == [b"0", b"1", b"2"]


async def test_twenty_transactions_at_once_over_three_brokers_lose_nothing_while_one_restarts() -> None:
    async with HandMadeCluster(spread, {"orders": 3}) as cluster:

        def work(number: int) -> list[bytes]:
            client = producer(cluster, f"shop-{number}")
            client.init_transactions(WAIT_SECONDS)
            committed: list[bytes] = []
            for index in range(10):
                name = f"{number:02}-{index:02}"
                try:
                    transaction(client, name, commit=index % 3 != 2)
                except KafkaException as failed:
                    error = failed.args[0]
                    if error.txn_requires_abort():
                        client.abort_transaction(WAIT_SECONDS)
                        continue
                    raise
                if index % 3 != 2:
                    committed += [f"{name}-{each}".encode() for each in range(3)]
            return committed

        async def restart() -> None:
            await asyncio.sleep(0.3)
            await cluster.kill(2)
            await asyncio.sleep(0.3)
            await cluster.start(2)

        results, _ = await asyncio.gather(asyncio.gather(*(run(lambda n=n: work(n)) for n in range(8))), restart())  # type: ignore[misc]
        expected = sorted(value for result in results for value in result)
        assert len(expected) > 0
        assert await run(lambda: read(cluster, "orders", len(expected))) == expected


async def test_no_broker_sweeps_for_orphans_of_others() -> None:
    """A broker that starts holds open transactions of which it knows no coordinator: they are not its to abort."""
    async with HandMadeCluster(apart, {"orders": 3}) as cluster:
        client = await run(lambda: producer(cluster))
        await run(lambda: client.init_transactions(WAIT_SECONDS))

        def begin() -> None:
            client.begin_transaction()
            client.produce("orders", b"kept", partition=0)
            assert client.flush(WAIT_SECONDS) == 0

        await run(begin)
        await cluster.kill(RECORDS)
        await cluster.start(RECORDS)
        log = cluster.parts(RECORDS).cluster.hosted("orders", 0).log
        await asyncio.sleep(0.2)
        assert [each.has_open_transaction for each in log.active_producers()] == [True]
        await run(lambda: client.commit_transaction(WAIT_SECONDS))
        assert await run(lambda: read(cluster, "orders", 1, partitions=1)) == [b"kept"]
