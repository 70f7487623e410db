"""A connection against brokers that misbehave: small servers that answer what the test wants."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from penstock.client.connection import Connection
from penstock.client.errors import BrokerUnreachable, Disconnected, RequestTimeout
from penstock.wire import messages as m
from penstock.wire.codec import encode
from penstock.wire.errors import UnsupportedVersion

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[int]:
    server = await asyncio.start_server(handler, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def read_request(reader: asyncio.StreamReader) -> tuple[int, int, int]:
    """API key, version, correlation id."""
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    key, version, correlation = struct.unpack_from(">hhi", await reader.readexactly(size))
    return key, version, correlation


def frame(correlation: int, body: bytes) -> bytes:
    return struct.pack(">ii", len(body) + 4, correlation) + body


def versions(*ranges: tuple[int, int, int], version: int = 4) -> bytes:
    entries = [m.ApiVersionsResponse.ApiVersion(*entry) for entry in ranges]
    return encode(m.ApiVersionsResponse(api_keys=entries), version)


async def negotiate(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    _, _, correlation = await read_request(reader)
    writer.write(frame(correlation, versions((3, 0, 13), (18, 0, 4))))


async def test_it_steps_down_when_the_broker_does_not_know_our_api_versions() -> None:
    requested: list[int] = []

    async def old(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            key, version, correlation = await read_request(reader)
            assert key == 18
            requested.append(version)
            if version > 1:
                refusal = m.ApiVersionsResponse(error_code=35, api_keys=[m.ApiVersionsResponse.ApiVersion(18, 0, 1)])
                writer.write(frame(correlation, encode(refusal, 0)))
            else:
                writer.write(frame(correlation, versions((3, 0, 2), version=1)))
        await reader.read()
        writer.close()

    async with serving(old) as port:
        connection = await Connection.open("127.0.0.1", port)
        assert requested == [4, 1]
        assert connection.version_for(m.MetadataResponse) == 2
        with pytest.raises(UnsupportedVersion, match="versions 0 to 2"):
            connection.version_for(m.MetadataResponse, at_least=10)
        with pytest.raises(UnsupportedVersion, match="does not offer ShareFetch"):
            connection.version_for(m.ShareFetchResponse)
        await connection.close()


async def test_answers_cut_anywhere_are_put_together() -> None:
    broker = m.MetadataResponse.MetadataResponseBroker
    expected = [broker(node_id=n, host="h" * 10_000, port=n) for n in range(10)]
    body = encode(m.MetadataResponse(brokers=expected), 12)

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await negotiate(reader, writer)
        for _ in range(3):
            _, _, correlation = await read_request(reader)
            answer = struct.pack(">ii", len(body) + 5, correlation) + b"\0" + body
            for start in range(0, len(answer), 33_333):
                writer.write(answer[start : start + 33_333])
                await writer.drain()
                await asyncio.sleep(0)
        await reader.read()
        writer.close()

    async with serving(slow) as port:
        connection = await Connection.open("127.0.0.1", port)
        requests = [connection.request(m.MetadataRequest(), m.MetadataResponse, at_most=12) for _ in range(3)]
        for answer in await asyncio.gather(*requests):
            assert answer.brokers == expected
        await connection.close()


async def test_a_connection_cut_in_the_middle_of_an_answer_fails_everything_in_flight() -> None:
    async def cutting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await negotiate(reader, writer)
        _, _, correlation = await read_request(reader)
        writer.write(struct.pack(">ii", 100, correlation) + b"half")
        await writer.drain()
        writer.close()

    async with serving(cutting) as port:
        connection = await Connection.open("127.0.0.1", port)
        requests = [connection.request(m.MetadataRequest(), m.MetadataResponse) for _ in range(3)]
        results = await asyncio.gather(*requests, return_exceptions=True)
        assert [type(result) for result in results] == [Disconnected] * 3
        with pytest.raises(Disconnected):
            await connection.request(m.MetadataRequest(), m.MetadataResponse)
        assert connection.in_flight == 0


async def test_a_broker_that_hangs_up_on_a_fetch_is_noticed() -> None:
    """The body of this Fetch ends in an empty part, which Python 3.12's asyncio never gets rid of."""

    async def hanging_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, _, correlation = await read_request(reader)
        writer.write(frame(correlation, versions((1, 4, 18), (18, 0, 4))))
        await read_request(reader)
        writer.close()

    async with serving(hanging_up) as port:
        connection = await Connection.open("127.0.0.1", port)
        async with asyncio.timeout(20):
            with pytest.raises(Disconnected):
                await connection.request(m.FetchRequest(), m.FetchResponse)


async def test_nothing_is_written_once_the_transport_is_closing() -> None:
    async def patient(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await negotiate(reader, writer)
        await reader.read()
        writer.close()

    async with serving(patient) as port:
        connection = await Connection.open("127.0.0.1", port)
        written = connection.conversation.correlation_id
        assert connection._transport is not None
        connection._transport.close()
        with pytest.raises(Disconnected, match="is closed"):
            await connection.request(m.MetadataRequest(), m.MetadataResponse)
        assert connection.conversation.correlation_id == written


async def test_answers_out_of_order_break_the_connection() -> None:
    async def confused(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await negotiate(reader, writer)
        _, _, correlation = await read_request(reader)
        writer.write(frame(correlation + 1, b"\0"))
        await reader.read()
        writer.close()

    async with serving(confused) as port:
        connection = await Connection.open("127.0.0.1", port)
        with pytest.raises(Disconnected, match="out of order"):
            await connection.request(m.MetadataRequest(), m.MetadataResponse)
        assert connection.closed


async def test_no_answer_in_time_breaks_the_connection() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await negotiate(reader, writer)
        await reader.read()
        writer.close()

    async with serving(silent) as port:
        connection = await Connection.open("127.0.0.1", port)
        with pytest.raises(RequestTimeout, match="Metadata within 50 ms"):
            await connection.request(m.MetadataRequest(), m.MetadataResponse, timeout_ms=50)
        assert connection.closed


async def test_something_that_is_no_broker_is_noticed() -> None:
    async def web(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    async with serving(web) as port:
        with pytest.raises(Disconnected, match="is it a Kafka broker"):
            await Connection.open("127.0.0.1", port)


async def test_nobody_there_is_said_so() -> None:
    with pytest.raises(BrokerUnreachable, match=r"no broker answers at 127\.0\.0\.1:1 "):
        await Connection.open("127.0.0.1", 1)


async def test_a_broker_that_never_negotiates_is_given_up() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with serving(silent) as port:
        with pytest.raises(BrokerUnreachable, match="within 50 ms"):
            await Connection.open("127.0.0.1", port, timeout_ms=50)


async def test_no_more_requests_are_in_flight_than_allowed() -> None:
    seen: list[int] = []
    go = asyncio.Event()

    async def holding(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await negotiate(reader, writer)
        seen.extend([(await read_request(reader))[2] for _ in range(2)])
        try:
            async with asyncio.timeout(0.05):
                seen.append((await read_request(reader))[2])
        except TimeoutError:
            go.set()
        writer.close()

    async with serving(holding) as port:
        connection = await Connection.open("127.0.0.1", port, max_in_flight=2)
        requests = [connection.request(m.MetadataRequest(), m.MetadataResponse) for _ in range(3)]
        await asyncio.gather(*requests, return_exceptions=True)
        assert go.is_set()
        assert len(seen) == 2


class TestThrottling:
    """A broker that has said how long to wait is left alone until then (KIP-219)."""

    @staticmethod
    def throttling(throttle_ms: int) -> Handler:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await negotiate(reader, writer)
            while True:
                _, version, correlation = await read_request(reader)
                answer = encode(m.MetadataResponse(throttle_time_ms=throttle_ms), version)
                writer.write(frame(correlation, b"\0" + answer))

        return serve

    async def test_the_next_request_waits(self) -> None:
        async with serving(self.throttling(50)) as port:
            connection = await Connection.open("127.0.0.1", port)
            await connection.request(m.MetadataRequest(topics=[]), m.MetadataResponse)
            until = connection._throttled_until
            assert until is not None
            await connection.request(m.MetadataRequest(topics=[]), m.MetadataResponse)
            assert asyncio.get_running_loop().time() >= until
            await connection.close()

    async def test_a_wait_beyond_the_timeout_is_an_error_that_says_why(self) -> None:
        async with serving(self.throttling(60_000)) as port:
            connection = await Connection.open("127.0.0.1", port)
            await connection.request(m.MetadataRequest(topics=[]), m.MetadataResponse)
            with pytest.raises(RequestTimeout, match="quota"):
                await connection.request(m.MetadataRequest(topics=[]), m.MetadataResponse, timeout_ms=1000)
            assert not connection.closed
            await connection.close()

    async def test_closing_ends_the_wait(self) -> None:
        async with serving(self.throttling(60_000)) as port:
            connection = await Connection.open("127.0.0.1", port)
            await connection.request(m.MetadataRequest(topics=[]), m.MetadataResponse)
            requested = asyncio.ensure_future(
                connection.request(m.MetadataRequest(topics=[]), m.MetadataResponse, timeout_ms=120_000)
            )
            await asyncio.sleep(0)
            await connection.close()
            with pytest.raises(Disconnected):
                await asyncio.wait_for(requested, 30)
