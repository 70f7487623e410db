"""What `penstock serve --secure` sets up in a data folder."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

import pytest
from cryptography import x509

from penstock.broker.foundation import open_catalog
from penstock.cli import secure
from penstock.cli.secure import hosts_of, set_up


def _users(data: Path) -> set[str]:
    with open_catalog(data) as catalog:
        return {row.user for row in catalog.credentials()}


def _names(data: Path) -> set[str]:
    certificate = x509.load_pem_x509_certificate((data / "tls" / "broker.pem").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(name.value) for name in names}


def test_the_first_start_makes_an_administrator_and_a_certificate(tmp_path: Path) -> None:
    data = tmp_path / "d"
    setup = set_up(data, ["0.0.0.0:9092", "broker.example:9092"], {})
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    assert _users(data) == {"admin"}
    assert {"broker.example", "localhost", "127.0.0.1", "::1", socket.gethostname()} == _names(data)
    assert setup.configs["super.users"] == "User:admin"
    assert setup.configs["ssl.keystore.location"] == str(data / "tls" / "broker.pem")
    said = "\n".join(setup.lines)
    assert str(data / "tls" / "ca.pem") in said
    password = (data / "admin.password").read_text().strip()
    assert password not in said
    assert stat.S_IMODE((data / "admin.password").stat().st_mode) == 0o600


def test_later_starts_use_what_is_there(tmp_path: Path) -> None:
    first = set_up(tmp_path, ["127.0.0.1:9092"], {})
    files = {path: path.read_bytes() for path in (tmp_path / "tls").iterdir()}
    (tmp_path / "admin.password").unlink()
    again = set_up(tmp_path, ["127.0.0.1:9092"], {})
    assert again.configs == first.configs
    assert not (tmp_path / "admin.password").exists()
    assert files == {path: path.read_bytes() for path in (tmp_path / "tls").iterdir()}


def test_an_administrator_who_was_removed_does_not_come_back(tmp_path: Path) -> None:
    set_up(tmp_path, [], {})
    from penstock.broker.users import remove_user, set_password

    with open_catalog(tmp_path) as catalog:
        set_password(catalog, "alice", "secret")
        remove_user(catalog, "admin")
    set_up(tmp_path, [], {})
    assert _users(tmp_path) == {"alice"}


def test_another_name_gets_a_new_certificate_of_the_same_authority(tmp_path: Path) -> None:
    set_up(tmp_path, ["127.0.0.1:9092"], {})
    authority = (tmp_path / "tls" / "ca.pem").read_text()
    set_up(tmp_path, ["SASL_SSL://broker.example:9093"], {})
    assert "broker.example" in _names(tmp_path)
    assert (tmp_path / "tls" / "ca.pem").read_text() == authority


def test_a_certificate_that_is_about_to_expire_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_up(tmp_path, [], {})
    before = (tmp_path / "tls" / "broker.pem").read_text()
    monkeypatch.setattr(secure, "_RENEWED_DAYS_BEFORE", 10_000)
    set_up(tmp_path, [], {})
    assert (tmp_path / "tls" / "broker.pem").read_text() != before


def test_a_keystore_of_the_users_own_is_left_to_count(tmp_path: Path) -> None:
    setup = set_up(tmp_path, [], {"ssl.keystore.location": "/etc/broker.pem"})
    assert not (tmp_path / "tls").exists()
    assert "ssl.keystore.location" not in setup.configs


def test_the_hosts_of_all_addresses_are_found() -> None:
    assert hosts_of(["SASL_SSL://[fe80::1]:9093", "broker.example:9092", ":9094"])[:2] == ["fe80::1", "broker.example"]
