"""Tokens for OAUTHBEARER: when they are fetched, from whom, and what is said when there are none."""

from __future__ import annotations

import base64
import json
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from penstock.client import Token
from penstock.client.errors import AuthenticationFailed, UsageError
from penstock.client.tokens import ClientCredentials, TokenSource, provider_of


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Provider:
    """Gives tokens that live for 100 seconds, until it fails."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.calls = 0
        self.fails = False

    def __call__(self) -> Token:
        if self.fails:
            raise ConnectionError("the identity provider is away")
        self.calls += 1
        return Token(f"token{self.calls}", self.clock.now + 100)


def named() -> Token:
    return Token("by name", 4e9)


async def test_a_token_is_fetched_again_after_four_fifths_of_its_life() -> None:
    clock = Clock()
    source = TokenSource(Provider(clock), {"pool": "x"}, clock)
    assert await source.current() == ("token1", 1100.0, {"pool": "x"})
    clock.now += 79
    assert (await source.current()).value == "token1"
    clock.now += 2
    assert (await source.current()).value == "token2"


async def test_a_failing_provider_is_forgiven_until_the_token_expires() -> None:
    clock = Clock()
    provider = Provider(clock)
    source = TokenSource(provider, now=clock)
    await source.current()
    provider.fails = True
    clock.now += 99
    assert (await source.current()).value == "token1"
    clock.now += 1
    with pytest.raises(AuthenticationFailed, match="no token for OAUTHBEARER: the identity provider is away"):
        await source.current()
    with pytest.raises(AuthenticationFailed):
        source.current_blocking()


async def test_a_provider_may_be_async() -> None:
    async def provide() -> Token:
        return Token("abc", 4e9)

    assert (await TokenSource(provide).current()).value == "abc"


def test_an_async_provider_serves_programs_without_a_loop_too() -> None:
    async def provide() -> Token:
        return Token("abc", 4e9)

    assert TokenSource(provide).current_blocking().value == "abc"


@pytest.mark.parametrize("given", ["just text", ("abc",), (b"abc", 4e9), None])
async def test_what_is_no_token_is_refused_with_what_it_must_be(given: object) -> None:
    with pytest.raises(AuthenticationFailed, match="must return a penstock"):
        await TokenSource(lambda: given).current()  # type: ignore[arg-type, return-value]


async def test_a_token_that_has_expired_is_not_sent() -> None:
    with pytest.raises(AuthenticationFailed, match="expired already"):
        await TokenSource(lambda: Token("abc", 1.0)).current()


def test_a_provider_can_be_named() -> None:
    assert provider_of(f"{__name__}:named")() == named()
    for name in ("nonsense", "no.such.module:f", f"{__name__}:missing"):
        with pytest.raises(UsageError, match="sasl_oauth_token_provider"):
            provider_of(name)


class AuthorizationServer:
    """Answers POSTs with what it is told, and keeps what it was asked."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, object]] = []
        self.seen: list[tuple[str, dict[str, list[str]]]] = []
        self.location = ""
        self.url = ""


@pytest.fixture
def server() -> Iterator[AuthorizationServer]:
    message = AuthorizationServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            message.seen.append((self.headers["Authorization"], urllib.parse.parse_qs(body)))
            status, answer = message.answers.pop(0)
            self.send_response(status)
            if message.location:
                self.send_header("Location", message.location)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_: object) -> None:
            pass

    with serving(Handler) as port:
        message.url = f"http://127.0.0.1:{port}/token"
        yield message


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    with HTTPServer(("127.0.0.1", 0), handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, daemon=True)
        thread.start()
        try:
            yield listening.server_port
        finally:
            listening.shutdown()
            thread.join(10)


def test_client_credentials_fetch_a_token(server: AuthorizationServer) -> None:
    server.answers = [(200, {"access_token": "abc", "expires_in": 60, "token_type": "Bearer"})]
    token = ClientCredentials(server.url, "me", "hush", "kafka")()
    assert token.value == "abc"
    (login, fields) = server.seen[0]
    assert base64.b64decode(login.removeprefix("Basic ")) == b"me:hush"
    assert fields == {"grant_type": ["client_credentials"], "scope": ["kafka"]}


def test_an_answer_without_expiry_has_it_in_the_token(server: AuthorizationServer) -> None:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": 4_000_000_000}).encode()).decode().rstrip("=")
    server.answers = [(200, {"access_token": f"head.{claims}.signature"})]
    assert ClientCredentials(server.url, "me", "hush")().expires_at == 4_000_000_000


def test_a_server_that_is_busy_is_asked_again(server: AuthorizationServer) -> None:
    server.answers = [(503, {}), (200, {"access_token": "abc", "expires_in": 60})]
    assert ClientCredentials(server.url, "me", "hush")().value == "abc"


@pytest.mark.parametrize(
    ("status", "answer", "message"),
    [
        (401, {"error": "invalid_client", "detail": "hush"}, r"127.0.0.1 answers 401 \(invalid_client\)"),
        (200, {"error": "odd"}, "holds no access_token with an expiry"),
        (200, ["odd"], "holds no access_token with an expiry"),
    ],
)
def test_a_refusal_is_told_at_once_and_without_the_secret(
    server: AuthorizationServer, status: int, answer: object, message: str
) -> None:
    server.answers = [(status, answer)]
    with pytest.raises(AuthenticationFailed, match=message) as caught:
        TokenSource(ClientCredentials(server.url, "me", "hush")).current_blocking()
    assert "hush" not in str(caught.value)
    assert len(server.seen) == 1


def test_a_redirect_does_not_carry_the_secret_elsewhere(server: AuthorizationServer) -> None:
    server.answers = [(302, {}), (200, {"access_token": "abc", "expires_in": 60})]
    server.location = server.url
    with pytest.raises(ValueError, match="answers 302"):
        ClientCredentials(server.url, "me", "hush")()
    assert len(server.seen) == 1


def test_only_http_addresses_are_fetched_from() -> None:
    with pytest.raises(UsageError, match="must be an https://"):
        ClientCredentials("file:///etc/passwd", "me", "hush")
