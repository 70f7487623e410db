"""The proxy does to connections what its modes say, and counts it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.cluster.storm.proxy import Mode, Proxy


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    """In front of a server that answers each piece with the same piece."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1000):
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n" if data.startswith(b"PUT ") else data)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    proxy = Proxy(server.sockets[0].getsockname()[1])
    await proxy.start()
    yield proxy
    await proxy.stop()
    server.close()


class Client:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def connect(cls, proxy: Proxy) -> Client:
        client = cls()
        client.reader, client.writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        return client

    async def ask(self, data: bytes, seconds: float = 10) -> bytes:
        """The answer; nothing if the connection is cut. TimeoutError if none comes."""
        self.writer.write(data)
        try:
            return await asyncio.wait_for(self.reader.read(1000), seconds)
        except ConnectionError:
            return b""


async def test_it_passes_bytes_on_in_both_directions(proxy: Proxy) -> None:
    client = await Client.connect(proxy)
    assert await client.ask(b"hello") == b"hello"
    assert not proxy.hits


async def test_it_refuses_and_takes_connections_again(proxy: Proxy) -> None:
    client = await Client.connect(proxy)
    await client.ask(b"hello")
    await proxy.set(Mode.REFUSE)
    assert await client.ask(b"more") == b""
    assert proxy.hits["refuse"] == 1
    with pytest.raises(ConnectionRefusedError):
        await Client.connect(proxy)
    assert await proxy.refuses()
    await proxy.set(Mode.PASS)
    assert not await proxy.refuses()
    assert await (await Client.connect(proxy)).ask(b"again") == b"again"


async def test_it_swallows_silently_and_cuts_what_it_has_spoilt(proxy: Proxy) -> None:
    client, quiet = await Client.connect(proxy), await Client.connect(proxy)
    assert [await client.ask(b"1"), await quiet.ask(b"2")] == [b"1", b"2"]
    await proxy.set(Mode.SWALLOW)
    with pytest.raises(TimeoutError):
        await client.ask(b"lost", 0.2)
    assert proxy.hits["swallow"] == 1
    await proxy.set(Mode.PASS)
    assert await client.ask(b"more") == b""
    assert await quiet.ask(b"still here") == b"still here"


async def test_it_parts_one_program_from_the_others(proxy: Proxy) -> None:
    names = iter(["a", "b"])
    proxy._who = lambda port: next(names)
    client = await Client.connect(proxy)
    await client.ask(b"hello")
    other = await Client.connect(proxy)
    await other.ask(b"hello")
    proxy.part("a", Mode.REFUSE)
    assert await client.ask(b"more") == b""
    assert await other.ask(b"more") == b"more"
    assert proxy.hits["refuse"] == 1


async def test_it_answers_for_a_store_that_is_busy(proxy: Proxy) -> None:
    await proxy.set(Mode.UNAVAILABLE)
    client = await Client.connect(proxy)
    assert (await client.ask(b"PUT /x HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc")).startswith(b"HTTP/1.1 503 ")
    assert proxy.hits["503"] == 1


async def test_it_lets_a_put_through_and_no_answer(proxy: Proxy) -> None:
    await proxy.set(Mode.DROP_ANSWERS_TO_PUTS)
    assert await (await Client.connect(proxy)).ask(b"GET /x") == b"GET /x"
    assert await (await Client.connect(proxy)).ask(b"PUT /x") == b""
    assert proxy.hits["stored and no answer"] == 1


@pytest.mark.parametrize("statement", [b"... INSERT INTO extent ...", b"B\0\0\0\x10\0_pg3_4\0"])
async def test_it_cuts_when_a_commit_is_answered_and_only_then(proxy: Proxy, statement: bytes) -> None:
    client = await Client.connect(proxy)
    prepared = b"P\0\0\0\x40_pg3_4\0WITH placed AS (INSERT INTO extent)\0"
    assert await client.ask(prepared) == prepared
    await proxy.set(Mode.CUT_COMMITS)
    assert await client.ask(b"SELECT 1") == b"SELECT 1"
    assert await client.ask(statement) == b""
    assert proxy.hits["cut during COMMIT"] == 1


async def test_it_holds_a_commit_back_until_it_is_let_go(proxy: Proxy) -> None:
    await proxy.set(Mode.HOLD_COMMITS)
    client = await Client.connect(proxy)
    with pytest.raises(TimeoutError):
        await client.ask(b"INSERT INTO extent", 0.2)
    assert proxy.hits["hold commits"] == 1
    await proxy.set(Mode.PASS)
    assert await asyncio.wait_for(client.reader.read(1000), 10) == b"INSERT INTO extent"
