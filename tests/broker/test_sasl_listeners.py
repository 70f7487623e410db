"""Which mechanisms a listener takes, and what is refused before anybody can connect."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from penstock.broker.config import BrokerConfig, ConfigError
from penstock.broker.credentials import Users
from penstock.broker.listeners import Address
from penstock.broker.mechanisms import JaasPlainExchange, OAuthBearerExchange, PlainExchange, ScramExchange
from penstock.broker.sasl_listeners import SaslListener, SaslListeners
from penstock.catalog.memory import MemoryCatalog
from penstock.security.jaas import PLAIN_LOGIN_MODULE
from penstock.security.protocols import SecurityProtocol
from tests.broker.test_key_sets import Threads

PLAINTEXT, TLS = SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL


def listener(configs: dict[str, str], protocol: SecurityProtocol = TLS) -> SaslListener:
    listeners = SaslListeners(BrokerConfig(configs), Users(MemoryCatalog()), Threads())
    listeners.prepare(Address("OUTSIDE", "127.0.0.1", 9093, protocol))
    return listeners["OUTSIDE"]


def test_where_nobody_names_mechanisms_passwords_travel_over_tls_only() -> None:
    assert listener({}, PLAINTEXT).mechanisms() == ["SCRAM-SHA-512", "SCRAM-SHA-256"]
    assert listener({}, TLS).mechanisms() == ["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"]


def test_a_listener_may_have_mechanisms_of_its_own() -> None:
    configs = {
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "listener.name.outside.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    }
    assert listener(configs).mechanisms() == ["PLAIN", "SCRAM-SHA-512"]


@pytest.mark.parametrize("mechanisms", ["GSSAPI", "PLAIN,GSSAPI", "SCRAM-SHA-1", "plain"])
def test_a_mechanism_that_penstock_does_not_have_is_refused(mechanisms: str) -> None:
    with pytest.raises(ConfigError, match=r"does not have .*Name some of SCRAM-SHA-512, SCRAM-SHA-256, PLAIN"):
        listener({"sasl.enabled.mechanisms": mechanisms})


def test_plain_without_tls_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        listener({"sasl.enabled.mechanisms": "PLAIN"}, PLAINTEXT)
    assert "accepts unencrypted passwords" in caplog.text


def test_plain_takes_the_users_of_jaas_where_there_are_some_and_those_of_the_broker_otherwise() -> None:
    of_jaas = {"listener.name.outside.plain.sasl.jaas.config": f'{PLAIN_LOGIN_MODULE} required user_alice="x";'}
    without = {"listener.name.outside.plain.sasl.jaas.config": f'{PLAIN_LOGIN_MODULE} required username="broker";'}
    assert isinstance(listener(of_jaas).new_exchange("PLAIN"), JaasPlainExchange)
    assert isinstance(listener(without).new_exchange("PLAIN"), PlainExchange)
    assert isinstance(listener({}).new_exchange("PLAIN"), PlainExchange)


def test_a_jaas_text_that_cannot_be_read_is_refused_without_the_password() -> None:
    name = "listener.name.outside.plain.sasl.jaas.config"
    with pytest.raises(ConfigError, match=name) as error:
        listener({name: f'{PLAIN_LOGIN_MODULE} required password="hunter2"'})
    assert "hunter2" not in str(error.value)


def test_scram_has_a_new_nonce_each_time() -> None:
    taken = listener({})
    challenges: list[object] = []
    for _ in range(2):
        exchange = taken.new_exchange("SCRAM-SHA-256")
        assert isinstance(exchange, ScramExchange)
        exchange.receive(b"n,,n=alice,r=abc", challenges.append)
    assert challenges[0] != challenges[1]


def test_tokens_need_a_key_set(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"sasl\.oauthbearer\.jwks\.endpoint\.url"):
        listener({"sasl.enabled.mechanisms": "OAUTHBEARER"})
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({"keys": []}))
    configs = {"sasl.enabled.mechanisms": "OAUTHBEARER", "sasl.oauthbearer.jwks.endpoint.url": file.as_uri()}
    assert isinstance(listener(configs).new_exchange("OAUTHBEARER"), OAuthBearerExchange)


def test_limits_may_be_those_of_a_listener() -> None:
    taken = listener({"listener.name.outside.connections.max.reauth.ms": "5000", "sasl.server.max.receive.size": "99"})
    assert taken.max_reauth_ms("PLAIN") == 5000
    assert taken.max_receive_bytes == 99
