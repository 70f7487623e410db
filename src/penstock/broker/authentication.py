"""How a client of a listener with SASL proves who it is, before its requests are handled.

`Authentication` stands between a connection and the dispatcher (`Connection.handle_frame`). It lets pass what may come
next by the tables of `security.sasl` and closes for everything else. When the client is authenticated it steps aside,
so that requests cost what they cost on other listeners; only a session that ends at some time is looked at for each.

A failure is answered after `connection.failed.authentication.delay.ms`, and meanwhile nothing more of that connection
is read. A session ends when its lifetime is over: at the next request that is not SASL, or at once if the client is too
old to authenticate anew. It ends as well, within a second, when the credential that it rests on is changed or deleted.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from penstock.broker.bounded_log import BoundedLog
from penstock.broker.cluster_login import BROKERS
from penstock.broker.mechanisms import Challenge, Exchange, Step, Success, TokenRefused
from penstock.broker.metrics import Metric
from penstock.security import sasl
from penstock.security.failures import AuthenticationFailed, MalformedToken
from penstock.security.principals import Principal, user
from penstock.security.sasl import Event, OutOfOrder, State
from penstock.wire import messages as m
from penstock.wire.api import ApiKey
from penstock.wire.errors import ErrorCode
from penstock.wire.frames import SIZE

if TYPE_CHECKING:
    from penstock.broker.authentication_counts import AuthenticationCounts
    from penstock.broker.config import BrokerConfig
    from penstock.broker.connection import Connection
    from penstock.broker.dispatch import Dispatcher
    from penstock.broker.listeners import Address
    from penstock.broker.newcomers import Newcomers
    from penstock.broker.requests import Answer, AnyRequest, Request
    from penstock.broker.sasl_listeners import SaslListener, SaslListeners
    from penstock.broker.world import Timer, World

log = logging.getLogger("penstock.broker")

MAX_BYTES_BEFORE = 2 << 20
"""What a client may send in all before it is authenticated."""
REVOKED_SECONDS = 0.5
"""How long after a change a user's sessions end: whoever changes several credentials is answered before."""
MIN_SECONDS_BETWEEN = 1.0
LAST_WORD_SECONDS = 0.2
"""How long after the answer to a failure the connection is closed: a client that receives both at once may look at the
end first (kafka-python does), and never tell why."""
_api_key = struct.Struct(">h").unpack_from
_OF_SASL = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
_BEFORE_HANDSHAKE = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE)
_REQUEST_BYTES = 8


class Authenticator:
    """Authenticates the clients of all listeners with SASL, and ends sessions that are no longer good."""

    def __init__(
        self,
        config: BrokerConfig,
        listeners: SaslListeners,
        dispatcher: Dispatcher,
        newcomers: Newcomers,
        counts: AuthenticationCounts,
        world: World,
    ) -> None:
        self.config = config
        self.dispatcher = dispatcher
        self.newcomers = newcomers
        self.world = world
        self.failures = BoundedLog(log, world.monotonic, "authentications failed")
        self.counts = counts
        self.expired_total = 0
        self._listeners = listeners
        listeners.users.on_changed.append(self._users_changed)

    def prepare(self, address: Address) -> None:
        """Check what a listener is to take, before it takes anybody. Raises ConfigError with what to write."""
        self._listeners.prepare(address)

    def stop(self) -> None:
        self._listeners.stop()

    def connected(self, connection: Connection) -> None:
        """Have a client authenticate before anything else of it is handled."""
        connection.authentication = Authentication(connection, self._listeners[connection.listener_name], self)
        self.newcomers.add(connection)

    def _users_changed(self, users: frozenset[str]) -> None:
        self.world.call_later(REVOKED_SECONDS, self._end_sessions, users, self.world.monotonic())

    def _end_sessions(self, users: frozenset[str], changed_at: float) -> None:
        for connection in list(self.dispatcher.connections):
            authentication = connection.authentication
            if authentication is not None and authentication.is_older_than(users, changed_at):
                connection.close()

    def metrics(self) -> Iterator[Metric]:
        yield Metric("kafka_server_socket_server_metrics_expired_connections_killed_count").add(self.expired_total)


class Authentication:
    """How far one connection has come."""

    def __init__(self, connection: Connection, listener: SaslListener, owner: Authenticator) -> None:
        self._connection = connection
        self._listener = listener
        self._owner = owner
        self._world = owner.world
        self._max_request_bytes = connection.max_request_bytes
        self._state = State.INITIAL
        self._received_bytes = 0
        self._mechanism = self._requested = ""
        self._exchange: Exchange | None = None
        self._began_at = 0.0
        self._rests_on: str | None = None
        self._principal: Principal | None = None
        self._can_authenticate_anew = False
        self._expires_at = 0.0
        self._expiry: Timer | None = None
        self._repeated_at: float | None = None
        self._intercept()
        connection.on_partial_frame = self._frame_begins

    def _intercept(self) -> None:
        self._connection.handle_frame = self.handle
        self._connection.max_request_bytes = min(self._listener.max_receive_bytes, self._max_request_bytes)

    def _frame_begins(self, size: int) -> None:
        self._owner.newcomers.expects(self._connection, size)

    @property
    def is_repeated(self) -> bool:
        return self._principal is not None

    def is_older_than(self, users: frozenset[str], changed_at: float) -> bool:
        """Whether a session, or an exchange under way, rests on a credential of these users from before the change."""
        exchange = self._exchange
        claimed = exchange.user if exchange is not None and exchange.rests_on_store else None
        return (self._rests_on in users or claimed in users) and self._began_at <= changed_at

    # Frames

    def handle(self, connection: Connection, frame: memoryview) -> None:
        """Handle a frame of a client that is not authenticated, or is authenticating anew."""
        self._received_bytes += len(frame)
        if self._received_bytes > MAX_BYTES_BEFORE:
            self._close("it sent too much before it was authenticated")
            return
        state = self._state
        if state is State.BARE_EXCHANGE:
            self._receive_bare(bytes(frame))
            return
        key = _api_key(frame)[0]
        if state in (State.EXCHANGE, State.REAUTHENTICATION):
            if key == ApiKey.SASL_AUTHENTICATE or key in _BEFORE_HANDSHAKE:
                self._owner.dispatcher.handle(connection, frame)
                return
        elif key in _BEFORE_HANDSHAKE:
            if key == ApiKey.API_VERSIONS and state is State.VERSIONS_KNOWN:
                self._close("it asked for the API versions twice")
            else:
                self._owner.dispatcher.handle(connection, frame)
            return
        self._close("it sent another request than SASL allows")

    def _handle_until_expiry(self, connection: Connection, frame: memoryview) -> None:
        """Handle a request of a session that ends at some time."""
        if self._world.monotonic() < self._expires_at or _api_key(frame)[0] in _OF_SASL:
            self._owner.dispatcher.handle(connection, frame)
        else:
            self._expired()

    def _expired(self) -> None:
        self._owner.expired_total += 1
        log.info("closed the connection of %s from %s: its session is over", self._principal, self._peer)
        self._connection.close()

    # Requests

    @property
    def refuses_versions(self) -> bool:
        """Whether ApiVersions is out of place now."""
        return self._state not in (State.INITIAL, State.AUTHENTICATED)

    def versions_sent(self) -> None:
        """ApiVersions was answered."""
        if self._state is State.INITIAL:
            self._state = sasl.after(self._state, Event.API_VERSIONS)

    def refuse_versions(self, request: Request[m.ApiVersionsRequest]) -> Answer:
        return self._fail_later(request, m.ApiVersionsResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE), "ApiVersions")

    def handshake(self, request: Request[m.SaslHandshakeRequest]) -> Answer:
        mechanism, enabled = request.body.mechanism, self._listener.mechanisms()
        now = self._world.monotonic()
        if self._state is State.AUTHENTICATED:
            too_soon = self._repeated_at is not None and now - self._repeated_at < MIN_SECONDS_BETWEEN
            if too_soon or request.api_version == 0:
                return m.SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
            self._repeated_at = now
            self._received_bytes = 0
            self._intercept()
        try:
            following = sasl.after(self._state, Event.HANDSHAKE if request.api_version else Event.HANDSHAKE_V0)
        except OutOfOrder as error:
            out_of_order = m.SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
            return self._fail_later(request, out_of_order, str(error))
        if mechanism not in enabled:
            unsupported = m.SaslHandshakeResponse(
                error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=list(enabled)
            )
            return self._fail_later(request, unsupported, f"it asked for the mechanism {mechanism[:50]!r}")
        self._state = following
        self._requested = mechanism
        self._mechanism = self._mechanism or mechanism
        self._exchange = self._listener.new_exchange(mechanism) if mechanism == self._mechanism else None
        self._began_at = now
        if following is State.BARE_EXCHANGE:
            self._connection.min_request_bytes = 0
        return m.SaslHandshakeResponse(mechanisms=list(enabled))

    def authenticate(self, request: Request[m.SaslAuthenticateRequest]) -> Answer:
        if self._state is State.AUTHENTICATED:
            return _out_of_place()
        if self._state not in (State.EXCHANGE, State.REAUTHENTICATION):
            return self._fail_later(request, _out_of_place(), "SaslAuthenticate before SaslHandshake")
        self._can_authenticate_anew |= request.api_version > 0
        pending = request.defer()

        def respond(token: bytes, lifetime_ms: int) -> None:
            pending.complete(m.SaslAuthenticateResponse(auth_bytes=token, session_lifetime_ms=lifetime_ms))

        def refuse(message: str) -> None:
            pending.complete(
                m.SaslAuthenticateResponse(
                    error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=message, auth_bytes=b""
                )
            )

        self._receive(bytes(request.body.auth_bytes), respond, refuse)
        return pending

    # Exchanges

    def _receive_bare(self, token: bytes) -> None:
        connection = self._connection
        slot = connection.take_slot()

        def respond(answer: bytes, lifetime_ms: int) -> None:
            connection.send_bare(slot, SIZE.pack(len(answer)) + answer)

        self._receive(token, respond, lambda message: None)

    def _receive(self, token: bytes, respond: Callable[[bytes, int], None], refuse: Callable[[str], None]) -> None:
        """Hand a message to the mechanism; the connection waits if the mechanism has to."""
        exchange, connection = self._exchange, self._connection
        if exchange is None:
            failure = AuthenticationFailed(
                f"SASL mechanism '{self._requested}' requested by client is not supported for re-authentication "
                f"of mechanism '{self._mechanism}'"
            )
            self._failed(failure, refuse)
            return
        is_done = False

        def done(step: Step) -> None:
            nonlocal is_done
            is_done = True
            if connection.closed:
                return
            if connection.is_held:
                connection.release()
            self._take(step, respond, refuse)

        exchange.receive(token, done)
        if not is_done and not connection.closed:
            connection.hold()

    def _take(self, step: Step, respond: Callable[[bytes, int], None], refuse: Callable[[str], None]) -> None:
        if isinstance(step, Challenge):
            respond(step.token, 0)
        elif isinstance(step, AuthenticationFailed):
            self._failed(step, refuse)
        elif self._principal is not None and self._principal.name != step.user:
            change = f"from {self._principal.kind}.{self._principal.name}: {self._principal.kind}.{step.user}"
            failure = AuthenticationFailed(f"Cannot change principals during re-authentication {change}")
            self._failed(failure, refuse)
        else:
            respond(step.token, self._succeeded(step))

    def _succeeded(self, success: Success) -> int:
        """The client is who it says; returns for how long its session lasts, 0 without limit."""
        connection, owner = self._connection, self._owner
        exchange, self._exchange = self._exchange, None
        assert exchange is not None
        owner.counts.succeeded(self._listener.name, again=self.is_repeated)
        self._state = sasl.after(self._state, Event.SUCCESS)
        self._rests_on = success.user if exchange.rests_on_store else None
        self._principal = connection.principal = BROKERS if success.is_broker else user(success.user)
        connection.max_request_bytes = self._max_request_bytes
        connection.min_request_bytes = _REQUEST_BYTES
        connection.on_partial_frame = None
        owner.newcomers.settled(connection)
        lifetime_ms = sasl.session_lifetime_ms(
            self._world.now_ms(), success.expires_at_ms, self._listener.max_reauth_ms(self._mechanism)
        )
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        if not lifetime_ms:
            connection.handle_frame = owner.dispatcher.handle
            return 0
        connection.handle_frame = self._handle_until_expiry
        self._expires_at = self._world.monotonic() + lifetime_ms / 1000
        if not self._can_authenticate_anew:
            self._expiry = self._world.call_later(lifetime_ms / 1000, self._close_expired)
        return lifetime_ms

    def _close_expired(self) -> None:
        if not self._connection.closed:
            self._expired()

    # Failures

    def _failed(self, failure: AuthenticationFailed, refuse: Callable[[str], None]) -> None:
        kind = "re-authentication" if self.is_repeated else "authentication"
        message = str(failure)
        if isinstance(failure, MalformedToken):
            message = (
                f"Authentication failed during {kind} due to invalid credentials with SASL mechanism {self._mechanism}"
            )
        why = failure.why if isinstance(failure, TokenRefused) else str(failure)
        who = self._exchange.user[:200] if self._exchange is not None else ""
        self._count_failure("%s of %r with %s failed: %s", kind, who, self._mechanism, why)
        self._end_later(lambda: refuse(message))

    def _fail_later(self, request: AnyRequest, response: m.Message, why: str) -> Answer:
        """Answer what is out of order, after the delay, and close."""
        self._count_failure("%s", why)
        pending = request.defer()
        self._end_later(lambda: pending.complete(response))
        return pending

    def _end_later(self, answer: Callable[[], None]) -> None:
        self._state = State.FAILED
        self._connection.hold()
        delay_ms = self._owner.config.connection_failed_authentication_delay_ms
        self._world.call_later(delay_ms / 1000, self._end, answer)

    def _end(self, answer: Callable[[], None]) -> None:
        if not self._connection.closed:
            answer()
            self._world.call_later(LAST_WORD_SECONDS, self._connection.close)

    def _close(self, why: str) -> None:
        """Close at once, as Kafka does with what it cannot answer."""
        self._state = State.FAILED
        self._count_failure("closed the connection: %s", why)
        self._connection.close()

    def _count_failure(self, text: str, *args: object) -> None:
        self._owner.counts.failed(self._listener.name, again=self.is_repeated)
        self._owner.failures.warning(f"%s, listener %s: {text}", self._peer, self._listener.name, *args)

    @property
    def _peer(self) -> str:
        return f"{self._connection.peer_host}:{self._connection.peer_port}"


def _out_of_place() -> m.SaslAuthenticateResponse:
    return m.SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )
