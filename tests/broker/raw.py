"""A client of nothing but a socket, for what no real client would send."""

from __future__ import annotations

import socket
import struct
from types import TracebackType
from typing import Self

from penstock.wire import messages as m
from penstock.wire.api import API_TABLE, ApiKey, response_header_version
from penstock.wire.codec import decode
from penstock.wire.errors import ErrorCode
from penstock.wire.frames import request_frame

WAIT_SECONDS = 30


class RawClient:
    def __init__(self, port: int, *, receive_buffer_bytes: int = 0) -> None:
        self._socket = socket.socket()
        if receive_buffer_bytes:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self._socket.settimeout(WAIT_SECONDS)
        self._socket.connect(("127.0.0.1", port))
        self._stream = self._socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._stream.close()
        self._socket.close()

    @property
    def local_port(self) -> int:
        return int(self._socket.getsockname()[1])

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def send_frame(self, payload: bytes) -> None:
        self.send(struct.pack(">i", len(payload)) + payload)

    def fill(self, data: bytes) -> int:
        """Send `data` again and again until the broker takes no more for half a second; the bytes it took."""
        self._socket.settimeout(0.5)
        sent = 0
        try:
            while sent < 1 << 30:
                sent += self._socket.send(data)
        except TimeoutError:
            pass
        return sent

    def read_frame(self) -> bytes | None:
        """The payload of the next response; None when the broker closed the connection."""
        try:
            size = self._stream.read(4)
            return self._stream.read(struct.unpack(">i", size)[0]) if len(size) == 4 else None
        except ConnectionError:
            return None

    def drain(self, seconds: float) -> None:
        """Read and forget what comes until nothing does for a while."""
        self._socket.settimeout(seconds)
        try:
            while self._socket.recv(1 << 16):
                pass
        except TimeoutError:
            pass

    def is_closed_by_broker(self) -> bool:
        return self.read_frame() is None

    def request(self, key: ApiKey, request: m.Message, version: int) -> m.Message:
        """Send a request and decode its response."""
        self.send(b"".join(request_frame(request, version, 7, "raw")))
        payload = self.read_frame()
        assert payload is not None, "the broker closed the connection"
        assert payload[:4] == struct.pack(">i", 7)
        body = payload[4 + response_header_version(key, version) :]
        return decode(API_TABLE[key].response, body, version)


def is_alive(port: int) -> bool:
    """Whether a newcomer is served."""
    with RawClient(port) as client:
        response = client.request(ApiKey.API_VERSIONS, m.ApiVersionsRequest(), 0)
        assert isinstance(response, m.ApiVersionsResponse)
        return response.error_code == 0


def produce_error(port: int, topic: str, records: bytes | bytearray, acks: int = 1, version: int = 9) -> int:
    """Produce one batch to partition 0; its error code."""
    partition = m.ProduceRequest.PartitionProduceData(index=0, records=records)
    data = m.ProduceRequest.TopicProduceData(name=topic, partition_data=[partition])
    with RawClient(port) as client:
        request = m.ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[data])
        response = client.request(ApiKey.PRODUCE, request, version)
    assert isinstance(response, m.ProduceResponse)
    return response.responses[0].partition_responses[0].error_code


def end_offset(port: int, topic: str) -> int:
    partition = m.ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1)
    asked = m.ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[partition])
    with RawClient(port) as client:
        response = client.request(ApiKey.LIST_OFFSETS, m.ListOffsetsRequest(replica_id=-1, topics=[asked]), 6)
    assert isinstance(response, m.ListOffsetsResponse)
    return response.topics[0].partitions[0].offset


def create_topic(port: int, name: str, configs: dict[str, str] | None = None) -> None:
    topic = m.CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    topic.configs = [
        m.CreateTopicsRequest.CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
    ]
    with RawClient(port) as client:
        response = client.request(ApiKey.CREATE_TOPICS, m.CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5)
    assert isinstance(response, m.CreateTopicsResponse)
    assert response.topics[0].error_code == ErrorCode.NONE
