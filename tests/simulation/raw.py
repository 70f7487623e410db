"""A scripted client: whole requests, one at a time, and what the broker answers seen at its door.

`at_the_door` is called when the broker sends an answer, whether it arrives or not: what a broker has said counts, also
when the connection is lost on the way.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from penstock.broker.listeners import Address
from penstock.client.authentication import Authenticator, authenticate
from penstock.client.connection import hello
from penstock.client.errors import AuthenticationFailed
from penstock.client.tokens import TokenSource
from penstock.simulation.world import SimulatedWorld
from penstock.wire import messages as m
from penstock.wire.api import api_of
from penstock.wire.conversation import Conversation
from penstock.wire.frames import SIZE

R = TypeVar("R", bound=m.Message)

TIMEOUT_SECONDS = 3.0


def access(world: SimulatedWorld) -> dict[str, Any]:
    """The settings with which a client of `penstock.client` reaches the brokers."""
    return {"bootstrap_servers": world.bootstrap, **world.login}


class Lost(Exception):
    """The connection is gone, or nobody answers: what became of the request is unknown."""


class Refused(Exception):
    """The broker does not believe who the client is."""


def _authenticator(settings: Mapping[str, Any]) -> Authenticator:
    provider = settings.get("sasl_oauth_token_provider")
    if provider is not None:
        return Authenticator(settings["sasl_mechanism"], tokens=TokenSource(provider))
    return Authenticator(settings["sasl_mechanism"], settings["sasl_username"], settings["sasl_password"])


class _Frames:
    def __init__(self) -> None:
        self._bytes = bytearray()

    def add(self, data: bytes) -> list[bytes]:
        self._bytes += data
        frames = []
        while len(self._bytes) >= 4 and len(self._bytes) >= 4 + (size := SIZE.unpack_from(self._bytes)[0]):
            frames.append(bytes(self._bytes[4 : 4 + size]))
            del self._bytes[: 4 + size]
        return frames


class RawClient(asyncio.Protocol):
    def __init__(self, name: str, at_the_door: Callable[[m.Message], object] | None) -> None:
        self._conversation = Conversation("a broker", name)
        self._at_the_door = at_the_door
        self._sent = _Frames()
        self._arrived = _Frames()
        self._answers: deque[m.Message] = deque()
        self._waiting: asyncio.Future[m.Message] | None = None
        self._transport: asyncio.Transport | None = None
        self.is_lost = False

    @classmethod
    async def connect(
        cls,
        world: SimulatedWorld,
        name: str,
        at_the_door: Callable[[m.Message], object] | None = None,
        *,
        address: Address | None = None,
        login: Mapping[str, Any] | None = None,
    ) -> RawClient:
        """To the first broker, or the one at an address, as whom the programs of the world log in, or as somebody else.

        Raises Lost, and Refused.
        """
        host, port = (address.host, address.port) if address else (world.nodes[0].address.host, 9092)
        try:
            transport, client = await world.loop.create_connection(
                lambda: cls(name, at_the_door), host, port, ssl=world.login.get("ssl_context")
            )
        except OSError as error:
            raise Lost from error
        listening = transport.connection.tap
        transport.connection.tap = lambda data: (listening and listening(data), client._tapped(data))
        client._transport = transport
        assert isinstance(client, RawClient)
        settings = world.login if login is None else login
        if settings:
            await client.log_in(settings)
        return client

    async def log_in(self, settings: Mapping[str, Any]) -> int:
        """Log in, or once more; returns for how many milliseconds that is good. Raises Lost, and Refused."""
        if not self._conversation.features.api_versions:
            self._conversation.learn(await self.ask(hello(), m.ApiVersionsResponse))
        authenticator = _authenticator(settings)
        mechanism = await authenticator.begin()
        exchange = authenticate(self._conversation, "a broker", authenticator, mechanism)
        try:
            request, response, version = next(exchange)
            while True:
                request, response, version = exchange.send(await self.ask(request, response, version))
        except AuthenticationFailed as error:
            raise Refused(str(error)) from error
        except StopIteration as over:
            return int(over.value)

    async def ask(self, request: m.Message, response: type[R], version: int | None = None) -> R:
        """Raises Lost."""
        if self.is_lost:
            raise Lost
        self.post(request, version, is_answered=True)
        self._waiting = asyncio.get_running_loop().create_future()
        try:
            answer = await asyncio.wait_for(self._waiting, TIMEOUT_SECONDS)
        except TimeoutError:
            self.close()
            raise Lost from None
        assert isinstance(answer, response)
        return answer

    def post(self, request: m.Message, version: int | None = None, *, is_answered: bool = False) -> None:
        """Send a request that gets no answer."""
        info = api_of(type(request))
        newest = info.max_version if version is None else version
        frame = self._conversation.send(request, info.response if is_answered else None, newest)
        assert self._transport is not None
        self._transport.write(b"".join(frame))

    def close(self) -> None:
        self.is_lost = True
        if self._transport is not None:
            self._transport.abort()

    def _tapped(self, data: bytes) -> None:
        for frame in self._sent.add(data):
            view = memoryview(frame)
            answer = self._conversation.answered(view).decode(view)
            self._answers.append(answer)
            if self._at_the_door is not None:
                self._at_the_door(answer)

    # -- of the transport ------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        for _ in self._arrived.add(data):
            answer = self._answers.popleft()
            if self._waiting is not None and not self._waiting.done():
                self._waiting.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(Lost())
