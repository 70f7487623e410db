"""Nobody opens a broker to a network by accident."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.broker.config import BrokerConfig
from penstock.broker.exposure import Exposure, check_monitoring, decide
from penstock.broker.listeners import ListenError
from penstock.security.protocols import SecurityProtocol

KEYSTORE: dict[str, Any] = {"ssl.keystore.location": "/etc/penstock/broker.pem", "ssl.keystore.type": "PEM"}


def _config(configs: dict[str, str]) -> BrokerConfig:
    return BrokerConfig(configs)


def exposed(*listen: str, users: bool = False, insecure: bool = False, **configs: Any) -> Exposure:
    named = {name.replace("_", "."): value for name, value in configs.items()}
    return decide(listen, _config(named), data="d", has_users=users, insecure=insecure)


@pytest.mark.parametrize("address", ["127.0.0.1:9092", "localhost:0", "[::1]:9092", "9092"])
def test_this_machine_needs_no_login(address: str) -> None:
    assert exposed(address) == Exposure(SecurityProtocol.PLAINTEXT)


@pytest.mark.parametrize("address", ["0.0.0.0:9092", ":9092", "[::]:9092", "10.0.0.7:9092", "broker.example:9092"])
def test_an_address_beyond_this_machine_is_refused_with_the_ways_out(address: str) -> None:
    with pytest.raises(ListenError) as refused:
        exposed("127.0.0.1:1", address)
    text = str(refused.value)
    assert f"penstock serve --secure --listen {address} --data d" in text
    assert "penstock user add NAME --data d" in text
    assert f"PLAINTEXT://{address}" in text
    assert "--insecure" in text


def test_a_certificate_alone_is_no_authentication() -> None:
    with pytest.raises(ListenError, match="encryption, not authentication"):
        exposed("0.0.0.0:9092", **KEYSTORE)


def test_users_without_a_certificate_are_not_enough() -> None:
    with pytest.raises(ListenError) as refused:
        exposed("0.0.0.0:9092", users=True)
    assert "penstock tls create" in str(refused.value)
    assert "SASL_PLAINTEXT://0.0.0.0:9092" in str(refused.value)


def test_with_users_and_a_certificate_it_becomes_sasl_over_tls() -> None:
    assert exposed("0.0.0.0:9092", users=True, **KEYSTORE) == Exposure(SecurityProtocol.SASL_SSL)


def test_insecure_serves_everybody_and_warns() -> None:
    decided = exposed("0.0.0.0:9092", insecure=True)
    assert decided.unnamed is SecurityProtocol.PLAINTEXT
    assert "without a login" in decided.warnings[0]


@pytest.mark.parametrize(
    ("listen", "warning"),
    [
        ("PLAINTEXT://0.0.0.0:9092", "without a login"),
        ("SSL://0.0.0.0:9092", "encryption, not authentication"),
        ("SASL_PLAINTEXT://0.0.0.0:9092", "not encrypted"),
    ],
)
def test_a_protocol_that_is_written_out_is_served_with_a_warning(listen: str, warning: str) -> None:
    decided = exposed(listen)
    assert len(decided.warnings) == 1
    assert warning in decided.warnings[0]


def test_what_asks_for_proof_over_tls_needs_no_warning() -> None:
    assert exposed("SASL_SSL://0.0.0.0:9092").warnings == ()
    assert exposed("SSL://0.0.0.0:9092", ssl_client_auth="required").warnings == ()
    assert exposed("PLAINTEXT://127.0.0.1:9092").warnings == ()


def test_a_listener_of_another_name_is_judged_by_its_protocol() -> None:
    decided = exposed("OUTSIDE://0.0.0.0:9092", listener_security_protocol_map="OUTSIDE:PLAINTEXT")
    assert "without a login" in decided.warnings[0]


class TestMonitoring:
    def check(self, *, users: bool, **configs: str) -> None:
        check_monitoring("0.0.0.0:9644", _config(configs), data="d", has_users=users)

    def test_beyond_this_machine_it_needs_users_and_a_certificate(self) -> None:
        self.check(users=True, **KEYSTORE)
        self.check(users=True, **{f"listener.name.monitoring.{name}": value for name, value in KEYSTORE.items()})
        with pytest.raises(ListenError, match="penstock user add NAME --data d"):
            self.check(users=False, **KEYSTORE)
        with pytest.raises(ListenError, match="penstock tls create"):
            self.check(users=True)

    def test_both_are_named_when_both_are_missing(self) -> None:
        with pytest.raises(ListenError) as refused:
            self.check(users=False)
        assert "penstock user add" in str(refused.value)
        assert "penstock tls create" in str(refused.value)
