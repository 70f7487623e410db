"""What is stored of share-partitions: it does not grow for ever, and never passes the end of a log."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from penstock.testing import Broker
from penstock.wire import messages as m
from penstock.wire.api import ApiKey
from tests.broker.share.share_client import (
    ACCEPT,
    ShareMember,
    Wire,
    acquired,
    initialize,
    produce,
    topic_id,
    values,
)


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
