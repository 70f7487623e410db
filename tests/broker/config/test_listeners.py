"""The configs that hold for one listener alone."""

from __future__ import annotations

import pytest

from penstock.broker.config import BrokerConfig, ConfigError
from penstock.broker.config.listeners import ListenerConfig, bare_name, definition_of
from penstock.broker.config.resolver import check_dynamic
from penstock.broker.foundation import Settings
from penstock.broker.server import Broker


class TestLookup:
    def test_the_listeners_own_setting_counts_before_the_plain_one(self) -> None:
        config = BrokerConfig({"max.connections": "10", "listener.name.internal.max.connections": "5"})
        assert config.for_listener("INTERNAL").value("max.connections") == 5
        assert config.for_listener("EXTERNAL").value("max.connections") == 10

    def test_without_any_the_default_counts(self) -> None:
        config = BrokerConfig().for_listener("INTERNAL")
        assert config.text("ssl.client.auth") == "none"
        assert config.items("ssl.enabled.protocols") == ["TLSv1.2", "TLSv1.3"]
        assert config.text("ssl.keystore.location") == ""
        assert not config.is_set("ssl.client.auth")

    def test_a_mechanism_may_have_settings_of_its_own(self) -> None:
        names = {
            "connections.max.reauth.ms": "1",
            "listener.name.internal.connections.max.reauth.ms": "2",
            "listener.name.internal.scram-sha-256.connections.max.reauth.ms": "3",
        }
        config = ListenerConfig(_Set(names), "INTERNAL")  # type: ignore[arg-type]
        assert config.value("connections.max.reauth.ms", "SCRAM-SHA-256") == 3
        assert config.value("connections.max.reauth.ms", "PLAIN") == 2
        assert ListenerConfig(_Set(names), "OTHER").value("connections.max.reauth.ms", "PLAIN") == 1  # type: ignore[arg-type]

    def test_what_changes_later_counts_as_well(self) -> None:
        config = BrokerConfig()
        listener = config.for_listener("INTERNAL")
        config.set_dynamic({}, {"listener.name.internal.max.connections": "7"})
        assert listener.value("max.connections") == 7


class _Set:
    """Settings as they are looked up, without the checks of a start."""

    def __init__(self, names: dict[str, str]) -> None:
        self.text = names.get
        self.is_set = names.__contains__


class TestNames:
    @pytest.mark.parametrize(
        ("name", "bare"),
        [
            ("ssl.keystore.type", "ssl.keystore.type"),
            ("listener.name.internal.ssl.keystore.type", "ssl.keystore.type"),
            ("listener.name.internal.scram-sha-256.sasl.jaas.config", "sasl.jaas.config"),
            ("listener.name.internal.plain.connections.max.reauth.ms", "connections.max.reauth.ms"),
        ],
    )
    def test_they_end_with_the_config_that_they_set(self, name: str, bare: str) -> None:
        assert bare_name(name) == bare
        assert definition_of(name) is not None

    def test_one_that_sets_nothing_known_is_reported(self) -> None:
        config = BrokerConfig({"listener.name.internal.no.such.config": "1"})
        assert config.unknown == ["listener.name.internal.no.such.config"]

    def test_one_that_no_listener_can_have_is_reported_as_unused(self) -> None:
        config = BrokerConfig(
            {"listener.name.internal.message.max.bytes": "1", "listener.name.internal.max.connections": "1"}
        )
        assert config.unused == ["listener.name.internal.message.max.bytes"]


class TestValues:
    def test_are_checked_as_those_of_the_plain_config_are(self) -> None:
        with pytest.raises(ConfigError, match="Not a number"):
            BrokerConfig({"listener.name.internal.max.connections": "many"})
        with pytest.raises(ConfigError, match="Not a number"):
            check_dynamic({"listener.name.internal.max.connections": "many"}, for_all_brokers=False)

    def test_are_described_unless_they_are_secret(self) -> None:
        config = BrokerConfig({"listener.name.internal.max.connections": "5"})
        (entry,) = config.entries(["listener.name.internal.max.connections"])
        assert (entry.value, entry.is_sensitive) == ("5", False)


class TestProtocols:
    @pytest.mark.parametrize("name", ["listeners", "advertised.listeners"])
    def test_a_listener_without_one_is_refused(self, name: str) -> None:
        with pytest.raises(ConfigError, match="No security protocol is defined for listener INTERNAL"):
            BrokerConfig({name: "PLAINTEXT://:9092, INTERNAL://:9093"})

    @pytest.mark.parametrize("field", ["listen", "advertise"])
    def test_so_is_one_that_is_given_as_an_option(self, field: str) -> None:
        with pytest.raises(ConfigError, match="No security protocol is defined for listener INTERNAL"):
            Broker(Settings(**{field: ["INTERNAL://h:9093"]}))  # type: ignore[arg-type]

    def test_listeners_of_controllers_need_none(self) -> None:
        BrokerConfig({"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093", "controller.listener.names": "CONTROLLER"})


def test_a_security_protocol_chooses_the_listener_of_brokers_unless_another_is_named() -> None:
    protocols = {"listener.security.protocol.map": "INSIDE:SASL_SSL,PLAINTEXT:PLAINTEXT"}
    assert BrokerConfig(protocols).listener_of_brokers == ""
    assert BrokerConfig({**protocols, "security.inter.broker.protocol": "PLAINTEXT"}).listener_of_brokers == "PLAINTEXT"
    named = {**protocols, "inter.broker.listener.name": "INSIDE"}
    assert BrokerConfig(named).listener_of_brokers == "INSIDE"
    assert BrokerConfig({**named, "security.inter.broker.protocol": "SASL_SSL"}).listener_of_brokers == "INSIDE"
    with pytest.raises(ConfigError, match=r"INSIDE, a listener with SASL_SSL\. Remove one of the two"):
        BrokerConfig({**named, "security.inter.broker.protocol": "PLAINTEXT"})
