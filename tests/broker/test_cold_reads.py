"""Whatever is asked of records that are on disk only, the event loop does not wait for them."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from penstock import portable
from penstock.broker.cold_reads import until_fetched
from penstock.broker.world import LoopWorld
from penstock.records.builder import build_batch
from penstock.records.record import iter_batches_records
from penstock.storage.contract import ColdRead, FarFetch
from penstock.testing import Broker
from penstock.wire import messages as m
from tests.broker.cold_disk import ColdDisk, disk, drop_from_memory
from tests.broker.raw import RawClient
from tests.broker.share.share_client import (
    ShareMember,
    Wire,
    initialize,
    produce_batch,
    set_group_configs,
    topic_id,
    values,
)
from tests.wire.records_field import records_of

__all__ = ["disk"]

WAIT_SECONDS = 30
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
EARLIEST, MAX_TIMESTAMP = -2, -3
START_MS = 1_700_000_000_000
RECORDS = 2500
SECOND_SEGMENT = 1000


@pytest.fixture
def broker() -> Iterator[Broker]:
    """Its topic has some segments of 1,000 or so records, one record per batch and second."""
    with Broker() as it:
        it.create_topic("t", segment_bytes=1 << 20, retention_ms=-1)
        with Wire(it) as wire:
            for i in range(RECORDS):
                produce_batch(wire, "t", build_batch([(START_MS + i * 1000, None, b"%04d" % i + bytes(1000), ())]))
        it.restart()
        yield it


def segments(broker: Broker) -> list[Path]:
    return sorted(broker.data.rglob("t-0/*.log"))


def fetch(
    broker: Broker, offset: int, isolation: int = READ_UNCOMMITTED, **limits: int
) -> m.FetchResponse.PartitionData:
    request = m.FetchRequest
    partition = request.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=100_000)
    body = request(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, isolation_level=isolation)
    for name, value in limits.items():
        setattr(body, name, value)
    body.topics = [request.FetchTopic(topic="t", partitions=[partition])]
    with RawClient(broker.port) as client:
        return client.ask(body, m.FetchResponse, 11).responses[0].partitions[0]


def offsets_of(data: m.FetchResponse.PartitionData) -> list[int]:
    assert data.error_code == 0
    assert data.records is not None
    return [record.offset for record in iter_batches_records(records_of(data))]


def list_offset(broker: Broker, timestamp: int) -> tuple[int, int]:
    request = m.ListOffsetsRequest
    requested = request.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    body = request(topics=[request.ListOffsetsTopic(name="t", partitions=[requested])])
    with RawClient(broker.port) as client:
        [answer] = client.ask(body, m.ListOffsetsResponse, 7).topics[0].partitions
    assert answer.error_code == 0
    return answer.offset, answer.timestamp


@pytest.mark.parametrize("offset", [0, 700, SECOND_SEGMENT + 123, RECORDS - 1])
@pytest.mark.parametrize("isolation", [READ_UNCOMMITTED, READ_COMMITTED])
@pytest.mark.parametrize("max_wait_ms", [0, 10_000])
def test_a_fetch_of_old_records_is_answered_when_threads_have_read_what_it_takes(
    broker: Broker, disk: ColdDisk, offset: int, isolation: int, max_wait_ms: int
) -> None:
    disk.forget()
    found = offsets_of(fetch(broker, offset, isolation, max_wait_ms=max_wait_ms))
    assert found[0] == offset
    assert found == list(range(offset, offset + len(found)))
    disk.check()


def test_the_aborted_transactions_of_old_records_are_read_by_a_thread(disk: ColdDisk) -> None:
    with Broker() as broker:
        broker.create_topic("t", segment_bytes=1 << 20)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "x", "linger.ms": 0})
        producer.init_transactions(WAIT_SECONDS)
        for end in (producer.abort_transaction, producer.commit_transaction):
            producer.begin_transaction()
            producer.produce("t", b"value")
            producer.flush(WAIT_SECONDS)
            end(WAIT_SECONDS)
        broker.restart()
        disk.forget()
        data = fetch(broker, 0, READ_COMMITTED)
        disk.check()
        assert [aborted.first_offset for aborted in data.aborted_transactions or []] == [0]


@pytest.mark.parametrize("record", [0, 3, 999, 1500, RECORDS - 1])
def test_a_timestamp_is_looked_up_when_threads_have_read_what_it_takes(
    broker: Broker, disk: ColdDisk, record: int
) -> None:
    disk.forget()
    assert list_offset(broker, START_MS + record * 1000 - 10) == (record, START_MS + record * 1000)
    disk.check()


def test_the_largest_timestamp_is_looked_up_when_threads_have_read_what_it_takes(
    broker: Broker, disk: ColdDisk
) -> None:
    disk.forget()
    assert list_offset(broker, MAX_TIMESTAMP) == (RECORDS - 1, START_MS + (RECORDS - 1) * 1000)
    disk.check()


def test_a_share_group_that_starts_at_a_time_waits_for_a_thread_to_find_it(disk: ColdDisk) -> None:
    with Broker() as broker:
        broker.create_topic("t")
        now_ms = int(time.time() * 1000)
        with Wire(broker) as wire:
            for hours, value in ((5, b"old"), (1, b"young")):
                produce_batch(wire, "t", build_batch([(now_ms - hours * 3_600_000, None, value, ())]))
            set_group_configs(wire, "g", share_auto_offset_reset="by_duration:PT2H")
            topic = topic_id(wire, "t")
            initialize(wire, "g", topic, start=-1)
        broker.restart()
        disk.forget()
        with Wire(broker) as wire:
            response = ShareMember(wire, "g", "m", topic).fetch(max_wait_ms=WAIT_SECONDS * 1000)
        assert values(response) == [b"young"]
        disk.check()


def test_a_producer_does_not_wait_for_what_an_earlier_run_has_written(broker: Broker, disk: ColdDisk) -> None:
    before = len(segments(broker))
    disk.forget()
    with Wire(broker) as wire:
        produce_batch(wire, "t", build_batch([(START_MS, None, b"new", ())]))
        assert disk.waited == []
        assert len(segments(broker)) == before + 1, "only a new segment can be appended to without reading"
        assert offsets_of(fetch(broker, RECORDS - 1))[0] == RECORDS - 1
        assert offsets_of(fetch(broker, RECORDS)) == [RECORDS]
    disk.check()


def test_a_producer_goes_on_in_the_segment_of_an_earlier_run_that_is_in_memory(broker: Broker) -> None:
    before = len(segments(broker))
    for segment in broker.data.rglob("t-0/*"):
        segment.read_bytes()
    with Wire(broker) as wire:
        produce_batch(wire, "t", build_batch([(START_MS, None, b"new", ())]))
    assert len(segments(broker)) == before


@pytest.mark.penstock(log_retention_check_interval_ms=100)
def test_retention_learns_the_age_of_old_segments_from_a_thread(penstock_broker: Broker, disk: ColdDisk) -> None:
    penstock_broker.create_topic("t", retention_ms=-1)
    with Wire(penstock_broker) as wire:
        produce_batch(wire, "t", build_batch([(START_MS, None, b"old", ())]))
    penstock_broker.restart()
    disk.forget()
    admin = AdminClient({"bootstrap.servers": penstock_broker.bootstrap_servers})
    entry = ConfigEntry("retention.ms", "3600000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, "t", incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(WAIT_SECONDS)
    wait_for(lambda: list_offset(penstock_broker, EARLIEST) == (1, -1))
    disk.check()


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_that_is_lost_is_made_anew_by_a_thread(broker: Broker, disk: ColdDisk, suffix: str) -> None:
    broker.stop()
    lost = segments(broker)[0].with_suffix(suffix)
    whole = lost.read_bytes()
    lost.unlink()
    broker.start()
    disk.forget()
    assert list_offset(broker, START_MS + 500 * 1000) == (500, START_MS + 500 * 1000)
    assert offsets_of(fetch(broker, 500))[0] == 500
    disk.check()
    assert lost.read_bytes() == whole


def test_a_thread_that_cannot_read_costs_the_connection_that_asked_for_it(
    broker: Broker, disk: ColdDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(fd: int, size: int, offset: int) -> bytes:
        raise OSError(5, "the disk is tired")

    disk.forget()
    with monkeypatch.context() as patch:
        patch.setattr(portable, "read_at", fails)
        for ask in (lambda: fetch(broker, 0), lambda: list_offset(broker, START_MS)):
            with pytest.raises((ConnectionError, EOFError, AssertionError)):
                ask()
    assert offsets_of(fetch(broker, 0))[0] == 0


def test_old_records_that_the_kernel_has_dropped_are_read(broker: Broker) -> None:
    """With a real disk and a real client."""
    for path in broker.data.rglob("t-0/*"):
        with path.open("rb") as file:
            drop_from_memory(file.fileno())
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
    [found] = consumer.offsets_for_times([TopicPartition("t", 0, START_MS + 700 * 1000)], timeout=WAIT_SECONDS)
    assert found.offset == 700
    consumer.assign([TopicPartition("t", 0, 700)])
    received: list[int] = []
    deadline = time.monotonic() + WAIT_SECONDS
    while len(received) < RECORDS - 700:
        assert time.monotonic() < deadline
        received += [message.offset() or 0 for message in consumer.consume(500, 1.0)]
    consumer.close()
    assert received == list(range(700, RECORDS))


async def test_records_on_this_disk_do_not_wait_for_those_in_a_store_that_hangs() -> None:
    world = LoopWorld(asyncio.get_running_loop())
    released = threading.Event()
    hangs = ColdRead(FarFetch(lambda: _wait_until(released)))
    far = asyncio.gather(*[until_fetched(world, hangs) for _ in range(100)])
    async with asyncio.timeout(WAIT_SECONDS):
        await until_fetched(world, ColdRead(lambda: None, lambda: None))
        assert not far.done()
        released.set()
        await far


def _wait_until(released: threading.Event) -> None:
    assert released.wait(WAIT_SECONDS)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)
