"""Windows are made from the stored state, begin where the group is configured to, and follow changes of it."""

from __future__ import annotations

import logging
import time

import pytest

from penstock.catalog.contract import replaced_by
from penstock.records.builder import build_batch
from penstock.testing import Broker
from penstock.wire import messages as m
from penstock.wire.api import ApiKey
from tests.broker.share.share_client import (
    ACCEPT,
    RELEASE,
    Wire,
    acquired,
    initialize,
    member,
    produce,
    set_group_configs,
    topic_id,
    values,
)


def test_after_a_restart_nothing_done_comes_back_and_nothing_open_is_lost(broker: Broker, wire: Wire) -> None:
    produce(wire, "jobs", [b"%d" % i for i in range(20)], batch_size=6)
    initialize(wire, "g", topic_id(wire, "jobs"))
    worker = member(wire)
    worker.fetch(max_records=10)
    worker.acknowledge({0: [(0, 1, ACCEPT), (3, 4, ACCEPT), (5, 5, RELEASE)]})
    broker.restart()
    with Wire(broker) as again:
        response = member(again, member_id="m2").fetch()
        assert acquired(response) == [(2, 2, 2), (5, 9, 2), (10, 19, 1)], "the stop released what was held"
        assert values(response) == [b"%d" % i for i in [2, *range(5, 20)]]


def test_a_group_that_begins_at_the_latest_offset_does_not_move_on_while_nobody_looks(
    broker: Broker, wire: Wire
) -> None:
    produce(wire, "jobs", [b"old"])
    initialize(wire, "g", topic_id(wire, "jobs"), start=-1)
    with Wire(broker) as first:
        assert acquired(member(first).fetch()) == []
    produce(wire, "jobs", [b"new"])
    broker.restart()
    with Wire(broker) as again:
        assert values(member(again).fetch()) == [b"new"]


def test_a_group_begins_where_its_config_says(broker: Broker, wire: Wire) -> None:
    now_ms = int(time.time() * 1000)
    records = [(now_ms - 3_600_000, None, b"an hour old", ()), (now_ms, None, b"new", ())]
    for record in records:
        data = m.ProduceRequest.PartitionProduceData(index=0, records=bytes(build_batch([record])))
        topic = m.ProduceRequest.TopicProduceData(name="jobs", partition_data=[data])
        wire.ask(ApiKey.PRODUCE, 9, m.ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[topic]), m.ProduceResponse)
    for group, reset, expected in (
        ("earliest", "earliest", [b"an hour old", b"new"]),
        ("latest", "latest", []),
        ("recent", "by_duration:PT10M", [b"new"]),
    ):
        set_group_configs(wire, group, share_auto_offset_reset=reset)
        initialize(wire, group, topic_id(wire, "jobs"), start=-1)
        assert values(member(wire, group).fetch()) == expected


def test_a_group_begins_where_another_broker_was_told_a_moment_ago(broker: Broker, wire: Wire) -> None:
    produce(wire, "jobs", [b"old"])
    initialize(wire, "g", topic_id(wire, "jobs"), start=-1)
    parts = broker._running().parts

    def hear_of_it() -> None:
        parts.configs.change_group("g", replaced_by({"share.auto.offset.reset": "earliest"}))

    parts.cluster.on_missing = hear_of_it
    assert values(member(wire).fetch()) == [b"old"]


def test_a_state_that_was_reset_below_the_window_is_read_anew(broker: Broker, wire: Wire) -> None:
    produce(wire, "jobs", [b"%d" % i for i in range(5)])
    topic = topic_id(wire, "jobs")
    initialize(wire, "g", topic)
    worker = member(wire)
    worker.fetch()
    worker.acknowledge({0: [(0, 4, ACCEPT)]})
    assert initialize(wire, "g", topic, start=3, epoch=2) == [0]
    assert acquired(worker.fetch()) == [(3, 4, 1)]


def test_the_log_says_when_a_window_is_loaded_and_dropped(
    broker: Broker, wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    produce(wire, "jobs", [b"a"])
    initialize(wire, "g", topic_id(wire, "jobs"))
    with caplog.at_level(logging.DEBUG, "penstock.share"):
        member(wire).fetch()
        initialize(wire, "g", topic_id(wire, "jobs"))
    loaded, dropped = [each for each in caplog.messages if "the window of group 'g' in jobs-0" in each]
    assert loaded == "loaded the window of group 'g' in jobs-0 at offset 0, leader epoch 0"
    assert dropped.startswith("dropped the window of group 'g' in jobs-0: ")
