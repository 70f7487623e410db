"""Start offsets and lag of share groups, read, reset and deleted."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from penstock.testing import Broker
from penstock.wire import messages as m
from penstock.wire.api import ApiKey
from penstock.wire.errors import ErrorCode
from tests.broker.share.share_client import ShareMember, Wire, acquired, produce, topic_id


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as it:
        it.create_topic("jobs", 2)
        yield it


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker) as it:
        produce(it, "jobs", [b"%d" % i for i in range(10)])
        find = m.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
        assert it.ask(ApiKey.FIND_COORDINATOR, 6, find, m.FindCoordinatorResponse).coordinators[0].error_code == 0
        yield it


def heartbeat(wire: Wire, epoch: int) -> m.ShareGroupHeartbeatResponse:
    body = m.ShareGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=epoch, subscribed_topic_names=["jobs"] if epoch == 0 else None
    )
    return wire.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, body, m.ShareGroupHeartbeatResponse)


def alter(wire: Wire, **offsets: int) -> m.AlterShareGroupOffsetsResponse:
    request = m.AlterShareGroupOffsetsRequest
    partitions = [
        request.AlterShareGroupOffsetsRequestPartition(partition_index=int(name[1:]), start_offset=offset)
        for name, offset in offsets.items()
    ]
    topic = request.AlterShareGroupOffsetsRequestTopic(topic_name="jobs", partitions=partitions)
    body = request(group_id="g", topics=[topic])
    return wire.ask(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, body, m.AlterShareGroupOffsetsResponse)


def offsets(wire: Wire) -> dict[int, tuple[int, int]]:
    request = m.DescribeShareGroupOffsetsRequest
    body = request(groups=[request.DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=None)])
    response = wire.ask(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, body, m.DescribeShareGroupOffsetsResponse)
    while response.groups[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        time.sleep(0.01)
        response = wire.ask(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, body, m.DescribeShareGroupOffsetsResponse)
    return {
        partition.partition_index: (partition.start_offset, partition.lag)
        for topic in response.groups[0].topics
        for partition in topic.partitions
    }


def test_a_first_heartbeat_brings_the_partitions(wire: Wire) -> None:
    response = heartbeat(wire, 0)
    assert response.assignment is not None
    assert [topic.partitions for topic in response.assignment.topic_partitions] == [[0, 1]]


def test_lag_counts_what_is_not_done(wire: Wire) -> None:
    assert alter(wire, p0=0).error_code == 0
    member = ShareMember(wire, "g", "m", topic_id(wire, "jobs"))
    member.fetch()
    member.acknowledge({0: [(0, 1, [1]), (5, 6, [1]), (7, 7, [3]), (8, 8, [2])]})
    assert offsets(wire) == {0: (2, 5)}


def test_a_reset_begins_anew_and_survives_a_restart(broker: Broker, wire: Wire) -> None:
    alter(wire, p0=0, p1=0)
    topic = topic_id(wire, "jobs")
    member = ShareMember(wire, "g", "m", topic)
    member.fetch()
    member.acknowledge({0: [(0, 9, [1])]}, epoch=-1)
    assert offsets(wire)[0] == (10, 0)
    alter(wire, p0=4)
    assert offsets(wire)[0] == (4, 6)
    broker.restart()
    with Wire(broker) as again:
        assert offsets(again)[0] == (4, 6)
        assert acquired(ShareMember(again, "g", "m2", topic).fetch()) == [(4, 9, 1)]


def test_a_group_with_members_keeps_its_offsets(wire: Wire) -> None:
    heartbeat(wire, 0)
    assert alter(wire, p0=3).error_code == ErrorCode.NON_EMPTY_GROUP
    topic = m.DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic(topic_name="jobs")
    body = m.DeleteShareGroupOffsetsRequest(group_id="g", topics=[topic])
    response = wire.ask(ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, body, m.DeleteShareGroupOffsetsResponse)
    assert response.error_code == ErrorCode.NON_EMPTY_GROUP


def test_a_deleted_group_leaves_no_state_behind(wire: Wire) -> None:
    alter(wire, p0=3)
    deleted = wire.ask(ApiKey.DELETE_GROUPS, 2, m.DeleteGroupsRequest(groups_names=["g"]), m.DeleteGroupsResponse)
    assert [result.error_code for result in deleted.results] == [0]
    assert offsets(wire) == {}
    request = m.ReadShareGroupStateSummaryRequest
    partition = request.PartitionData(partition=0, leader_epoch=0)
    data = request.ReadStateSummaryData(topic_id=topic_id(wire, "jobs"), partitions=[partition])
    summary = wire.ask(
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
        1,
        request(group_id="g", topics=[data]),
        m.ReadShareGroupStateSummaryResponse,
    )
    assert summary.results[0].partitions[0].start_offset == -1
