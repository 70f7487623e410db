"""Rates of counters that several pages read."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.console.readings import Rates
from penstock.testing.broker import Broker
from tests.console.conftest import Visitor


class Clock:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def read(rates: Rates, clock: Clock, seconds: float, **counters: float) -> dict[str, float]:
    clock.seconds = seconds
    return rates.update(counters)


def test_a_rate_is_over_the_last_seconds() -> None:
    rates = Rates(clock := Clock())
    assert read(rates, clock, 0.0, a=100) == {}
    assert read(rates, clock, 0.5, a=100) == {}
    assert read(rates, clock, 2.0, a=120) == {"a": 10.0}
    for second in range(3, 30):
        found = read(rates, clock, second, a=120 + 5 * second)
    assert found == {"a": 5.0}
    assert read(rates, clock, 31.0, a=0) == {"a": 0.0}


def test_a_page_that_reads_other_counters_takes_none_away() -> None:
    rates = Rates(clock := Clock())
    read(rates, clock, 0.0, a=0, b=0)
    for second in range(1, 50):
        read(rates, clock, second, b=second)
    assert read(rates, clock, 50.0, a=500, b=50) == {"a": 10.0, "b": 1.0}


def test_what_nobody_reads_is_forgotten() -> None:
    rates = Rates(clock := Clock())
    read(rates, clock, 0.0, a=0)
    read(rates, clock, 100.0, b=0)
    assert read(rates, clock, 101.0, a=500) == {}


def test_users_of_a_secured_cluster_see_rates_of_their_own(
    login_console: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What two users may see differs, and a difference between the two is no rate of anything."""
    clock = Clock()
    monkeypatch.setattr("penstock.console.session.Rates", lambda: Rates(clock))
    cookies = {}
    for user in ("root", "alice"):
        login_console.log_in(user)
        cookies[user] = dict(login_console.cookies)
    rates = []
    for user in ("root", "alice") * 3:
        login_console.cookies.clear()
        login_console.cookies.update(cookies[user])
        clock.seconds += 2
        rates.append(login_console.get("/index.json").json()["messagesIn"])
    assert rates == [None, None, 0, 0, 0, 0]


def test_two_tabs_with_different_searches_both_see_rates(
    console: Visitor, broker: Broker, fresh: str, produce: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(console.app.state.web.session, "rates", Rates(clock))
    broker.create_topic(fresh)
    broker.create_topic(f"{fresh}-other")
    for address in ("/topics.json", f"/topics.json?q={fresh}-other"):
        console.get(address)
    produce(fresh, *[b"x"] * 10)
    clock.seconds += 2
    console.get(f"/topics.json?q={fresh}-other")
    (row,) = [row for row in console.get("/topics.json").json()["topics"] if row["name"] == fresh]
    assert row["rate"] == 5.0
