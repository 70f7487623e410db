"""Partitions that are lost to another broker and gained again, and appends that are refused after they were accepted.

The engine in memory does on command what other engines do by themselves; everything else is a whole broker.
"""

from __future__ import annotations

import asyncio

import pytest

from penstock.records.builder import build_batch
from penstock.records.record import iter_batches_records
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
)
from tests.wire.records_field import records_of

GROUP, MEMBER = "workers", "AAAAAAAAAAAAAAAAAAAAAA"
ACCEPT, REJECT = 1, 3
LATEST, MAX_TIMESTAMP = -1, -3
ONE_SHARD = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "share.coordinator.state.topic.num.partitions": 1,
}


def log_of(broker: MemoryBroker, topic: str, partition: int = 0) -> MemoryLog:
    for found in broker.storage.logs():
        if (found.topic, found.partition) == (topic, partition):
            return found
    raise AssertionError(f"there is no {topic}-{partition}")


async def look_around() -> None:
    """Let everything run that does not wait for anything."""
    for _ in range(50):
        await asyncio.sleep(0)


async def is_answered(client: WireClient) -> bool:
    await look_around()
    return bool(client.connection.received)


def fetched(response: m.FetchResponse) -> m.FetchResponse.PartitionData:
    return response.responses[0].partitions[0]


async def list_offset(client: WireClient, timestamp: int, epoch: int = -1) -> tuple[int, int]:
    """The error code and the offset."""
    request = m.ListOffsetsRequest
    partition = request.ListOffsetsPartition(partition_index=0, timestamp=timestamp, current_leader_epoch=epoch)
    requested = request.ListOffsetsTopic(name="orders", partitions=[partition])
    response = await soon(client.ask(request(replica_id=-1, topics=[requested]), m.ListOffsetsResponse, 7))
    found = response.topics[0].partitions[0]
    return found.error_code, found.offset


async def epoch_end(client: WireClient, epoch: int, current: int = -1) -> tuple[int, int]:
    """The error code and the end offset."""
    request = m.OffsetForLeaderEpochRequest
    partition = request.OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=epoch)
    topic = request.OffsetForLeaderTopic(topic="orders", partitions=[partition])
    response = await soon(client.ask(request(replica_id=-1, topics=[topic]), m.OffsetForLeaderEpochResponse, 4))
    found = response.topics[0].partitions[0]
    return found.error_code, found.end_offset


async def join_queue(client: WireClient, **group: str) -> bytes:
    """Join a share group that begins at the beginning; the id of the topic `orders`."""
    await find_coordinator(client, GROUP)
    configs = m.IncrementalAlterConfigsRequest
    changes = [
        configs.AlterableConfig(name=name.replace("_", "."), value=value)
        for name, value in {"share_auto_offset_reset": "earliest", **group}.items()
    ]
    resource = configs.AlterConfigsResource(resource_type=32, resource_name=GROUP, configs=changes)
    await soon(client.ask(configs(resources=[resource]), m.IncrementalAlterConfigsResponse))
    heartbeat = m.ShareGroupHeartbeatRequest(
        group_id=GROUP, member_id=MEMBER, member_epoch=0, subscribed_topic_names=["orders"]
    )
    assert (await soon(client.ask(heartbeat, m.ShareGroupHeartbeatResponse))).error_code == 0
    return await topic_id(client, "orders")


def share_fetch(topic: bytes, epoch: int, wait_ms: int = 100) -> m.ShareFetchRequest:
    partition = m.ShareFetchRequest.FetchPartition(partition_index=0)
    requested = m.ShareFetchRequest.FetchTopic(topic_id=topic, partitions=[partition])
    return m.ShareFetchRequest(
        group_id=GROUP,
        member_id=MEMBER,
        share_session_epoch=epoch,
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        max_records=100,
        topics=[requested] if epoch == 0 else [],
    )


Taken = list[tuple[int, int, int]]


async def take(client: WireClient, topic: bytes, epoch: int) -> tuple[Taken, int]:
    """Fetch until there is something: offsets and delivery count of each range, and the next epoch of the session."""
    for at in range(epoch, epoch + 100):
        response = await soon(client.ask(share_fetch(topic, at), m.ShareFetchResponse))
        assert response.error_code == 0
        for each in response.responses:
            for part in each.partitions:
                if part.acquired_records:
                    taken = [(a.first_offset, a.last_offset, a.delivery_count) for a in part.acquired_records]
                    return taken, at + 1
    raise AssertionError("nothing to take")


def accept(topic: bytes, epoch: int, first: int, last: int, kind: int = ACCEPT) -> m.ShareAcknowledgeRequest:
    request = m.ShareAcknowledgeRequest
    batch = request.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[kind])
    partition = request.AcknowledgePartition(partition_index=0, acknowledgement_batches=[batch])
    done = request.AcknowledgeTopic(topic_id=topic, partitions=[partition])
    return request(group_id=GROUP, member_id=MEMBER, share_session_epoch=epoch, topics=[done])


class TestHighWatermark:
    async def test_lookups_end_at_it(self) -> None:
        async with MemoryBroker() as broker:
            broker.create_topic("orders")
            client = broker.connect()
            await produce(client, "orders", b"one")
            broker.storage.hold_commits()
            await append(client, "orders", b"two")
            assert await list_offset(client, LATEST) == (0, 1)
            assert await list_offset(client, MAX_TIMESTAMP) == (0, 0)
            assert await list_offset(client, 0) == (0, 0)
            assert await epoch_end(client, 0) == (0, 1)
            broker.storage.commit()
            assert await list_offset(client, LATEST) == (0, 2)
            assert await epoch_end(client, 0) == (0, 2)

    async def test_records_can_be_deleted_up_to_it(self) -> None:
        async with MemoryBroker() as broker:
            broker.create_topic("orders")
            client = broker.connect()
            await produce(client, "orders", b"one")
            broker.storage.hold_commits()
            await append(client, "orders", b"two")

            async def delete(offset: int) -> tuple[int, int]:
                request = m.DeleteRecordsRequest
                partition = request.DeleteRecordsPartition(partition_index=0, offset=offset)
                topic = request.DeleteRecordsTopic(name="orders", partitions=[partition])
                response = await soon(client.ask(request(topics=[topic]), m.DeleteRecordsResponse))
                [result] = response.topics[0].partitions
                return result.error_code, result.low_watermark

            assert await delete(2) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
            assert await delete(-1) == (0, 1)

    async def test_queues_deliver_below_it_and_are_woken_when_it_moves(self) -> None:
        async with MemoryBroker() as broker:
            broker.create_topic("orders")
            client, writer = broker.connect(), broker.connect()
            topic = await join_queue(client)
            await produce(writer, "orders", b"one")
            taken, epoch = await take(client, topic, 0)
            assert taken == [(0, 0, 1)]
            broker.storage.hold_commits()
            await append(writer, "orders", b"two")
            client.post(share_fetch(topic, epoch, 25_000))
            assert not await is_answered(client)
            broker.storage.commit()
            response = await soon(client.take(m.ShareFetchResponse))
            [acquired] = response.responses[0].partitions[0].acquired_records
            assert (acquired.first_offset, acquired.last_offset) == (1, 1)


class TestLostPartitions:
    async def test_a_waiting_fetch_is_told_at_once(self) -> None:
        async with MemoryBroker() as broker:
            broker.create_topic("orders")
            client = broker.connect()
            client.post(fetch_request("orders", wait_ms=25_000), 12)
            assert not await is_answered(client)
            broker.storage.lose_leadership(log_of(broker, "orders"))
            assert fetched(await soon(client.take(m.FetchResponse))).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    async def test_a_produce_to_several_partitions_fails_for_the_lost_one(self) -> None:
        async with MemoryBroker() as broker:
            broker.create_topic("orders", 3)
            broker.storage.hold_commits()
            client = broker.connect()
            request = produce_request("orders", b"one")
            request.topic_data[0].partition_data += [
                m.ProduceRequest.PartitionProduceData(index=index, records=build_batch([(0, None, b"v", ())]))
                for index in (1, 2)
            ]
            client.post(request, 12)
            assert not await is_answered(client)
            broker.storage.lose_leadership(log_of(broker, "orders", 1))
            assert not await is_answered(client)
            broker.storage.commit()
            response = await soon(client.take(m.ProduceResponse))
            results = {
                each.index: (each.error_code, each.base_offset) for each in response.responses[0].partition_responses
            }
            assert results == {0: (0, 0), 1: (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1), 2: (0, 0)}

    async def test_lookups_and_metadata_say_that_it_is_gone(self) -> None:
        async with MemoryBroker() as broker:
            broker.create_topic("orders")
            client = broker.connect()
            broker.storage.lose_leadership(log_of(broker, "orders"))
            assert (await list_offset(client, LATEST))[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert (await epoch_end(client, 0))[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
            requested = m.MetadataRequest.MetadataRequestTopic(name="orders")
            response = await soon(client.ask(m.MetadataRequest(topics=[requested]), m.MetadataResponse))
            [partition] = response.topics[0].partitions
            assert (partition.error_code, partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)

    async def test_a_transactional_write_to_it_is_refused(self) -> None:
        async with MemoryBroker() as broker:
            broker.create_topic("orders")
            client = broker.connect()
            write, _ = await transactional_write(client, b"one")
            broker.storage.lose_leadership(log_of(broker, "orders"))
            result = result_of(await soon(client.ask(write, m.ProduceResponse, 12)))
            assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    async def test_one_that_is_gained_again_serves_what_was_committed_in_a_new_epoch(self) -> None:
        async with MemoryBroker() as broker:
            broker.create_topic("orders")
            client = broker.connect()
            await produce(client, "orders", b"kept")
            broker.storage.hold_commits()
            await append(client, "orders", b"lost")
            log = log_of(broker, "orders")
            broker.storage.lose_leadership(log)
            broker.storage.commit()
            broker.storage.gain_leadership(log)
            assert await fetch(client, "orders") == [b"kept"]
            assert await produce(client, "orders", b"new") == 0
            assert await fetch(client, "orders") == [b"kept", b"new"]
            assert log.leader_epoch == 1
            assert await epoch_end(client, 0) == (0, 1)

    @pytest.mark.parametrize(
        ("named", "error"), [(0, ErrorCode.FENCED_LEADER_EPOCH), (1, 0), (2, ErrorCode.UNKNOWN_LEADER_EPOCH)]
    )
    async def test_requests_that_name_another_epoch_are_fenced(self, named: int, error: int) -> None:
        async with MemoryBroker() as broker:
            broker.create_topic("orders")
            client = broker.connect()
            log = log_of(broker, "orders")
            broker.storage.lose_leadership(log)
            broker.storage.gain_leadership(log)
            request = fetch_request("orders")
            request.topics[0].partitions[0].current_leader_epoch = named
            request.topics[0].topic_id = await topic_id(client, "orders")
            answer = fetched(await soon(client.ask(request, m.FetchResponse)))
            assert answer.error_code == error
            if error == ErrorCode.FENCED_LEADER_EPOCH:
                node_id = broker.parts.cluster.node_id
                assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (node_id, 1)
            assert (await list_offset(client, LATEST, named))[0] == error
            assert (await epoch_end(client, 1, named))[0] == error

    async def test_a_deleted_topic_takes_its_lost_partitions_along(self) -> None:
        async with MemoryBroker() as broker:
            broker.create_topic("orders", 2)
            broker.storage.lose_leadership(log_of(broker, "orders", 1))
            broker.parts.topics.delete(broker.parts.cluster.topic("orders"))
            assert list(broker.storage.logs()) == []


async def transactional_write(client: WireClient, value: bytes) -> tuple[m.ProduceRequest, m.EndTxnRequest]:
    """The requests that write a record in a transaction, and commit it."""
    init = m.InitProducerIdRequest(transactional_id="shop", transaction_timeout_ms=60_000)
    producer = await soon(client.ask(init, m.InitProducerIdResponse))
    assert producer.error_code == 0
    request = produce_request(
        "orders",
        value,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=0,
        transactional=True,
    )
    request.transactional_id = "shop"
    end = m.EndTxnRequest(
        transactional_id="shop",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=True,
    )
    return request, end


class TestQueues:
    async def test_a_waiting_share_fetch_is_told_at_once_and_goes_on_when_the_partition_is_back(self) -> None:
        async with MemoryBroker() as broker:
            broker.create_topic("orders")
            client, writer = broker.connect(), broker.connect()
            topic = await join_queue(client)
            await produce(writer, "orders", b"one")
            taken, epoch = await take(client, topic, 0)
            client.post(share_fetch(topic, epoch, 25_000))
            assert not await is_answered(client)
            log = log_of(broker, "orders")
            broker.storage.lose_leadership(log)
            response = await soon(client.take(m.ShareFetchResponse))
            assert response.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            late = await soon(client.ask(accept(topic, epoch + 1, 0, 0), m.ShareAcknowledgeResponse))
            assert late.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            broker.storage.gain_leadership(log)
            taken, _ = await take(client, topic, epoch + 2)
            assert [(first, last) for first, last, _ in taken] == [(0, 0)]

    async def test_an_acceptance_is_confirmed_when_it_is_committed(self) -> None:
        async with MemoryBroker() as broker:
            broker.create_topic("orders")
            client, writer = broker.connect(), broker.connect()
            topic = await join_queue(client)
            await produce(writer, "orders", b"one")
            _, epoch = await take(client, topic, 0)
            broker.storage.hold_commits()
            client.post(accept(topic, epoch, 0, 0))
            assert not await is_answered(client)
            broker.storage.commit()
            response = await soon(client.take(m.ShareAcknowledgeResponse))
            assert response.responses[0].partitions[0].error_code == 0

    @pytest.mark.parametrize("is_lost", [True, False])
    async def test_an_acceptance_that_is_not_committed_is_refused_and_the_record_comes_again(
        self, is_lost: bool
    ) -> None:
        async with MemoryBroker(ONE_SHARD) as broker:
            broker.create_topic("orders")
            client, writer = broker.connect(), broker.connect()
            topic = await join_queue(client)
            await produce(writer, "orders", b"one")
            _, epoch = await take(client, topic, 0)
            broker.storage.hold_commits()
            client.post(accept(topic, epoch, 0, 0))
            assert not await is_answered(client)
            state = log_of(broker, "__share_group_state")
            if is_lost:
                broker.storage.lose_leadership(state)
            else:
                broker.storage.refuse_appends(state)
            response = await soon(client.take(m.ShareAcknowledgeResponse))
            assert response.responses[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            broker.storage.commit()
            if is_lost:
                broker.storage.gain_leadership(state)
            taken, _ = await take(client, topic, epoch + 1)
            assert [(first, last) for first, last, _ in taken] == [(0, 0)]

    @pytest.mark.parametrize("is_appended", [True, False])
    async def test_a_dead_letter_that_cannot_be_written_is_written_when_it_can(self, is_appended: bool) -> None:
        async with MemoryBroker() as broker:
            broker.create_topic("orders")
            broker.create_topic("dlq.orders", errors_deadletterqueue_group_enable="true")
            client, writer, reader = broker.connect(), broker.connect(), broker.connect()
            topic = await join_queue(client, errors_deadletterqueue_topic_name="dlq.orders")
            await produce(writer, "orders", b"one")
            _, epoch = await take(client, topic, 0)
            letters = log_of(broker, "dlq.orders")
            if is_appended:
                letters.commits_held = True
            else:
                broker.storage.lose_leadership(letters)
            response = await soon(client.ask(accept(topic, epoch, 0, 0, REJECT), m.ShareAcknowledgeResponse))
            assert response.responses[0].partitions[0].error_code == 0
            await look_around()
            if is_appended:
                assert letters.log_end_offset == 1
                broker.storage.refuse_appends(letters)
                letters.commits_held = False
            else:
                broker.storage.gain_leadership(letters)
            assert letters.log_end_offset == 0
            answer = await soon(reader.ask(fetch_request("dlq.orders", wait_ms=25_000), m.FetchResponse, 12))
            assert len(list(iter_batches_records(records_of(fetched(answer))))) == 1


class TestGroups:
    async def test_waiting_members_are_sent_away_and_nobody_is_found_until_it_is_back(self) -> None:
        async with MemoryBroker({**ONE_SHARD, "group.initial.rebalance.delay.ms": 25_000}) as broker:
            broker.create_topic("orders")
            client, other = broker.connect(), broker.connect()
            await find_coordinator(client, "g")
            await commit_offset(client, "g", "orders", 1)
            protocol = m.JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
            client.post(
                m.JoinGroupRequest(
                    group_id="h",
                    session_timeout_ms=10_000,
                    rebalance_timeout_ms=60_000,
                    protocol_type="consumer",
                    protocols=[protocol],
                ),
                3,
            )
            assert not await is_answered(client)
            log = log_of(broker, "__consumer_offsets")
            broker.storage.lose_leadership(log)
            joined = await soon(client.take(m.JoinGroupResponse))
            assert joined.error_code == ErrorCode.NOT_COORDINATOR
            assert (await find_coordinator(other, "g")).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert await commit_offset(other, "g", "orders", 2) == ErrorCode.NOT_COORDINATOR
            broker.storage.gain_leadership(log)
            await look_around()
            assert (await find_coordinator(other, "g")).error_code == 0
            assert await committed_offset(other, "g", "orders") == 1
            assert await commit_offset(other, "g", "orders", 2) == 0

    async def test_an_offset_is_read_when_it_is_committed(self) -> None:
        async with MemoryBroker() as broker:
            broker.create_topic("orders")
            client, reader = broker.connect(), broker.connect()
            await find_coordinator(client, "g")
            broker.storage.hold_commits()
            client.post(commit_request("g", "orders", 2), 9)
            await look_around()
            reading = asyncio.ensure_future(committed_offset(reader, "g", "orders"))
            await look_around()
            assert not reading.done()
            broker.storage.commit()
            assert await reading == 2

    async def test_an_offset_that_was_refused_is_not_read(self) -> None:
        async with MemoryBroker(ONE_SHARD) as broker:
            broker.create_topic("orders")
            client, reader = broker.connect(), broker.connect()
            await find_coordinator(client, "g")
            assert await commit_offset(client, "g", "orders", 1) == 0
            broker.storage.hold_commits()
            client.post(commit_request("g", "orders", 2), 9)
            await look_around()
            topics = [m.OffsetFetchRequest.OffsetFetchRequestTopics(name="orders", partition_indexes=[0])]
            group = m.OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=topics)
            reader.post(m.OffsetFetchRequest(groups=[group]), 9)
            assert not await is_answered(reader)
            broker.storage.refuse_appends(log_of(broker, "__consumer_offsets"))
            refused = await soon(client.take(m.OffsetCommitResponse))
            assert refused.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            [answer] = (await soon(reader.take(m.OffsetFetchResponse))).groups
            assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS or (
                answer.topics[0].partitions[0].committed_offset == 1
            )
            broker.storage.commit()
            await look_around()
            assert await committed_offset(reader, "g", "orders") == 1


class TestTransactions:
    async def test_a_write_is_answered_when_it_is_committed(self) -> None:
        async with MemoryBroker() as broker:
            broker.create_topic("orders")
            client = broker.connect()
            write, end = await transactional_write(client, b"one")
            broker.storage.hold_commits()
            client.post(write, 12)
            assert not await is_answered(client)
            broker.storage.commit()
            assert result_of(await soon(client.take(m.ProduceResponse))).error_code == 0
            assert (await soon(client.ask(end, m.EndTxnResponse))).error_code == 0

    async def test_a_decision_that_is_lost_is_not_answered_and_its_markers_are_not_written(self) -> None:
        async with MemoryBroker(ONE_SHARD) as broker:
            broker.create_topic("orders")
            client, reader = broker.connect(), broker.connect()
            write, end = await transactional_write(client, b"one")
            assert result_of(await soon(client.ask(write, m.ProduceResponse, 12))).error_code == 0
            state = log_of(broker, "__transaction_state")
            broker.storage.hold_commits()
            client.post(end)
            assert not await is_answered(client)
            broker.storage.lose_leadership(state)
            assert (await soon(client.take(m.EndTxnResponse))).error_code == ErrorCode.NOT_COORDINATOR
            broker.storage.commit()
            assert await fetch(reader, "orders", isolation=1) == []
            broker.storage.gain_leadership(state)
            await look_around()
            assert (await soon(client.ask(end, m.EndTxnResponse))).error_code == 0
            assert await fetch(reader, "orders", isolation=1) == [b"one"]

    @pytest.mark.parametrize("is_lost_before", [True, False])
    async def test_markers_of_other_brokers_fail_for_the_lost_partition_alone(self, is_lost_before: bool) -> None:
        async with MemoryBroker() as broker:
            broker.create_topic("orders", 2)
            client = broker.connect()
            if is_lost_before:
                broker.storage.lose_leadership(log_of(broker, "orders", 1))
            broker.storage.hold_commits()
            request = m.WriteTxnMarkersRequest
            topic = request.WritableTxnMarkerTopic(name="orders", partition_indexes=[0, 1])
            marker = request.WritableTxnMarker(producer_id=7, producer_epoch=0, topics=[topic], coordinator_epoch=0)
            client.post(request(markers=[marker]), 1)
            assert not await is_answered(client)
            if not is_lost_before:
                broker.storage.lose_leadership(log_of(broker, "orders", 1))
            broker.storage.commit()
            response = await soon(client.take(m.WriteTxnMarkersResponse))
            codes = {each.partition_index: each.error_code for each in response.markers[0].topics[0].partitions}
            assert codes == {0: 0, 1: ErrorCode.NOT_LEADER_OR_FOLLOWER}

    async def test_a_marker_for_a_lost_partition_is_written_when_it_is_back(self) -> None:
        async with MemoryBroker(ONE_SHARD) as broker:
            broker.create_topic("orders")
            client, reader = broker.connect(), broker.connect()
            write, end = await transactional_write(client, b"one")
            assert result_of(await soon(client.ask(write, m.ProduceResponse, 12))).error_code == 0
            broker.storage.lose_leadership(log_of(broker, "orders"))
            assert (await soon(client.ask(end, m.EndTxnResponse))).error_code == 0
            broker.storage.gain_leadership(log_of(broker, "orders"))
            response = await soon(reader.ask(fetch_request("orders", isolation=1, wait_ms=25_000), m.FetchResponse, 12))
            records = iter_batches_records(records_of(fetched(response)))
            assert [record.value for record in records][:1] == [b"one"]
