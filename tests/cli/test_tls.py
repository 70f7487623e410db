"""`penstock tls create`: files, and a broker that serves with what the command prints."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

from penstock.broker.config import BrokerConfig
from penstock.broker.tls import TlsServer
from penstock.security.protocols import SecurityProtocol
from tests.cli.conftest import Run


def printed_configs(text: str) -> dict[str, str]:
    words = text.split()
    pairs = [words[at + 1].partition("=") for at, word in enumerate(words) if word == "-c"]
    return {name: value for name, _, value in pairs}


def test_what_it_prints_serves_tls(penstock: Run, tmp_path: Path) -> None:
    made = penstock("tls", "create", "--host", "broker.example", "--client", "alice", "--out", str(tmp_path / "tls"))
    assert made.returncode == 0
    assert "User:CN=alice" in made.stdout
    configs = printed_configs(made.stderr)
    assert configs["ssl.client.auth"] == "required"
    server = TlsServer(BrokerConfig(configs).for_listener("SSL"), "SSL", SecurityProtocol.SSL)
    assert server.context.verify_mode is ssl.CERT_REQUIRED


def test_without_hosts_it_is_for_this_machine(penstock: Run, tmp_path: Path) -> None:
    penstock("tls", "create", "--out", str(tmp_path / "tls"))
    decoded = ssl._ssl._test_decode_cert(str(tmp_path / "tls" / "broker.pem"))  # type: ignore[attr-defined]
    names = {value for _, value in decoded["subjectAltName"]}
    assert {"localhost", socket.gethostname(), "127.0.0.1"} <= names


def test_the_authority_stays_when_certificates_are_created_again(penstock: Run, tmp_path: Path) -> None:
    penstock("tls", "create", "--out", str(tmp_path / "tls"))
    authority = (tmp_path / "tls" / "ca.pem").read_text()
    broker = (tmp_path / "tls" / "broker.pem").read_text()
    assert penstock("tls", "create", "--out", str(tmp_path / "tls")).returncode == 0
    assert (tmp_path / "tls" / "ca.pem").read_text() == authority
    assert (tmp_path / "tls" / "broker.pem").read_text() != broker


def test_what_cannot_be_named_is_refused(penstock: Run, tmp_path: Path) -> None:
    failed = penstock("tls", "create", "--client", "../x", "--out", str(tmp_path / "tls"))
    assert failed.returncode == 1
    assert "'../x' cannot be the name of a client's certificate" in failed.stderr
