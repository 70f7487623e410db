"""Plain sockets as a transport, with a real peer at the other end."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.broker.file_range import FileRange
from penstock.broker.transport import SocketTransport, Transport, _send_buffers
from penstock.log.files import SegmentFile

WAIT_SECONDS = 30


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.settimeout(WAIT_SECONDS)
    yield ours, theirs
    ours.close()
    theirs.close()


def transport(sock: socket.socket) -> Transport:
    return SocketTransport(sock, ("10.0.0.1", 4711), asyncio.get_running_loop())


async def test_nothing_to_receive_would_block(pair: tuple[socket.socket, socket.socket]) -> None:
    end = transport(pair[0])
    assert end.peer == ("10.0.0.1", 4711)
    with pytest.raises(BlockingIOError):
        end.receive_into(memoryview(bytearray(10)))


async def test_what_the_peer_sends_is_received_and_then_its_end(pair: tuple[socket.socket, socket.socket]) -> None:
    end = transport(pair[0])
    buffer = bytearray(10)
    pair[1].sendall(b"abc")
    pair[1].shutdown(socket.SHUT_WR)
    assert end.receive_into(memoryview(buffer), 2) == 2
    assert end.receive_into(memoryview(buffer)[2:]) == 1
    assert buffer[:3] == b"abc"
    assert end.receive_into(memoryview(buffer)) == 0


async def test_buffers_and_a_range_of_a_file_are_sent_in_order(
    pair: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    path = tmp_path / "segment"
    path.write_bytes(b"0123456789")
    end = transport(pair[0])
    assert end.send([b"ab", memoryview(b"cd")], True) == 4
    assert end.send_file(FileRange(SegmentFile(str(path), os.O_RDONLY), 3, 4)) == 4
    end.close()
    assert pair[1].makefile("rb").read() == b"abcd3456"


async def test_a_range_behind_the_end_of_the_file_sends_nothing(
    pair: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    path = tmp_path / "segment"
    path.write_bytes(b"0123456789")
    assert transport(pair[0]).send_file(FileRange(SegmentFile(str(path), os.O_RDONLY), 10, 4)) == 0


async def test_readers_and_writers_are_called_when_they_can_do_something(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    end = transport(pair[0])
    readable, writable = asyncio.Event(), asyncio.Event()
    while True:
        try:
            end.send([bytes(1 << 16)], False)
        except BlockingIOError:
            break
    end.add_reader(readable.set)
    end.add_writer(writable.set)
    pair[1].sendall(b"a")
    await asyncio.wait_for(readable.wait(), WAIT_SECONDS)
    assert not writable.is_set()
    pair[1].setblocking(False)
    while not writable.is_set():
        try:
            assert pair[1].recv(1 << 20)
        except BlockingIOError:
            await asyncio.wait_for(writable.wait(), WAIT_SECONDS)
        await asyncio.sleep(0)
    end.close()


async def test_nobody_is_called_after_it_was_removed_or_the_transport_closed(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    end = transport(pair[0])
    called: list[str] = []
    end.add_reader(lambda: called.append("reader"))
    end.remove_reader()
    end.add_writer(lambda: called.append("writer"))
    pair[1].sendall(b"a")
    end.close()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert called == []


def test_buffers_are_sent_as_one_without_sendmsg() -> None:
    class Plain:
        def __init__(self) -> None:
            self.sent = b""

        def send(self, data: bytes, flags: int) -> int:
            self.sent += data
            return len(data)

    plain = Plain()
    assert _send_buffers(plain)([b"ab", memoryview(b"cd")], (), 0) == 4  # type: ignore[arg-type]
    assert plain.sent == b"abcd"
    with socket.socket() as real:
        assert _send_buffers(real) == real.sendmsg
