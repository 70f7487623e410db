"""A client of nothing but a socket, for what no real client would send; the raw clients of all tests build on it."""

from __future__ import annotations

import select
import socket
from collections import deque
from types import TracebackType
from typing import Self, TypeVar

from penstock.wire import messages as m
from penstock.wire.api import api_of
from penstock.wire.conversation import Conversation
from penstock.wire.errors import ErrorCode
from penstock.wire.frames import SIZE, FrameBuffer

WAIT_SECONDS = 30
R = TypeVar("R", bound=m.Message)


def framed(payload: bytes) -> bytes:
    """The payload behind its size."""
    return SIZE.pack(len(payload)) + payload


class RawClient:
    """Bytes and frames as they are (`send`, `read_frame`), or whole requests in versions of your choice (`ask`)."""

    def __init__(self, port: int, client_id: str = "raw", *, receive_buffer_bytes: int = 0) -> None:
        self._socket = socket.socket()
        if receive_buffer_bytes:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self._socket.settimeout(WAIT_SECONDS)
        self._socket.connect(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._frames = FrameBuffer()
        self._arrived: deque[memoryview] = deque()
        self._conversation = Conversation(f"127.0.0.1:{port}", client_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    @property
    def local_port(self) -> int:
        return int(self._socket.getsockname()[1])

    # Bytes

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def send_frame(self, payload: bytes) -> None:
        self.send(framed(payload))

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

    def read_frame(self, timeout_s: float = WAIT_SECONDS) -> bytes | None:
        """The payload of the next response; None when the broker closed the connection."""
        self._socket.settimeout(timeout_s)
        try:
            while not self._arrived:
                count = self._socket.recv_into(self._frames.get_buffer())
                if not count:
                    return None
                self._arrived.extend(self._frames.received(count))
        except ConnectionError:
            return None
        return bytes(self._arrived.popleft())

    def drain(self, seconds: float) -> None:
        """Read and forget what comes until nothing does for a while."""
        self._socket.settimeout(seconds)
        try:
            while self._socket.recv(1 << 16):
                pass
        except TimeoutError:
            pass

    def is_readable(self, seconds: float) -> bool:
        """Whether something has come, or comes within this time."""
        return bool(self._arrived or select.select([self._socket], [], [], seconds)[0])

    def is_closed_by_broker(self) -> bool:
        return self.read_frame() is None

    # Requests

    def post(self, request: m.Message, version: int) -> None:
        """Send a request; its response, unless it is one that gets none, is still to be taken."""
        is_answered = not isinstance(request, m.ProduceRequest) or request.acks != 0
        response = api_of(type(request)).response if is_answered else None
        self.send(b"".join(self._conversation.send(request, response, version)))

    def take(self, response: type[R]) -> R:
        """The response to the oldest request that has none."""
        frame = self.read_frame()
        if frame is None:
            raise ConnectionError("the broker closed the connection")
        view = memoryview(frame)
        message = self._conversation.answered(view).decode(view)
        assert isinstance(message, response)
        return message

    def ask(self, request: m.Message, response: type[R], version: int) -> R:
        """Send a request and take its response."""
        self.post(request, version)
        return self.take(response)


def is_alive(port: int) -> bool:
    """Whether a newcomer is served."""
    with RawClient(port) as client:
        return client.ask(m.ApiVersionsRequest(), m.ApiVersionsResponse, 0).error_code == 0


def produce_error(port: int, topic: str, records: bytes | bytearray, acks: int = 1, version: int = 9) -> int:
    """Produce one batch to partition 0; its error code."""
    partition = m.ProduceRequest.PartitionProduceData(index=0, records=records)
    data = m.ProduceRequest.TopicProduceData(name=topic, partition_data=[partition])
    with RawClient(port) as client:
        request = m.ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[data])
        response = client.ask(request, m.ProduceResponse, version)
    return response.responses[0].partition_responses[0].error_code


def end_offset(port: int, topic: str) -> int:
    partition = m.ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1)
    requested = m.ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[partition])
    with RawClient(port) as client:
        response = client.ask(m.ListOffsetsRequest(replica_id=-1, topics=[requested]), m.ListOffsetsResponse, 6)
    return response.topics[0].partitions[0].offset


def create_topic(port: int, name: str, configs: dict[str, str] | None = None) -> None:
    topic = m.CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    topic.configs = [
        m.CreateTopicsRequest.CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
    ]
    with RawClient(port) as client:
        response = client.ask(m.CreateTopicsRequest(topics=[topic], timeout_ms=10_000), m.CreateTopicsResponse, 5)
    assert response.topics[0].error_code == ErrorCode.NONE
