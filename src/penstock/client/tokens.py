"""Tokens for OAUTHBEARER: from a function of the program, or from an authorization server (client credentials).

A client's connections share one token. A new one is fetched when a connection is opened or reauthenticates, and four
fifths of the old token's lifetime have passed; until the old one expires, a failed fetch does no harm. Fetching blocks,
so it happens in a thread; an `async` provider runs on the client's event loop.
"""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import cast

from penstock.client.errors import AuthenticationFailed, UsageError
from penstock.client.security import Provided, Token, TokenProvider

_RENEWED_AFTER = 0.8  # of a token's life, as Kafka's sasl.login.refresh.window.factor
_TIMEOUT_S = 10.0
_PAUSES_S = (0.1, 0.5)
_ANSWER_MAX = 1 << 20


class TokenSource:
    """The current token of one client."""

    def __init__(
        self,
        provider: TokenProvider,
        extensions: Mapping[str, str] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._provider = provider
        self._extensions = dict(extensions or {})
        self._now = now
        self._token: Token | None = None
        self._renew_at = 0.0
        self._turn = asyncio.Lock()
        self._blocking_turn = threading.Lock()

    async def current(self) -> Token:
        """A token that has not expired; raises AuthenticationFailed when there is none to be had."""
        async with self._turn:
            if self._token is None or self._now() >= self._renew_at:
                try:
                    if inspect.iscoroutinefunction(self._provider):
                        self._take(await self._provider())
                    else:
                        given = await asyncio.to_thread(self._provider)
                        self._take(await given if inspect.isawaitable(given) else given)
                except Exception as error:
                    self._forgive(error)
            assert self._token is not None
            return self._token

    def current_blocking(self) -> Token:
        """`current`, for what has no event loop."""
        with self._blocking_turn:
            if self._token is None or self._now() >= self._renew_at:
                try:
                    given = self._provider()
                    self._take(asyncio.run(_awaited(given)) if inspect.isawaitable(given) else given)
                except Exception as error:
                    self._forgive(error)
            assert self._token is not None
            return self._token

    def _take(self, given: Provided) -> None:
        if not isinstance(given, tuple) or len(given) not in (2, 3) or not isinstance(given[0], str):
            raise UsageError("it must return a penstock.client.Token(value, expires_at)")
        token = Token(*given)
        now = self._now()
        if token.expires_at <= now:
            raise ValueError("the token has expired already; expires_at is in seconds since 1970")
        self._token = Token(token.value, token.expires_at, {**self._extensions, **token.extensions})
        self._renew_at = now + _RENEWED_AFTER * (token.expires_at - now)

    def _forgive(self, error: Exception) -> None:
        if self._token is None or self._token.expires_at <= self._now():
            self._token = None
            raise AuthenticationFailed(f"there is no token for OAUTHBEARER: {error or type(error).__name__}") from error


async def _awaited(given: object) -> Provided:
    return cast(Provided, await given)  # type: ignore[misc]


def provider_of(given: object) -> TokenProvider:
    """The provider that a setting means: a function, an object with `token`, or the name `module:function` of one."""
    if isinstance(given, str):
        module, colon, name = given.partition(":")
        try:
            given = getattr(import_module(module), name) if colon else None
        except (ImportError, AttributeError) as error:
            raise UsageError(f"sasl_oauth_token_provider is not there: {error}") from error
        if given is None:
            raise UsageError("sasl_oauth_token_provider must be a function, or its name as module:function")
    if not callable(given) and callable(getattr(given, "token", None)):
        given = given.token  # type: ignore[attr-defined]
    if not callable(given):
        raise UsageError("sasl_oauth_token_provider must be a function that returns a penstock.client.Token")
    return cast(TokenProvider, given)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the client's secret to wherever it points."""

    def redirect_request(self, *_: object) -> None:
        return None


class ClientCredentials:
    """Fetches tokens with a client's id and secret (RFC 6749, section 4.4). Call it from a thread."""

    def __init__(self, url: str, client_id: str, secret: str, scope: str = "", cafile: str = "") -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise UsageError("sasl.oauthbearer.token.endpoint.url must be an https:// (or http://) address")
        self._url = url
        self._host = parts.hostname or ""
        login = base64.b64encode(f"{client_id}:{secret}".encode()).decode()
        fields = {"grant_type": "client_credentials", **({"scope": scope} if scope else {})}
        self._body = urllib.parse.urlencode(fields).encode()
        self._headers = {
            "Authorization": f"Basic {login}",
            "Accept": "application/json",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        self._cafile = cafile

    def __call__(self) -> Token:
        for pause_s in _PAUSES_S:
            try:
                return self._fetch()
            except _TryAgain:
                time.sleep(pause_s)
        return self._fetch()

    def _fetch(self) -> Token:
        request = urllib.request.Request(self._url, self._body, self._headers, method="POST")
        try:
            with self._opener().open(request, timeout=_TIMEOUT_S) as answer:
                return _token_in(answer.read(_ANSWER_MAX), self._host)
        except urllib.error.HTTPError as error:
            kind = _TryAgain if error.code >= 500 or error.code == 429 else ValueError
            raise kind(f"{self._host} answers {error.code}{_reason_in(error)}") from None
        except OSError as error:  # urllib.error.URLError is one
            reason = getattr(error, "reason", error)
            raise _TryAgain(f"{self._host} does not answer: {reason}") from error

    def _opener(self) -> urllib.request.OpenerDirector:
        context = ssl.create_default_context()
        if self._cafile:
            context.load_verify_locations(self._cafile)
        return urllib.request.build_opener(_NoRedirects(), urllib.request.HTTPSHandler(context=context))


class _TryAgain(ValueError):
    """The authorization server may answer next time."""


def _reason_in(error: urllib.error.HTTPError) -> str:
    """The error's name in the answer (RFC 6749, section 5.2); the rest may be anything."""
    try:
        name = json.loads(error.read(_ANSWER_MAX)).get("error")
    except (ValueError, AttributeError, OSError):
        return ""
    return f" ({name[:100]})" if isinstance(name, str) else ""


def _token_in(answer: bytes, host: str) -> Token:
    try:
        fields = json.loads(answer)
        value = fields["access_token"]
        lifetime = fields.get("expires_in")
        expires_at = time.time() + float(lifetime) if lifetime is not None else _expiry_in(value)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(f"the answer of {host} holds no access_token with an expiry") from None
    return Token(str(value), expires_at)


def _expiry_in(token: str) -> float:
    """The claim `exp` of a JSON web token, unchecked: the broker checks it."""
    payload = token.split(".")[1]
    return float(json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["exp"])
