"""What a broker for tests asks of its clients, and what they have to be given."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.catalog.memory import MemoryCatalog
from penstock.security.protocols import SecurityProtocol
from penstock.testing.security import Security


@pytest.mark.parametrize(
    ("security", "protocol"),
    [
        (Security(), SecurityProtocol.PLAINTEXT),
        (Security(tls=True), SecurityProtocol.SSL),
        (Security(users={"alice": "secret"}), SecurityProtocol.SASL_PLAINTEXT),
        (Security(sasl="PLAIN", tls=True), SecurityProtocol.SASL_SSL),
    ],
)
def test_the_protocol_follows_from_what_is_wanted(security: Security, protocol: SecurityProtocol) -> None:
    assert security.protocol is protocol


def test_every_client_gets_its_own_names(tmp_path: Path) -> None:
    security = Security(tls=True, users={"alice": "secret", "bob": "hush"})
    configs = security.prepare(tmp_path)
    assert security.prepare(tmp_path) is configs
    ca = str(tmp_path / "ca.pem")
    assert security.client("alice") == {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": ca,
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_username": "alice",
        "sasl_password": "secret",
    }
    assert security.librdkafka("bob") == {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": ca,
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "bob",
        "sasl.password": "hush",
    }
    assert security.kafka_python("bob")["sasl_plain_username"] == "bob"
    assert "ssl_cafile" not in security.aiokafka("bob")
    with pytest.raises(ValueError, match="'alice', 'bob'"):
        security.client("carol")
    with pytest.raises(ValueError, match="'alice', 'bob'"):
        security.client(None)


def test_an_only_user_need_not_be_named() -> None:
    assert Security(users={"alice": "secret"}).client(None)["sasl_username"] == "alice"
    assert Security().client(None) == {"security_protocol": "PLAINTEXT"}


def test_rules_and_super_users_turn_access_control_on(tmp_path: Path) -> None:
    assert "authorizer.class.name" not in Security(users={"a": "b"}).prepare(tmp_path)
    assert "authorizer.class.name" in Security(acls=[]).prepare(tmp_path)
    assert Security(super_users=["a", "User:b"]).prepare(tmp_path)["super.users"] == "User:a;User:b"


def test_users_and_rules_are_put_into_the_catalog() -> None:
    catalog = MemoryCatalog()
    Security(users={"alice": "secret"}, acls=["alice read topic orders"]).keep(catalog)
    assert {row.user for row in catalog.credentials()} == {"alice"}
    assert [rule.resource_name for rule in catalog.acls()] == ["orders"]


def test_passwords_are_not_shown() -> None:
    assert "secret" not in repr(Security(users={"alice": "secret"}))
