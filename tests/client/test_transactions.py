from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from penstock.client import Consumer, OffsetAndMetadata, Producer, TopicPartition, UsageError
from penstock.client.cluster import Cluster
from penstock.client.errors import IllegalState
from penstock.client.transactions import State, TransactionalIdentity
from penstock.client.types import ConsumerRecord
from penstock.wire.errors import InvalidRecord, KafkaError, ProducerFenced


async def read(bootstrap: str, topic: str, isolation: str) -> list[bytes | None]:
    """Everything up to the end, as a reader of that isolation level sees it."""
    settings = {"bootstrap.servers": bootstrap, "isolation.level": isolation, "auto.offset.reset": "earliest"}
    async with Consumer(settings) as consumer:
        tp = TopicPartition(topic, 0)
        consumer.assign([tp])
        end = (await consumer.end_offsets([tp]))[tp]
        found: list[bytes | None] = []
        async with asyncio.timeout(20):
            while await consumer.position(tp) < end:
                found += [record.value for record in await consumer.poll(500)]
        return found


async def test_a_transaction_shows_all_or_nothing(bootstrap: str, topic: str, fresh: Callable[[str], str]) -> None:
    async with Producer(bootstrap_servers=bootstrap, transactional_id=fresh("tx")) as producer:
        async with producer.transaction():
            await producer.send(topic, b"one")
            await producer.send(topic, b"two")
        with pytest.raises(ValueError, match="changed my mind"):  # noqa: PT012
            async with producer.transaction():
                await producer.send_and_wait(topic, b"aborted")
                raise ValueError("changed my mind")
        async with producer.transaction():
            await producer.send(topic, b"three")
    assert await read(bootstrap, topic, "read_committed") == [b"one", b"two", b"three"]
    assert await read(bootstrap, topic, "read_uncommitted") == [b"one", b"two", b"aborted", b"three"]


async def test_an_open_transaction_is_not_seen(bootstrap: str, topic: str, fresh: Callable[[str], str]) -> None:
    async with Producer(bootstrap_servers=bootstrap, transactional_id=fresh("tx")) as producer:
        producer.begin_transaction()
        await producer.send_and_wait(topic, b"open")
        assert await read(bootstrap, topic, "read_committed") == []
        await producer.commit_transaction()
        assert await read(bootstrap, topic, "read_committed") == [b"open"]


async def test_offsets_are_committed_with_the_records(
    bootstrap: str, topic: str, wide_topic: str, fresh: Callable[[str], str], producer: Producer
) -> None:
    group = fresh("group")
    for number in range(10):
        await producer.send(topic, b"%d" % number)
    await producer.flush()
    tp = TopicPartition(topic, 0)
    async with (
        Producer(bootstrap_servers=bootstrap, transactional_id=fresh("tx")) as transactional,
        Consumer(
            bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
        ) as consumer,
    ):
        consumer.subscribe([topic])
        records: list[ConsumerRecord[bytes, bytes]] = []
        async with asyncio.timeout(20):
            while len(records) < 5:
                records += await consumer.poll(500, max_records=5)
        with pytest.raises(ZeroDivisionError):  # noqa: PT012
            async with transactional.transaction():
                await transactional.send(wide_topic, b"out", partition=0)
                await transactional.send_offsets_to_transaction({tp: 3}, consumer)
                raise ZeroDivisionError
        assert await consumer.committed([tp]) == {tp: None}
        async with transactional.transaction():
            for record in records:
                await transactional.send(wide_topic, record.value, partition=0)
            await transactional.send_offsets_to_transaction({tp: OffsetAndMetadata(5, "done")}, consumer)
        committed = (await consumer.committed([tp]))[tp]
        assert committed is not None
        assert (committed.offset, committed.metadata) == (5, "done")
    assert await read(bootstrap, wide_topic, "read_committed") == [b"0", b"1", b"2", b"3", b"4"]


async def test_a_second_producer_of_the_same_name_fences_the_first(
    bootstrap: str, topic: str, fresh: Callable[[str], str]
) -> None:
    name = fresh("tx")
    async with Producer(bootstrap_servers=bootstrap, transactional_id=name) as first:
        first.begin_transaction()
        await first.send_and_wait(topic, b"zombie")
        async with Producer(bootstrap_servers=bootstrap, transactional_id=name) as second:
            async with second.transaction():
                await second.send(topic, b"successor")
            with pytest.raises(KafkaError):
                await first.commit_transaction()
            with pytest.raises(KafkaError):
                await first.send(topic, b"more")
    assert await read(bootstrap, topic, "read_committed") == [b"successor"]


async def test_a_lost_record_makes_the_transaction_abort_only(
    bootstrap: str, topic: str, fresh: Callable[[str], str]
) -> None:
    async with Producer(
        bootstrap_servers=bootstrap, transactional_id=fresh("tx"), max_request_size=10_000_000
    ) as producer:
        producer.begin_transaction()
        await producer.send(topic, b"fine")
        with pytest.raises(KafkaError):
            await producer.send_and_wait(topic, b"x" * 2_000_000)
        with pytest.raises(KafkaError):
            await producer.commit_transaction()
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send(topic, b"after")
    assert await read(bootstrap, topic, "read_committed") == [b"after"]


async def test_the_older_protocol_works_too(
    bootstrap: str, topic: str, fresh: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As against a cluster whose transaction.version is below 2: partitions are added before they are written."""
    prepare = TransactionalIdentity.prepare

    async def prepare_old(self: TransactionalIdentity) -> None:
        await prepare(self)
        self.writing_adds_partitions = False

    monkeypatch.setattr(TransactionalIdentity, "prepare", prepare_old)
    async with Producer(bootstrap_servers=bootstrap, transactional_id=fresh("tx")) as producer:
        for number in range(3):
            async with producer.transaction():
                await producer.send(topic, b"%d" % number)
                await producer.send_offsets_to_transaction({TopicPartition(topic, 0): number}, fresh("group"))
        with pytest.raises(ValueError):  # noqa: PT012
            async with producer.transaction():
                await producer.send_and_wait(topic, b"aborted")
                raise ValueError
        async with producer.transaction():
            await producer.send(topic, b"last")
    async with asyncio.timeout(20):  # the markers are written after the answer
        while await read(bootstrap, topic, "read_committed") != [b"0", b"1", b"2", b"last"]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_calls_out_of_order_say_what_to_do(bootstrap: str, topic: str, fresh: Callable[[str], str]) -> None:
    async with Producer(bootstrap_servers=bootstrap, transactional_id=fresh("tx")) as producer:
        with pytest.raises(IllegalState, match=r"async with producer\.transaction"):
            await producer.send(topic, b"v")
        with pytest.raises(IllegalState):
            await producer.commit_transaction()
        producer.begin_transaction()
        with pytest.raises(IllegalState, match="in a transaction"):
            producer.begin_transaction()
        await producer.abort_transaction()
    async with Producer(bootstrap_servers=bootstrap) as producer:
        with pytest.raises(UsageError, match="transactional_id"):
            producer.begin_transaction()


async def test_an_empty_transaction_bothers_nobody(bootstrap: str, fresh: Callable[[str], str]) -> None:
    async with Producer(bootstrap_servers=bootstrap, transactional_id=fresh("tx")) as producer:
        for _ in range(3):
            async with producer.transaction():
                pass


async def test_errors_that_end_a_producer_end_it_for_good() -> None:
    from penstock.client.config import ClientConfig

    identity = TransactionalIdentity(Cluster(ClientConfig()), "tx", 1000, 1000)
    identity.state = State.IN_TRANSACTION
    identity.fail(ProducerFenced("over"))
    assert identity.state is State.FATAL_ERROR
    with pytest.raises(ProducerFenced):
        identity.require("abort")


async def test_what_went_wrong_first_is_reported_unless_the_producer_was_fenced_meanwhile() -> None:
    from penstock.client.config import ClientConfig

    identity = TransactionalIdentity(Cluster(ClientConfig()), "tx", 1000, 1000)
    identity.state = State.IN_TRANSACTION
    identity.fail(OverflowError("a batch could not be built"))
    identity.fail(InvalidRecord("refused"))
    with pytest.raises(OverflowError):
        identity.require("commit")
    identity.fail(ProducerFenced("over"))
    with pytest.raises(ProducerFenced):
        identity.require("abort")
