"""Visitors of the monitoring endpoint log in, over TLS, and see what they may."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock.broker import password_checks
from penstock.broker.config import BrokerConfig
from penstock.broker.credentials import Users
from penstock.broker.gate import Gate
from penstock.broker.http import MonitoringEndpoint
from penstock.broker.password_checks import PasswordChecks
from penstock.broker.users import set_password
from penstock.broker.visitors import LoggedInVisitors, open_context
from penstock.broker.world import LoopWorld
from penstock.catalog.memory import MemoryCatalog
from penstock.certificates import Certificates, make_certificates
from penstock.security.acls import CLUSTER_NAME, AclBinding
from penstock.security.authorizer import Authorizer
from penstock.wire.acls import AclOperation, AclResource

WAIT_SECONDS = 30
PASSWORDS = {"ops": "secret", "billing": "hush:hush", "nobody": "x"}
RULES = [
    AclBinding(AclResource.CLUSTER, CLUSTER_NAME, "User:ops", AclOperation.DESCRIBE),
    AclBinding(AclResource.GROUP, "workers", "User:billing", AclOperation.READ),
]


class FixedMetrics:
    async def scrape(self, *, openmetrics: bool = False) -> list[bytes]:
        return [b"answer 42\n"]


class Site:
    """An endpoint for visitors."""

    def __init__(self, authorizer: Authorizer | None, tmp_path: Path) -> None:
        self.tmp_path = tmp_path
        self.certificates = make_certificates(["127.0.0.1"])
        self.write(self.certificates)
        keystore = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(tmp_path / "broker.pem")}
        config = BrokerConfig({**keystore, "connection.failed.authentication.delay.ms": "0"})
        catalog = MemoryCatalog()
        for user, password in PASSWORDS.items():
            set_password(catalog, user, password)
        self.world = LoopWorld(asyncio.get_running_loop())
        self.checks = PasswordChecks(self.world)
        self.endpoint = MonitoringEndpoint(FixedMetrics(), list)  # type: ignore[arg-type]
        self.endpoint.register("/share-groups", lambda query: {"group": query.get("group")}, about_groups=True)
        self.endpoint.register("/cleaner", lambda _: {})
        self.visitors = LoggedInVisitors(
            open_context(config), Users(catalog), self.checks, Gate(authorizer, lambda: 0.0), config, self.world
        )

    def write(self, certificates: Certificates) -> None:
        (self.tmp_path / "new.pem").write_text(certificates.broker.pem)
        (self.tmp_path / "new.pem").replace(self.tmp_path / "broker.pem")

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
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    running = Site(Authorizer(RULES), tmp_path)
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


async def test_without_an_authorizer_every_user_sees_everything(tmp_path: Path) -> None:
    site = Site(None, tmp_path)
    await site.endpoint.start("127.0.0.1:0", site.visitors)
    try:
        assert (await site.get("/metrics", "nobody"))[0] == 200
    finally:
        await site.endpoint.stop()


@pytest.mark.parametrize(("user", "password"), [("ops", "wrong"), ("mallory", "secret")])
async def test_a_wrong_password_and_an_unknown_user_are_told_the_same(
    site: Site, user: str, password: str, caplog: pytest.LogCaptureFixture
) -> None:
    status, head = await site.get("/metrics", user, password)
    assert status == 401
    assert f"login of {user!r} to the monitoring endpoint from 127.0.0.1 failed" in caplog.text
    assert password not in caplog.text
    assert (await site.get("/metrics", "ops", "also wrong"))[1] == head


async def test_a_broker_that_is_busy_checking_passwords_lets_nobody_in(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(password_checks, "AT_ONCE", 0)
    monkeypatch.setattr(password_checks, "MAX_WAITING", 0)
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


async def test_a_new_certificate_is_shown_from_the_next_visitor_on(site: Site) -> None:
    assert (await site.get("/health"))[0] == 200
    site.certificates = make_certificates(["127.0.0.1"])
    with pytest.raises(ssl.SSLCertVerificationError):
        await site.get("/health")
    site.write(site.certificates)
    assert (await site.get("/health"))[0] == 200
