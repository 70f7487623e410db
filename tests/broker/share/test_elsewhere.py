"""Requests for the states of share-partitions that another broker keeps: gathered, and never out of order."""

from __future__ import annotations

from penstock.broker.share.elsewhere import ShareStateElsewhere
from penstock.groups.share.protocol import InitializeShareState
from penstock.queues.state import ShareGroupState
from penstock.queues.transitions import StateWrite
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode, KafkaError
from tests.broker.share.peers_by_hand import LOST, PeersByHand, ViewOfOthers
from tests.coordination.simulated import SimulatedTime

TOPIC = bytes(15) + b"\1"
KEEPER = 2


class Stage:
    def __init__(self) -> None:
        self.time, self.peers = SimulatedTime(), PeersByHand()
        self.elsewhere = ShareStateElsewhere(
            ViewOfOthers().view(),
            self.peers.find,
            self.time,  # type: ignore[arg-type]
        )
        self.heard: list[KafkaError | None] = []

    def write(self, index: int, start_offset: int, group: str = "g") -> None:
        write = StateWrite(start_offset, 0)
        self.elsewhere.write(KEEPER, (group, TOPIC, index), 1, 5, write, self.heard.append)

    def sent(self) -> list[list[tuple[int, int]]]:
        """Each request as the partitions and start offsets that it writes."""
        return [
            [(each.partition, each.start_offset) for topic in request.topics for each in topic.partitions]
            for _, request in self.peers.sent
            if isinstance(request, m.WriteShareGroupStateRequest)
        ]


def written(*codes: tuple[int, ErrorCode]) -> m.WriteShareGroupStateResponse:
    shapes = m.WriteShareGroupStateResponse
    partitions = [shapes.PartitionResult(partition=index, error_code=code) for index, code in codes]
    return shapes(results=[shapes.WriteStateResult(topic_id=TOPIC, partitions=partitions)])


def test_the_writes_of_a_turn_are_one_request_and_each_hears_its_own_result() -> None:
    stage = Stage()
    stage.write(0, 10)
    stage.write(1, 20)
    assert stage.peers.sent == []
    stage.time.pass_ms(0)
    assert stage.sent() == [[(0, 10), (1, 20)]]
    stage.peers.answer(written((1, ErrorCode.FENCED_LEADER_EPOCH), (0, ErrorCode.NONE)))
    assert [None if error is None else error.code for error in stage.heard] == [None, ErrorCode.FENCED_LEADER_EPOCH]


def test_two_writes_of_a_share_partition_keep_their_order() -> None:
    stage = Stage()
    stage.write(0, 10)
    stage.write(0, 11)
    stage.time.pass_ms(0)
    assert stage.sent() == [[(0, 10)], [(0, 11)]]


def test_a_write_without_an_answer_has_failed() -> None:
    stage = Stage()
    stage.write(0, 10)
    stage.write(1, 10)
    stage.time.pass_ms(0)
    stage.peers.answer(LOST)
    assert [error.code for error in stage.heard if error] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2


def test_a_state_is_read_after_the_writes_that_were_due_before() -> None:
    stage, read = Stage(), list[ShareGroupState | KafkaError]()
    stage.write(0, 10)
    stage.elsewhere.read(KEEPER, ("g", TOPIC, 0), 5, read.append)
    assert [type(request) for _, request in stage.peers.sent] == [
        m.WriteShareGroupStateRequest,
        m.ReadShareGroupStateRequest,
    ]
    stage.time.pass_ms(0)
    assert len(stage.peers.sent) == 2
    stage.peers.answer(written((0, ErrorCode.NONE)))
    shapes = m.ReadShareGroupStateResponse
    batch = shapes.StateBatch(first_offset=11, last_offset=12, delivery_state=2, delivery_count=1)
    result = shapes.PartitionResult(partition=0, state_epoch=3, start_offset=10, state_batches=[batch])
    stage.peers.answer(shapes(results=[shapes.ReadStateResult(topic_id=TOPIC, partitions=[result])]))
    (state,) = read
    assert isinstance(state, ShareGroupState)
    assert (state.state_epoch, state.start_offset, list(state.batches)) == (3, 10, [(11, 12, 2, 1)])


def test_states_begin_and_end_with_a_result_for_each_share_partition() -> None:
    stage, codes = Stage(), list[dict[tuple[bytes, int], ErrorCode]]()
    stage.elsewhere.initialize(KEEPER, "g", 1, {(TOPIC, 0): 5, (TOPIC, 1): 6}, codes.append)
    shapes = m.InitializeShareGroupStateResponse
    done = shapes.InitializeStateResult(topic_id=TOPIC, partitions=[shapes.PartitionResult(partition=1)])
    stage.peers.answer(shapes(results=[done]))
    stage.elsewhere.delete(KEEPER, "g", [(TOPIC, 1)], codes.append)
    stage.peers.answer(LOST)
    missing = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert codes == [{(TOPIC, 0): missing, (TOPIC, 1): ErrorCode.NONE}, {(TOPIC, 1): missing}]


def summaries(*found: tuple[int, int, int]) -> m.ReadShareGroupStateSummaryResponse:
    """Partition, state epoch and start offset of each."""
    shapes = m.ReadShareGroupStateSummaryResponse
    results = [
        shapes.PartitionResult(
            partition=index, state_epoch=epoch, leader_epoch=-1, start_offset=start, delivery_complete_count=-1
        )
        for index, epoch, start in found
    ]
    return shapes(results=[shapes.ReadStateSummaryResult(topic_id=TOPIC, partitions=results)])


def test_a_state_that_is_there_does_not_begin_again_unless_it_is_to_begin_anew() -> None:
    stage, codes = Stage(), list[dict[tuple[bytes, int], ErrorCode]]()
    offsets = {(TOPIC, 0): -1, (TOPIC, 1): -1}
    stage.elsewhere.begin(KEEPER, InitializeShareState("g", 2, {TOPIC: {0: -1, 1: -1}}), offsets, codes.append)
    stage.peers.answer(summaries((0, 1, 7), (1, 0, -1)))
    request = stage.peers.sent[-1][1]
    assert isinstance(request, m.InitializeShareGroupStateRequest)
    assert [each.partition for each in request.topics[0].partitions] == [1]
    shapes = m.InitializeShareGroupStateResponse
    done = shapes.InitializeStateResult(topic_id=TOPIC, partitions=[shapes.PartitionResult(partition=1)])
    stage.peers.answer(shapes(results=[done]))
    assert codes == [dict.fromkeys(offsets, ErrorCode.NONE)]

    anew = InitializeShareState("g", 3, {TOPIC: {0: 4}}, frozenset({TOPIC}))
    stage.elsewhere.begin(KEEPER, anew, {(TOPIC, 0): 4}, codes.append)
    assert isinstance(stage.peers.sent[-1][1], m.InitializeShareGroupStateRequest)
    stage.peers.answer(LOST)
    assert codes[-1] == {(TOPIC, 0): ErrorCode.COORDINATOR_NOT_AVAILABLE}

    stage.elsewhere.begin(KEEPER, InitializeShareState("g", 3, {TOPIC: {0: -1}}), {(TOPIC, 0): -1}, codes.append)
    stage.peers.answer(LOST)
    assert codes[-1] == {(TOPIC, 0): ErrorCode.COORDINATOR_NOT_AVAILABLE}


def test_summaries_are_told_without_batches() -> None:
    stage, found = Stage(), list[dict[tuple[bytes, int], ShareGroupState | ErrorCode]]()
    stage.elsewhere.summaries(KEEPER, "g", [(TOPIC, 0), (TOPIC, 1)], found.append)
    shapes = m.ReadShareGroupStateSummaryResponse
    result = shapes.PartitionResult(
        partition=0, state_epoch=1, leader_epoch=5, start_offset=7, delivery_complete_count=2
    )
    topic = shapes.ReadStateSummaryResult(topic_id=TOPIC, partitions=[result])
    stage.peers.answer(shapes(results=[topic]))
    state = found[0][TOPIC, 0]
    assert isinstance(state, ShareGroupState)
    assert (state.start_offset, state.delivery_complete_count) == (7, 2)
    assert found[0][TOPIC, 1] == ErrorCode.COORDINATOR_NOT_AVAILABLE
