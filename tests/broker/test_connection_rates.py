"""How many connections a second are taken in, and what becomes of the others."""

from __future__ import annotations

from penstock.broker.config import BrokerConfig
from penstock.broker.connection_rates import ConnectionRates
from penstock.broker.quotas import Quotas
from penstock.catalog.contract import replaced_by
from penstock.catalog.memory import MemoryCatalog
from penstock.security.quotas import Quota
from tests.broker.simulated_world import SimulatedWorld

LISTENER, OTHER = "PLAINTEXT", "OTHER"


class Rates:
    def __init__(self, configs: dict[str, str] | None = None) -> None:
        self.world = SimulatedWorld()
        config = BrokerConfig(configs or {})
        self.quotas = Quotas(config, MemoryCatalog(), self.world)
        self.rates = ConnectionRates(config, self.quotas)

    def limit(self, address: str | None, rate: float) -> None:
        self.quotas.change({(("ip", address),): replaced_by({"connection_creation_rate": rate})})

    def opened(self, number: int, listener: str = LISTENER) -> list[int]:
        return [self.rates.opened(listener) for _ in range(number)]

    def admitted(self, number: int, host: str) -> list[int]:
        return [self.rates.admitted(LISTENER, host) for _ in range(number)]


def test_without_a_limit_all_are_let_in() -> None:
    rates = Rates()
    assert not any(rates.opened(1000))
    assert not any(rates.admitted(1000, "10.0.0.1"))
    assert not rates.rates._buckets


def test_the_rate_of_the_broker_holds_for_all_listeners_together() -> None:
    rates = Rates({"max.connection.creation.rate": "2"})
    assert not any(rates.opened(10) + rates.opened(10, OTHER))
    assert rates.opened(1) == [500]
    assert rates.opened(1, OTHER) == [1000]
    rates.world.pass_ms(1500)
    assert rates.opened(1) == [0]


def test_a_listener_may_have_a_rate_of_its_own() -> None:
    rates = Rates({"listener.name.plaintext.max.connection.creation.rate": "1"})
    assert not any(rates.opened(10))
    assert rates.opened(1) == [1000]
    assert not any(rates.opened(100, OTHER))


def test_nobody_waits_longer_than_a_window() -> None:
    rates = Rates({"max.connection.creation.rate": "0"})
    assert rates.opened(3) == [1000, 1000, 1000]


def test_an_address_that_comes_too_often_is_not_let_in_and_does_not_count() -> None:
    rates = Rates({"max.connection.creation.rate": "100"})
    rates.limit("10.0.0.1", 2)
    assert not any(rates.opened(21))
    assert rates.admitted(21, "10.0.0.1") == [0] * 20 + [500]
    assert not any(rates.opened(980))
    assert rates.opened(1) == [10]
    assert rates.admitted(100, "10.0.0.2") == [0] * 100
    rates.world.pass_ms(500)
    assert rates.admitted(2, "10.0.0.1") == [0, 500]


def test_a_default_gives_each_address_a_rate_of_its_own() -> None:
    rates = Rates()
    rates.limit(None, 1)
    assert rates.admitted(11, "10.0.0.1")[-1] == 1000
    assert rates.admitted(11, "10.0.0.2") == [0] * 10 + [1000]


def test_those_who_wait_are_counted() -> None:
    rates = Rates({"max.connection.creation.rate": "1"})
    rates.opened(11)
    assert rates.quotas.throttled[Quota.CONNECTION] == 1
    assert rates.quotas.throttled_ms[Quota.CONNECTION] == 1000
