"""Results that come one after the other are reported together."""

from __future__ import annotations

from penstock.broker.share.gathering import Gathering


def test_results_are_reported_at_once_when_none_are_missing() -> None:
    reported: list[dict[str, int]] = []
    Gathering({"a": 1}, 0, reported.append)
    assert reported == [{"a": 1}]


def test_results_are_reported_when_the_last_has_come() -> None:
    reported: list[dict[str, int]] = []
    gathering = Gathering({"a": 1}, 2, reported.append)
    gathering.add({"b": 2})
    assert reported == []
    gathering.add({"c": 3})
    assert reported == [{"a": 1, "b": 2, "c": 3}]
