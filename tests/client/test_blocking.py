"""A blocking connection, against a real broker and against servers that misbehave."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from penstock.client.blocking import BlockingConnection
from penstock.client.errors import BrokerUnreachable, Disconnected, RequestTimeout
from penstock.testing.broker import Broker
from penstock.wire import messages as m
from penstock.wire.codec import encode
from penstock.wire.errors import ErrorCode, UnsupportedVersion
from penstock.wire.frames import SIZE, RequestHeader, parse_request_header

WAIT_SECONDS = 20


@contextmanager
def serving(handler: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server for one client."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(WAIT_SECONDS)

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.settimeout(WAIT_SECONDS)
                handler(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join(WAIT_SECONDS)
        assert not thread.is_alive()


def read_request(connection: socket.socket) -> RequestHeader:
    (size,) = SIZE.unpack(connection.recv(4, socket.MSG_WAITALL))
    return parse_request_header(memoryview(connection.recv(size, socket.MSG_WAITALL)))[0]


def respond(connection: socket.socket, correlation_id: int, body: bytes) -> None:
    connection.sendall(SIZE.pack(4 + len(body)) + SIZE.pack(correlation_id) + body)


def negotiate(connection: socket.socket) -> None:
    header = read_request(connection)
    offered = [m.ApiVersionsResponse.ApiVersion(*entry) for entry in [(3, 0, 8), (18, 0, 4)]]
    respond(connection, header.correlation_id, encode(m.ApiVersionsResponse(api_keys=offered), header.api_version))


def test_requests_are_answered_in_the_newest_version_that_both_speak() -> None:
    with Broker() as broker:
        broker.create_topic("t", 3)
        connection = BlockingConnection.open("127.0.0.1", broker.port)
        assert connection.offers(m.FetchResponse, 13)
        answer = connection.request(m.MetadataRequest(topics=None), m.MetadataResponse)
        assert [(topic.name, len(topic.partitions)) for topic in answer.topics] == [("t", 3)]
        assert connection.request(m.MetadataRequest(topics=None), m.MetadataResponse, at_most=1).topics[0].name == "t"
        connection.close()


def test_it_steps_down_when_the_broker_does_not_know_our_api_versions() -> None:
    requested: list[int] = []

    def old(connection: socket.socket) -> None:
        header = read_request(connection)
        requested.append(header.api_version)
        known = [m.ApiVersionsResponse.ApiVersion(18, 0, 1)]
        refusal = m.ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=known)
        respond(connection, header.correlation_id, encode(refusal, 0))
        header = read_request(connection)
        requested.append(header.api_version)
        respond(connection, header.correlation_id, encode(m.ApiVersionsResponse(api_keys=known), 1))

    with serving(old) as port:
        connection = BlockingConnection.open("127.0.0.1", port)
        assert requested == [4, 1]
        with pytest.raises(UnsupportedVersion, match="does not offer Fetch"):
            connection.request(m.FetchRequest(), m.FetchResponse)
        connection.close()


def test_nobody_there_is_said_so() -> None:
    with pytest.raises(BrokerUnreachable, match=r"no broker answers at 127\.0\.0\.1:1 "):
        BlockingConnection.open("127.0.0.1", 1)


def test_a_broker_that_hangs_up_is_a_disconnection() -> None:
    def hanging_up(connection: socket.socket) -> None:
        negotiate(connection)
        read_request(connection)

    with serving(hanging_up) as port:
        connection = BlockingConnection.open("127.0.0.1", port)
        with pytest.raises(Disconnected, match="the broker closed it"):
            connection.request(m.MetadataRequest(), m.MetadataResponse)
        connection.close()


def test_an_answer_to_another_request_is_a_disconnection() -> None:
    def confused(connection: socket.socket) -> None:
        negotiate(connection)
        respond(connection, read_request(connection).correlation_id + 1, b"\0")

    with serving(confused) as port:
        connection = BlockingConnection.open("127.0.0.1", port)
        with pytest.raises(Disconnected, match="out of order"):
            connection.request(m.MetadataRequest(), m.MetadataResponse)
        connection.close()


def test_something_that_is_no_broker_is_noticed() -> None:
    def web(connection: socket.socket) -> None:
        connection.recv(10)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        connection.recv(1 << 16)

    with serving(web) as port, pytest.raises(Disconnected, match="is it a Kafka broker"):
        BlockingConnection.open("127.0.0.1", port)


def test_no_answer_in_time_is_a_timeout() -> None:
    def silent(connection: socket.socket) -> None:
        negotiate(connection)
        read_request(connection)
        connection.recv(1)

    with serving(silent) as port:
        connection = BlockingConnection.open("127.0.0.1", port, timeout_s=0.05)
        with pytest.raises(RequestTimeout, match="did not answer MetadataRequest"):
            connection.request(m.MetadataRequest(), m.MetadataResponse)
        connection.close()


def test_closing_wakes_a_thread_that_waits_for_an_answer() -> None:
    waiting = threading.Event()

    def silent(connection: socket.socket) -> None:
        negotiate(connection)
        read_request(connection)
        waiting.set()
        connection.recv(1)

    errors: list[Exception] = []

    def ask(connection: BlockingConnection) -> None:
        try:
            connection.request(m.MetadataRequest(), m.MetadataResponse)
        except Disconnected as error:
            errors.append(error)

    with serving(silent) as port:
        connection = BlockingConnection.open("127.0.0.1", port)
        thread = threading.Thread(target=ask, args=(connection,))
        thread.start()
        assert waiting.wait(WAIT_SECONDS)
        connection.close()
        thread.join(WAIT_SECONDS)
        assert len(errors) == 1
