"""People can look at the windows of a group."""

from __future__ import annotations

import json
from urllib.request import urlopen

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


def test_the_windows_of_a_group_can_be_seen_row_by_row() -> None:
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
        (5, "ACQUIRED"),
    ]


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
