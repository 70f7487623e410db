"""A proxy between two programs that fails on request: it refuses, cuts, delays, swallows, and breaks off answers.

Every fault counts what it has hit, so that a test can show that it happened. `refuse` closes the listening socket, as a
program that has ended does. `swallow` keeps every connection open and passes nothing on, as a network that drops
packets does; what was swallowed is gone, so those connections are cut when it ends.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable
from enum import Enum

_CHUNK = 65536
_COMMIT = re.compile(rb"INSERT INTO extent")
_PARSE = re.compile(rb"P....(_pg3_\d+)\x00[^\x00]*INSERT INTO extent", re.DOTALL)
_BIND = re.compile(rb"B....\x00(_pg3_\d+)\x00", re.DOTALL)
_CONTENT_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_UNAVAILABLE = (
    b"HTTP/1.1 503 Slow Down\r\nContent-Type: application/xml\r\nConnection: close\r\nContent-Length: 56\r\n\r\n"
    b"<Error><Code>SlowDown</Code><Message>busy</Message></Error>"[:56]
)


class Mode(Enum):
    PASS = "pass"
    REFUSE = "refuse"
    SWALLOW = "swallow"
    SLOW = "slow"
    UNAVAILABLE = "503"
    """Answers every HTTP request with 503 and passes none on."""
    DROP_ANSWERS_TO_PUTS = "stored and no answer"
    """Passes PUTs on, and breaks the connection when the answer comes."""
    CUT_COMMITS = "cut during COMMIT"
    """Passes commits on to PostgreSQL, and breaks the connection when the answer comes."""
    HOLD_COMMITS = "hold commits"
    """Keeps commits back until the mode changes, then passes them on."""


class Link:
    """One connection through the proxy. `source` names the program that has made it, if that is known."""

    def __init__(self, source: str | None, writers: tuple[asyncio.StreamWriter, asyncio.StreamWriter]) -> None:
        self.source = source
        self.writers = writers
        self.prepared: set[bytes] = set()
        self.commits = False
        self.puts = False
        self.is_spoilt = False
        """Bytes of it were swallowed: it is of no use any more."""

    def cut(self) -> None:
        for writer in self.writers:
            if writer.transport is not None:
                writer.transport.abort()


class Proxy:
    """Passes bytes from a port of its own on to `target`, a port of this machine."""

    def __init__(self, target: int, who: Callable[[int], str | None] = lambda port: None) -> None:
        self.target = target
        self.port = 0
        self.hits: Counter[str] = Counter()
        self.delay_seconds = 0.2
        self.parted: dict[str, Mode] = {}
        """Modes for single sources; `mode` holds for all others."""
        self._mode = Mode.PASS
        self._who = who
        self._links: set[Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._changed = asyncio.Event()

    @property
    def mode(self) -> Mode:
        return self._mode

    @property
    def is_used(self) -> bool:
        """Whether anybody is connected."""
        return bool(self._links)

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port, reuse_address=True)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        await self._stop_listening()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def set(self, mode: Mode) -> None:
        before, self._mode = self._mode, mode
        if mode is Mode.REFUSE:
            await self._stop_listening()
            self.hits[mode.value] += self.cut()
        elif self._server is None:
            await self.start()
        if before is Mode.SWALLOW or mode is Mode.UNAVAILABLE:
            self._cut_spoilt()
        if mode is Mode.UNAVAILABLE:
            self.cut()
        self._woken()

    def part(self, source: str, mode: Mode | None) -> None:
        """Treat the connections of one program in another way (None: like all others again)."""
        if mode is None:
            self.parted.pop(source, None)
            self._cut_spoilt()
        else:
            self.parted[source] = mode
            if mode is Mode.REFUSE:
                for link in list(self._links):
                    if link.source == source:
                        self.hits[mode.value] += 1
                        link.cut()
        self._woken()

    async def refuses(self) -> bool:
        """Whether somebody who connects now is refused."""
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except ConnectionRefusedError:
            return True
        writer.close()
        return False

    def cut(self) -> int:
        """Break every connection; returns how many there were."""
        links = list(self._links)
        for link in links:
            link.cut()
        return len(links)

    def _cut_spoilt(self) -> None:
        for link in list(self._links):
            if link.is_spoilt:
                link.cut()

    def _woken(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def _mode_of(self, link: Link | None, source: str | None = None) -> Mode:
        source = link.source if link is not None else source
        return self.parted.get(source or "", self._mode)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        source = self._who(writer.get_extra_info("peername")[1])
        mode = self._mode_of(None, source)
        if mode is Mode.REFUSE:
            self.hits[mode.value] += 1
            return
        if mode is Mode.UNAVAILABLE:
            await self._answer_503(reader, writer)
            return
        while self._mode_of(None, source) is Mode.SWALLOW:
            self.hits[Mode.SWALLOW.value] += 1
            await self._changed.wait()
        onward_reader, onward = await asyncio.open_connection("127.0.0.1", self.target)
        link = Link(source, (writer, onward))
        self._links.add(link)
        try:
            await asyncio.gather(
                self._pass_on(link, reader, onward, is_answer=False),
                self._pass_on(link, onward_reader, writer, is_answer=True),
            )
        finally:
            self._links.discard(link)
            link.cut()

    async def _pass_on(
        self, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool
    ) -> None:
        while data := await reader.read(_CHUNK):
            if not is_answer:
                self._look_at(link, data)
            mode = self._mode_of(link)
            if mode is Mode.SLOW:
                self.hits[mode.value] += 1
                await asyncio.sleep(self.delay_seconds)
            elif mode is Mode.SWALLOW:
                self.hits[mode.value] += 1
                link.is_spoilt = True
                continue
            elif is_answer and mode is Mode.CUT_COMMITS and link.commits:
                self.hits[mode.value] += 1
                raise ConnectionResetError("cut during COMMIT")
            elif is_answer and mode is Mode.DROP_ANSWERS_TO_PUTS and link.puts:
                if b" 200 " in data[:20]:
                    self.hits[mode.value] += 1
                raise ConnectionResetError("stored, and not answered")
            while not is_answer and link.commits and self._mode_of(link) is Mode.HOLD_COMMITS:
                self.hits[Mode.HOLD_COMMITS.value] += 1
                await self._changed.wait()
            if is_answer:
                link.commits = False
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError("the peer has closed")

    def _look_at(self, link: Link, data: bytes) -> None:
        link.prepared.update(_PARSE.findall(data))
        if _COMMIT.search(data) or any(name in link.prepared for name in _BIND.findall(data)):
            link.commits = True
        if re.match(rb"[A-Z]+ /", data):
            link.puts = data.startswith(b"PUT ")

    async def _answer_503(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = _CONTENT_LENGTH.search(head)
        await reader.readexactly(int(length.group(1)) if length else 0)
        self.hits[Mode.UNAVAILABLE.value] += 1
        writer.write(_UNAVAILABLE)
        await writer.drain()
        writer.close()
        await writer.wait_closed()
