"""From a frame to a handler and back: versions, decoding, encoding, errors.

An API that has no handler is not advertised. A request of an unknown API or version, or with a malformed body, closes
the connection, because no response could carry the error; ApiVersions alone answers UNSUPPORTED_VERSION in its oldest
form, so that newer clients can step down.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, cast

from penstock.broker.bounded_log import BoundedLog
from penstock.broker.connection import Connection
from penstock.broker.file_range import FileRange
from penstock.broker.handlers.table import SERVED
from penstock.broker.requests import NO_RESPONSE, Answer, AnyRequest, Handler, Pending, Request
from penstock.wire.api import API_TABLE, ApiInfo, ApiKey
from penstock.wire.codec import MalformedMessage, decoder, response_encoder
from penstock.wire.compiler import Decoder
from penstock.wire.frames import parse_request_header, skip_tags
from penstock.wire.messages import Message

if TYPE_CHECKING:
    from penstock.broker.quotas import Quotas
    from penstock.broker.request_times import ApiFigures, RequestTimes
    from penstock.broker.world import World

log = logging.getLogger("penstock.broker")

_HEADER = struct.Struct(">hhih")
_unpack_header = _HEADER.unpack_from
_FRAME = struct.Struct(">ii")
_FLEXIBLE_FRAME = struct.Struct(">iix")
_TLS_HANDSHAKE = 0x1603  # what a client that begins with TLS sends where the size of a frame is expected

# Responses whose `records` fields may be ranges of files.
_WITH_FILE_RANGES = frozenset({ApiKey.FETCH, ApiKey.SHARE_FETCH})

# Produce 0 to 2 carried message sets, which Kafka 4 advertises (see wire.api) and refuses.
_LOWEST_TAKEN = {ApiKey.PRODUCE: 3}

Fault = Callable[[AnyRequest], Answer | Awaitable[Answer] | None]
"""A hook for tests: called before the handler, may answer in its place (see penstock.testing)."""


class Route:
    """What the dispatcher knows of one (API, version)."""

    __slots__ = ("counts", "decode", "figures", "flexible", "handler", "info")

    def __init__(
        self, info: ApiInfo, version: int, handler: Handler, counts: list[int], figures: ApiFigures | None
    ) -> None:
        self.info = info
        self.handler = handler
        self.counts = counts
        """Requests of the API so far, by version."""
        self.figures = figures
        """What is measured of its requests, where somebody looks at the metrics."""
        self.decode: Decoder = decoder(info.request, version)
        self.flexible = version >= info.first_flexible


class Dispatcher:
    def __init__(
        self,
        find_handler: Callable[[ApiKey], Handler],
        world: World,
        on_connection_closed: Callable[[Connection], None],
        quotas: Quotas,
    ) -> None:
        self.find_handler = find_handler
        self._world = world
        self._precise = world.precise
        self._refusals = BoundedLog(log, world.monotonic, "connections were closed for what they sent")
        self._on_connection_closed = on_connection_closed
        self._quotas = quotas
        self.served: frozenset[int] = frozenset(SERVED)
        self.unadvertised: frozenset[int] = frozenset()
        """APIs that are answered and not offered, because nobody would look at what clients send with them."""
        self._routes: dict[int, Route] = {}
        self._counts = {key: [0] * (info.max_version + 1) for key, info in API_TABLE.items()}
        self._tasks: set[asyncio.Task[None]] = set()
        self.faults: dict[int, Fault] = {}
        self.connections: dict[Connection, None] = {}
        self.may_answer: Callable[[], bool] | None = None
        """Whether answers that come later may still be given, where a broker can lose its office without noticing."""
        self.finish: Callable[[AnyRequest, Message], None] | None = None
        """Called with every answer before it is encoded, where there is something to add to some."""
        self.times: RequestTimes | None = None
        """What measures requests, where somebody looks at the metrics; see `measure`."""

    def measure(self, times: RequestTimes) -> None:
        """Measure requests from now on."""
        self.times = times
        self.forget_routes()

    def requests(self, key: ApiKey) -> int:
        """How many requests of an API have come so far."""
        return sum(self._counts[key])

    def advertised(self) -> list[ApiInfo]:
        return [info for key, info in API_TABLE.items() if key in self.served and key not in self.unadvertised]

    def forget_routes(self) -> None:
        """Ask for handlers anew: what is served has changed."""
        self._routes.clear()

    # -- requests --------------------------------------------------------------------------------------------------

    def handle(self, connection: Connection, frame: memoryview) -> None:
        """Handle one whole request. Raises MalformedMessage when the connection is to be closed."""
        try:
            key, version, correlation_id, length = _unpack_header(frame)
        except struct.error as error:
            raise MalformedMessage("the request is shorter than its header") from error
        route = self._routes.get(key << 16 | version & 0xFFFF)
        if route is None:
            route = self._new_route(connection, frame, key, version, correlation_id)
            if route is None:
                return
        try:
            position = 10
            client_id = ""
            if length > 0:
                position += length
                client_id = str(frame[10:position], "utf-8")
            if route.flexible:
                position = position + 1 if frame[position] == 0 else skip_tags(frame, position)
            # Bytes behind the body are let pass, as Kafka does: librdkafka's Metadata v13 has some.
            body, _ = route.decode(frame, position)
        except (struct.error, IndexError, UnicodeDecodeError) as error:
            raise MalformedMessage(f"malformed {route.info.name} request: {error}") from error
        slot = connection.take_slot()
        request = Request(connection, key, version, correlation_id, client_id, body, slot)
        route.counts[version] += 1
        quotas = self._quotas
        # What follows about figures is here rather than in functions of RequestTimes, because it is done for every
        # request, and calls are what it would cost most.
        figures = route.figures
        if figures is not None:
            request.began = request.handled = connection.last_active
            request.stands_for = 0
        try:
            began = self._world.precise() if quotas.limits_requests else 0.0
            answer = self.faults[key](request) if self.faults and key in self.faults else None
            if answer is None:
                answer = route.handler(request)
            if connection.closed:
                return
            if quotas.active:
                quotas.handled(request, answer, len(frame), self._world.precise() - began if began else 0.0)
            mark = None
            if figures is not None:
                request.handled = connection.last_active = now = self._precise()
                if now >= figures.next_sample and self.times is not None:
                    mark = self.times.handled(figures, request, answer)
            if isinstance(answer, Message):
                self.encode(request, answer)
                if mark is not None:
                    slot.append(mark)
            elif answer is NO_RESPONSE:
                connection.drop_slot(slot)
            elif not isinstance(answer, Pending):
                self._await(request, answer)
        except MalformedMessage:
            raise
        except Exception:
            # One client's trouble is not another's: say what happened and let this client reconnect.
            log.exception("%s version %d from %s failed", route.info.name, version, connection.peer_host)
            connection.close()

    def _await(self, request: AnyRequest, answer: Awaitable[Answer]) -> None:
        task = asyncio.ensure_future(self._finish(request, answer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _finish(self, request: AnyRequest, coroutine: Awaitable[Answer]) -> None:
        try:
            answer = await coroutine
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("%s failed", ApiKey(request.api_key).name)
            request.connection.close()
            return
        if isinstance(answer, Message):
            request.connection.respond(request, answer)
        elif answer is NO_RESPONSE:
            request.connection.drop_slot(request.slot)

    def _new_route(
        self, connection: Connection, frame: memoryview, key: int, version: int, correlation_id: int
    ) -> Route | None:
        info = API_TABLE.get(key)
        if info is None or key not in self.served:
            raise MalformedMessage(f"API {key} is not served")
        if not _LOWEST_TAKEN.get(info.key, info.min_version) <= version <= info.max_version:
            if info.key == ApiKey.API_VERSIONS:
                parse_request_header(frame)
                self._refuse_api_versions(connection, correlation_id)
                return None
            raise MalformedMessage(f"{info.name} version {version} is not served")
        counts = self._counts[key]
        figures = None if self.times is None else self.times.of(info.key, counts)
        route = self._routes[key << 16 | version] = Route(info, version, self.find_handler(info.key), counts, figures)
        return route

    def _refuse_api_versions(self, connection: Connection, correlation_id: int) -> None:
        from penstock.broker.handlers.versions import unsupported_version

        slot = connection.take_slot()
        request = Request(connection, ApiKey.API_VERSIONS, 0, correlation_id, "", Message(), slot)
        self.encode(request, unsupported_version())

    def refuse_frame(self, connection: Connection, size: int) -> None:
        if size >> 16 == _TLS_HANDSHAKE:
            self._refusals.warning(
                "closed the connection of %s: it speaks TLS, and listener %s does not",
                connection.peer_host,
                connection.listener_name,
            )
        else:
            self._refusals.warning("closed the connection of %s: a frame of %d bytes", connection.peer_host, size)
        connection.close()

    # -- responses -------------------------------------------------------------------------------------------------

    def encode_later(self, request: AnyRequest, response: Message) -> None:
        """Encode the response to a request that had to wait."""
        if self._quotas.limits_requests:
            self._quotas.answered(request, response)
        mark = self.times.answered(request) if self.times is not None else None
        self.encode(request, response)
        if mark is not None:
            request.slot.append(mark)

    def encode(self, request: AnyRequest, response: Message) -> None:
        """Encode a response into the slot of its request."""
        if self.finish is not None:
            self.finish(request, response)
        version = request.api_version
        encoded: list[object] = []
        errors = response_encoder(type(response), version)(response, encoded)
        if errors is not None and self.times is not None:
            self.times.failed(request.api_key, errors)
        if request.api_key in _WITH_FILE_RANGES:
            parts, size, size_in_memory = merge_bytes(encoded)
        else:
            body = b"".join(cast("list[bytes]", encoded))
            parts = [body]
            size = size_in_memory = len(body)
        if response_is_flexible(request.api_key, version):
            head = _FLEXIBLE_FRAME.pack(size + 5, request.correlation_id)
        else:
            head = _FRAME.pack(size + 4, request.correlation_id)
        parts.insert(0, head)
        request.connection.fill_slot(request.slot, parts, size_in_memory + len(head))

    # -- connections -----------------------------------------------------------------------------------------------

    def connection_closed(self, connection: Connection) -> None:
        self.connections.pop(connection, None)
        self._on_connection_closed(connection)

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=1)


def merge_bytes(parts: list[object]) -> tuple[list[object], int, int]:
    """Join neighboring byte strings, so that few pieces are left between the file ranges.

    Returns the pieces, their size, and how much of it is held in memory.
    """
    merged: list[object] = []
    run: list[bytes] = []
    size = size_in_memory = 0
    for part in cast("list[bytes | memoryview | FileRange]", parts):
        length = len(part)
        size += length
        size_in_memory += FileRange.HANDLE_BYTES if isinstance(part, FileRange) else length
        if isinstance(part, bytes):
            run.append(part)
            continue
        if run:
            merged.append(b"".join(run))
            run = []
        merged.append(part)
    if run:
        merged.append(b"".join(run))
    return merged, size, size_in_memory


def response_is_flexible(api_key: int, api_version: int) -> bool:
    return api_version >= API_TABLE[api_key].first_flexible and api_key != ApiKey.API_VERSIONS
