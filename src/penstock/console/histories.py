"""What a broker remembers of a group, and what follows from it: the curve of its lag, its timeline, who has what.

Pure functions over `/groups/history` of the monitoring endpoint and over a group as it is described. Apache Kafka
remembers nothing, so every part may be empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from penstock.client.admin import GroupDescription
from penstock.client.types import TopicPartition

WIDTH, HEIGHT = 600, 90
COLOURS = 10
_MOST_CELLS = 2_000
_WORDS = {
    "joined": "joined",
    "returned": "came back under a new member id",
    "rejoined": "rejoined, for a rebalance",
    "resubscribed": "subscribed to other topics",
    "left": "left",
    "away": "left for a while (a static member)",
    "session timed out": "timed out: no heartbeat came in time",
    "rebalance timed out": "timed out in a rebalance",
    "topics changed": "topics changed",
    "protocol changed": "the protocol changed",
    "rebalance began": "a rebalance began",
    "assigned": "partitions were assigned",
}
_BAD = ("session timed out", "rebalance timed out")
_CAUSES = {
    "joined": "joined",
    "rejoined": "rejoined",
    "resubscribed": "subscribed to other topics",
    "left": "left",
    "session timed out": "timed out",
    "rebalance timed out": "timed out in a rebalance",
}


class Point(TypedDict):
    at: int
    lag: int
    ageSeconds: float | None


class Event(TypedDict):
    at: int
    event: str
    words: str
    who: str
    detail: str
    bad: bool


def read(views: Sequence[object]) -> tuple[list[Point], list[Event]]:
    """Points and events of a group, from what each broker said; only its coordinator knows any."""
    points: list[Point] = []
    events: list[Event] = []
    for history in views:
        if not isinstance(history, dict):
            continue
        points += [
            {"at": int(point["at"]), "lag": int(point["lag"]), "ageSeconds": point.get("ageSeconds")}
            for point in history.get("lag", [])
        ]
        for event in history.get("events", []):
            kind = str(event["event"])
            who = str(event.get("clientId") or event.get("instanceId") or event.get("memberId") or "")
            host = str(event.get("host") or "").lstrip("/")
            events.append(
                {
                    "at": int(event["at"]),
                    "event": kind,
                    "words": _WORDS.get(kind, kind),
                    "who": f"{who} at {host}" if who and host else who,
                    "detail": str(event.get("detail") or ""),
                    "bad": kind in _BAD,
                }
            )
    points.sort(key=lambda point: point["at"])
    events.sort(key=lambda event: event["at"])
    events.reverse()  # of one moment too, the later first
    return points, events


def curve(points: Sequence[Point]) -> dict[str, object] | None:
    """The lag as the points of an SVG polyline, and what its axes say; None where there is too little to draw."""
    if len(points) < 2:
        return None
    first, last = points[0]["at"], points[-1]["at"]
    highest = max(max(point["lag"] for point in points), 1)
    drawn = [
        f"{(point['at'] - first) / max(last - first, 1) * WIDTH:.1f},{HEIGHT - point['lag'] / highest * HEIGHT:.1f}"
        for point in points
    ]
    return {"line": " ".join(drawn), "highest": highest, "minutes": round((last - first) / 60_000)}


def assignment(
    group: GroupDescription, partitions: Sequence[TopicPartition], lags: Mapping[TopicPartition, int]
) -> list[dict[str, object]]:
    """Per topic one cell a partition, coloured by its member, for drawing."""
    colours = {member.member_id: index % COLOURS for index, member in enumerate(group.members)}
    owners = {tp: member for member in group.members for tp in member.assignment}
    topics: dict[str, list[dict[str, object]]] = {}
    for tp in partitions:
        cells = topics.setdefault(tp.topic, [])
        if len(cells) >= _MOST_CELLS:
            continue
        owner = owners.get(tp)
        lag = lags.get(tp)
        words = "nobody" if owner is None else owner.client_id or owner.member_id
        words += "" if lag is None else f", lag {lag:,}"
        colour = "none" if owner is None else f"m{colours[owner.member_id]}"
        cells.append({"partition": tp.partition, "colour": colour, "words": words})
    return [{"topic": topic, "cells": cells} for topic, cells in topics.items()]


def cause_of(events: Sequence[Event]) -> str:
    """What the last rebalance came with, as a sentence; nothing where it is not known."""
    last = next((event for event in events if event["event"] in _CAUSES), None)
    return "" if last is None or not last["who"] else f"It began when {last['who']} {_CAUSES[last['event']]}."
