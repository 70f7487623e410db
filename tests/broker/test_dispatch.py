"""From a frame to a handler and back, over a connection in memory."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from penstock.broker.dispatch import Dispatcher, merge_bytes, response_is_flexible
from penstock.broker.file_range import FileRange
from penstock.broker.requests import NO_RESPONSE, AnyRequest, Pending
from penstock.log.files import SegmentFile
from penstock.testing import AsyncBroker
from penstock.testing.memory import MemoryClient, MemoryListener
from penstock.wire import messages as m
from penstock.wire.api import API_TABLE, ApiKey
from penstock.wire.frames import request_frame

WAIT_SECONDS = 30


class Stage:
    """A dispatcher, and clients that speak to it without a socket."""

    def __init__(self, broker: AsyncBroker) -> None:
        self._listener = MemoryListener()
        server = broker._running()
        self._listener.start(asyncio.get_running_loop(), partial(server.parts.acceptor.connected, self._listener))
        self.dispatcher: Dispatcher = server.parts.dispatcher

    def connect(self) -> MemoryClient:
        return self._listener.connect()

    def hold(self, api: ApiKey) -> asyncio.Queue[Pending]:
        """Leave the requests of an API for the test to answer."""
        held: asyncio.Queue[Pending] = asyncio.Queue()

        def defer(request: AnyRequest) -> Pending:
            pending = request.defer()
            held.put_nowait(pending)
            return pending

        self.dispatcher.faults[api] = defer
        return held


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with AsyncBroker() as broker:
        yield Stage(broker)


def frame(request: m.Message, version: int, correlation_id: int) -> bytes:
    return b"".join(request_frame(request, version, correlation_id, "test"))


def versions(correlation_id: int) -> bytes:
    return frame(m.ApiVersionsRequest(), 0, correlation_id)


def metadata(correlation_id: int) -> bytes:
    return frame(m.MetadataRequest(topics=[]), 8, correlation_id)


async def taken(held: asyncio.Queue[Pending]) -> Pending:
    return await asyncio.wait_for(held.get(), WAIT_SECONDS)


async def next_id(client: MemoryClient) -> int | None:
    """The correlation id of the next response; None when the broker closed the connection."""
    response = await asyncio.wait_for(client.read_frame(), WAIT_SECONDS)
    return None if response is None else int.from_bytes(response[:4], "big")


async def test_responses_leave_in_the_order_of_the_requests(stage: Stage) -> None:
    held = stage.hold(ApiKey.API_VERSIONS)
    client = stage.connect()
    client.send(versions(1) + metadata(2) + versions(3))
    first, second = await taken(held), await taken(held)
    second.complete(m.ApiVersionsResponse())
    await asyncio.sleep(0)
    assert client.received == b""
    first.complete(m.ApiVersionsResponse())
    assert [await next_id(client) for _ in range(3)] == [1, 2, 3]


async def test_completing_a_reply_twice_or_for_a_client_that_is_gone_does_nothing(stage: Stage) -> None:
    held = stage.hold(ApiKey.API_VERSIONS)
    client = stage.connect()
    client.send(versions(1) + versions(2))
    first, second = await taken(held), await taken(held)
    first.complete(m.ApiVersionsResponse())
    first.complete(m.ApiVersionsResponse())
    assert await next_id(client) == 1
    client.close()
    assert await next_id(client) is None
    second.complete(m.ApiVersionsResponse())
    assert client.received == b""


async def test_a_handler_that_fails_costs_its_own_connection(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: AnyRequest) -> m.Message:
        raise ValueError("a fault of this request alone")

    stage.dispatcher.faults[ApiKey.API_VERSIONS] = fail
    client, other = stage.connect(), stage.connect()
    client.send(versions(1))
    assert await next_id(client) is None
    assert "a fault of this request alone" in caplog.text
    other.send(metadata(2))
    assert await next_id(other) == 2


async def test_a_handler_that_fails_later_costs_its_own_connection(stage: Stage) -> None:
    async def fail() -> m.Message:
        await asyncio.sleep(0)
        raise ValueError("a fault of this request alone")

    stage.dispatcher.faults[ApiKey.API_VERSIONS] = lambda _: fail()
    client = stage.connect()
    client.send(versions(1))
    assert await next_id(client) is None


async def test_a_response_that_cannot_be_encoded_closes_the_connection(stage: Stage) -> None:
    broken = m.ApiVersionsResponse(error_code="not a number")  # type: ignore[arg-type]
    stage.dispatcher.faults[ApiKey.API_VERSIONS] = lambda _: broken
    client = stage.connect()
    client.send(versions(1))
    assert await next_id(client) is None


async def test_a_request_that_wants_no_answer_gets_none(stage: Stage) -> None:
    async def say_nothing() -> object:
        return NO_RESPONSE

    client = stage.connect()
    stage.dispatcher.faults[ApiKey.API_VERSIONS] = lambda _: NO_RESPONSE
    client.send(versions(1) + metadata(2))
    assert await next_id(client) == 2
    stage.dispatcher.faults[ApiKey.API_VERSIONS] = lambda _: say_nothing()  # type: ignore[assignment, return-value]
    client.send(versions(3) + metadata(4) + versions(5) + metadata(6))
    assert await next_id(client) == 4
    assert await next_id(client) == 6


async def test_requests_are_counted_by_api(stage: Stage) -> None:
    client = stage.connect()
    before = stage.dispatcher.requests(ApiKey.METADATA)
    client.send(metadata(1) + metadata(2))
    assert [await next_id(client), await next_id(client)] == [1, 2]
    assert stage.dispatcher.requests(ApiKey.METADATA) == before + 2


async def test_a_connection_that_closes_is_forgotten(stage: Stage) -> None:
    client = stage.connect()
    assert len(stage.dispatcher.connections) == 1
    client.close()
    assert await next_id(client) is None
    assert len(stage.dispatcher.connections) == 0


async def test_what_is_advertised_has_a_handler(stage: Stage) -> None:
    for info in stage.dispatcher.advertised():
        assert callable(stage.dispatcher.find_handler(info.key))


def test_neighbouring_bytes_are_joined_and_file_ranges_count_as_their_handles(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(bytes(10))
    part = FileRange(SegmentFile(str(path), os.O_RDONLY), 0, 1_000_000)
    view = memoryview(bytearray(5))
    merged, size, size_in_memory = merge_bytes([b"ab", b"c", part, b"d", view, b"e", b"f"])
    assert merged == [b"abc", part, b"d", view, b"ef"]
    assert size == 3 + 1_000_000 + 1 + 5 + 2
    assert size_in_memory == 3 + FileRange.HANDLE_BYTES + 1 + 5 + 2


def test_the_header_of_an_api_versions_response_is_never_flexible() -> None:
    assert not response_is_flexible(ApiKey.API_VERSIONS, API_TABLE[ApiKey.API_VERSIONS].max_version)
    assert response_is_flexible(ApiKey.METADATA, 9)
    assert not response_is_flexible(ApiKey.METADATA, 8)
