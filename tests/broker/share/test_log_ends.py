"""Where logs end that other brokers lead."""

from __future__ import annotations

from penstock.broker.share.log_ends import EARLIEST, LogEnds, Place
from penstock.broker.topics import Topic
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
from tests.broker.share.peers_by_hand import LOST, PeersByHand, ViewOfOthers

JOBS = Topic("jobs", bytes(15) + b"\1", {}, 4)


def answer(offsets: dict[int, int], errors: dict[int, ErrorCode] | None = None) -> m.ListOffsetsResponse:
    shapes = m.ListOffsetsResponse
    partitions = [
        shapes.ListOffsetsPartitionResponse(partition_index=i, offset=offset) for i, offset in offsets.items()
    ]
    for index, code in (errors or {}).items():
        partitions.append(shapes.ListOffsetsPartitionResponse(partition_index=index, error_code=code))
    return shapes(topics=[shapes.ListOffsetsTopicResponse(name="jobs", partitions=partitions)])


def test_each_leader_is_requested_once_and_the_ends_are_reported_together() -> None:
    peers, reported = PeersByHand(), list[dict[Place, int | None]]()
    LogEnds(ViewOfOthers(JOBS).view(), peers.find).find([("jobs", index) for index in range(3)], reported.append)
    assert [node_id for node_id, _ in peers.sent] == [1, 2]
    peers.answer(answer({0: 10}, {2: ErrorCode.NOT_LEADER_OR_FOLLOWER}))
    assert reported == []
    peers.answer(answer({1: 11}))
    assert reported == [{("jobs", 0): 10, ("jobs", 1): 11, ("jobs", 2): None}]


def test_an_end_that_nobody_tells_is_not_known() -> None:
    peers, reported = PeersByHand(), list[dict[Place, int | None]]()
    ends = LogEnds(ViewOfOthers(JOBS).view(), peers.find)
    ends.find([("jobs", 0)], reported.append, timestamp=EARLIEST)
    assert peers.sent[0][1].topics[0].partitions[0].timestamp == EARLIEST
    peers.answer(LOST)
    ends.find([("gone", 0)], reported.append)
    assert reported == [{("jobs", 0): None}, {("gone", 0): None}]
