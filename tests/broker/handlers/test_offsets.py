"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords over the wire."""

from __future__ import annotations

import pytest

from penstock.broker.handlers.offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
)
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
from tests.broker.handlers.records import batch, create_topic, find_group_coordinator, produce
from tests.transactions.wire_client import Producer, Wire

NONE = ErrorCode.NONE
NEWEST = 11
T0 = 1_700_000_000_000
Partition = m.ListOffsetsRequest.ListOffsetsPartition
Answered = m.ListOffsetsResponse.ListOffsetsPartitionResponse


def list_offsets(
    wire: Wire, topic: str, *requested: Partition, version: int = NEWEST, isolation: int = 0, replica_id: int = -1
) -> list[Answered]:
    request = m.ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=isolation,
        topics=[m.ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=list(requested))],
    )
    (answer,) = wire.ask(request, m.ListOffsetsResponse, version).topics
    return answer.partitions


def look(wire: Wire, topic: str, timestamp: int, **others: int) -> Answered:
    (answer,) = list_offsets(wire, topic, Partition(partition_index=0, timestamp=timestamp), **others)
    return answer


def delete_records(wire: Wire, topic: str, *offsets: int, partition: int = 0) -> tuple[int, int]:
    request = m.DeleteRecordsRequest
    requested = [request.DeleteRecordsPartition(partition_index=partition, offset=offset) for offset in offsets]
    topics = [request.DeleteRecordsTopic(name=topic, partitions=requested)]
    (answer,) = wire.ask(request(topics=topics, timeout_ms=1000), m.DeleteRecordsResponse, 2).topics
    (result,) = answer.partitions
    return result.error_code, result.low_watermark


@pytest.fixture
def written(wire: Wire, topic: str) -> str:
    """A topic with three records, the second of which has the largest timestamp."""
    for timestamp in (T0, T0 + 500, T0 + 100):
        produce(wire, topic, batch(b"x", timestamp=timestamp))
    return topic


class TestListOffsets:
    def test_the_ends_of_a_log(self, wire: Wire, written: str) -> None:
        delete_records(wire, written, 1)
        assert look(wire, written, LATEST).offset == 3
        assert look(wire, written, EARLIEST).offset == 1
        assert look(wire, written, EARLIEST_LOCAL).offset == 1

    def test_a_time_finds_the_first_record_that_is_not_older(self, wire: Wire, written: str) -> None:
        found = look(wire, written, T0 + 50)
        assert (found.offset, found.timestamp, found.leader_epoch) == (1, T0 + 500, 0)

    def test_a_time_after_the_last_record_finds_nothing_without_an_error(self, wire: Wire, written: str) -> None:
        found = look(wire, written, T0 + 501)
        assert (found.error_code, found.offset, found.timestamp) == (NONE, -1, -1)

    def test_the_record_with_the_largest_timestamp(self, wire: Wire, written: str) -> None:
        found = look(wire, written, MAX_TIMESTAMP)
        assert (found.offset, found.timestamp) == (1, T0 + 500)

    def test_nothing_is_in_a_second_tier(self, wire: Wire, written: str) -> None:
        for timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
            found = look(wire, written, timestamp)
            assert (found.error_code, found.offset, found.leader_epoch) == (NONE, -1, -1)

    @pytest.mark.parametrize(
        ("timestamp", "first_version"),
        [(MAX_TIMESTAMP, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9), (EARLIEST_PENDING_UPLOAD, 11)],
    )
    def test_a_special_timestamp_is_known_from_its_version_on(
        self, wire: Wire, written: str, timestamp: int, first_version: int
    ) -> None:
        assert look(wire, written, timestamp, version=first_version).error_code == NONE
        before = look(wire, written, timestamp, version=first_version - 1)
        assert before.error_code == ErrorCode.UNSUPPORTED_VERSION

    def test_a_special_timestamp_that_nobody_knows_is_unsupported(self, wire: Wire, written: str) -> None:
        assert look(wire, written, -99).error_code == ErrorCode.UNSUPPORTED_VERSION

    def test_for_read_committed_the_end_is_the_last_stable_offset(self, wire: Wire, written: str, name: str) -> None:
        producer = Producer(wire, name).start()
        assert producer.write(written, b"open") == NONE
        assert [look(wire, written, LATEST, isolation=level).offset for level in (0, 1)] == [4, 3]

    def test_a_partition_that_is_named_twice_is_refused_and_the_others_are_not(self, wire: Wire, written: str) -> None:
        twice = [Partition(partition_index=index, timestamp=LATEST) for index in (0, 1, 0)]
        codes = {each.partition_index: each.error_code for each in list_offsets(wire, written, *twice)}
        assert codes == {0: ErrorCode.INVALID_REQUEST, 1: NONE}

    def test_what_does_not_exist_and_what_another_leader_would_know(self, wire: Wire, written: str) -> None:
        absent = Partition(partition_index=9, timestamp=LATEST)
        ahead = Partition(partition_index=0, timestamp=LATEST, current_leader_epoch=7)
        codes = [each.error_code for each in list_offsets(wire, written, absent, ahead)]
        assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_LEADER_EPOCH]
        assert look(wire, "no such/topic", LATEST).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class TestOffsetForLeaderEpoch:
    def ask(self, wire: Wire, topic: str, epoch: int, current: int = -1) -> tuple[int, int, int]:
        request = m.OffsetForLeaderEpochRequest
        requested = request.OffsetForLeaderPartition(partition=0, leader_epoch=epoch, current_leader_epoch=current)
        topics = [request.OffsetForLeaderTopic(topic=topic, partitions=[requested])]
        (answer,) = wire.ask(request(replica_id=-1, topics=topics), m.OffsetForLeaderEpochResponse, 4).topics
        (found,) = answer.partitions
        return found.error_code, found.leader_epoch, found.end_offset

    def test_the_current_epoch_ends_where_the_log_does(self, wire: Wire, written: str) -> None:
        assert self.ask(wire, written, 0) == (NONE, 0, 3)

    def test_an_epoch_that_has_not_been_yet_has_no_end(self, wire: Wire, written: str) -> None:
        assert self.ask(wire, written, 5) == (NONE, -1, -1)

    def test_who_follows_another_leader_is_refused(self, wire: Wire, written: str) -> None:
        assert self.ask(wire, written, 0, current=1)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH

    def test_an_unknown_topic(self, wire: Wire) -> None:
        assert self.ask(wire, "nowhere", 0) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)


class TestDeleteRecords:
    def test_records_below_the_offset_cannot_be_read_any_more(self, wire: Wire, written: str) -> None:
        assert delete_records(wire, written, 2) == (NONE, 2)
        assert wire.fetch_partition(written, offset=1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert len(wire.fetch(written, offset=2)) == 1

    def test_minus_one_deletes_all(self, wire: Wire, written: str) -> None:
        assert delete_records(wire, written, -1) == (NONE, 3)
        assert wire.fetch(written, offset=3) == []

    def test_a_log_never_starts_earlier_again(self, wire: Wire, written: str) -> None:
        delete_records(wire, written, 2)
        assert delete_records(wire, written, 1) == (NONE, 2)

    @pytest.mark.parametrize("offset", [4, -2])
    def test_an_offset_that_is_not_in_the_log_is_refused(self, wire: Wire, written: str, offset: int) -> None:
        assert delete_records(wire, written, offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)

    def test_of_a_partition_that_is_named_twice_the_last_offset_counts(self, wire: Wire, written: str) -> None:
        assert delete_records(wire, written, 3, 1) == (NONE, 1)

    def test_records_of_a_topic_that_is_only_compacted_stay(self, wire: Wire, name: str) -> None:
        create_topic(wire, name, cleanup_policy="compact")
        create_topic(wire, f"{name}.both", cleanup_policy="compact,delete")
        for each in (name, f"{name}.both"):
            produce(wire, each, batch(b"x", key=b"k"))
        assert delete_records(wire, name, 1) == (ErrorCode.POLICY_VIOLATION, -1)
        assert delete_records(wire, f"{name}.both", 1) == (NONE, 1)

    def test_records_of_an_internal_topic_stay(self, wire: Wire) -> None:
        find_group_coordinator(wire)
        assert delete_records(wire, "__consumer_offsets", -1) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)

    def test_what_does_not_exist(self, wire: Wire, written: str) -> None:
        unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
        assert [delete_records(wire, "nowhere", 0), delete_records(wire, written, 0, partition=9)] == [unknown] * 2
