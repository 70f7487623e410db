"""People can look at the windows of a group."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from penstock.broker.share import view
from penstock.broker.share.view import ShareView
from penstock.broker.share.workers import Workers
from penstock.queues.settings import ShareSettings
from penstock.queues.share_partition import SharePartition
from penstock.testing import Broker
from tests.broker.share.share_client import (
    ACCEPT,
    RELEASE,
    ShareMember,
    Wire,
    free_port,
    initialize,
    produce,
    topic_id,
)


def live_of(core: SharePartition, number: int) -> Any:
    partition = SimpleNamespace(topic=SimpleNamespace(name="jobs"), log=SimpleNamespace(log_end_offset=2_000))
    key = ("g", b"\0" * 16, number)
    return SimpleNamespace(key=key, group_id="g", core=core, partition=partition, waiting=(), workers=Workers())


def test_the_windows_of_a_group_can_be_seen_in_runs_of_records_that_are_alike() -> None:
    port = free_port()
    with Broker({"penstock.metrics.listen": f"127.0.0.1:{port}"}) as broker:
        broker.create_topic("jobs")
        with Wire(broker) as wire:
            topic = topic_id(wire, "jobs")
            produce(wire, "jobs", [b"x"] * 10)
            initialize(wire, "g", topic)
            member = ShareMember(wire, "g", "m1", topic)
            member.fetch(max_records=6)
            member.acknowledge({0: [(0, 1, ACCEPT), (3, 3, RELEASE)]})
            with urlopen(f"http://127.0.0.1:{port}/share-groups", timeout=10) as response:
                groups = json.load(response)
            with urlopen(f"http://127.0.0.1:{port}/share-groups?group=g", timeout=10) as response:
                (window,) = json.load(response)
    assert groups == ["g"]
    assert (window["topic"], window["startOffset"], window["endOffset"], window["logEndOffset"]) == ("jobs", 2, 6, 10)
    assert [(record["offset"], record["state"]) for record in window["records"]] == [
        (2, "ACQUIRED"),
        (3, "AVAILABLE"),
        (4, "ACQUIRED"),
    ]
    assert [record["count"] for record in window["records"]] == [1, 1, 2]
    # Each is looked at in its own time.
    assert window["oldest"] | {"remainingMs": 0} == window["records"][0] | {"remainingMs": 0}
    assert {(each["state"], each["count"]) for each in window["counts"]} == {("ACQUIRED", 3), ("AVAILABLE", 1)}


def test_the_windows_show_what_each_member_does() -> None:
    with Broker({"penstock.metrics.listen": "127.0.0.1:0"}) as broker:
        broker.create_topic("jobs")
        with Wire(broker) as wire:
            topic = topic_id(wire, "jobs")
            produce(wire, "jobs", [b"x"] * 10)
            initialize(wire, "g", topic)
            busy, stuck = (ShareMember(wire, "g", name, topic) for name in ("busy", "stuck"))
            busy.fetch(max_records=4)
            stuck.fetch(max_records=3)
            busy.acknowledge({0: [(0, 1, ACCEPT), (2, 2, RELEASE)]})
            url = f"http://127.0.0.1:{broker._running().parts.monitoring.port}/share-groups?group=g"
            with urlopen(url, timeout=10) as response:
                (window,) = json.load(response)
    (first, second) = window["members"]
    assert (first["memberId"], first["heldRecords"], first["deliveries"], first["acknowledgements"]) == (
        "busy",
        1,
        4,
        3,
    )
    assert (second["memberId"], second["heldRecords"], second["deliveries"], second["acknowledgements"]) == (
        "stuck",
        3,
        3,
        0,
    )
    assert first["lastAcknowledgementMs"] >= 0
    assert second["lastAcknowledgementMs"] is None
    for member in (first, second):
        assert member["oldestHeldMs"] >= 0
        assert 0 < member["deliveriesPerSecond"] <= member["deliveries"]
    assert first["acknowledgementsPerSecond"] > second["acknowledgementsPerSecond"] == 0


def test_records_are_shown_of_the_windows_that_are_named_and_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    with Broker({"penstock.metrics.listen": "127.0.0.1:0"}) as broker:
        broker.create_topic("jobs", 3)
        with Wire(broker) as wire:
            topic = topic_id(wire, "jobs")
            initialize(wire, "g", topic, partitions=3)
            member = ShareMember(wire, "g", "m1", topic)
            for partition in range(3):
                produce(wire, "jobs", [b"x"] * 2, partition)
            member.fetch(max_records=6, partitions=[0, 1, 2])
            url = f"http://127.0.0.1:{broker._running().parts.monitoring.port}/share-groups?group=g"

            def shown(records: str) -> list[int]:
                with urlopen(url + records, timeout=10) as response:
                    windows = json.load(response)
                assert [sum(each["count"] for each in window["counts"]) for window in windows] == [2, 2, 2]
                return [window["partition"] for window in windows if "records" in window]

            assert shown("") == [0, 1, 2]
            assert shown("&records=jobs:2,0") == [0, 2]
            assert shown("&records=others:0;jobs:1") == [1]
            assert shown("&records=none") == []
            with pytest.raises(HTTPError, match="404"):
                shown("&records=jobs")
            monkeypatch.setattr(view, "_RUNS_MAX", 2)
            assert shown("&records=jobs:0,1,2") == [0, 1]


def test_the_windows_of_150_partitions_with_2000_locks_each_are_made_in_slices() -> None:
    """Between two pieces the broker serves its clients; none holds more than one window."""
    cores = [SharePartition(0) for _ in range(150)]
    settings = ShareSettings(max_record_locks=2_000)
    for core in cores:
        core.extend(2_000)
        for number in range(1_000):
            core.take(f"m{number % 7}", core.select(2, settings), 0, 30_000)
    lives = [live_of(core, number) for number, core in enumerate(cores)]
    shown = ShareView(
        SimpleNamespace(of_group=lambda _: lives),  # type: ignore[arg-type]
        SimpleNamespace(settings=lambda _: settings),  # type: ignore[arg-type]
        SimpleNamespace(monotonic=lambda: 1.0),
    )
    pieces = list(shown._pieces("g", view.parse_wanted("")))
    whole = json.loads(b"".join(pieces))
    assert len(whole) == 150
    assert sum("records" in window for window in whole) == view._RUNS_MAX // 1_000
    assert len(pieces) > 150
    assert max(map(len, pieces)) < 2 * 1_000 * 120
