"""Visitors of the monitoring endpoint log in, over TLS, and see what they may."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Callable

import pytest

from penstock.broker.gate import Gate
from penstock.broker.http import MonitoringEndpoint
from penstock.broker.visitors import LoggedInVisitors
from penstock.certificates import make_certificates
from penstock.security.acls import CLUSTER_NAME, AclBinding
from penstock.security.authorizer import Authorizer
from penstock.security.failures import AuthenticationFailed
from penstock.wire.acls import AclOperation, AclResource

WAIT_SECONDS = 30
PASSWORDS = {"ops": "secret", "billing": "hush:hush", "nobody": "x"}
RULES = [
    AclBinding(AclResource.CLUSTER, CLUSTER_NAME, "User:ops", AclOperation.DESCRIBE),
    AclBinding(AclResource.GROUP, "workers", "User:billing", AclOperation.READ),
]


class FixedMetrics:
    def text(self) -> str:
        return "answer 42\n"


class Site:
    """An endpoint for visitors, and what is told about those who fail."""

    def __init__(self, authorizer: Authorizer | None) -> None:
        self.failed: list[tuple[str, str]] = []
        self.is_busy = False
        self.certificates = make_certificates(["127.0.0.1"])
        self.endpoint = MonitoringEndpoint(FixedMetrics())  # type: ignore[arg-type]
        self.endpoint.register("/share-groups", lambda query: {"group": query.get("group")}, about_groups=True)
        self.endpoint.register("/cleaner", lambda _: {})
        self.visitors = LoggedInVisitors(
            self.context(),
            self.check,
            Gate(authorizer, lambda: 0.0),
            failure_delay_ms=lambda: 0,
            on_failure=lambda name, host: self.failed.append((name, host)),
        )

    def context(self) -> ssl.SSLContext:
        import tempfile

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(self.certificates.broker.pem)
            file.flush()
            context.load_cert_chain(file.name)
        return context

    def check(self, name: str, password: str, done: Callable[[bool], None]) -> None:
        if self.is_busy:
            raise AuthenticationFailed("too many")
        asyncio.get_running_loop().call_soon(done, PASSWORDS.get(name) == password)

    async def get(self, path: str, user: str = "", password: str | None = None) -> tuple[int, bytes]:
        """The status and the body (the head too, for 401) of an answer."""
        login = f"{user}:{PASSWORDS.get(user, '') if password is None else password}"
        header = f"Authorization: Basic {base64.b64encode(login.encode()).decode()}\r\n" if user else ""
        return await self.exchange(f"GET {path} HTTP/1.1\r\n{header}\r\n")

    async def exchange(self, request: str) -> tuple[int, bytes]:
        trust = ssl.create_default_context(cadata=self.certificates.authority.certificate)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.endpoint.port, ssl=trust)
        writer.write(request.encode())
        answer = await asyncio.wait_for(reader.read(), WAIT_SECONDS)
        writer.close()
        head, _, body = answer.partition(b"\r\n\r\n")
        status = int(head.split()[1])
        return status, head if status == 401 else body


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    running = Site(Authorizer(RULES))
    await running.endpoint.start("127.0.0.1:0", running.visitors)
    yield running
    await running.endpoint.stop()


async def test_health_is_for_everybody(site: Site) -> None:
    assert await site.get("/health") == (200, b'{"status": "ok"}')


@pytest.mark.parametrize("path", ["/metrics", "/cleaner", "/share-groups?group=workers", "/not-there"])
async def test_everything_else_needs_a_login(site: Site, path: str) -> None:
    status, head = await site.get(path)
    assert status == 401
    assert b'WWW-Authenticate: Basic realm="Penstock"' in head
    assert site.failed == []


@pytest.mark.parametrize(
    ("user", "path", "status"),
    [
        ("ops", "/metrics", 200),
        ("ops", "/cleaner", 200),
        ("ops", "/share-groups", 200),
        ("ops", "/share-groups?group=workers", 403),
        ("ops", "/not-there", 404),
        ("billing", "/share-groups?group=workers", 200),
        ("billing", "/share-groups?group=others", 403),
        ("billing", "/share-groups", 403),
        ("billing", "/metrics", 403),
        ("nobody", "/metrics", 403),
    ],
)
async def test_rules_decide_what_a_user_sees(site: Site, user: str, path: str, status: int) -> None:
    assert (await site.get(path, user))[0] == status


async def test_without_an_authorizer_every_user_sees_everything() -> None:
    site = Site(None)
    await site.endpoint.start("127.0.0.1:0", site.visitors)
    try:
        assert (await site.get("/metrics", "nobody"))[0] == 200
    finally:
        await site.endpoint.stop()


@pytest.mark.parametrize(("user", "password"), [("ops", "wrong"), ("mallory", "secret")])
async def test_a_wrong_password_and_an_unknown_user_are_told_the_same(site: Site, user: str, password: str) -> None:
    status, head = await site.get("/metrics", user, password)
    assert status == 401
    assert site.failed == [(user, "127.0.0.1")]
    assert (await site.get("/metrics", "ops", "also wrong"))[1] == head


async def test_a_broker_that_is_busy_checking_passwords_lets_nobody_in(site: Site) -> None:
    site.is_busy = True
    assert (await site.get("/metrics", "ops"))[0] == 401


@pytest.mark.parametrize("header", ["Basic", "Basic !", "Bearer b3BzOnNlY3JldA==", "Basic b3Bz", "Basic /////w=="])
async def test_what_is_no_basic_login_is_none(site: Site, header: str) -> None:
    status, _ = await site.exchange(f"GET /metrics HTTP/1.1\r\nAuthorization: {header}\r\n\r\n")
    assert status == 401


async def test_nobody_is_answered_without_tls(site: Site) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", site.endpoint.port)
    writer.write(b"GET /health HTTP/1.1\r\n\r\n")
    answer = await asyncio.wait_for(reader.read(), WAIT_SECONDS)
    writer.close()
    assert b"200" not in answer
