"""What follows from what a broker remembers of a group."""

from __future__ import annotations

from typing import Any

from penstock.client.admin import GroupDescription
from penstock.client.admin.groups import MemberDescription
from penstock.client.types import TopicPartition
from penstock.console.histories import assignment, cause_of, curve, read

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def described(state: str, *members: MemberDescription, kind: str = "Consumer") -> GroupDescription:
    return GroupDescription("g", kind, state, 0, members=list(members))


def test_points_and_events_of_all_brokers_are_put_in_order() -> None:
    told: list[Any] = [
        None,
        {"lag": [{"at": 2, "lag": 5, "ageSeconds": None}, {"at": 1, "lag": 4, "ageSeconds": 1.0}]},
        {
            "events": [
                {"at": 1, "event": "joined", "clientId": "c", "host": "/h"},
                {"at": 3, "event": "session timed out"},
            ]
        },
    ]
    points, events = read(told)
    assert [point["lag"] for point in points] == [4, 5]
    assert [(event["at"], event["who"], event["bad"]) for event in events] == [(3, "", True), (1, "c at h", False)]


def test_a_curve_spans_its_width_and_height() -> None:
    points: Any = [{"at": 0, "lag": 0}, {"at": 60_000, "lag": 10}, {"at": 120_000, "lag": 5}]
    assert curve(points) == {"line": "0.0,90.0 300.0,0.0 600.0,45.0", "highest": 10, "minutes": 2}
    assert curve(points[:1]) is None


def test_cells_are_coloured_by_member() -> None:
    group = described("Stable", MemberDescription("a", "x", "h", assignment=[T1]))
    (topic,) = assignment(group, [T0, T1], {T1: 7})
    cells: Any = topic["cells"]
    assert [(cell["colour"], cell["words"]) for cell in cells] == [("none", "nobody"), ("m0", "x, lag 7")]


def test_the_cause_of_a_rebalance_is_the_last_event_that_can_be_one() -> None:
    told: list[Any] = [
        {
            "events": [
                {"at": 1, "event": "left", "clientId": "a"},
                {"at": 2, "event": "session timed out", "clientId": "b", "host": "/10.0.0.1"},
                {"at": 3, "event": "rebalance began"},
            ]
        }
    ]
    assert cause_of(read(told)[1]) == "It began when b at 10.0.0.1 timed out."
    assert cause_of([]) == ""
