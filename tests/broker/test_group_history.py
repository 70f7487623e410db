"""The lag of groups over the last hour, and their timeline, as the monitoring endpoint shows them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer

from penstock.broker.group_history import POINTS_MAX, GroupHistory
from penstock.broker.metrics import Metric
from penstock.groups.timeline import Happened, Timeline
from penstock.testing import Broker
from tests.broker.simulated_world import SimulatedWorld

Point = dict[str, float]


class Past:
    """A history over lags that the test sets."""

    def __init__(self) -> None:
        self.world = SimulatedWorld()
        self.lags: dict[tuple[str, str], int] = {}
        self.fails = False
        self.timeline = Timeline()
        groups = SimpleNamespace(timeline=self.timeline, time=self.world)
        self.history = GroupHistory(self._lag, lambda: groups, self.world)  # type: ignore[arg-type, return-value]
        self.history.start()

    def _lag(self) -> Iterator[Metric | None]:
        if self.fails:
            raise RuntimeError("on purpose")
        lag, age = Metric("penstock_group_lag_records_sum"), Metric("penstock_group_lag_age_seconds")
        for (group, topic), value in self.lags.items():
            yield None
            lag.add(value, group, topic)
            age.add(value / 10, group, topic)
        yield lag
        yield age

    def points(self, group: str) -> list[Point]:
        return cast("dict[str, list[Point]]", self.history.view({"group": group}))["lag"]


def test_a_point_a_minute_is_kept_for_an_hour() -> None:
    past = Past()
    for minute in range(POINTS_MAX + 5):
        past.lags["g", "orders"] = minute
        past.world.pass_ms(60_000)
    points = past.points("g")
    assert [point["lag"] for point in points] == list(range(5, POINTS_MAX + 5))
    assert {after["at"] - before["at"] for before, after in itertools.pairwise(points)} == {60_000}


def test_a_group_is_as_far_behind_as_its_topics_together_and_as_old_as_the_oldest() -> None:
    past = Past()
    past.lags = {("g", "orders"): 20, ("g", "payments"): 30, ("h", "orders"): 1}
    past.world.pass_ms(10_000)
    (point,) = past.points("g")
    assert (point["lag"], point["ageSeconds"]) == (50, 3.0)
    assert past.history.view({}) == ["g", "h"]


def test_a_group_that_is_gone_is_forgotten_when_its_points_are_old() -> None:
    past = Past()
    past.lags["g", "orders"] = 1
    past.world.pass_ms(60_000)
    past.lags.clear()
    past.world.pass_ms(30 * 60_000)
    assert len(past.points("g")) == 1
    past.world.pass_ms(31 * 60_000)
    with pytest.raises(LookupError, match="nothing is known of a group 'g'"):
        past.points("g")


def test_a_round_that_fails_costs_its_point_only() -> None:
    past = Past()
    past.lags["g", "orders"] = 1
    past.fails = True
    past.world.pass_ms(60_000)
    past.fails = False
    past.world.pass_ms(60_000)
    assert len(past.points("g")) == 1


def test_the_events_are_told_with_the_time_of_the_wall_clock() -> None:
    past = Past()
    member = SimpleNamespace(member_id="A", client_id="c", client_host="/10.0.0.1", instance_id="i")
    past.timeline.note("g", past.world.now_ms() - 500, Happened.LEFT, 7, member, "shutting down")
    shown = cast("dict[str, object]", past.history.view({"group": "g"}))
    assert shown["events"] == [
        {
            "at": past.world.now_ms() - 500,
            "event": "left",
            "epoch": 7,
            "memberId": "A",
            "instanceId": "i",
            "clientId": "c",
            "host": "/10.0.0.1",
            "detail": "shutting down",
        }
    ]


def test_a_stopped_history_looks_no_more() -> None:
    past = Past()
    past.lags["g", "orders"] = 1
    past.history.stop()
    past.world.pass_ms(600_000)
    assert past.history.view({}) == []


def test_the_endpoint_shows_why_a_real_group_rebalanced() -> None:
    with Broker({"penstock.metrics.listen": "127.0.0.1:0", "group.initial.rebalance.delay.ms": "0"}) as broker:
        broker.create_topic("orders", 1)
        consumer = Consumer(
            {"bootstrap.servers": f"127.0.0.1:{broker.port}", "group.id": "readers", "client.id": "first"}
        )
        assigned: list[object] = []
        consumer.subscribe(["orders"], on_assign=lambda _, partitions: assigned.append(partitions))
        for _ in range(300):
            consumer.poll(0.1)
            if assigned:
                break
        consumer.close()
        address = f"http://127.0.0.1:{broker._running().parts.monitoring.port}/groups/history"
        with urlopen(f"{address}?group=readers", timeout=10) as answer:
            shown = json.load(answer)
        events = [event["event"] for event in shown["events"]]
        assert [event for event in events if event in ("joined", "assigned", "left")] == ["joined", "assigned", "left"]
        assert {event["clientId"] for event in shown["events"] if event["memberId"]} == {"first"}
        with urlopen(address, timeout=10) as answer:
            assert "readers" in json.load(answer)
        with pytest.raises(HTTPError, match="404"):
            urlopen(f"{address}?group=nobody", timeout=10)
