"""One connection to another broker of the cluster: opened, authenticated, pipelined, broken.

What is said on it is `penstock.wire.conversation`, as on a client's connections. A request that gets no answer in time
breaks the connection, because nothing behind it can be answered before it. Whoever waits for an answer is called once:
with the answer, or with `PeerFailed`.
"""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, cast

from penstock import __version__, guard
from penstock.security.failures import AuthenticationFailed
from penstock.security.scram import ScramClient, ScramMechanism
from penstock.wire import messages as m
from penstock.wire.codec import MalformedMessage
from penstock.wire.conversation import Conversation
from penstock.wire.errors import ErrorCode, KafkaError
from penstock.wire.frames import FrameBuffer, ProtocolViolation

if TYPE_CHECKING:
    from penstock.broker.world import Timer, World

OPEN_SECONDS = 5.0
_MAX_ANSWER_BYTES = 64 << 20
_HANDSHAKE_VERSION = 1
_SESSION_PART_USED = 0.85

R = TypeVar("R", bound=m.Message)


class PeerFailed(Exception):
    """Another broker did not answer. `is_unsent`: it never got the request; otherwise it may have carried it out."""

    def __init__(self, reason: str, *, is_unsent: bool = False) -> None:
        super().__init__(reason)
        self.is_unsent = is_unsent


class PeerAddress(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Login(NamedTuple):
    """As whom this broker authenticates with the others."""

    mechanism: ScramMechanism
    user: str
    password: str

    def __repr__(self) -> str:
        return f"Login({self.mechanism.sasl_name}, {self.user!r})"


@dataclass(slots=True, eq=False)
class Call:
    """A request to another broker, and who waits for its answer."""

    message: m.Message
    response: type[m.Message]
    done: Callable[[Any], None]
    at_least: int
    at_most: int
    timeout_seconds: float

    def answer(self, answer: m.Message | PeerFailed) -> None:
        guard.attempt("following the answer of another broker", self.done, answer)


class Connect(Protocol):
    """Opens a connection; asyncio's, unless a test has another."""

    async def __call__(self, protocol: PeerConnection, address: PeerAddress, tls: ssl.SSLContext | None) -> object: ...


async def connect(protocol: PeerConnection, address: PeerAddress, tls: ssl.SSLContext | None) -> object:
    loop = asyncio.get_running_loop()
    return await loop.create_connection(lambda: protocol, address.host, address.port, ssl=tls)


class _Waiting(NamedTuple):
    call: Call
    timer: Timer


class PeerConnection(asyncio.BufferedProtocol):
    """Open it with `open`; then `send` until it `is_closed`."""

    def __init__(self, address: PeerAddress, client_id: str, world: World, on_change: Callable[[], None]) -> None:
        """`on_change` is called when the connection has become writable again, or idle, or is closed."""
        self.address = address
        self.is_closed = False
        self.is_writable = True
        self.ends_at: float | None = None
        """When the session has to be replaced by another."""
        self._world = world
        self._on_change = on_change
        self._conversation = Conversation(str(address), client_id)
        self._frames = FrameBuffer(_MAX_ANSWER_BYTES)
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[_Waiting] = deque()

    @property
    def in_flight(self) -> int:
        return len(self._waiting)

    async def open(self, tls: ssl.SSLContext | None, login: Login | None, connect: Connect) -> None:
        """Connect, learn which versions the other broker speaks, authenticate. Raises PeerFailed."""
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                await connect(self, self.address, tls)
                await self._negotiate()
                if login is not None:
                    await self._authenticate(login)
        except TimeoutError:
            self._break(f"{self.address} did not answer within {OPEN_SECONDS:.0f} s")
            raise PeerFailed(f"{self.address} did not answer within {OPEN_SECONDS:.0f} s", is_unsent=True) from None
        except (OSError, KafkaError, AuthenticationFailed) as error:
            self._break(str(error))
            raise PeerFailed(f"{self.address}: {error}", is_unsent=True) from error
        except BaseException as error:
            self._break(f"the connection to {self.address} was given up")
            if isinstance(error, PeerFailed):
                error.is_unsent = True
            raise

    async def _negotiate(self) -> None:
        while True:
            hello = m.ApiVersionsRequest(client_software_name="penstock", client_software_version=__version__)
            answer = await self._ask(hello, m.ApiVersionsResponse, self._conversation.hello_version)
            if self._conversation.learn(answer):
                return

    async def _authenticate(self, login: Login) -> None:
        handshake = m.SaslHandshakeRequest(mechanism=login.mechanism.sasl_name)
        shaken = await self._ask(handshake, m.SaslHandshakeResponse, _HANDSHAKE_VERSION)
        if shaken.error_code:
            raise AuthenticationFailed(
                f"{self.address} does not take {login.mechanism.sasl_name} of other brokers: "
                f"{ErrorCode(shaken.error_code).name}"
            )
        client = ScramClient(login.mechanism, login.user, login.password, secrets.token_hex(16))
        version = self._conversation.version_for(m.SaslAuthenticateResponse)
        token: bytes | None = client.first()
        while token is not None:
            request = m.SaslAuthenticateRequest(auth_bytes=token)
            answer = await self._ask(request, m.SaslAuthenticateResponse, version)
            if answer.error_code:
                raise AuthenticationFailed(f"{self.address} refuses this broker: {answer.error_message}")
            token = client.receive(bytes(answer.auth_bytes))
            if answer.session_lifetime_ms:
                seconds = answer.session_lifetime_ms / 1000 * _SESSION_PART_USED
                self.ends_at = self._world.monotonic() + seconds

    async def _ask(self, message: m.Message, response: type[R], version: int) -> R:
        answered: asyncio.Future[R] = asyncio.get_running_loop().create_future()

        def done(answer: R | PeerFailed) -> None:
            if answered.done():
                return
            if isinstance(answer, PeerFailed):
                answered.set_exception(answer)
            else:
                answered.set_result(answer)

        self._send(Call(message, response, done, 0, 0, OPEN_SECONDS), version)
        return await answered

    # -- requests --------------------------------------------------------------------------------------------------

    def send(self, call: Call) -> None:
        try:
            version = self._conversation.version_for(call.response, at_least=call.at_least, at_most=call.at_most)
        except KafkaError as error:
            self._world.call_soon(call.answer, PeerFailed(str(error), is_unsent=True))
            return
        self._send(call, version)

    def _send(self, call: Call, version: int) -> None:
        if self.is_closed or self._transport is None:
            closed = PeerFailed(f"the connection to {self.address} is closed", is_unsent=True)
            self._world.call_soon(call.answer, closed)
            return
        frame = self._conversation.send(call.message, call.response, version)
        self._waiting.append(_Waiting(call, self._world.call_later(call.timeout_seconds, self._overdue, call)))
        self._transport.writelines(frame)

    def _overdue(self, call: Call) -> None:
        name = call.response.__name__.removesuffix("Response")
        self._break(f"{self.address} did not answer {name} within {call.timeout_seconds:g} s")

    # -- answers ---------------------------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._frames.received(nbytes):
                if self.is_closed:
                    return
                self._answered(frame)
        except ProtocolViolation as error:
            self._break(f"{self.address} {error}")
            return
        if not self._waiting:
            self._on_change()

    def _answered(self, frame: memoryview) -> None:
        expected = self._conversation.answered(frame)
        call, timer = self._waiting.popleft()
        timer.cancel()
        try:
            answer = expected.decode(frame)
        except MalformedMessage as error:
            call.answer(PeerFailed(f"the answer of {self.address} cannot be read: {error}"))
            self._break(f"the answers of {self.address} cannot be read: {error}")
        else:
            call.answer(answer)

    # -- the socket ------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transports do not derive from it
        if self.is_closed:
            self._transport.abort()

    def pause_writing(self) -> None:
        self.is_writable = False

    def resume_writing(self) -> None:
        self.is_writable = True
        self._on_change()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._break(f"{self.address} closed the connection" + (f" ({exc})" if exc else ""))

    def close(self) -> None:
        self._break(f"the connection to {self.address} was closed by this broker")

    def _break(self, reason: str) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        if self._transport is not None:
            self._transport.abort()
        waiting, self._waiting = self._waiting, deque()
        for call, timer in waiting:
            timer.cancel()
            call.answer(PeerFailed(reason))
        self._on_change()
