"""Fetching when the broker answers with errors."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from penstock.client import Consumer, Producer, TopicPartition
from penstock.records.batch import crc_is_valid
from penstock.records.builder import build_batch
from penstock.testing.broker import Broker
from penstock.wire import messages as m
from penstock.wire.errors import CorruptMessage, ErrorCode, TopicAuthorizationFailed
from tests.client.early_timers import EarlyLoop
from tests.client.reading import fill, take
from tests.client.scripted_broker import ScriptedCluster, fetch_response, scripted_cluster


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as it:
        it.create_topic("t", 1)
        yield it


@pytest.fixture
async def consumer(broker: Broker) -> object:
    async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        await fill(producer, "t", 20)
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "auto.offset.reset": "earliest",
        "retry.backoff.ms": 10,
        "retry.backoff.max.ms": 50,
        "fetch.max.wait.ms": 50,
    }


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    ],
)
async def test_errors_that_pass_are_not_seen(broker: Broker, consumer: dict[str, object], code: ErrorCode) -> None:
    broker.fail("Fetch", code, times=3)
    async with Consumer(consumer) as reader:
        reader.assign([("t", 0)])
        assert await take(reader, 20) == [b"%d" % number for number in range(20)]


async def test_errors_that_do_not_pass_are_raised_by_poll(broker: Broker, consumer: dict[str, object]) -> None:
    broker.fail("Fetch", ErrorCode.TOPIC_AUTHORIZATION_FAILED, times=1)
    async with Consumer(consumer) as reader:
        reader.assign([("t", 0)])
        with pytest.raises(TopicAuthorizationFailed, match="t-0"):
            await reader.poll(5000)
        assert len(await take(reader, 20)) == 20


async def test_a_batch_with_a_wrong_checksum_is_raised_and_can_be_passed(
    broker: Broker, consumer: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.client import fetcher

    monkeypatch.setattr(fetcher, "crc_is_valid", lambda *arguments: False)
    async with Consumer(consumer) as reader:
        reader.assign([("t", 0)])
        with pytest.raises(CorruptMessage, match="seek past it") as raised:
            await reader.poll(5000)
        assert "t" in str(raised.value)
        monkeypatch.setattr(fetcher, "crc_is_valid", crc_is_valid)
        reader.seek(TopicPartition("t", 0), 0)
        assert len(await take(reader, 20)) == 20


@pytest.mark.parametrize("batches", [False, True])
async def test_what_comes_before_a_batch_with_a_wrong_checksum_is_given_out_first(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, batches: bool
) -> None:
    from penstock.client import fetcher

    async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for value in (b"first", b"broken", b"last"):
            await producer.send_and_wait("t", value)
    monkeypatch.setattr(
        fetcher, "crc_is_valid", lambda data, pos, size: b"broken" not in data[pos : pos + size].tobytes()
    )
    async with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as reader:
        reader.assign([("t", 0)])

        async def poll() -> list[bytes | None]:
            if batches:
                return [record.value for batch in await reader.poll_batches(5000) for record in batch.records]
            return [record.value for record in await reader.poll(5000)]

        assert await poll() == [b"first"]
        for _ in range(2):
            with pytest.raises(CorruptMessage, match=r"seek past it: .* 2\)"):
                await poll()
        reader.seek(TopicPartition("t", 0), 2)
        assert await poll() == [b"last"]


async def test_a_busy_partition_does_not_starve_the_others(broker: Broker) -> None:
    broker.create_topic("many", 3)
    async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for partition in range(3):
            for _ in range(3):
                await producer.send_batch("many", [b"x"] * 200, partition=partition)
    async with Consumer(
        bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", max_poll_records=100
    ) as reader:
        reader.assign([("many", number) for number in range(3)])
        order: list[int] = []
        async with asyncio.timeout(20):
            while len(order) < 18:
                records = await reader.poll(500)
                if records:
                    order.append(records[0].partition)
        assert set(order[:6]) == {0, 1, 2}


async def test_a_retry_is_not_forgotten_when_its_timer_fires_early(
    broker: Broker, consumer: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Consumer(consumer) as reader:
        reader.assign([("t", 0)])
        fetcher = reader._fetcher
        assert fetcher is not None
        monkeypatch.setattr(fetcher, "_loop", EarlyLoop())
        state = reader._subscription.partitions[TopicPartition("t", 0)]
        state.position = state.fetched_to = 0
        state.retry_at = asyncio.get_running_loop().time() + 0.1
        fetcher.kick()
        async with asyncio.timeout(20):
            await fetcher.arrived.wait()
        assert state.chunks


# A replica nearby (KIP-392): node 1 leads, node 2 follows in our rack.


def send_readers_to_the_follower(cluster: ScriptedCluster, follower_answers: list[m.FetchResponse]) -> None:
    leader, follower = cluster.brokers
    response = m.FetchResponse.PartitionData
    elsewhere = response(partition_index=0, high_watermark=4, records=b"", preferred_read_replica=2)
    leader.answers[m.FetchRequest] = lambda request, version: fetch_response(elsewhere)
    follower.answers[m.FetchRequest] = lambda request, version: (
        follower_answers.pop(0) if follower_answers else fetch_response()
    )


async def test_records_come_from_the_replica_that_the_leader_prefers() -> None:
    batch = bytes(build_batch([(0, None, b"x", ())] * 4, leader_epoch=5))
    data = m.FetchResponse.PartitionData(partition_index=0, high_watermark=4, records=batch)
    async with scripted_cluster(nodes=2) as cluster:
        send_readers_to_the_follower(cluster, [fetch_response(data)])
        leader, follower = cluster.brokers
        async with Consumer(bootstrap_servers=cluster.bootstrap_servers, client_rack="here") as reader:
            reader.assign([("t", 0)])
            reader.seek(TopicPartition("t", 0), 0)
            assert len(await take(reader, 4)) == 4
            assert await reader.poll(50) == []
        requested = leader.requests(m.FetchRequest)
        assert [request.rack_id for request in requested] == ["here"]
        assert [p.fetch_offset for t in follower.requests(m.FetchRequest)[0].topics for p in t.partitions] == [0]


async def test_a_replica_that_refuses_sends_the_reader_back_to_the_leader() -> None:
    refusal = m.FetchResponse.PartitionData(partition_index=0, error_code=int(ErrorCode.OFFSET_OUT_OF_RANGE))
    batch = bytes(build_batch([(0, None, b"x", ())] * 4, leader_epoch=5))
    data = m.FetchResponse.PartitionData(partition_index=0, high_watermark=4, records=batch)
    async with scripted_cluster(nodes=2) as cluster:
        send_readers_to_the_follower(cluster, [fetch_response(refusal), fetch_response(data)])
        async with Consumer(bootstrap_servers=cluster.bootstrap_servers, client_rack="here") as reader:
            reader.assign([("t", 0)])
            reader.seek(TopicPartition("t", 0), 0)
            assert len(await take(reader, 4)) == 4
        assert len(cluster.brokers[0].requests(m.FetchRequest)) == 2


async def test_a_replica_that_is_gone_sends_the_reader_back_to_the_leader() -> None:
    batch = bytes(build_batch([(0, None, b"x", ())] * 4, leader_epoch=5))
    data = m.FetchResponse.PartitionData(partition_index=0, high_watermark=4, records=batch)
    async with scripted_cluster(nodes=2) as cluster:
        send_readers_to_the_follower(cluster, [])
        leader, follower = cluster.brokers
        to_follower = leader.answers[m.FetchRequest]
        follower.answers[m.FetchRequest] = follower.hang_up

        def answer(request: m.Message, version: int) -> m.Message:
            return to_follower(request, version) if not follower.hung_up else fetch_response(data)

        leader.answers[m.FetchRequest] = answer
        async with Consumer(bootstrap_servers=cluster.bootstrap_servers, client_rack="here") as reader:
            reader.assign([("t", 0)])
            reader.seek(TopicPartition("t", 0), 0)
            assert len(await take(reader, 4)) == 4
