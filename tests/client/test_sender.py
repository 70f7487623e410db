"""What becomes of batches that the broker refuses; the faults are the broker's own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from penstock.client import Producer
from penstock.client.accumulator import Batch
from penstock.client.connection import Connection
from penstock.client.errors import RequestTimeout
from penstock.testing.broker import Broker
from penstock.wire.errors import ErrorCode, InvalidRecord, KafkaError
from tests.client.early_timers import EarlyLoop


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as it:
        it.create_topic("t", 2)
        yield it


def settings(broker: Broker, **more: object) -> dict[str, object]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "linger.ms": 0,
        "retry.backoff.ms": 10,
        "retry.backoff.max.ms": 50,
        **more,
    }


async def test_numbers_that_the_broker_lost_track_of_start_over(broker: Broker) -> None:
    """An idempotent producer raises its epoch on its own (KIP-360)."""
    async with Producer(settings(broker)) as producer:
        await producer.send_and_wait("t", b"0", partition=0)
        assert producer._identity is not None
        before = producer._identity.epoch
        broker.fail("Produce", ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, times=1)
        async with asyncio.timeout(20):
            assert (await producer.send_and_wait("t", b"1", partition=0)).offset == 1
            assert (await producer.send_and_wait("t", b"other partition", partition=1)).offset == 0
        assert producer._identity.epoch == before + 1


async def test_a_transaction_cannot_go_on_without_a_lost_batch(broker: Broker) -> None:
    async with Producer(settings(broker, **{"transactional.id": "x"})) as producer:
        producer.begin_transaction()
        broker.fail("Produce", ErrorCode.INVALID_RECORD, times=1)
        with pytest.raises(InvalidRecord):
            await producer.send_and_wait("t", b"bad")
        with pytest.raises(InvalidRecord):
            await producer.commit_transaction()
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send("t", b"good")


async def test_a_transaction_is_not_committed_without_a_record_that_was_not_delivered_in_time(broker: Broker) -> None:
    impatient = {"delivery.timeout.ms": 400, "request.timeout.ms": 300}
    async with Producer(settings(broker, **impatient, **{"transactional.id": "x"})) as producer, asyncio.timeout(20):
        producer.begin_transaction()
        await producer.send_and_wait("t", b"delivered", partition=0)
        broker.fail("Produce", ErrorCode.NOT_ENOUGH_REPLICAS, times=None)
        late = await producer.send("t", b"late", partition=1)
        with pytest.raises(RequestTimeout, match="delivery_timeout_ms=400"):
            await producer.commit_transaction()
        with pytest.raises(RequestTimeout, match="delivery_timeout_ms=400"):
            await late
        broker.heal()
        await producer.abort_transaction()
        async with producer.transaction():
            after = await producer.send("t", b"after", partition=1)
        assert after.result().offset == 0


async def test_a_lost_batch_takes_along_what_waits_in_its_transaction(broker: Broker) -> None:
    patient = settings(broker, **{"transactional.id": "x", "linger.ms": 60_000})
    async with Producer(patient) as producer, asyncio.timeout(20):
        producer.begin_transaction()
        waiting = await producer.send("t", b"waits for company", partition=1)
        broker.fail("Produce", ErrorCode.INVALID_RECORD, times=1)
        with pytest.raises(InvalidRecord):
            await producer.send_and_wait("t", b"bad", partition=0)
        with pytest.raises(InvalidRecord):
            await waiting
        await producer.abort_transaction()


async def test_a_transaction_is_not_committed_without_a_batch_that_could_not_be_built(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> bytearray:
        raise OverflowError("a codec of the system has failed")

    async with Producer(settings(broker, **{"transactional.id": "x"})) as producer, asyncio.timeout(20):
        producer.begin_transaction()
        await producer.send_and_wait("t", b"delivered", partition=0)
        with monkeypatch.context() as patch:
            patch.setattr(Batch, "build", fails)
            await producer.send("t", b"lost", partition=0)
            with pytest.raises(OverflowError):
                await producer.commit_transaction()
        await producer.abort_transaction()


async def test_numbers_start_over_after_a_batch_that_could_not_be_built(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = Batch.build

    def fails(batch: Batch, *arguments: object) -> bytearray:
        if batch.records[0][2] == b"bad":
            raise OverflowError("a codec of the system has failed")
        return build(batch, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Batch, "build", fails)
    async with Producer(settings(broker)) as producer, asyncio.timeout(20):
        await producer.send_and_wait("t", b"0", partition=0)
        with pytest.raises(OverflowError):
            await producer.send_and_wait("t", b"bad", partition=0)
        assert (await producer.send_and_wait("t", b"1", partition=0)).offset == 1


async def test_a_batch_is_not_forgotten_when_its_timer_fires_early(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Producer(settings(broker, **{"linger.ms": 50})) as producer:
        await producer.send_and_wait("t", b"0", partition=0)
        assert producer._sender is not None
        monkeypatch.setattr(producer._sender, "_loop", EarlyLoop())
        delivery = await producer.send("t", b"1", partition=0)
        async with asyncio.timeout(20):
            assert (await delivery).offset == 1


async def test_an_error_that_does_not_pass_fails_in_time(broker: Broker) -> None:
    async with Producer(settings(broker, **{"delivery.timeout.ms": 400, "request.timeout.ms": 300})) as producer:
        await producer.send_and_wait("t", b"0")
        broker.fail("Produce", ErrorCode.NOT_ENOUGH_REPLICAS, times=None)
        async with asyncio.timeout(20):
            with pytest.raises(RequestTimeout, match="delivery_timeout_ms=400"):
                await producer.send_and_wait("t", b"1")
        broker.heal()
        async with asyncio.timeout(20):
            await producer.send_and_wait("t", b"2")


async def test_without_idempotence_retries_work_too(broker: Broker) -> None:
    async with Producer(settings(broker, acks="1")) as producer:
        broker.fail("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER, times=3)
        async with asyncio.timeout(20):
            await producer.send_and_wait("t", b"v")
        found = {name.name: value for name, value in producer.metrics().items()}
        assert found["record-retry-total"] >= 3


async def test_a_producer_id_that_cannot_be_had_fails_the_records(broker: Broker) -> None:
    broker.fail("InitProducerId", ErrorCode.CLUSTER_AUTHORIZATION_FAILED, times=None)
    async with Producer(settings(broker)) as producer, asyncio.timeout(20):
        with pytest.raises(KafkaError):
            await producer.send_and_wait("t", b"v")


async def test_flush_waits_for_retries(broker: Broker) -> None:
    async with Producer(settings(broker)) as producer:
        await producer.send_and_wait("t", b"0", partition=0)
        broker.fail("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER, times=2)
        delivery = await producer.send("t", b"1", partition=0)
        async with asyncio.timeout(20):
            await producer.flush()
        assert delivery.done()
        assert delivery.result().offset == 1


async def test_a_batch_that_waits_for_the_connection_is_not_overtaken(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that does not know a producer yet would take the second batch as its first."""
    async with Producer(settings(broker)) as producer:
        cluster = producer._cluster
        open_at_once = cluster.connection
        slow_ones = iter([0.3])
        first_waits = asyncio.Event()

        async def connection(node_id: int, channel: str = "") -> Connection:
            found = await open_at_once(node_id, channel)
            if channel == "produce":
                first_waits.set()
                await asyncio.sleep(next(slow_ones, 0))
            return found

        monkeypatch.setattr(cluster, "connection", connection)
        first = await producer.send("t", b"first", partition=0)
        async with asyncio.timeout(20):
            await first_waits.wait()
            second = await producer.send("t", b"second", partition=0)
            assert (await first).offset == 0
            assert (await second).offset == 1
