"""A line from long-running tasks to the driver: counters come in while tasks run, the word "stop" goes out.

Spark tells the driver about a task when the task ends, and ends a task by killing it. Workers run for hours, so people
want to see them work, and to stop them without tearing a handler apart. The driver therefore listens on a port; each
task connects, shows the job's token, and sends its counters twice a second. A driver that goes away ends the line,
which stops the tasks too: nobody would be there to hear them. A task that cannot reach the port works on without.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import secrets
import socket
import socketserver
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from typing import Self

_log = logging.getLogger("penstock.spark")

_CONNECT_TIMEOUT_S = 5.0
_LONGEST_LINE = 4096


@dataclass(slots=True)
class Counters:
    """What workers did, counted in records."""

    accepted: int = 0
    released: int = 0  # the handler raised: delivered again
    rejected: int = 0  # the handler raised Reject: never delivered again
    redelivered: int = 0  # of all these, came for the second time or more
    unconfirmed: int = 0  # decisions that the broker did not take, so that the records come again

    @property
    def handled(self) -> int:
        return self.accepted + self.released + self.rejected

    def add(self, other: Counters) -> None:
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))

    def as_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls(**json.loads(text))


@dataclass(frozen=True, slots=True)
class ControlAddress:
    """Where the driver listens; travels to the tasks."""

    host: str
    port: int
    token: str


@dataclass(frozen=True, slots=True, order=True)
class Attempt:
    """A task, and the how many-th attempt at it."""

    task: int
    number: int


@dataclass(slots=True)
class _State:
    token: str
    lock: threading.Lock = field(default_factory=threading.Lock)
    heard: dict[Attempt, Counters] = field(default_factory=dict)
    lines: set[socket.socket] = field(default_factory=set)
    stopping: bool = False


class Control:
    """The driver's end."""

    def __init__(self, advertised_host: str, bind_host: str = "") -> None:
        state = self._state = _State(secrets.token_hex(16))

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                _serve(state, self.request, self.rfile.readline)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True
            request_queue_size = 512

        self._server = Server((bind_host, 0), Handler)
        self.address = ControlAddress(advertised_host, self._server.server_address[1], state.token)
        self._thread = threading.Thread(target=self._server.serve_forever, name="penstock-control", daemon=True)
        self._thread.start()

    def stop_tasks(self) -> None:
        """Ask every task, also one that comes later, to finish what it has in hand and end."""
        state = self._state
        with state.lock:
            state.stopping = True
            lines = list(state.lines)
        for line in lines:
            _say_stop(line)

    def heard(self) -> dict[Attempt, Counters]:
        """The last counters of every attempt."""
        with self._state.lock:
            return dict(self._state.heard)

    def total(self) -> Counters:
        total = Counters()
        for counters in self.heard().values():
            total.add(counters)
        return total

    def close(self) -> None:
        with self._state.lock:
            lines = list(self._state.lines)
        for line in lines:
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _serve(state: _State, line: socket.socket, read_line: Callable[[int], bytes]) -> None:
    try:
        hello = json.loads(read_line(_LONGEST_LINE) or b"{}")
        if not hmac.compare_digest(str(hello.get("token", "")), state.token):
            return
        attempt = Attempt(int(hello["task"]), int(hello["attempt"]))
        with state.lock:
            state.lines.add(line)
            state.heard[attempt] = Counters()
            stopping = state.stopping
        if stopping:
            _say_stop(line)
        while text := read_line(_LONGEST_LINE):
            counters = Counters.from_json(text.decode())
            with state.lock:
                state.heard[attempt] = counters
    except (OSError, ValueError, TypeError, KeyError) as error:
        _log.debug("a control line broke: %s", error)
    finally:
        with state.lock:
            state.lines.discard(line)


def _say_stop(line: socket.socket) -> None:
    try:
        line.sendall(b"stop\n")
    except OSError as error:
        _log.debug("a control line is gone: %s", error)


class Line:
    """The task's end: `stop` is set when the driver says so or is gone."""

    def __init__(self, stop: asyncio.Event) -> None:
        self._stop = stop
        self._writer: asyncio.StreamWriter | None = None
        self._listening: asyncio.Task[None] | None = None

    async def connect(self, address: ControlAddress, attempt: Attempt) -> None:
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                reader, self._writer = await asyncio.open_connection(address.host, address.port)
        except OSError as error:
            _log.warning("the driver does not answer at %s:%d, working on: %s", address.host, address.port, error)
            return
        hello = {"token": address.token, "task": attempt.task, "attempt": attempt.number}
        self._writer.write(json.dumps(hello).encode() + b"\n")
        self._listening = asyncio.create_task(self._listen(reader))

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        try:
            await reader.readline()
        except OSError as error:
            _log.debug("the control line broke: %s", error)
        self._stop.set()

    def tell(self, counters: Counters) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(counters.as_json().encode() + b"\n")

    async def close(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)
        if self._writer is not None:
            self._writer.close()
            try:
                await self._writer.wait_closed()
            except OSError as error:
                _log.debug("closing the control line: %s", error)
