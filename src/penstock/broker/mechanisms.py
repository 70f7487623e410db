"""The SASL mechanisms on the broker's side: what a client's messages lead to, now or a moment later.

An exchange is handed one message after the other and says what each leads to: a challenge, success, or a failure. PLAIN
derives a key in a thread, OAUTHBEARER may wait for keys, so the word comes through a callback, mostly at once.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from penstock.security import oauthbearer, plain
from penstock.security.failures import AuthenticationFailed
from penstock.security.oauthbearer import ClaimRules
from penstock.security.scram import ScramMechanism, ScramServer

if TYPE_CHECKING:
    from penstock.broker.credentials import Users
    from penstock.broker.key_sets import KeySet
    from penstock.broker.password_checks import PasswordChecks

INVALID_PASSWORD = "Authentication failed: Invalid username or password"


class Challenge(NamedTuple):
    """The client is to answer this."""

    token: bytes


class Success(NamedTuple):
    user: str
    token: bytes = b""
    expires_at_ms: int | None = None
    is_broker: bool = False
    """Whether it is another broker of the cluster."""


Step: TypeAlias = Challenge | Success | AuthenticationFailed
Done: TypeAlias = Callable[[Step], None]


class Exchange(Protocol):
    @property
    def user(self) -> str:
        """Who the client says it is, as far as it has said so."""
        ...

    @property
    def rests_on_store(self) -> bool:
        """Whether the credential is one of the broker's users, whose sessions end when it changes."""
        ...

    def receive(self, token: bytes, done: Done) -> None:
        """Have `done` called with what a message leads to."""
        ...


class ScramExchange:
    rests_on_store = True

    def __init__(self, mechanism: ScramMechanism, users: Users, nonce: str) -> None:
        self._users = users
        self._server = ScramServer(mechanism, nonce, lambda user: users.look_up(user, mechanism))

    @property
    def user(self) -> str:
        return self._server.user

    def receive(self, token: bytes, done: Done) -> None:
        try:
            answer = self._server.receive(token)
        except AuthenticationFailed as failure:
            done(failure)
            return
        if self._server.complete:
            done(Success(self.user, answer, is_broker=self._users.is_of_brokers(self.user)))
        else:
            done(Challenge(answer))


class PlainExchange:
    """Against the broker's users."""

    rests_on_store = True

    def __init__(self, users: Users, checks: PasswordChecks) -> None:
        self._users = users
        self._checks = checks
        self.user = ""

    def receive(self, token: bytes, done: Done) -> None:
        def checked(matches: bool) -> None:
            done(Success(login.user) if matches else AuthenticationFailed(INVALID_PASSWORD))

        try:
            login = plain.parse(token)
            self.user = login.user
            self._checks.check(self._users.look_up_any(login.user), login.password, checked)
        except AuthenticationFailed as failure:
            done(failure)


class JaasPlainExchange:
    """Against the passwords in a JAAS configuration."""

    rests_on_store = False

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords
        self.user = ""

    def receive(self, token: bytes, done: Done) -> None:
        try:
            login = plain.parse(token)
            self.user = login.user
            password = self._passwords.get(login.user)
            matches = hmac.compare_digest((password or "").encode(), login.password.encode())
            if password is None or not matches:
                raise AuthenticationFailed(INVALID_PASSWORD)
        except AuthenticationFailed as failure:
            done(failure)
            return
        done(Success(login.user))


class OAuthBearerExchange:
    rests_on_store = False

    def __init__(self, keys: KeySet, rules: ClaimRules, now_ms: Callable[[], int]) -> None:
        self._key_set = keys
        self._rules = rules
        self._now_ms = now_ms
        self._refused: AuthenticationFailed | None = None
        self.user = ""

    def receive(self, token: bytes, done: Done) -> None:
        if self._refused is not None:
            done(self._refused)
            return
        try:
            first = oauthbearer.parse_client_first(token)
        except AuthenticationFailed as failure:
            done(failure)
            return
        self._check(first, done, may_refresh=True)

    def _check(self, first: oauthbearer.ClientFirst, done: Done, may_refresh: bool) -> None:
        try:
            claims = oauthbearer.verify_signature(first.token, self._key_set.keys)
            bearer = oauthbearer.check_claims(claims, self._now_ms(), self._rules)
            if first.authzid not in ("", bearer.principal):
                raise AuthenticationFailed("the client asks for the authorization of somebody else")
        except oauthbearer.UnknownKey as failure:
            if not (may_refresh and self._key_set.refresh(lambda: self._check(first, done, may_refresh=False))):
                self._refuse(failure, done)
        except AuthenticationFailed as failure:
            self._refuse(failure, done)
        else:
            self.user = bearer.principal
            done(Success(bearer.principal, expires_at_ms=bearer.expires_at_ms))

    def _refuse(self, why: AuthenticationFailed, done: Done) -> None:
        """RFC 7628: the error is a challenge, and the exchange fails when the client has answered it."""
        challenge = oauthbearer.error_challenge()
        self._refused = TokenRefused(challenge.decode(), str(why))
        done(Challenge(challenge))


class TokenRefused(AuthenticationFailed):
    """A token that is not taken: the client learns as much as the challenge said, the log learns why."""

    def __init__(self, message: str, why: str) -> None:
        super().__init__(message)
        self.why = why
