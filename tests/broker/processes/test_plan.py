"""What each of several brokers on one machine is started with."""

from __future__ import annotations

import pytest

from penstock.broker.config import BrokerConfig
from penstock.broker.foundation import Settings
from penstock.broker.listeners import ListenError, resolve_addresses
from penstock.broker.processes.plan import BETWEEN_BROKERS, Plan, plan
from penstock.security.protocols import SecurityProtocol


def planned(
    *listen: str, count: int = 2, advertise: list[str] | None = None, configs: dict[str, str] | None = None
) -> list[Plan]:
    settings = Settings(listen=list(listen), advertise=advertise or [], configs=configs or {})
    return plan(settings, configs or {}, 1, count)


def addresses(one: Plan) -> list[str]:
    """Where clients connect."""
    return one.settings.listen[:-1]


def test_each_broker_has_the_next_node_id_and_knows_those_of_all() -> None:
    assert [(each.node_id, each.node_ids) for each in planned("9092", count=3)] == [
        (node_id, (1, 2, 3)) for node_id in (1, 2, 3)
    ]
    assert [BrokerConfig(each.settings.configs).node_id for each in planned("9092")] == [1, 2]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("127.0.0.1:9092", "127.0.0.1:9093"),
        ("9092", "127.0.0.1:9093"),
        (":9092", ":9093"),
        ("[::1]:9092", "[::1]:9093"),
        ("SSL://broker.example:9092", "SSL://broker.example:9093"),
        ("127.0.0.1:0", "127.0.0.1:0"),
    ],
)
def test_each_broker_has_the_next_port(first: str, second: str) -> None:
    assert [addresses(each) for each in planned(first)] == [[first], [second]]


def test_advertised_addresses_and_the_one_for_metrics_move_along() -> None:
    configs = {
        "advertised.listeners": "PLAINTEXT://a:1000,SSL://b:2000",
        "penstock.metrics.listen": "127.0.0.1:9644",
    }
    first, second = planned("9092", advertise=["broker.example:19092"], configs=configs)
    assert first.settings.advertise == ["broker.example:19092"]
    assert second.settings.advertise == ["broker.example:19093"]
    assert second.settings.configs["advertised.listeners"] == "PLAINTEXT://a:1001,SSL://b:2001"
    assert second.settings.configs["penstock.metrics.listen"] == "127.0.0.1:9645"


def test_an_address_that_is_advertised_for_a_listener_by_its_place_is_given_its_name() -> None:
    _, second = planned("INSIDE://:9092", "SSL://:9192", advertise=["in.example:1", "out.example:101"])
    assert second.settings.advertise == ["INSIDE://in.example:2", "SSL://out.example:102"]


def test_brokers_reach_each_other_through_a_listener_of_their_own_that_takes_only_their_login() -> None:
    first, _ = planned("PLAINTEXT://:9092", "INSIDE://:9192", configs={"listener.security.protocol.map": "INSIDE:SSL"})
    config = BrokerConfig(first.settings.configs)
    found = {each.name: each for each in resolve_addresses(first.settings.listen, config)}
    own = found[BETWEEN_BROKERS]
    assert config.inter_broker_listener_name == BETWEEN_BROKERS
    assert (own.host, own.protocol) == ("127.0.0.1", SecurityProtocol.SASL_PLAINTEXT)
    assert config.for_listener(BETWEEN_BROKERS).items("sasl.enabled.mechanisms") == ["SCRAM-SHA-512"]
    assert found["INSIDE"].protocol == SecurityProtocol.SSL


@pytest.mark.parametrize("name", ["inter.broker.listener.name", "security.inter.broker.protocol"])
def test_a_listener_that_was_chosen_for_brokers_is_used(name: str) -> None:
    first, _ = planned("PLAINTEXT://:9092", configs={name: "PLAINTEXT"})
    assert first.settings.listen == ["PLAINTEXT://:9092"]
    assert BrokerConfig(first.settings.configs).listener_of_brokers == "PLAINTEXT"


def test_ports_that_would_meet_are_refused() -> None:
    with pytest.raises(ListenError, match="at least 3 apart"):
        planned("PLAINTEXT://:9092", "SSL://:9094", count=3)
    with pytest.raises(ListenError, match=r"penstock\.metrics\.listen=127\.0\.0\.1:9093 begins within"):
        planned("9092", configs={"penstock.metrics.listen": "127.0.0.1:9093"})
    with pytest.raises(ListenError, match="choose a lower one"):
        planned("65535")


def test_listeners_of_controllers_are_in_nobodys_way() -> None:
    planned("PLAINTEXT://:9092", "CONTROLLER://:9093", configs={"controller.listener.names": "CONTROLLER"})
