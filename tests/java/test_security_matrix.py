"""Apache's Java client gets in each way, through Kafka's own tools, and is told why when it is kept out."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.peers import run_java_tool
from tests.clients.secured import ALLOWED_URLS, WAYS, Secured, Way, secured_broker, token_url
from tests.java.test_kafka_tools import CONSOLE_CONSUMER, CONSOLE_PRODUCER, CONSOLE_SHARE_CONSUMER, TOPICS, run

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

AUTHENTICATION = "Authentication failed"
HANDSHAKE = "SSL handshake failed"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_broker(tmp_path_factory.mktemp("secured")) as running:
        yield running


@pytest.fixture(autouse=True)
def token_may_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-D{ALLOWED_URLS}={token_url(tmp_path)}")


def at(way: Way, folder: Path) -> tuple[str, ...]:
    file = folder / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in way.java_properties(folder).items()))
    return ("--bootstrap-server", way.address, "--command-config", str(file))


@pytest.mark.parametrize("name", WAYS)
def test_a_java_client_that_is_let_in_works(secured: Secured, tmp_path: Path, name: str) -> None:
    way = secured.way(name)
    settings = at(way, tmp_path)
    topic, group, queue = (f"{way.prefix}{uuid.uuid4().hex[:8]}" for _ in range(3))
    run(TOPICS, *settings, "--create", "--topic", topic)
    run(CONSOLE_PRODUCER, *settings, "--topic", topic, stdin="one\ntwo\n")
    whole = ("--topic", topic, "--max-messages", "2", "--timeout-ms", "30000")
    read = run(CONSOLE_CONSUMER, *settings, *whole, "--group", group, "--from-beginning")
    assert read.split() == ["one", "two"]
    secured.share_from_the_start(queue)
    assert run(CONSOLE_SHARE_CONSUMER, *settings, *whole, "--group", queue).split() == ["one", "two"]


def said(way: Way, folder: Path) -> str:
    done = run_java_tool(TOPICS, *at(way, folder), "--list")
    assert done.returncode == 1
    return done.stdout


@pytest.mark.parametrize("name", [way for way in WAYS if way.startswith(("plain", "scram"))])
def test_a_wrong_password_fails_the_authentication(secured: Secured, tmp_path: Path, name: str) -> None:
    assert AUTHENTICATION in said(secured.way(name).but(password="wrong"), tmp_path)


@pytest.mark.parametrize("name", ["oauthbearer", "oauthbearer-over-tls"])
def test_a_token_of_somebody_elses_key_fails_the_authentication(secured: Secured, tmp_path: Path, name: str) -> None:
    """One that has expired would not be sent: the client looks at its time itself."""
    way = secured.way(name)
    head, claims, signature = way.token.split(".")
    forged = ".".join((head, claims, signature[::-1]))
    printed = said(way.but(token=forged), tmp_path)
    assert "invalid_token" in printed or AUTHENTICATION in printed


def test_an_unknown_authority_fails_the_handshake(secured: Secured, tmp_path: Path) -> None:
    assert HANDSHAKE in said(secured.way("tls").but(authority=secured.stranger.certificate), tmp_path)


def test_a_broker_with_the_name_of_another_host_fails_the_handshake(secured: Secured, tmp_path: Path) -> None:
    assert HANDSHAKE in said(secured.strange(), tmp_path)


def test_a_client_without_a_certificate_is_refused_where_one_is_required(secured: Secured, tmp_path: Path) -> None:
    # In TLS 1.3 the client has finished its handshake when the broker refuses.
    assert "handshake" in said(secured.way("mutual-tls").but(identity=None), tmp_path)
