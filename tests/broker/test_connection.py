"""One client connection: what it reads, what it keeps, and in which order it answers."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from penstock.broker import connection as connection_module
from penstock.broker.connection import Connection
from penstock.broker.file_range import FileRange
from penstock.broker.requests import NO_RESPONSE, Answer
from penstock.records.builder import build_batch
from penstock.testing import AsyncBroker, Broker
from penstock.testing.memory import MemoryClient, MemoryListener
from penstock.wire import messages as m
from penstock.wire.api import ApiKey
from penstock.wire.frames import request_frame
from tests.broker.raw import WAIT_SECONDS, RawClient, is_alive, produce_error

BOUND = 256 << 10
TOPICS = 100
STALLED_SECONDS = 1.0


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    """A broker whose connections may queue little, with kernel buffers that hide little of it."""
    monkeypatch.setattr(connection_module, "MAX_QUEUED_BYTES", BOUND)
    with Broker({"socket.send.buffer.bytes": 4096}) as running:
        for number in range(TOPICS):
            running.create_topic(f"a-topic-with-a-long-name-{number}")
        yield running


def metadata(number: int) -> bytes:
    """A request of some 20 bytes whose response has some kilobytes."""
    return b"".join(request_frame(m.MetadataRequest(topics=None), 8, number, "raw"))


def response_size(broker: Broker) -> int:
    with RawClient(broker.port) as client:
        client.send(metadata(0))
        frame = client.read_frame()
        assert frame is not None
        return len(frame) + 4


def connection_of(broker: Broker, client: RawClient) -> Connection:
    """The broker's end of a client's connection."""
    found: list[Connection] = []

    def look() -> bool:
        connections = list(broker._running().parts.dispatcher.connections)
        found[:] = [each for each in connections if each.peer_port == client.local_port]
        return bool(found)

    until(look)
    return found[0]


def most_queued(connection: Connection) -> int:
    """Watch for a moment how much a connection queues."""
    most = 0
    for _ in range(100):
        most = max(most, connection.queued_bytes)
        time.sleep(0.001)
    return most


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def send_one_at_a_time(broker: Broker, client: RawClient, limit: int) -> int:
    """Send requests, each when the one before has been handled, until the broker handles no more; how many it did."""
    handled = broker._running().parts.dispatcher.requests
    before = handled(ApiKey.METADATA)
    for number in range(limit):
        client.send(metadata(number))
        deadline = time.monotonic() + STALLED_SECONDS
        while handled(ApiKey.METADATA) == before + number:
            if time.monotonic() > deadline:
                return number
            time.sleep(0)
    return limit


def assert_answered_in_order(client: RawClient, count: int) -> None:
    for number in range(count):
        frame = client.read_frame()
        assert frame is not None
        assert struct.unpack(">i", frame[:4])[0] == number


class TestBounds:
    def test_a_client_that_sends_one_by_one_and_never_reads_is_not_read_beyond_the_bound(self, broker: Broker) -> None:
        one = response_size(broker)
        with RawClient(broker.port, receive_buffer_bytes=4096) as client:
            handled = send_one_at_a_time(broker, client, limit=20 * BOUND // one)
            assert handled < 20 * BOUND // one
            assert connection_of(broker, client).queued_bytes <= BOUND + one + 1024
            assert is_alive(broker.port)

    def test_it_is_read_again_when_it_reads(self, broker: Broker) -> None:
        one = response_size(broker)
        with RawClient(broker.port, receive_buffer_bytes=4096) as client:
            handled = send_one_at_a_time(broker, client, limit=20 * BOUND // one)
            assert_answered_in_order(client, handled + 1)
            client.send(metadata(5))
            assert client.read_frame() is not None
            until(lambda: connection_of(broker, client).queued_bytes == 0)

    def test_requests_that_arrive_together_are_not_handled_beyond_the_bound(self, broker: Broker) -> None:
        one = response_size(broker)
        count = 20 * BOUND // one
        with RawClient(broker.port, receive_buffer_bytes=4096) as client:
            client.send(b"".join(metadata(number) for number in range(count)))
            connection = connection_of(broker, client)
            until(lambda: connection.queued_bytes > BOUND // 2)
            assert most_queued(connection) <= BOUND + one + 1024
            assert_answered_in_order(client, count)

    def test_responses_that_wait_for_an_earlier_one_count(self, broker: Broker) -> None:
        one = response_size(broker)
        count = 20 * BOUND // one
        broker.delay(ApiKey.METADATA, 2 * STALLED_SECONDS)
        with RawClient(broker.port) as client:
            client.send(b"".join(metadata(number) for number in range(count)))
            connection = connection_of(broker, client)
            until(lambda: connection.queued_bytes > BOUND // 2)
            assert most_queued(connection) <= BOUND + one + 1024
            assert_answered_in_order(client, count)

    def test_requests_that_wait_are_bounded_however_they_arrive(
        self, broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connection_module, "MAX_IN_FLIGHT", 10)
        broker.delay(ApiKey.METADATA, 0.1, times=None)
        handled = broker._running().parts.dispatcher.requests
        with RawClient(broker.port) as client:
            client.send(b"".join(metadata(number) for number in range(25)))
            until(lambda: handled(ApiKey.METADATA))
            assert handled(ApiKey.METADATA) <= 10
            assert_answered_in_order(client, 25)


class TestReading:
    """Over a transport in memory, which shows what a connection does with each piece that arrives."""

    async def test_frames_are_put_together_from_any_pieces(self) -> None:
        async with AsyncBroker() as broker:
            client = connect(broker)
            requests = b"".join(metadata(number) for number in range(20))
            for start in range(0, len(requests), 7):
                client.send(requests[start : start + 7])
                await asyncio.sleep(0)
            for number in range(20):
                frame = await asyncio.wait_for(client.read_frame(), WAIT_SECONDS)
                assert frame is not None
                assert struct.unpack(">i", frame[:4])[0] == number

    async def test_large_frames_and_small_ones_follow_each_other(self) -> None:
        async with AsyncBroker() as broker:
            broker.create_topic("t", max_message_bytes=8 << 20)
            client = connect(broker)
            sizes = [10, 3 << 20, 100_000, 5 << 20, 20, 20]
            client.send(b"".join(produce(number, size) for number, size in enumerate(sizes)))
            for number in range(len(sizes)):
                frame = await asyncio.wait_for(client.read_frame(), WAIT_SECONDS)
                assert frame is not None
                assert struct.unpack(">i", frame[:4])[0] == number
            assert broker._running().parts.cluster.hosted("t", 0).log.log_end_offset == len(sizes)

    async def test_a_connection_that_falls_silent_keeps_no_buffer_for_large_frames(self) -> None:
        async with AsyncBroker() as broker:
            broker.create_topic("t")
            client = connect(broker)
            client.send(produce(0, 500_000)[:400_000])
            await asyncio.sleep(0.01)
            client.send(produce(0, 500_000)[400_000:])
            assert await asyncio.wait_for(client.read_frame(), WAIT_SECONDS) is not None
            [connection] = broker._running().parts.dispatcher.connections
            assert connection._spare is not None
            connection.last_active -= 60
            broker._running().parts.acceptor.sweep()
            assert connection._spare is None
            client.send(produce(1, 500_000))
            assert await asyncio.wait_for(client.read_frame(), WAIT_SECONDS) is not None

    async def test_records_are_sent_from_their_file(self) -> None:
        async with AsyncBroker() as broker:
            broker.create_topic("t")
            client = connect(broker)
            client.send(produce(0, 300_000))
            assert await asyncio.wait_for(client.read_frame(), WAIT_SECONDS) is not None
            client.send(fetch("t", 1))
            frame = await asyncio.wait_for(client.read_frame(), WAIT_SECONDS)
            assert frame is not None
            assert bytes(300_000) in frame
            [connection] = broker._running().parts.dispatcher.connections
            assert connection.queued_bytes == 0


def connect(broker: AsyncBroker) -> MemoryClient:
    server = broker._running()
    listener = MemoryListener()
    listener.start(asyncio.get_running_loop(), partial(server.parts.acceptor.connected, listener))
    return listener.connect()


def produce(number: int, size: int) -> bytes:
    batch = build_batch([(0, None, bytes(size), [])])
    partition = m.ProduceRequest.PartitionProduceData(index=0, records=batch)
    topic = m.ProduceRequest.TopicProduceData(name="t", partition_data=[partition])
    request = m.ProduceRequest(acks=1, timeout_ms=10_000, topic_data=[topic])
    return b"".join(request_frame(request, 9, number, "raw"))


def fetch(name: str, number: int) -> bytes:
    partition = m.FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = m.FetchRequest.FetchTopic(topic=name, partitions=[partition])
    request = m.FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=[topic])
    return b"".join(request_frame(request, 11, number, "raw"))


class TestFailures:
    def test_an_error_that_nobody_expected_closes_the_connection_and_no_other(
        self, broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object) -> None:
            raise ValueError("a fault on purpose")

        with RawClient(broker.port) as other, RawClient(broker.port) as client:
            monkeypatch.setattr(broker._running().parts.dispatcher, "_new_route", fail)
            client.send(metadata(1))
            assert client.is_closed_by_broker()
            monkeypatch.undo()
            other.send(metadata(2))
            assert other.read_frame() is not None

    def test_a_segment_that_cannot_be_read_closes_the_connection(
        self, broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(_: FileRange) -> None:
            raise OSError("the disk is broken")

        assert produce_error(broker.port, "a-topic-with-a-long-name-0", build_batch([(0, None, b"v", [])])) == 0
        monkeypatch.setattr(FileRange, "is_cached", lambda _: False)
        monkeypatch.setattr(FileRange, "warm_up", fail)
        with RawClient(broker.port) as client:
            client.send(fetch("a-topic-with-a-long-name-0", 1))
            client.read_frame()  # the part of the response that precedes the records
            assert client.is_closed_by_broker()


def test_a_request_that_is_never_answered_does_not_hold_up_those_behind_it(broker: Broker) -> None:
    dispatcher = broker._running().parts.dispatcher

    async def say_nothing() -> Answer:
        await asyncio.sleep(0)
        return NO_RESPONSE

    dispatcher.faults[ApiKey.API_VERSIONS] = lambda _: say_nothing()
    with RawClient(broker.port) as client:
        versions = b"".join(request_frame(m.ApiVersionsRequest(), 0, 99, "raw"))
        client.send(metadata(0) + versions + metadata(1) + versions + metadata(2))
        assert_answered_in_order(client, 3)
