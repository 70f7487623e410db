"""Connections without sockets: the transport keeps its contract, and a broker serves over it."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from pathlib import Path

import pytest

from penstock.broker.file_range import FileRange
from penstock.log.files import SegmentFile
from penstock.testing import AsyncBroker
from penstock.testing.memory import MemoryListener, MemoryTransport
from penstock.wire import messages as m
from penstock.wire.codec import decode
from penstock.wire.frames import request_frame

WAIT_SECONDS = 30


def transport(capacity_bytes: int = 10) -> MemoryTransport:
    return MemoryTransport(("memory", 1), asyncio.get_running_loop(), capacity_bytes)


async def test_nothing_to_receive_would_block() -> None:
    end = transport()
    with pytest.raises(BlockingIOError):
        end.receive_into(memoryview(bytearray(10)))


async def test_what_the_client_sends_is_received_in_pieces_and_then_its_end() -> None:
    end = transport()
    buffer = bytearray(4)
    end.client.send(b"abcdef")
    assert end.receive_into(memoryview(buffer)) == 4
    assert buffer == b"abcd"
    assert end.receive_into(memoryview(buffer), 1) == 1
    end.client.close()
    assert end.receive_into(memoryview(buffer)) == 1
    assert buffer[:1] == b"f"
    assert end.receive_into(memoryview(buffer)) == 0


async def test_a_reader_is_called_as_long_as_there_is_something() -> None:
    end = transport()
    received: list[int] = []
    ended = asyncio.Event()

    def read() -> None:
        received.append(end.receive_into(memoryview(bytearray(2))))
        if not received[-1]:
            end.remove_reader()
            ended.set()

    end.add_reader(read)
    end.client.send(b"abcde")
    end.client.close()
    await asyncio.wait_for(ended.wait(), WAIT_SECONDS)
    assert received == [2, 2, 1, 0]


async def test_a_client_that_does_not_read_is_sent_no_more_than_fits() -> None:
    end = transport(capacity_bytes=5)
    assert end.send([b"abc", memoryview(b"defg")], False) == 5
    with pytest.raises(BlockingIOError):
        end.send([b"fg"], False)
    writable = asyncio.Event()

    def write() -> None:
        end.remove_writer()
        writable.set()

    end.add_writer(write)
    await asyncio.sleep(0)
    assert not writable.is_set()
    assert await end.client.read(2) == b"ab"
    await asyncio.wait_for(writable.wait(), WAIT_SECONDS)
    assert end.send([b"fg"], False) == 2
    assert await end.client.read(5) == b"cdefg"


async def test_a_range_of_a_file_is_sent_as_far_as_it_fits(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(b"0123456789")
    end = transport(capacity_bytes=4)
    assert end.send_file(FileRange(SegmentFile(str(path), os.O_RDONLY), 3, 6)) == 4
    assert await end.client.read(4) == b"3456"


async def test_a_client_that_is_gone_breaks_the_pipe() -> None:
    end = transport()
    end.client.close()
    with pytest.raises(BrokenPipeError):
        end.send([b"a"], False)


async def test_a_client_sees_that_the_broker_closed() -> None:
    end = transport()
    end.send([b"ab"], False)
    end.close()
    assert await end.client.read(10) == b"ab"
    assert end.client.is_closed
    with pytest.raises(BrokenPipeError):
        end.client.send(b"more")


def test_nobody_can_connect_to_a_listener_that_is_not_started() -> None:
    with pytest.raises(ConnectionRefusedError, match="nobody listens"):
        MemoryListener().connect()


async def test_a_broker_answers_over_it() -> None:
    async with AsyncBroker() as broker:
        server = broker._running()
        listener = MemoryListener()
        listener.start(asyncio.get_running_loop(), partial(server.parts.acceptor.connected, listener))
        client = listener.connect(capacity_bytes=64)
        client.send(b"".join(request_frame(m.ApiVersionsRequest(), 0, 7, "memory")))
        frame = await asyncio.wait_for(client.read_frame(), WAIT_SECONDS)
        assert frame is not None
        assert decode(m.ApiVersionsResponse, frame[4:], 0).error_code == 0
        client.close()
        listener.close()
