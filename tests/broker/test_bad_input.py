"""Bad input gets a clear answer or a closed connection, and harms nobody else."""

from __future__ import annotations

import random
import resource
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from penstock.records.batch import write_crc
from penstock.records.builder import build_batch
from penstock.records.codecs import Codec
from penstock.testing import Broker
from penstock.wire import messages as m
from penstock.wire.api import API_TABLE, ApiKey
from penstock.wire.codec import decode
from penstock.wire.errors import ErrorCode
from tests.broker.process import WAIT_SECONDS, BrokerProcess
from tests.broker.raw import RawClient, create_topic, end_offset, framed, is_alive, produce_error

MIB = 1 << 20


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"socket.request.max.bytes": 2 * MIB}) as running:
        running.create_topic("t")
        yield running


def header(key: int, version: int, client_id: bytes = b"\xff\xff") -> bytes:
    return struct.pack(">hhi", key, version, 7) + client_id


class TestFrames:
    def test_random_bytes(self, broker: Broker) -> None:
        source = random.Random(1)
        for _ in range(300):
            with RawClient(broker.port) as client:
                client.send(source.randbytes(source.randrange(1, 2000)))
        assert is_alive(broker.port)

    @pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1, 2 * MIB + 1])
    def test_a_frame_of_an_impossible_size_closes_the_connection(self, broker: Broker, size: int) -> None:
        with RawClient(broker.port) as client:
            client.send(struct.pack(">i", size) + b"more")
            assert client.is_closed_by_broker()
        assert is_alive(broker.port)

    @pytest.mark.parametrize("size", range(10))
    def test_a_frame_shorter_than_a_header_closes_the_connection(self, broker: Broker, size: int) -> None:
        with RawClient(broker.port) as client:
            client.send_frame(header(ApiKey.API_VERSIONS, 0)[:size])
            assert client.is_closed_by_broker()

    def test_a_frame_that_never_arrives_whole_does_not_hold_up_others(self, broker: Broker) -> None:
        with RawClient(broker.port) as client:
            client.send(struct.pack(">i", MIB) + header(ApiKey.METADATA, 1))
            assert is_alive(broker.port)

    def test_a_frame_that_comes_byte_by_byte_is_answered(self, broker: Broker) -> None:
        with RawClient(broker.port) as client:
            payload = header(ApiKey.API_VERSIONS, 0)
            for byte in framed(payload):
                client.send(bytes([byte]))
            assert client.read_frame() is not None

    def test_many_requests_in_one_packet_are_answered_in_order(self, broker: Broker) -> None:
        payloads = [struct.pack(">hhih", ApiKey.API_VERSIONS, 0, number, -1) for number in range(3000)]
        with RawClient(broker.port) as client:
            client.send(b"".join(map(framed, payloads)))
            for number in range(3000):
                frame = client.read_frame()
                assert frame is not None
                assert frame[:4] == struct.pack(">i", number)


OTHERS = [info for info in API_TABLE.values() if info.key != ApiKey.API_VERSIONS]  # which answers: see its own test


class TestRequests:
    @pytest.mark.parametrize("key", [999, -1, 4, 52, 32767])
    def test_an_unknown_api_closes_the_connection(self, broker: Broker, key: int) -> None:
        with RawClient(broker.port) as client:
            client.send_frame(header(key, 0) + bytes(10))
            assert client.is_closed_by_broker()
        assert is_alive(broker.port)

    @pytest.mark.parametrize("info", OTHERS, ids=lambda info: str(info.name))
    def test_a_version_that_does_not_exist_closes_the_connection(self, broker: Broker, info: object) -> None:
        assert isinstance(info, tuple)
        key, _, low, high = info[:4]
        for version in {low - 1, high + 1, -1, 32767}:
            with RawClient(broker.port) as client:
                client.send_frame(header(key, version) + bytes(10))
                assert client.is_closed_by_broker()

    def test_api_versions_of_the_future_is_told_what_there_is(self, broker: Broker) -> None:
        with RawClient(broker.port) as client:
            client.send_frame(header(ApiKey.API_VERSIONS, 99) + b"\x00whatever the future brings")
            frame = client.read_frame()
            assert frame is not None
            response = decode(m.ApiVersionsResponse, frame[4:], 0)
            assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
            versions = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
            assert versions[ApiKey.API_VERSIONS] == (0, 4)
            # The connection is good: the client steps down on it.
            client.send_frame(header(ApiKey.API_VERSIONS, 0))
            assert client.read_frame() is not None

    @pytest.mark.parametrize("info", API_TABLE.values(), ids=lambda info: str(info.name))
    def test_a_malformed_body_closes_the_connection(self, broker: Broker, info: object) -> None:
        assert isinstance(info, tuple)
        api = API_TABLE[info[0]]
        source = random.Random(api.name)
        for _ in range(5):
            with RawClient(broker.port) as client:
                # A body that says it has 2 billion of everything.
                client.send_frame(header(api.key, api.max_version) + b"\x00" + b"\xff" * source.randrange(20, 40))
                client.read_frame()
        assert is_alive(broker.port)

    def test_a_client_id_that_is_not_text_closes_the_connection(self, broker: Broker) -> None:
        with RawClient(broker.port) as client:
            client.send_frame(header(ApiKey.API_VERSIONS, 0, b"\x00\x02\xff\xfe"))
            assert client.is_closed_by_broker()


class TestBatches:
    def batch(self) -> bytearray:
        return build_batch([(1_700_000_000_000, b"k", b"v", [])])

    def test_a_wrong_checksum(self, broker: Broker) -> None:
        batch = self.batch()
        batch[-1] ^= 1
        before = end_offset(broker.port, "t")
        assert produce_error(broker.port, "t", batch) == ErrorCode.CORRUPT_MESSAGE
        assert end_offset(broker.port, "t") == before

    @pytest.mark.parametrize(
        ("at", "value"),
        [(8, b"\xff\xff\xff\xff"), (8, b"\x00\x00\x00\x00"), (8, b"\x7f\xff\xff\xff"), (57, b"\xff\xff\xff\xff")],
        ids=["negative length", "zero length", "huge length", "negative count"],
    )
    def test_wrong_lengths_and_counts_are_refused(self, broker: Broker, at: int, value: bytes) -> None:
        batch = self.batch()
        batch[at : at + 4] = value
        write_crc(batch, 0, len(batch))
        before = end_offset(broker.port, "t")
        assert produce_error(broker.port, "t", batch) != ErrorCode.NONE
        assert end_offset(broker.port, "t") == before

    def test_damaged_batches_of_all_kinds_do_not_harm(self, broker: Broker) -> None:
        source = random.Random(5)
        for _ in range(100):
            batch = self.batch()
            for _ in range(source.randrange(1, 4)):
                batch[source.randrange(len(batch))] = source.randrange(256)
            if source.random() < 0.5:
                write_crc(batch, 0, len(batch))
            produce_error(broker.port, "t", batch)
        assert is_alive(broker.port)

    def test_an_empty_and_a_missing_batch(self, broker: Broker) -> None:
        assert produce_error(broker.port, "t", b"") != ErrorCode.NONE
        assert produce_error(broker.port, "t", bytes(10)) != ErrorCode.NONE

    @pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD], ids=lambda codec: str(codec.name))
    def test_a_decompression_bomb_is_refused(self, tmp_path: Path, codec: Codec) -> None:
        """A compacted topic must look into the batch, which would become more than a batch may be."""
        bomb = build_batch([(0, b"k", bytes(140 * MIB), [])], codec=codec)
        assert len(bomb) < MIB
        with BrokerProcess(tmp_path) as process:
            create_topic(process.port, "compacted", {"cleanup.policy": "compact"})
            assert produce_error(process.port, "compacted", self.batch()) == ErrorCode.NONE
            before = process.rss_bytes
            assert produce_error(process.port, "compacted", bomb) == ErrorCode.MESSAGE_TOO_LARGE
            assert process.rss_bytes - before < 150 * MIB
            assert is_alive(process.port)


class TestConnections:
    def test_ten_thousand_connections_opened_and_dropped(self, tmp_path: Path) -> None:
        with BrokerProcess(tmp_path) as process:
            assert is_alive(process.port)
            before = process.open_files
            for number in range(100):
                clients = [RawClient(process.port) for _ in range(100)]
                for client in clients:
                    if number % 2:
                        client.send(b"\0\0\0\x10half a frame")
                for client in clients:
                    client.close()
            assert is_alive(process.port)
            # The broker sees the last of them go a moment later.
            for _ in range(100):
                if process.open_files <= before + 5:
                    break
                assert is_alive(process.port)
            assert process.open_files <= before + 5

    def test_claimed_sizes_take_no_memory_until_the_bytes_arrive(self, tmp_path: Path) -> None:
        with BrokerProcess(tmp_path) as process:
            assert is_alive(process.port)
            before = process.rss_bytes
            clients = [RawClient(process.port) for _ in range(30)]
            for client in clients:
                client.send(struct.pack(">i", 100 * MIB) + header(ApiKey.PRODUCE, 9))
            assert is_alive(process.port)
            assert process.rss_bytes - before < 100 * MIB
            for client in clients:
                client.close()

    def test_a_client_that_does_not_read_its_responses_is_not_read_either(self, tmp_path: Path) -> None:
        with BrokerProcess(tmp_path) as process:
            assert is_alive(process.port)
            before = process.rss_bytes
            with RawClient(process.port) as client:
                assert client.fill(framed(header(ApiKey.API_VERSIONS, 0)) * 10_000) < 100 * MIB
                assert is_alive(process.port)
                assert process.rss_bytes - before < 150 * MIB


class TestFullDisk:
    """A limit on the size of files stands in for a disk that takes no more: the write fails the same way."""

    limit = 4 * MIB

    def test_writes_are_refused_and_reads_go_on_and_nothing_is_lost(self, tmp_path: Path) -> None:
        acknowledged: list[int] = []
        errors: list[str] = []
        with BrokerProcess(tmp_path, file_size_limit=self.limit) as process:
            producer = Producer({"bootstrap.servers": process.address, "acks": "all", "message.timeout.ms": 2000})

            def delivered(number: int) -> None:
                def report(error: object, _: object) -> None:
                    if error is None:
                        acknowledged.append(number)
                    else:
                        errors.append(str(error))

                producer.produce("t", b"%08d" % number + bytes(10_000), partition=0, on_delivery=report)

            for number in range(1000):
                delivered(number)
                if number % 20 == 0:
                    producer.flush(WAIT_SECONDS)
                if errors:
                    break
            producer.flush(WAIT_SECONDS)
            assert errors, "the disk never filled"
            assert len(acknowledged) * 10_000 > self.limit / 2
            assert read_numbers(process.address, len(acknowledged)) == acknowledged
            assert is_alive(process.port)
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            assert produce_error(process.port, "t", build_batch([(0, None, b"room again", [])])) == ErrorCode.NONE
            process.stop()

        with BrokerProcess(tmp_path) as again:
            assert read_numbers(again.address, len(acknowledged)) == acknowledged


def read_numbers(address: str, count: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition("t", 0, 0)])
        numbers: list[int] = []
        while len(numbers) < count:
            messages = consumer.consume(count - len(numbers), WAIT_SECONDS)
            assert messages, f"only {len(numbers)} of {count} records came"
            for message in messages:
                value = message.value()
                assert value is not None
                numbers.append(int(value[:8]))
        return numbers
    finally:
        consumer.close()


class TestTwoBrokers:
    def test_a_second_one_on_the_same_folder_is_refused(self, tmp_path: Path) -> None:
        with BrokerProcess(tmp_path) as first:
            second = BrokerProcess(tmp_path)
            result = subprocess.run(second.command(), capture_output=True, text=True, timeout=WAIT_SECONDS)
            assert result.returncode != 0
            assert "in use" in result.stderr or "already" in result.stderr
            assert "Traceback" not in result.stderr
            assert is_alive(first.port)

    def test_a_second_one_on_the_same_port_is_refused(self, tmp_path: Path) -> None:
        with BrokerProcess(tmp_path / "first") as first:
            second = BrokerProcess(tmp_path / "second")
            second.port = first.port
            result = subprocess.run(second.command(), capture_output=True, text=True, timeout=WAIT_SECONDS)
            assert result.returncode != 0
            assert str(first.port) in result.stderr
            assert "Traceback" not in result.stderr
