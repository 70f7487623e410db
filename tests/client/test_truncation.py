"""A log that was cut behind a consumer's back."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.client import Consumer, LogTruncation, OffsetAndMetadata, Producer, TopicPartition
from penstock.records.batch import iter_headers
from penstock.records.builder import build_batch
from penstock.storage.checkpoint import BOOT_ID, CLEAN_SHUTDOWN
from penstock.testing.broker import Broker
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
from tests.client.scripted_broker import ScriptedCluster, fetch_response, scripted_cluster
from tests.engine.brokers import ENGINE

T0 = TopicPartition("t", 0)
QUICK = {"retry.backoff.ms": 10, "retry.backoff.max.ms": 50, "fetch.max.wait.ms": 50}
RECORDS = 10
on_a_disk = pytest.mark.skipif(ENGINE in os.environ, reason="cuts the log of a local disk, which is a cache here")


class Log:
    """Partition 0 of a scripted cluster: ten records of leader epoch 5, and what the leader says of epochs."""

    def __init__(self, cluster: ScriptedCluster) -> None:
        self.cluster = cluster
        self.ends: dict[int, tuple[int, int]] = {5: (5, RECORDS)}  # epoch asked for -> epoch and end offset told
        self.error = ErrorCode.NONE
        self.fetched_from: list[int] = []
        self.requested: list[tuple[int, int]] = []
        self.went_back = asyncio.Event()
        broker = cluster.brokers[0]
        broker.answers[m.FetchRequest] = self._fetch
        broker.answers[m.OffsetForLeaderEpochRequest] = self._end

    def _fetch(self, request: m.Message, version: int) -> m.Message:
        assert isinstance(request, m.FetchRequest)
        if request.session_epoch < 0:
            return fetch_response()
        (requested,) = request.topics[0].partitions
        if requested.current_leader_epoch != self.cluster.epoch:
            code = int(ErrorCode.FENCED_LEADER_EPOCH)
            return fetch_response(m.FetchResponse.PartitionData(partition_index=0, error_code=code))
        self.fetched_from.append(requested.fetch_offset)
        if requested.fetch_offset == 4:
            self.went_back.set()
        records = b""
        if requested.fetch_offset == 0:
            records = bytes(build_batch([(0, None, b"%d" % n, ()) for n in range(RECORDS)], leader_epoch=5))
        return fetch_response(m.FetchResponse.PartitionData(partition_index=0, high_watermark=RECORDS, records=records))

    def _end(self, request: m.Message, version: int) -> m.Message:
        assert isinstance(request, m.OffsetForLeaderEpochRequest)
        assert request.replica_id == -1
        (requested,) = request.topics[0].partitions
        self.requested.append((requested.current_leader_epoch, requested.leader_epoch))
        epoch, end = self.ends[requested.leader_epoch]
        answer = m.OffsetForLeaderEpochResponse.EpochEndOffset(
            partition=0, leader_epoch=epoch, end_offset=end, error_code=int(self.error)
        )
        self.error = ErrorCode.NONE
        topic = m.OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(topic="t", partitions=[answer])
        return m.OffsetForLeaderEpochResponse(topics=[topic])


async def until(condition: Callable[[], object], consumer: Consumer[bytes, bytes]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await consumer.poll(10)


async def read_all(consumer: Consumer[bytes, bytes]) -> None:
    consumer.assign([T0])
    consumer.seek(T0, 0)
    assert len(await consumer.poll(5000)) == RECORDS


async def test_a_new_leader_that_has_it_all_changes_nothing() -> None:
    async with scripted_cluster() as cluster:
        log = Log(cluster)
        async with Consumer(QUICK, bootstrap_servers=cluster.bootstrap_servers) as consumer:
            await read_all(consumer)
            assert log.requested == []
            cluster.epoch, log.ends[5] = 6, (5, RECORDS)
            log.error = ErrorCode.NOT_LEADER_OR_FOLLOWER  # still settling in: asked again
            await until(lambda: len(log.requested) == 2, consumer)
            seen = len(log.fetched_from)
            await until(lambda: len(log.fetched_from) > seen, consumer)
            assert log.requested == [(6, 5), (6, 5)]
            assert log.fetched_from[-1] == RECORDS


async def test_a_new_leader_with_less_sends_the_reader_back_to_where_the_logs_part() -> None:
    async with scripted_cluster() as cluster:
        log = Log(cluster)
        async with Consumer(
            QUICK, bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest"
        ) as consumer:
            await read_all(consumer)
            cluster.epoch, log.ends[5] = 6, (4, 7)
            await until(lambda: log.fetched_from[-1] == 7, consumer)
            assert await consumer.position(T0) == 7


async def test_without_a_policy_the_program_hears_both_offsets() -> None:
    async with scripted_cluster() as cluster:
        log = Log(cluster)
        async with Consumer(QUICK, bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="none") as consumer:
            await read_all(consumer)
            cluster.epoch, log.ends[5] = 6, (4, 7)
            with pytest.raises(LogTruncation, match="truncated at offset 7, before the position 10") as raised:
                await until(lambda: False, consumer)
            assert raised.value.position == RECORDS
            assert raised.value.divergent_offset == 7
            assert raised.value.topic_partition == T0
            consumer.seek(T0, 7)
            await until(lambda: log.fetched_from[-1] == 7, consumer)


async def test_a_leader_that_cannot_tell_leaves_it_to_the_policy() -> None:
    async with scripted_cluster() as cluster:
        log = Log(cluster)

        def list_offsets(request: m.Message, version: int) -> m.Message:
            response = m.ListOffsetsResponse
            place = response.ListOffsetsPartitionResponse(partition_index=0, offset=3, leader_epoch=6)
            return response(topics=[response.ListOffsetsTopicResponse(name="t", partitions=[place])])

        cluster.brokers[0].answers[m.ListOffsetsRequest] = list_offsets
        async with Consumer(
            QUICK, bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest"
        ) as consumer:
            await read_all(consumer)
            cluster.epoch, log.ends[5] = 6, (-1, -1)
            await until(lambda: log.fetched_from[-1] == 3, consumer)


async def test_what_was_fetched_ahead_is_dropped_and_the_position_checked_again() -> None:
    async with scripted_cluster() as cluster:
        log = Log(cluster)
        async with Consumer(
            QUICK, bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="none", max_poll_records=4
        ) as consumer:
            consumer.assign([T0])
            consumer.seek(T0, 0)
            assert len(await consumer.poll(5000)) == 4
            cluster.epoch, log.ends[5] = 6, (5, 7)
            async with asyncio.timeout(20):
                await log.went_back.wait()
            assert log.requested == [(6, 5), (6, 5)]
            assert await consumer.position(T0) == 4


@on_a_disk
async def test_a_broker_that_comes_back_with_a_shorter_log_is_noticed() -> None:
    with Broker() as broker:
        broker.create_topic("t", 1)
        async with (
            Producer(linger_ms=0, bootstrap_servers=broker.bootstrap_servers) as producer,
            Consumer(QUICK, bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="none") as consumer,
        ):
            for number in range(RECORDS):
                await producer.send_and_wait("t", b"%d" % number)
            consumer.assign([T0])
            consumer.seek(T0, 0)
            seen = 0
            while seen < RECORDS:
                seen += len(await consumer.poll(5000))
            await asyncio.to_thread(broker.stop)
            lose_the_last_record(broker.data)
            await asyncio.to_thread(broker.start)
            with pytest.raises(LogTruncation) as raised:
                await until(lambda: False, consumer)
            assert (raised.value.position, raised.value.divergent_offset) == (RECORDS, RECORDS - 1)


@on_a_disk
@pytest.mark.parametrize("stop", ["stopped", "power cut"])
async def test_records_that_took_the_place_of_lost_ones_are_noticed(stop: str) -> None:
    """The log is longer than ever when the group comes back: only the leader epoch of its committed offset tells."""
    with Broker() as broker:
        broker.create_topic("t", 1)
        servers = broker.bootstrap_servers
        in_group: dict[str, Any] = {"bootstrap_servers": servers, "group_id": "g", "auto_offset_reset": "none"}
        async with Producer(linger_ms=0, bootstrap_servers=servers) as producer:
            for number in range(RECORDS):
                await producer.send_and_wait("t", b"%d" % number)
        async with Consumer(QUICK, **in_group) as consumer:
            consumer.assign([T0])
            consumer.seek(T0, 0)
            seen = 0
            while seen < RECORDS:
                seen += len(await consumer.poll(5000))
            await consumer.commit()
        await asyncio.to_thread(broker.stop)
        lose_the_last_batch(broker.data)
        if stop == "power cut":
            lose_the_boot(broker.data)
        await asyncio.to_thread(broker.start)
        async with Producer(linger_ms=0, bootstrap_servers=servers) as producer:
            for number in range(RECORDS):
                await producer.send_and_wait("t", b"new %d" % number)
        async with Consumer(QUICK, **in_group) as consumer:
            consumer.assign([T0])
            with pytest.raises(LogTruncation) as raised:
                await until(lambda: False, consumer)
            assert (raised.value.position, raised.value.divergent_offset) == (RECORDS, RECORDS - 1)


def lose_the_last_batch(data: Path) -> None:
    (segment,) = data.rglob("t-0/*.log")
    *_, (position, _) = iter_headers(segment.read_bytes())
    os.truncate(segment, position)


def lose_the_boot(data: Path) -> None:
    """What is left when the machine went down: no mark of a clean stop, and another boot id."""
    (data / CLEAN_SHUTDOWN).unlink()
    (data / BOOT_ID).write_text("another boot")


def lose_the_last_record(data: Path) -> None:
    """What a crash of the machine does to a log that was not flushed."""
    (segment,) = data.rglob("t-0/*.log")
    segment.write_bytes(segment.read_bytes()[:-1])
    for marker in data.rglob("*clean*"):
        marker.unlink()


async def test_a_place_beyond_the_end_of_its_epoch_is_noticed(bootstrap: str, topic: str, producer: Producer) -> None:
    for number in range(5):
        place = await producer.send_and_wait(topic, b"%d" % number)
    tp = TopicPartition(topic, 0)
    async with Consumer(QUICK, bootstrap_servers=bootstrap, auto_offset_reset="none") as consumer:
        consumer.assign([tp])
        consumer.seek(tp, 0)
        records = await consumer.poll(5000)
        while len(records) < 5:
            records += await consumer.poll(5000)
        epoch = records[-1].leader_epoch
        consumer.seek(tp, OffsetAndMetadata(place.offset + 1, "", epoch))
        assert await consumer.poll(200) == []
        consumer.seek(tp, OffsetAndMetadata(100, "", epoch))
        with pytest.raises(LogTruncation) as raised:
            await until(lambda: False, consumer)
        assert (raised.value.position, raised.value.divergent_offset) == (100, 5)
