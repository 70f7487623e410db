"""A broker of in-memory parts serves what one of files and sockets does, and shows events that those never do."""

from __future__ import annotations

import asyncio
import builtins
import io
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import penstock
from penstock.storage.memory import MemoryLog
from penstock.testing import MemoryBroker
from penstock.testing.memory import WireClient
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
from tests.testing.memory_requests import (
    append,
    commit_offset,
    commit_request,
    committed_offset,
    fetch,
    fetch_request,
    find_coordinator,
    produce,
    produce_request,
    result_of,
    soon,
    topic_id,
    values_of,
)

READ_COMMITTED = 1
ACCEPT = 1


def log_of(broker: MemoryBroker, topic: str, partition: int = 0) -> MemoryLog:
    found = broker.parts.cluster.hosted(topic, partition).log
    assert isinstance(found, MemoryLog)
    return found


async def look_around() -> None:
    """Let everything run that does not wait for anything."""
    for _ in range(50):
        await asyncio.sleep(0)


async def works_a_queue(client: WireClient, topic: str) -> list[bytes]:
    """Join a share group that begins at the beginning, take what there is, accept it; the values."""
    group, member = "workers", "AAAAAAAAAAAAAAAAAAAAAA"
    configs = m.IncrementalAlterConfigsRequest
    change = configs.AlterableConfig(name="share.auto.offset.reset", value="earliest")
    resource = configs.AlterConfigsResource(resource_type=32, resource_name=group, configs=[change])
    changed = await soon(client.ask(configs(resources=[resource]), m.IncrementalAlterConfigsResponse))
    assert changed.responses[0].error_code == 0
    heartbeat = m.ShareGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=0, subscribed_topic_names=[topic]
    )
    joined = await soon(client.ask(heartbeat, m.ShareGroupHeartbeatResponse))
    assert joined.error_code == 0
    topic_uuid = await topic_id(client, topic)
    for epoch in range(100):
        requested = m.ShareFetchRequest.FetchTopic(
            topic_id=topic_uuid, partitions=[m.ShareFetchRequest.FetchPartition(partition_index=0)]
        )
        fetching = m.ShareFetchRequest(
            group_id=group,
            member_id=member,
            share_session_epoch=epoch,
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=100,
            topics=[requested] if epoch == 0 else [],
        )
        fetched = await soon(client.ask(fetching, m.ShareFetchResponse))
        assert fetched.error_code == 0
        taken = [part for each in fetched.responses for part in each.partitions if part.acquired_records]
        if taken:
            break
    [part] = taken
    acknowledge = m.ShareAcknowledgeRequest
    batches = [
        acknowledge.AcknowledgementBatch(
            first_offset=each.first_offset, last_offset=each.last_offset, acknowledge_types=[ACCEPT]
        )
        for each in part.acquired_records
    ]
    done = acknowledge.AcknowledgeTopic(
        topic_id=topic_uuid,
        partitions=[acknowledge.AcknowledgePartition(partition_index=0, acknowledgement_batches=batches)],
    )
    acknowledged = await soon(
        client.ask(
            acknowledge(group_id=group, member_id=member, share_session_epoch=epoch + 1, topics=[done]),
            m.ShareAcknowledgeResponse,
        )
    )
    assert acknowledged.error_code == acknowledged.responses[0].partitions[0].error_code == 0
    found = m.FetchResponse.PartitionData(records=part.records)
    return values_of(m.FetchResponse(responses=[m.FetchResponse.FetchableTopicResponse(partitions=[found])]))


async def begin_transaction(client: WireClient, topic: str, value: bytes) -> m.EndTxnRequest:
    """Write a record in a transaction; the request that commits it."""
    init = m.InitProducerIdRequest(transactional_id="shop", transaction_timeout_ms=60_000)
    producer = await soon(client.ask(init, m.InitProducerIdResponse))
    assert producer.error_code == 0
    request = produce_request(
        topic,
        value,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=0,
        transactional=True,
    )
    request.transactional_id = "shop"
    assert result_of(await soon(client.ask(request, m.ProduceResponse, 12))).error_code == 0
    return m.EndTxnRequest(
        transactional_id="shop",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=True,
    )


def forbid_files_and_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever opens a file that is not code, or a socket, fails."""
    code = tuple(os.path.realpath(each) for each in (sys.prefix, sys.base_prefix, Path(penstock.__file__).parent))

    def only_code(original: Callable[..., object]) -> Callable[..., object]:
        def opened(path: object, *args: object, **kwargs: object) -> object:
            assert isinstance(path, str | Path), f"opens {path!r}"
            assert os.path.realpath(path).startswith(code), f"opens {path!r}"
            return original(path, *args, **kwargs)

        return opened

    def forbidden(*args: object, **kwargs: object) -> None:
        raise AssertionError("makes a folder or a socket")

    monkeypatch.setattr(builtins, "open", only_code(builtins.open))
    monkeypatch.setattr(io, "open", only_code(io.open))
    monkeypatch.setattr(os, "open", only_code(os.open))
    monkeypatch.setattr(os, "mkdir", forbidden)
    monkeypatch.setattr(socket, "socket", forbidden)


async def test_records_offsets_queues_and_transactions_need_neither_files_nor_sockets() -> None:
    with pytest.MonkeyPatch.context() as patch:
        forbid_files_and_sockets(patch)
        await serve_everything()


async def serve_everything() -> None:
    async with MemoryBroker() as broker:
        client = broker.connect()
        broker.create_topic("orders")
        assert await produce(client, "orders", b"one", b"two") == 0
        assert await fetch(client, "orders") == [b"one", b"two"]
        await find_coordinator(client, "g")
        assert await commit_offset(client, "g", "orders", 2) == 0
        assert await committed_offset(client, "g", "orders") == 2
        assert await works_a_queue(client, "orders") == [b"one", b"two"]
        end = await begin_transaction(client, "orders", b"three")
        assert await fetch(client, "orders", 2, isolation=READ_COMMITTED) == []
        assert (await soon(client.ask(end, m.EndTxnResponse))).error_code == 0
        assert await fetch(client, "orders", 2, isolation=READ_COMMITTED) == [b"three"]


async def test_what_was_kept_is_there_after_a_restart() -> None:
    async with MemoryBroker() as broker:
        broker.create_topic("orders")
        client = broker.connect()
        await produce(client, "orders", b"one")
        await find_coordinator(client, "g")
        assert await commit_offset(client, "g", "orders", 1) == 0
        await broker.restart()
        with pytest.raises(ConnectionError):
            await client.ask(m.ApiVersionsRequest(), m.ApiVersionsResponse)
        client = broker.connect()
        assert await fetch(client, "orders") == [b"one"]
        assert await committed_offset(client, "g", "orders") == 1


async def test_a_broker_that_does_not_run_says_so() -> None:
    broker = MemoryBroker()
    with pytest.raises(RuntimeError, match="not running"):
        broker.create_topic("orders")
    with pytest.raises(ConnectionRefusedError):
        broker.connect()
    async with broker:
        with pytest.raises(RuntimeError, match="running already"):
            await broker.start()


class TestHeldCommits:
    """Appends that wait between log end and high watermark, as they would for other replicas."""

    @pytest.mark.parametrize("acks", [-1, 1])
    async def test_a_producer_is_answered_after_the_commit(self, acks: int) -> None:
        async with MemoryBroker() as broker:
            broker.create_topic("orders")
            broker.storage.hold_commits()
            client = broker.connect()
            client.post(produce_request("orders", b"one", acks=acks), 12)
            await look_around()
            assert not client.connection.received
            broker.storage.commit()
            assert result_of(await soon(client.take(m.ProduceResponse))).error_code == 0

    async def test_readers_see_nothing_past_the_high_watermark_and_are_woken_by_the_commit(self) -> None:
        async with MemoryBroker() as broker:
            broker.create_topic("orders")
            writer, reader = broker.connect(), broker.connect()
            await produce(writer, "orders", b"seen")
            broker.storage.hold_commits()
            await append(writer, "orders", b"held")
            assert await fetch(reader, "orders") == [b"seen"]
            assert await self.latest(reader, "orders") == 1
            reader.post(fetch_request("orders", 1, wait_ms=25_000), 12)
            await look_around()
            assert not reader.connection.received
            broker.storage.commit()
            assert values_of(await soon(reader.take(m.FetchResponse))) == [b"held"]
            assert await self.latest(reader, "orders") == 2

    async def latest(self, client: WireClient, topic: str) -> int:
        partition = m.ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1)
        requested = m.ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[partition])
        response = await soon(
            client.ask(m.ListOffsetsRequest(replica_id=-1, topics=[requested]), m.ListOffsetsResponse, 7)
        )
        return response.topics[0].partitions[0].offset

    async def test_a_group_hears_of_its_offsets_when_they_are_committed(self) -> None:
        async with MemoryBroker() as broker:
            broker.create_topic("orders")
            client = broker.connect()
            await find_coordinator(client, "g")
            broker.storage.hold_commits()
            client.post(commit_request("g", "orders", 2), 9)
            await look_around()
            assert not client.connection.received
            broker.storage.commit()
            response = await soon(client.take(m.OffsetCommitResponse))
            assert response.topics[0].partitions[0].error_code == 0

    async def test_a_producer_gets_its_id_when_the_coordinator_has_it_committed(self) -> None:
        async with MemoryBroker() as broker:
            client = broker.connect()
            await find_coordinator(client, "other", key_type=1)
            broker.storage.hold_commits()
            init = m.InitProducerIdRequest(transactional_id="other", transaction_timeout_ms=60_000)
            client.post(init)
            await look_around()
            assert not client.connection.received
            broker.storage.commit()
            assert (await soon(client.take(m.InitProducerIdResponse))).error_code == 0

    async def test_a_commit_is_decided_only_after_the_records_are_committed(self) -> None:
        async with MemoryBroker() as broker:
            broker.create_topic("orders")
            client, reader = broker.connect(), broker.connect()
            end = await begin_transaction(client, "orders", b"one")
            broker.storage.hold_commits()
            client.post(end)
            await look_around()
            assert not client.connection.received
            assert await fetch(reader, "orders", isolation=READ_COMMITTED) == []
            broker.storage.commit()
            assert (await soon(client.take(m.EndTxnResponse))).error_code == 0
            assert await fetch(reader, "orders", isolation=READ_COMMITTED) == [b"one"]


class TestLostLeadership:
    """Another broker leads a partition from now on: clients are sent to look for it."""

    async def test_a_producer_that_waits_is_told(self) -> None:
        async with MemoryBroker() as broker:
            broker.create_topic("orders")
            broker.storage.hold_commits()
            client = broker.connect()
            client.post(produce_request("orders", b"lost"), 12)
            await look_around()
            broker.storage.lose_leadership(log_of(broker, "orders"))
            result = result_of(await soon(client.take(m.ProduceResponse)))
            assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert result.base_offset == -1

    async def test_producers_and_readers_that_come_later_are_told(self) -> None:
        async with MemoryBroker() as broker:
            broker.create_topic("orders")
            client = broker.connect()
            await produce(client, "orders", b"one")
            broker.storage.lose_leadership(log_of(broker, "orders"))
            assert await produce(client, "orders", b"two") == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert await produce(client, "orders", b"two", acks=1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
            response = await soon(client.ask(fetch_request("orders"), m.FetchResponse, 12))
            assert response.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    async def test_a_group_is_sent_to_another_coordinator(self) -> None:
        async with MemoryBroker({"offsets.topic.num.partitions": 1}) as broker:
            broker.create_topic("orders")
            client = broker.connect()
            await find_coordinator(client, "g")
            broker.storage.hold_commits()
            client.post(commit_request("g", "orders", 2), 9)
            await look_around()
            broker.storage.lose_leadership(log_of(broker, "__consumer_offsets"))
            response = await soon(client.take(m.OffsetCommitResponse))
            assert response.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
            assert await commit_offset(client, "g", "orders", 3) == ErrorCode.NOT_COORDINATOR

    async def test_a_marker_that_an_administrator_wrote_is_reported_as_lost(self) -> None:
        async with MemoryBroker() as broker:
            broker.create_topic("orders")
            client = broker.connect()
            end = await begin_transaction(client, "orders", b"one")
            request = m.WriteTxnMarkersRequest
            topic = request.WritableTxnMarkerTopic(name="orders", partition_indexes=[0])
            marker = request.WritableTxnMarker(
                producer_id=end.producer_id, producer_epoch=end.producer_epoch, topics=[topic], coordinator_epoch=0
            )
            broker.storage.hold_commits()
            client.post(request(markers=[marker]), 1)
            await look_around()
            assert not client.connection.received
            broker.storage.lose_leadership(log_of(broker, "orders"))
            response = await soon(client.take(m.WriteTxnMarkersResponse))
            [result] = response.markers[0].topics[0].partitions
            assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
