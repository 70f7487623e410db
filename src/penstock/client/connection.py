"""One TCP connection to one broker.

Requests may be pipelined; a broker answers them in order, so the oldest request in flight owns the next answer, and a
correlation id that says otherwise means that the stream is broken. A request that gets no answer in time breaks it too:
nothing behind it can be answered before it. A broken connection fails everything in flight with a retriable error and
is never used again; the caller opens another.

Answers are received straight into a buffer of their own size (`asyncio.BufferedProtocol`), so the record bytes of a
fetch are copied once, by the kernel.

The first exchange is ApiVersions: it tells which versions of each API both sides speak. A broker that does not know our
version of ApiVersions itself answers error 35 in the oldest layout, with the range that it does know.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar, cast

from penstock.client.errors import BrokerUnreachable, Disconnected, RequestTimeout, TlsFailed, check
from penstock.client.tls import explained
from penstock.wire import messages as m
from penstock.wire.api import API_TABLE, ApiInfo, ApiKey, response_header_version
from penstock.wire.codec import MalformedMessage, decode
from penstock.wire.errors import ErrorCode, KafkaError, UnsupportedVersion
from penstock.wire.frames import request_frame, skip_tags

R = TypeVar("R", bound=m.Message)
Build = Callable[[int], m.Message]

_SIZE = struct.Struct(">i")
_CORRELATION = struct.Struct(">i")
_SCRATCH_BYTES = 65_536
_TLS_RECORDS = {0x1503, 0x1603}  # how alerts and handshakes begin, read as the upper half of a size

_API_BY_RESPONSE: dict[str, ApiInfo] = {f"{info.name}Response": info for info in API_TABLE.values()}


def api_of(response: type[m.Message]) -> ApiInfo:
    """The API that a response class belongs to."""
    return _API_BY_RESPONSE[response.__name__]


@dataclass(slots=True, frozen=True)
class Features:
    """What ApiVersions told: version ranges per API key, and the cluster's finalized feature levels."""

    api_versions: dict[int, tuple[int, int]]
    finalized: dict[str, int] = field(default_factory=dict)
    finalized_epoch: int = -1


class _InFlight:
    """A request that waits for its answer."""

    __slots__ = ("correlation_id", "flexible", "future", "response", "timer", "version")

    def __init__(
        self,
        correlation_id: int,
        version: int,
        flexible: bool,
        response: type[m.Message],
        future: asyncio.Future[m.Message],
        timer: asyncio.TimerHandle,
    ) -> None:
        self.correlation_id = correlation_id
        self.version = version
        self.flexible = flexible
        self.response = response
        self.future = future
        self.timer = timer


class Connection(asyncio.BufferedProtocol):
    """Open one with `Connection.open`; send with `request`; `close` when done."""

    def __init__(self, address: str, client_id: str, max_in_flight: int, max_answer_bytes: int) -> None:
        self.address = address
        self.features = Features({})
        self.closed = False
        self.bytes_in = 0
        self.bytes_out = 0
        self.requests_sent = 0
        self.last_used = 0.0
        self._loop = asyncio.get_running_loop()
        self._client_id = client_id
        self._max_answer_bytes = max_answer_bytes
        self._transport: asyncio.Transport | None = None
        self._in_flight: deque[_InFlight] = deque()
        self._slots = asyncio.Semaphore(max_in_flight)
        # Writers take turns in the order they came: the order of a partition's batches depends on it.
        self._turn = asyncio.Lock()
        self._writable = asyncio.Event()
        self._writable.set()
        self._correlation_id = 0
        self._gone = asyncio.Event()
        # Small answers and the start of large ones land in the scratch buffer; the rest of a large one in its own.
        self._scratch = bytearray(_SCRATCH_BYTES)
        self._scratch_view = memoryview(self._scratch)
        self._filled = 0
        self._frame: bytearray | None = None
        self._frame_filled = 0

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        *,
        client_id: str = "penstock",
        timeout_ms: int = 10_000,
        max_in_flight: int = 5,
        max_answer_bytes: int = 1 << 30,
        ssl_context: ssl.SSLContext | None = None,
    ) -> Connection:
        """Connect and negotiate versions."""
        loop = asyncio.get_running_loop()
        address = f"{host}:{port}"
        connection = cls(address, client_id, max_in_flight, max_answer_bytes)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await loop.create_connection(lambda: connection, host, port, ssl=ssl_context)
                await connection._negotiate(timeout_ms)
        except TimeoutError:
            connection._break(RequestTimeout(f"{address} did not answer within {timeout_ms} ms"))
            raise BrokerUnreachable(f"{address} did not answer within {timeout_ms} ms") from None
        except ssl.SSLError as error:
            raise explained(address, error) from error
        except OSError as error:
            if ssl_context is not None and isinstance(error, (ConnectionResetError, ConnectionAbortedError)):
                raise BrokerUnreachable(
                    f"{address} closed the connection in the TLS handshake: is it a plaintext listener?"
                ) from error
            raise BrokerUnreachable(f"no broker answers at {address} ({error.strerror or error})") from error
        except Disconnected as error:
            if ssl_context is None:
                raise Disconnected(f"{error} before it said anything; does it want security_protocol='ssl'?") from error
            raise
        except BaseException:
            connection._break(Disconnected(f"the connection to {address} was given up"))
            raise
        return connection

    async def _negotiate(self, timeout_ms: int) -> None:
        from penstock import __version__

        request = m.ApiVersionsRequest(client_software_name="penstock", client_software_version=__version__)
        version = API_TABLE[ApiKey.API_VERSIONS].max_version
        answer = await self._ask(request, m.ApiVersionsResponse, version, timeout_ms)
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            known = {entry.api_key: entry.max_version for entry in answer.api_keys}
            answer = await self._ask(request, m.ApiVersionsResponse, known.get(ApiKey.API_VERSIONS, 0), timeout_ms)
        check(answer.error_code, about=self.address)
        self.features = Features(
            {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys},
            {entry.name: entry.max_version_level for entry in answer.finalized_features},
            answer.finalized_features_epoch,
        )

    # Versions

    def version_for(self, response: type[m.Message], *, at_least: int = 0, at_most: int = 32767) -> int:
        """The newest version of an API that this broker, this client and the caller can all use."""
        info = api_of(response)
        offered = self.features.api_versions.get(info.key)
        if offered is None:
            raise UnsupportedVersion(f"the broker at {self.address} does not offer {info.name}")
        version = min(offered[1], info.max_version, at_most)
        if version < max(offered[0], info.min_version, at_least):
            raise UnsupportedVersion(
                f"the broker at {self.address} speaks {info.name} versions {offered[0]} to {offered[1]}; "
                f"needed is {max(info.min_version, at_least)} to {min(info.max_version, at_most)}"
            )
        return version

    def offers(self, response: type[m.Message], version: int = 0) -> bool:
        """Whether the broker speaks `version` or a newer one of an API."""
        offered = self.features.api_versions.get(api_of(response).key)
        return offered is not None and offered[1] >= version

    # Sending

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    async def request(
        self,
        message: m.Message | Build,
        response: type[R],
        *,
        timeout_ms: int = 30_000,
        at_least: int = 0,
        at_most: int = 32767,
    ) -> R:
        """Send one request and await its answer. `message` may be a function that builds it for the version chosen."""
        version = self.version_for(response, at_least=at_least, at_most=at_most)
        body = message if isinstance(message, m.Message) else message(version)
        return await self._ask(body, response, version, timeout_ms)

    async def send_only(self, message: m.Message, version: int) -> None:
        """Send a request that the broker does not answer (Produce with acks=0)."""
        async with self._turn:
            await self._writable.wait()
            self._write(message, version)

    async def _ask(self, message: m.Message, response: type[R], version: int, timeout_ms: int) -> R:
        async with self._slots:
            async with self._turn:
                if not self._writable.is_set():
                    await self._writable.wait()
                future = self._send(message, response, version, timeout_ms)
            answer = await future
        assert isinstance(answer, response)
        return answer

    def _send(
        self, message: m.Message, response: type[m.Message], version: int, timeout_ms: int
    ) -> asyncio.Future[m.Message]:
        info = api_of(response)
        correlation_id = self._write(message, version)
        future: asyncio.Future[m.Message] = self._loop.create_future()
        timer = self._loop.call_later(timeout_ms / 1000, self._overdue, info.name, timeout_ms)
        flexible = response_header_version(info.key, version) > 0
        self._in_flight.append(_InFlight(correlation_id, version, flexible, response, future, timer))
        return future

    def _write(self, message: m.Message, version: int) -> int:
        # A transport that is closing has yet to say that the connection is lost. Up to Python 3.13.5 `writelines` would
        # make it wait for a socket that it then closes, in the way of the next connection with that file descriptor.
        if self.closed or self._transport is None or self._transport.is_closing():
            raise Disconnected(f"the connection to {self.address} is closed")
        self._correlation_id = correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        frame = request_frame(message, version, correlation_id, self._client_id)
        self._transport.writelines(frame)
        self.bytes_out += sum(map(len, frame))
        self.requests_sent += 1
        self.last_used = self._loop.time()
        return correlation_id

    def _overdue(self, name: str, timeout_ms: int) -> None:
        self._break(RequestTimeout(f"{self.address} did not answer {name} within {timeout_ms} ms"))

    # Receiving

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._frame is not None:
            return memoryview(self._frame)[self._frame_filled :]
        return self._scratch_view[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self.bytes_in += nbytes
        if self._frame is not None:
            self._frame_filled += nbytes
            if self._frame_filled == len(self._frame):
                frame, self._frame = self._frame, None
                self._answered(memoryview(frame))
            return
        self._filled += nbytes
        self._take_frames()

    def _take_frames(self) -> None:
        start, end = 0, self._filled
        while end - start >= 4:
            (size,) = _SIZE.unpack_from(self._scratch, start)
            if size >> 16 in _TLS_RECORDS and not self.features.api_versions:
                self._break(TlsFailed(f"{self.address} answers in TLS; set security_protocol='ssl' or ssl_cafile"))
                return
            if size < 4 or size > self._max_answer_bytes:
                self._break(Disconnected(f"{self.address} sent an answer of {size} bytes: is it a Kafka broker?"))
                return
            if end - start - 4 >= size:
                # A copy, because the scratch buffer is about to be reused and decoded records point into the answer.
                self._answered(memoryview(bytes(self._scratch_view[start + 4 : start + 4 + size])))
                start += 4 + size
                continue
            if size + 4 > _SCRATCH_BYTES - start:
                self._frame = bytearray(size)
                self._frame_filled = end - start - 4
                self._frame[: self._frame_filled] = self._scratch_view[start + 4 : end]
                start = end
            break
        if start:
            remaining = end - start
            self._scratch[:remaining] = self._scratch[start:end]
            self._filled = remaining

    def _answered(self, data: memoryview) -> None:
        if not self._in_flight:
            self._break(Disconnected(f"{self.address} sent an answer that nothing asked for"))
            return
        waiting = self._in_flight.popleft()
        waiting.timer.cancel()
        (correlation_id,) = _CORRELATION.unpack_from(data)
        if correlation_id != waiting.correlation_id:
            self._in_flight.appendleft(waiting)
            self._break(Disconnected(f"{self.address} answered requests out of order"))
            return
        if waiting.future.done():
            return  # whoever asked was cancelled
        try:
            waiting.future.set_result(_decoded(waiting, data))
        except MalformedMessage as error:
            waiting.future.set_exception(error)

    # The end

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transports do not derive from it
        self.last_used = self._loop.time()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._break(Disconnected(f"{self.address} closed the connection" + (f" ({exc})" if exc else "")))
        self._gone.set()

    def _break(self, error: KafkaError) -> None:
        if not self.closed:
            self.closed = True
            if self._transport is not None:
                self._transport.abort()
            else:
                self._gone.set()
        self._writable.set()
        while self._in_flight:
            waiting = self._in_flight.popleft()
            waiting.timer.cancel()
            if not waiting.future.done():
                waiting.future.set_exception(type(error)(*error.args))

    async def close(self) -> None:
        """Give up what is in flight and close the socket."""
        self._break(Disconnected(f"the connection to {self.address} was closed by this client"))
        await self._gone.wait()


def _decoded(waiting: _InFlight, data: memoryview) -> m.Message:
    position = 4
    if waiting.flexible:
        position = skip_tags(data, position)
    body = data[position:]
    if waiting.response.__name__ == "ApiVersionsResponse" and bytes(body[:2]) == b"\x00\x23":
        return decode(m.ApiVersionsResponse, body, 0)
    return decode(waiting.response, body, waiting.version)
