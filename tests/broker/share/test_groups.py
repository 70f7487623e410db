"""What a broker keeps about share groups: sessions, windows, metrics, and a state topic that does not grow for ever."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from urllib.request import urlopen

import pytest

from penstock.testing import Broker
from penstock.wire import messages as m
from penstock.wire.api import ApiKey
from penstock.wire.errors import ErrorCode
from tests.broker.disk import WAIT_S, SlowDisk
from tests.broker.share.share_client import (
    ShareMember,
    Wire,
    ack_errors,
    acquired,
    free_port,
    initialize,
    produce,
    topic_id,
    values,
)

ACCEPT, RELEASE = [1], [2]


def test_sessions_are_limited_and_the_refusal_is_held_back() -> None:
    with Broker({"group.share.max.share.sessions": 1, "group.share.max.size": 1}) as broker:
        broker.create_topic("jobs")
        with Wire(broker) as first, Wire(broker) as second:
            topic = topic_id(first, "jobs")
            initialize(first, "g", topic)
            ShareMember(first, "g", "m1", topic).fetch()
            started = time.monotonic()
            refused = ShareMember(second, "g", "m2", topic).fetch(max_wait_ms=300)
            assert refused.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
            assert time.monotonic() - started >= 0.29
            first.close()
            again = ShareMember(second, "g", "m2", topic)
            for _ in range(100):
                if again.fetch(max_wait_ms=50).error_code == 0:
                    break
            assert again.epoch == 1


def test_metrics_have_kafkas_names_and_the_windows_can_be_seen() -> None:
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
            with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as response:
                lines = response.read().decode().splitlines()
            with urlopen(f"http://127.0.0.1:{port}/share-groups?group=g", timeout=10) as response:
                (window,) = json.load(response)
    labels = '{group="g",topic="jobs",partition="0"}'
    for expected in (
        'kafka_server_sharegroupmetrics_recordacknowledgements_total{ackType="Accept"} 2',
        'kafka_server_sharegroupmetrics_recordacknowledgements_total{ackType="Release"} 1',
        f"kafka_server_sharepartitionmetrics_inflightmessagecount{labels} 4",
        f"kafka_server_sharepartitionmetrics_inflightbatchmessagecount{labels} 3",
        "kafka_server_sharesessioncache_sharesessionscount 1",
        "kafka_server_brokertopicmetrics_totalsharefetchrequests_total 1",
    ):
        assert expected in lines
    assert [(record["offset"], record["state"]) for record in window["records"]] == [
        (2, "ACQUIRED"),
        (3, "AVAILABLE"),
        (4, "ACQUIRED"),
        (5, "ACQUIRED"),
    ]


def test_the_state_topic_is_pruned_and_a_restart_finds_all_it_needs() -> None:
    configs = {
        "share.coordinator.state.topic.num.partitions": 1,
        "share.coordinator.snapshot.update.records.per.snapshot": 5,
        "share.coordinator.state.topic.prune.interval.ms": 50,
    }
    with Broker(configs) as broker:
        broker.create_topic("jobs")
        with Wire(broker) as wire:
            topic = topic_id(wire, "jobs")
            produce(wire, "jobs", [b"%d" % i for i in range(100)])
            initialize(wire, "g", topic)
            member = ShareMember(wire, "g", "m1", topic)
            member.fetch(max_records=100)
            for offset in range(1, 60):
                member.acknowledge({0: [(offset, offset, ACCEPT)]})
            deadline = time.monotonic() + 10
            while state_log_start(wire) == 0:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            member.fetch(epoch=-1)
        broker.restart()
        with Wire(broker) as wire:
            response = ShareMember(wire, "g", "m2", topic).fetch(max_records=100)
            assert acquired(response) == [(0, 0, 2), (60, 99, 2)]


def state_log_start(wire: Wire) -> int:
    from penstock.wire import messages as m
    from penstock.wire.api import ApiKey

    request = m.ListOffsetsRequest
    body = request(
        topics=[
            request.ListOffsetsTopic(
                name="__share_group_state",
                partitions=[request.ListOffsetsPartition(partition_index=0, timestamp=-2)],
            )
        ]
    )
    return wire.ask(ApiKey.LIST_OFFSETS, 7, body, m.ListOffsetsResponse).topics[0].partitions[0].offset


def test_an_acknowledgement_is_confirmed_when_written_and_the_disk_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SlowDisk(monkeypatch, "__share_group_state")
    with Broker({"penstock.acks.all.flush": "true"}) as broker, Wire(broker) as wire:
        worker = worker_with_two_records(broker, wire)
        disk.stall()
        assert ack_errors(worker.acknowledge({0: [(0, 1, ACCEPT)]})) == [0]
        assert not disk.has_synced.is_set()
        disk.go_on()
        assert disk.has_synced.wait(WAIT_S)


def test_an_acknowledgement_waits_for_the_disk_if_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SlowDisk(monkeypatch, "__share_group_state")
    configs = {"penstock.acks.all.flush": "true", "penstock.share.flush.interval.ms": 0}
    with Broker(configs) as broker, Wire(broker) as wire:
        worker = worker_with_two_records(broker, wire)
        disk.stall()
        worker.send_fetch(acks={0: [(0, 1, ACCEPT)]})
        assert not wire.is_readable(0.1)
        disk.go_on()
        assert ack_errors(worker.receive_fetch()) == [0]


def worker_with_two_records(broker: Broker, wire: Wire) -> ShareMember:
    broker.create_topic("jobs")
    topic = topic_id(wire, "jobs")
    produce(wire, "jobs", [b"1", b"2"])
    initialize(wire, "g", topic)
    worker = ShareMember(wire, "g", "m1", topic)
    assert acquired(worker.fetch()) == [(0, 1, 1)]
    return worker


def describe_offsets(wire: Wire, group: str, topic: str) -> tuple[int, int]:
    request = m.DescribeShareGroupOffsetsRequest
    named = request.DescribeShareGroupOffsetsRequestTopic(topic_name=topic, partitions=[0])
    body = request(groups=[request.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=[named])])
    response = wire.ask(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, body, m.DescribeShareGroupOffsetsResponse)
    partition = response.groups[0].topics[0].partitions[0]
    return partition.start_offset, partition.lag


@pytest.mark.parametrize("is_done", [True, False], ids=["past the end", "window over the end"])
def test_a_group_past_the_end_of_a_log_that_lost_records_gets_what_is_appended_anew(
    tmp_path: Path, is_done: bool
) -> None:
    """What a power cut leaves that kept the group's state and lost the records of producers that did not wait."""
    with Broker(data=tmp_path / "data") as broker:
        broker.create_topic("jobs")
        with Wire(broker) as wire:
            produce(wire, "jobs", [b"old %d" % i for i in range(10)], batch_size=1)
        broker.stop()
        shutil.copytree(tmp_path / "data" / "jobs-0", tmp_path / "before")
        broker.start()
        with Wire(broker) as wire:
            produce(wire, "jobs", [b"lost %d" % i for i in range(10, 20)], batch_size=1)
            topic = topic_id(wire, "jobs")
            initialize(wire, "g", topic)
            member = ShareMember(wire, "g", "m1", topic)
            assert acquired(member.fetch()) == [(0, 19, 1)]
            member.acknowledge({0: [(0 if is_done else 8, 19, ACCEPT)]})
        broker.stop()
        shutil.rmtree(tmp_path / "data" / "jobs-0")
        shutil.copytree(tmp_path / "before", tmp_path / "data" / "jobs-0")
        broker.start()
        with Wire(broker) as wire:
            produce(wire, "jobs", [b"new %d" % i for i in range(10, 15)])
        broker.restart()
        with Wire(broker) as wire:
            assert describe_offsets(wire, "g", "jobs") == ((10, 5) if is_done else (0, 13))
            left = [] if is_done else [b"old %d" % i for i in range(8)]
            expected = [*left, *(b"new %d" % i for i in range(10, 15))]
            assert values(ShareMember(wire, "g", "m2", topic).fetch()) == expected
