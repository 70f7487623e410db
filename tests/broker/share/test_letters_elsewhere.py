"""Letters that another broker writes: what its answers mean, and which letters are there already."""

from __future__ import annotations

import pytest

from penstock.broker.peer_connection import PeerFailed
from penstock.broker.share.letters_elsewhere import Delivery, LettersElsewhere, PartitionElsewhere
from penstock.broker.share.log_ends import LogEnds
from penstock.broker.topics import Topic
from penstock.queues.dead_letters import Origin, letters
from penstock.queues.transitions import DeadLetterCause, DeadLetterRange
from penstock.records.builder import build_batch
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
from tests.broker.share.peers_by_hand import LOST, UNSENT, PeersByHand, ViewOfOthers

DLQ = Topic("dlq", bytes(15) + b"\2", {}, 1)
TARGET = PartitionElsewhere(1, DLQ, 0)
ORIGIN = Origin("g", "jobs", 3)


def elsewhere() -> tuple[PeersByHand, LettersElsewhere]:
    peers = PeersByHand()
    return peers, LettersElsewhere(LogEnds(ViewOfOthers(DLQ).view(), peers.find), peers.find)


def produced(code: ErrorCode) -> m.ProduceResponse:
    shapes = m.ProduceResponse
    partition = shapes.PartitionProduceResponse(index=0, error_code=code, base_offset=0)
    return shapes(responses=[shapes.TopicProduceResponse(name="dlq", partition_responses=[partition])])


@pytest.mark.parametrize(
    ("answer", "delivery"),
    [
        (produced(ErrorCode.NONE), Delivery.WRITTEN),
        (produced(ErrorCode.NOT_LEADER_OR_FOLLOWER), Delivery.NOT_WRITTEN),
        (produced(ErrorCode.NOT_ENOUGH_REPLICAS), Delivery.NOT_WRITTEN),
        (produced(ErrorCode.UNKNOWN_TOPIC_ID), Delivery.NOT_WRITTEN),
        (produced(ErrorCode.FENCED_LEADER_EPOCH), Delivery.NOT_WRITTEN),
        (produced(ErrorCode.KAFKA_STORAGE_ERROR), Delivery.UNKNOWN),
        (produced(ErrorCode.REQUEST_TIMED_OUT), Delivery.UNKNOWN),
        (produced(ErrorCode.MESSAGE_TOO_LARGE), Delivery.REFUSED),
        (produced(ErrorCode.TOPIC_AUTHORIZATION_FAILED), Delivery.REFUSED),
        (UNSENT, Delivery.NOT_WRITTEN),
        (LOST, Delivery.UNKNOWN),
    ],
)
def test_only_what_was_perhaps_written_is_looked_for(answer: m.Message | PeerFailed, delivery: Delivery) -> None:
    peers, writer = elsewhere()
    heard: list[Delivery] = []
    writer.write(TARGET, b"letters", lambda found, code: heard.append(found))
    assert (peers.sent[0][0], peers.sent[0][1].acks) == (1, -1)
    peers.answer(answer)
    assert heard == [delivery]


def offset(value: int) -> m.ListOffsetsResponse:
    shapes = m.ListOffsetsResponse
    partition = shapes.ListOffsetsPartitionResponse(partition_index=0, offset=value)
    return shapes(topics=[shapes.ListOffsetsTopicResponse(name="dlq", partitions=[partition])])


def fetched(records: bytes, code: ErrorCode = ErrorCode.NONE) -> m.FetchResponse:
    shapes = m.FetchResponse
    partition = shapes.PartitionData(partition_index=0, error_code=code, high_watermark=3, records=records)
    return shapes(responses=[shapes.FetchableTopicResponse(topic_id=DLQ.topic_id, partitions=[partition])])


def test_letters_that_are_there_are_found() -> None:
    peers, writer = elsewhere()
    found: list[set[int] | None] = []
    writer.search(TARGET, ORIGIN, found.append)
    for answer in (offset(3), offset(0)):
        peers.answer(answer)
    mine = DeadLetterRange(7, 8, 1, DeadLetterCause.REJECTED)
    batch = build_batch([*letters(ORIGIN, mine, (), 0), *letters(Origin("other", "jobs", 3), mine, (), 0)][:3])
    assert peers.sent[-1][1].topics[0].partitions[0].fetch_offset == 0
    peers.answer(fetched(bytes(batch)))
    assert found == [{7, 8}]


@pytest.mark.parametrize("answers", [[LOST], [offset(3), LOST], [offset(3), offset(0), LOST]], ids=len)
def test_nothing_is_concluded_from_a_partition_that_cannot_be_read(answers: list[m.Message | PeerFailed]) -> None:
    peers, writer = elsewhere()
    found: list[set[int] | None] = []
    writer.search(TARGET, ORIGIN, found.append)
    for answer in answers:
        peers.answer(answer)
    assert found == [None]


def test_an_empty_partition_has_no_letters() -> None:
    peers, writer = elsewhere()
    found: list[set[int] | None] = []
    writer.search(TARGET, ORIGIN, found.append)
    peers.answer(offset(0))
    peers.answer(offset(0))
    assert found == [set()]
