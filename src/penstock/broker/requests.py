"""One request on its way through the broker, and the reply that may come later.

A handler is called with a `Request` and returns its `Answer`: the response message; or, where it cannot answer yet (a
long poll, an append that waits for the disk), the `Pending` that `request.defer()` gave it, which it completes later;
or `NO_RESPONSE`. The connection sends responses in the order of the requests, whatever the order in which they
complete.

The body of a request may hold views into the connection's read buffer (`records` fields). They are good until the
handler returns, not longer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, TypeVar

from penstock.wire.messages import Message

if TYPE_CHECKING:
    from penstock.broker.connection import Connection
    from penstock.security.principals import Principal


class _NoResponse(Enum):
    NO_RESPONSE = "no response"


NO_RESPONSE: Final = _NoResponse.NO_RESPONSE
"""What a handler returns for a request that is never answered (Produce with acks=0)."""

Body = TypeVar("Body", bound=Message)


class Request(Generic[Body]):
    __slots__ = (
        "api_key",
        "api_version",
        "began",
        "body",
        "client_id",
        "connection",
        "correlation_id",
        "handled",
        "on_answered",
        "slot",
        "stands_for",
    )

    began: float
    """When it arrived; set, as `handled` is, where the times of requests are measured."""
    handled: float
    """When its handler returned; before that, when it arrived."""
    stands_for: int
    """How many requests its times stand for; 0 where they are not taken."""

    def __init__(
        self,
        connection: Connection,
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str,
        body: Body,
        slot: list[object],
    ) -> None:
        self.connection = connection
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.body = body
        self.slot = slot
        self.on_answered: Callable[[Message | None], object] | None = None
        """Hears of an answer that comes later, or of None if the connection is closed in its place."""

    @property
    def client_host(self) -> str:
        """The peer's address as Kafka prints it in group descriptions: `/127.0.0.1`."""
        return "/" + self.connection.peer_host

    @property
    def principal(self) -> Principal:
        """Who sent the request."""
        return self.connection.principal

    def defer(self) -> Pending:
        return Pending(self)


AnyRequest: TypeAlias = Request[Any]


class Pending:
    """A reply that is still to come. Completing it twice, or after the connection has gone, does nothing."""

    __slots__ = ("done", "request", "throttle_time_ms")

    def __init__(self, request: AnyRequest) -> None:
        self.request = request
        self.done = False
        self.throttle_time_ms = 0

    @property
    def is_open(self) -> bool:
        return not self.done and not self.request.connection.closed

    def complete(self, response: Message) -> None:
        if not self.done:
            self.done = True
            if self.throttle_time_ms:
                response.throttle_time_ms = self.throttle_time_ms  # type: ignore[attr-defined]
            if self.request.on_answered is not None:
                self.request.on_answered(response)
            self.request.connection.respond(self.request, response)

    def close_connection(self) -> None:
        """Answer by closing, as Kafka does where no error code can be carried."""
        self.done = True
        if self.request.on_answered is not None:
            self.request.on_answered(None)
        self.request.connection.close()


Answer: TypeAlias = Message | Pending | Literal[_NoResponse.NO_RESPONSE]
Handler: TypeAlias = Callable[[AnyRequest], Answer | Awaitable[Answer]]
