"""Authentication with SASL, without the connection: the requests, and what the responses mean (KIP-43, KIP-152).

`authenticate` conducts the exchange of one connection: a generator that yields requests and is sent their responses, so
that asyncio, blocking sockets and tests can each transport it. It follows ApiVersions on a new connection, and is
repeated on one whose session is about to end (KIP-368).

`Authenticator` holds a client's credentials. It is created once, from the settings, and creates the client's side of a
mechanism for each exchange.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Protocol

from penstock.client.errors import AuthenticationFailed, UsageError
from penstock.client.security import SecurityConfig
from penstock.security.failures import AuthenticationFailed as MechanismFailed
from penstock.security.jaas import JaasEntry, JaasError, parse_jaas_entry
from penstock.security.oauthbearer import OAuthBearerClient
from penstock.security.plain import PlainClient
from penstock.security.scram import MECHANISMS as SCRAM_MECHANISMS
from penstock.security.scram import ScramClient
from penstock.wire import messages as m
from penstock.wire.conversation import Conversation
from penstock.wire.errors import ErrorCode

if TYPE_CHECKING:
    from penstock.client.tokens import TokenSource

Question = tuple[m.Message, type[m.Message], int]
_SHORTEST_RENEWAL_S = 1.0
_HANDSHAKE_WITH_FRAMES = 1  # the version from which on tokens travel in SaslAuthenticate


class Mechanism(Protocol):
    """The client's side of one exchange (`penstock.security`)."""

    def first(self) -> bytes: ...

    def receive(self, challenge: bytes) -> bytes | None: ...


class Authenticator:
    """Who a client is, and by which mechanism it proves it."""

    def __init__(self, mechanism: str, user: str = "", password: str = "", tokens: TokenSource | None = None) -> None:
        self.mechanism = mechanism
        self.who = f"user {user!r}" if user else "the token"
        self._user = user
        self._password = password
        self._tokens = tokens

    @classmethod
    def of(cls, config: SecurityConfig) -> Authenticator | None:
        """What the settings say; None where nobody authenticates. Raises UsageError."""
        if not config.has_sasl:
            return None
        entry = _jaas_entry(config)
        if config.sasl_mechanism == "OAUTHBEARER":
            return cls(config.sasl_mechanism, tokens=_token_source(config, entry))
        user, password = config.sasl_username, config.sasl_password
        if entry is not None:
            user, password = entry.username or "", entry.password or ""
            if not user or not password:
                raise UsageError('sasl_jaas_config must have options username="…" and password="…"')
        return cls(config.sasl_mechanism, user, password)

    async def begin(self) -> Mechanism:
        """The client's side of a new exchange, with a token that has not expired."""
        if self._tokens is None:
            return self._with_password()
        token = await self._tokens.current()
        return _with_token(token.value, token.extensions)

    def begin_blocking(self) -> Mechanism:
        """`begin`, for what has no event loop."""
        if self._tokens is None:
            return self._with_password()
        token = self._tokens.current_blocking()
        return _with_token(token.value, token.extensions)

    def _with_password(self) -> Mechanism:
        scram = SCRAM_MECHANISMS.get(self.mechanism)
        if scram is None:
            return PlainClient(self._user, self._password)
        return ScramClient(scram, self._user, self._password, secrets.token_hex(16))


def authenticate(
    conversation: Conversation, peer: str, authenticator: Authenticator, mechanism: Mechanism
) -> Generator[Question, m.Message, int]:
    """Lead one exchange; returns for how many milliseconds the session is good, 0 for as long as the connection."""
    version = conversation.version_for(m.SaslHandshakeResponse, at_least=_HANDSHAKE_WITH_FRAMES)
    shaken = yield m.SaslHandshakeRequest(mechanism=authenticator.mechanism), m.SaslHandshakeResponse, version
    assert isinstance(shaken, m.SaslHandshakeResponse)
    _check_handshake(shaken, peer, authenticator.mechanism)
    version = conversation.version_for(m.SaslAuthenticateResponse)
    token: bytes | None = mechanism.first()
    lifetime_ms = 0
    while token is not None:
        answer = yield m.SaslAuthenticateRequest(auth_bytes=token), m.SaslAuthenticateResponse, version
        assert isinstance(answer, m.SaslAuthenticateResponse)
        if answer.error_code:
            reason = answer.error_message or "it does not say why"
            raise AuthenticationFailed(f"{peer} refuses {authenticator.who} ({authenticator.mechanism}): {reason}")
        try:
            token = mechanism.receive(bytes(answer.auth_bytes))
        except MechanismFailed as error:
            raise AuthenticationFailed(
                f"{authenticator.mechanism} with {peer} failed for {authenticator.who}: {error}"
            ) from error
        lifetime_ms = answer.session_lifetime_ms
    return lifetime_ms


def _check_handshake(answer: m.SaslHandshakeResponse, peer: str, mechanism: str) -> None:
    if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(answer.mechanisms) or "none"
        raise AuthenticationFailed(f"{peer} does not take sasl_mechanism {mechanism!r}; it offers {offered}")
    if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        raise AuthenticationFailed(
            f"{peer} authenticates nobody with SASL on this listener; set security_protocol to 'ssl' or 'plaintext', "
            "or use the port of a SASL listener"
        )
    if answer.error_code:
        raise AuthenticationFailed(f"{peer} refuses to authenticate (error {answer.error_code})")


def renewal_after_s(lifetime_ms: int) -> float:
    """After how many seconds of a session to authenticate again: before its end, not all clients at once.

    Brokers refuse it within a second of the last time.
    """
    return max(lifetime_ms / 1000 * random.uniform(0.85, 0.95), _SHORTEST_RENEWAL_S)


def wants_sasl(peer: str, mechanisms: list[str]) -> AuthenticationFailed:
    """What to tell a client that does not authenticate where it must."""
    return AuthenticationFailed(
        f"{peer} closes connections that do not authenticate: it offers {', '.join(mechanisms)}. Set security_protocol "
        "to 'sasl_ssl' (or 'sasl_plaintext'), sasl_mechanism, sasl_username and sasl_password"
    )


def _with_token(value: str, extensions: Mapping[str, str]) -> Mechanism:
    try:
        return OAuthBearerClient(value, extensions)
    except ValueError as error:
        raise AuthenticationFailed(f"the token cannot be sent: {error}") from error


def _jaas_entry(config: SecurityConfig) -> JaasEntry | None:
    if not config.sasl_jaas_config:
        return None
    try:
        entry = parse_jaas_entry(config.sasl_jaas_config)
    except JaasError as error:
        raise UsageError(f"sasl_jaas_config cannot be read: {error}") from error
    module, mechanism = entry.login_module.rpartition(".")[2], config.sasl_mechanism
    expected = {"PLAIN": "PlainLoginModule", "OAUTHBEARER": "OAuthBearerLoginModule"}.get(mechanism, "ScramLoginModule")
    if module != expected:
        raise UsageError(f"sasl_jaas_config names the login module {module}, but {mechanism} is done by {expected}")
    return entry


def _token_source(config: SecurityConfig, entry: JaasEntry | None) -> TokenSource:
    from penstock.client.tokens import ClientCredentials, TokenSource, provider_of  # brings an HTTP client along

    if config.sasl_oauth_token_provider is not None:
        return TokenSource(provider_of(config.sasl_oauth_token_provider), _extensions(config, entry))
    client_id, secret, scope = (
        config.sasl_oauthbearer_client_id,
        config.sasl_oauthbearer_client_secret,
        config.sasl_oauthbearer_scope,
    )
    if entry is not None:
        client_id, secret = entry.options.get("clientId", ""), entry.options.get("clientSecret", "")
        scope = scope or entry.options.get("scope", "")
        if not client_id or not secret:
            raise UsageError('sasl_jaas_config must have options clientId="…" and clientSecret="…"')
    url = config.sasl_oauthbearer_token_endpoint_url
    fetch = ClientCredentials(url, client_id, secret, scope, config.ssl_cafile)
    return TokenSource(fetch, _extensions(config, entry))


def _extensions(config: SecurityConfig, entry: JaasEntry | None) -> dict[str, str]:
    made = dict(entry.extensions) if entry is not None else {}
    for pair in filter(None, (part.strip() for part in config.sasl_oauthbearer_extensions.split(","))):
        name, equals, value = pair.partition("=")
        if not equals:
            raise UsageError("sasl_oauthbearer_extensions must look like name=value,name=value")
        made[name] = value
    return made
