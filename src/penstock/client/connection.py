"""One TCP connection to one broker, for asyncio.

The protocol is in `penstock.wire.conversation`; this module has the socket, the waiting and the closing. A request that
is not answered in time breaks the connection: responses come in order, so nothing behind it could be answered either. A
broken connection fails everything in flight with a retriable error and is never used again; the caller opens another.

A client with credentials authenticates right after ApiVersions, and again before its session ends (KIP-368). Until that
is done nothing else is sent, because a broker closes a connection that sends anything else meanwhile. Requests sent
earlier are answered as usual.

Answers are received straight into the frame buffer (`asyncio.BufferedProtocol`).
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, TypeVar, cast

from penstock.client.authentication import Authenticator, Mechanism, authenticate, renewal_after_s
from penstock.client.errors import BrokerUnreachable, Disconnected, RequestTimeout, TlsFailed
from penstock.client.metrics import Sensor
from penstock.client.tls import explained
from penstock.wire import messages as m
from penstock.wire.api import api_of
from penstock.wire.codec import MalformedMessage
from penstock.wire.conversation import NEWEST, Conversation, Features
from penstock.wire.errors import KafkaError
from penstock.wire.frames import FrameBuffer, LooksLikeTls, ProtocolViolation

_RENEWAL_TIMEOUT_MS = 30_000

R = TypeVar("R", bound=m.Message)
Build = Callable[[int], m.Message]


def hello() -> m.ApiVersionsRequest:
    """How this client introduces itself."""
    from penstock import __version__

    return m.ApiVersionsRequest(client_software_name="penstock", client_software_version=__version__)


class _Waiting(NamedTuple):
    """Whoever waits for an answer; in the order in which the conversation expects them."""

    future: asyncio.Future[m.Message]
    timer: asyncio.TimerHandle
    sent_at: float
    timeout_ms: int


class Connection(asyncio.BufferedProtocol):
    """Open one with `Connection.open`; send with `request`; `close` when done."""

    def __init__(
        self,
        address: str,
        client_id: str,
        max_in_flight: int,
        max_answer_bytes: int,
        authenticator: Authenticator | None = None,
    ) -> None:
        self.address = address
        self.is_accepted = False  # whether the broker has answered anything but ApiVersions
        self.conversation = Conversation(address, client_id)
        self.closed = False
        self.last_used = 0.0
        self.answered_at = 0.0
        self.latency: Sensor | None = None
        """Records how many milliseconds each answer takes."""
        self._loop = asyncio.get_running_loop()
        self._frames = FrameBuffer(max_answer_bytes)
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[_Waiting] = deque()
        self._slots = asyncio.Semaphore(max_in_flight)
        # Writers take turns in the order they came: the order of a partition's batches depends on it.
        self._turn = asyncio.Lock()
        self._writable = asyncio.Event()
        self._writable.set()
        self._gone = asyncio.Event()
        self._throttled_until: float | None = None
        self._authenticator = authenticator
        self._renew_at: float | None = None
        self._renewing: asyncio.Task[None] | None = None

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
        authenticator: Authenticator | None = None,
    ) -> Connection:
        """Connect, negotiate versions and authenticate."""
        loop = asyncio.get_running_loop()
        address = f"{host}:{port}"
        mechanism = await authenticator.begin() if authenticator is not None else None
        connection = cls(address, client_id, max_in_flight, max_answer_bytes, authenticator)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await loop.create_connection(lambda: connection, host, port, ssl=ssl_context)
                await connection._negotiate(timeout_ms)
                if mechanism is not None:
                    await connection._authenticate(mechanism, timeout_ms)
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
            if authenticator is not None and connection.features.api_versions:
                raise Disconnected(f"{error} while {authenticator.who} authenticated") from error
            if ssl_context is None:
                protocol = "sasl_ssl" if authenticator is not None else "ssl"
                raise Disconnected(
                    f"{error} before it said anything; does it want security_protocol={protocol!r}?"
                ) from error
            raise Disconnected(
                f"{error} after the TLS handshake; if it wants a certificate of this client, name it in ssl_certfile"
            ) from error
        except BaseException:
            connection._break(Disconnected(f"the connection to {address} was given up"))
            raise
        return connection

    async def _negotiate(self, timeout_ms: int) -> None:
        while True:
            version = self.conversation.hello_version
            if self.conversation.learn(await self._ask(hello(), m.ApiVersionsResponse, version, timeout_ms)):
                return

    async def _authenticate(self, mechanism: Mechanism, timeout_ms: int) -> None:
        assert self._authenticator is not None
        exchange = authenticate(self.conversation, self.address, self._authenticator, mechanism)
        try:
            question = next(exchange)
            while True:
                question = exchange.send(await self._send(*question, timeout_ms))
        except StopIteration as over:
            lifetime_ms: int = over.value
        self._renew_at = self._loop.time() + renewal_after_s(lifetime_ms) if lifetime_ms else None

    async def _renew(self, timeout_ms: int) -> None:
        """Authenticate again. A session that cannot go on takes the connection with it."""
        assert self._authenticator is not None
        try:
            await self._authenticate(await self._authenticator.begin(), timeout_ms)
        except KafkaError as error:
            self._break(error)
            raise
        except BaseException:
            self._break(Disconnected(f"authentication with {self.address} was given up"))
            raise

    # Versions

    @property
    def features(self) -> Features:
        return self.conversation.features

    def version_for(self, response: type[m.Message], *, at_least: int = 0, at_most: int = NEWEST) -> int:
        """The newest version of an API that this broker, this client and the caller can all use."""
        return self.conversation.version_for(response, at_least=at_least, at_most=at_most)

    def offers(self, response: type[m.Message], version: int = 0) -> bool:
        """Whether the broker speaks `version` or a newer one of an API."""
        return self.conversation.offers(response, version)

    # Sending

    @property
    def in_flight(self) -> int:
        return len(self._waiting)

    def silent_s(self, timeout_ms: int) -> float:
        """For how long the broker owes an answer. What is longer than `timeout_ms` it was given for waiting itself."""
        if not self._waiting:
            return 0.0
        oldest = self._waiting[0]
        parked_s = max(oldest.timeout_ms - timeout_ms, 0) / 1000
        return max(self._loop.time() - max(oldest.sent_at, self.answered_at) - parked_s, 0.0)

    async def request(
        self,
        message: m.Message | Build,
        response: type[R],
        *,
        timeout_ms: int = 30_000,
        at_least: int = 0,
        at_most: int = NEWEST,
    ) -> R:
        """Send one request and await its answer. `message` may be a function that builds it for the version chosen."""
        version = self.version_for(response, at_least=at_least, at_most=at_most)
        body = message if isinstance(message, m.Message) else message(version)
        return await self._ask(body, response, version, timeout_ms)

    async def send_only(self, message: m.Message, version: int) -> None:
        """Send a request that the broker does not answer (Produce with acks=0)."""
        async with self._turn:
            if self._renew_at is not None:
                await self._keep_session(_RENEWAL_TIMEOUT_MS)
            if self._throttled_until is not None:
                await self._wait_for_quota(_RENEWAL_TIMEOUT_MS)
            await self._writable.wait()
            self._write(message, None, version)

    async def _ask(self, message: m.Message, response: type[R], version: int, timeout_ms: int) -> R:
        async with self._slots:
            async with self._turn:
                if self._renew_at is not None:
                    await self._keep_session(timeout_ms)
                if self._throttled_until is not None:
                    await self._wait_for_quota(timeout_ms)
                if not self._writable.is_set():
                    await self._writable.wait()
                future = self._send(message, response, version, timeout_ms)
            answer = await future
        assert isinstance(answer, response)
        return answer

    async def _wait_for_quota(self, timeout_ms: int) -> None:
        """Wait as long as the broker has said (KIP-219): it does not read from this connection until then."""
        while self._throttled_until is not None and (wait_s := self._throttled_until - self._loop.time()) > 0:
            if wait_s * 1000 > timeout_ms:
                raise RequestTimeout(
                    f"{self.address} makes this client wait for {wait_s:.1f} s because it exceeded a quota, "
                    f"which is longer than the timeout of {timeout_ms} ms"
                )
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._gone.wait(), wait_s)
                raise Disconnected(f"the connection to {self.address} is closed")
        self._throttled_until = None

    def _throttled(self, throttle_ms: int) -> None:
        until = self._loop.time() + throttle_ms / 1000
        if self._throttled_until is None or until > self._throttled_until:
            self._throttled_until = until

    async def _keep_session(self, timeout_ms: int) -> None:
        """Authenticate again if it is time. Whoever awaits it may be cancelled; the exchange is led to its end."""
        while self._renewing is not None or (self._renew_at is not None and self._loop.time() >= self._renew_at):
            if self._renewing is None:
                self._renewing = self._loop.create_task(self._renew(timeout_ms), name="penstock-authentication")
                self._renewing.add_done_callback(self._renewed)
            await asyncio.shield(self._renewing)

    def _renewed(self, task: asyncio.Task[None]) -> None:
        self._renewing = None
        if not task.cancelled():
            task.exception()  # whoever waited has it

    def _send(
        self, message: m.Message, response: type[m.Message], version: int, timeout_ms: int
    ) -> asyncio.Future[m.Message]:
        self._write(message, response, version)
        future: asyncio.Future[m.Message] = self._loop.create_future()
        timer = self._loop.call_later(timeout_ms / 1000, self._overdue, response, timeout_ms)
        self._waiting.append(_Waiting(future, timer, self.last_used, timeout_ms))
        return future

    def _write(self, message: m.Message, response: type[m.Message] | None, version: int) -> None:
        # A transport that is closing has yet to say that the connection is lost. Up to Python 3.13.5 `writelines` would
        # make it wait for a socket that it then closes, in the way of the next connection with that file descriptor.
        if self.closed or self._transport is None or self._transport.is_closing():
            raise Disconnected(f"the connection to {self.address} is closed")
        frame = self.conversation.send(message, response, version)
        if len(frame) == 1:
            self._transport.write(frame[0])
        else:
            self._transport.writelines(frame)
        self.last_used = self._loop.time()

    def _overdue(self, response: type[m.Message], timeout_ms: int) -> None:
        self._break(RequestTimeout(f"{self.address} did not answer {api_of(response).name} within {timeout_ms} ms"))

    # Receiving

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._frames.received(nbytes):
                if self.closed:
                    return
                self._answered(frame)
        except LooksLikeTls:
            self._break(TlsFailed(f"{self.address} answers in TLS; set security_protocol='ssl' or ssl_cafile"))
        except ProtocolViolation as error:
            self._break(Disconnected(f"{self.address} {error}"))

    def _answered(self, frame: memoryview) -> None:
        expected = self.conversation.answered(frame)
        waiting = self._waiting.popleft()
        waiting.timer.cancel()
        self.answered_at = self._loop.time()
        if self.latency is not None:
            self.latency.record((self.answered_at - waiting.sent_at) * 1000)
        if expected.response is not m.ApiVersionsResponse:
            self.is_accepted = True
        if waiting.future.done():
            return  # whoever asked was cancelled
        try:
            answer = expected.decode(frame)
            if throttle_ms := getattr(answer, "throttle_time_ms", 0):
                self._throttled(throttle_ms)
            waiting.future.set_result(answer)
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
        if isinstance(exc, ssl.SSLError):  # in TLS 1.3 a broker refuses a client's certificate after the handshake
            self._break(explained(self.address, exc))
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
        while self._waiting:
            waiting = self._waiting.popleft()
            waiting.timer.cancel()
            if not waiting.future.done():
                waiting.future.set_exception(type(error)(*error.args))

    def give_up(self, error: KafkaError) -> None:
        """Fail everything in flight, and be of no use any more."""
        self._break(error)

    async def close(self) -> None:
        """Give up what is in flight and close the socket."""
        if self._renewing is not None:
            self._renewing.cancel()
        self._break(Disconnected(f"the connection to {self.address} was closed by this client"))
        await self._gone.wait()
