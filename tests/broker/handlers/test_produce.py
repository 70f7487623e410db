"""Produce over the wire: what is appended, what is refused and why, and when the answer comes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.records.builder import build_batch
from penstock.testing import Broker
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
from tests.broker.handlers.records import (
    batch,
    create_topic,
    find_group_coordinator,
    produce,
    sequenced,
    to_topic,
    topic_id,
)
from tests.transactions.wire_client import Wire, eventually

NONE = ErrorCode.NONE
ACKS_ALL, ACKS_NONE = -1, 0


def ask(wire: Wire, *topics: m.ProduceRequest.TopicProduceData, acks: int = 1, version: int = 9) -> m.ProduceResponse:
    return wire.ask(m.ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=list(topics)), m.ProduceResponse, version)


class TestAppending:
    def test_a_batch_is_answered_with_the_offset_of_its_first_record(self, wire: Wire, topic: str) -> None:
        produce(wire, topic, batch(b"a", b"b"))
        written = produce(wire, topic, batch(b"c"))
        assert (written.error_code, written.base_offset, written.log_start_offset) == (NONE, 2, 0)
        assert written.log_append_time_ms == -1
        assert wire.fetch(topic) == [b"a", b"b", b"c"]

    def test_the_broker_stamps_records_where_the_topic_says_so(self, wire: Wire, name: str) -> None:
        create_topic(wire, name, message_timestamp_type="LogAppendTime")
        assert produce(wire, name, batch(b"a", timestamp=1000)).log_append_time_ms > 1_600_000_000_000

    def test_a_partition_that_fails_does_not_hold_up_the_others(self, wire: Wire, topic: str) -> None:
        answer = ask(
            wire, to_topic(topic, (7, batch(b"lost")), (1, batch(b"kept"))), to_topic("nowhere", (0, batch(b"x")))
        )
        codes = {(each.name, p.index): p.error_code for each in answer.responses for p in each.partition_responses}
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert codes == {(topic, 7): unknown, (topic, 1): NONE, ("nowhere", 0): unknown}
        assert wire.fetch(topic, 1) == [b"kept"]

    def test_a_topic_that_is_named_twice_is_answered_once_with_the_partitions_of_both(
        self, wire: Wire, topic: str
    ) -> None:
        answer = ask(wire, to_topic(topic, (0, batch(b"a"))), to_topic(topic, (1, batch(b"b"))))
        assert [(each.name, len(each.partition_responses)) for each in answer.responses] == [(topic, 2)]
        assert wire.fetch(topic, 0) + wire.fetch(topic, 1) == [b"a", b"b"]

    def test_a_topic_without_partitions_is_not_answered(self, wire: Wire, topic: str) -> None:
        assert ask(wire, to_topic(topic)).responses == []

    def test_from_version_13_on_topics_are_named_by_their_id(self, wire: Wire, topic: str) -> None:
        by_id = to_topic("", (0, batch(b"a")))
        by_id.topic_id = topic_id(wire, topic)
        unknown = to_topic(topic, (0, batch(b"b")))
        unknown.topic_id = bytes(range(16))
        answer = ask(wire, by_id, unknown, version=13)
        assert [each.partition_responses[0].error_code for each in answer.responses] == [
            NONE,
            ErrorCode.UNKNOWN_TOPIC_ID,
        ]
        assert wire.fetch(topic) == [b"a"]


class TestIdempotentProducers:
    def test_a_batch_that_is_sent_again_is_kept_once_and_answered_as_the_first_time(
        self, wire: Wire, topic: str
    ) -> None:
        first = produce(wire, topic, sequenced(b"a", b"b", producer_id=4000, sequence=0))
        produce(wire, topic, sequenced(b"c", producer_id=4000, sequence=2))
        again = produce(wire, topic, sequenced(b"a", b"b", producer_id=4000, sequence=0))
        assert (again.error_code, again.base_offset) == (NONE, first.base_offset)
        assert wire.fetch(topic) == [b"a", b"b", b"c"]

    def test_a_gap_in_the_sequence_is_refused_and_the_answer_says_where_the_log_starts(
        self, wire: Wire, topic: str
    ) -> None:
        produce(wire, topic, sequenced(b"a", producer_id=4001, sequence=0))
        refused = produce(wire, topic, sequenced(b"c", producer_id=4001, sequence=2))
        assert refused.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert (refused.base_offset, refused.log_start_offset) == (-1, 0)

    def test_an_older_epoch_is_fenced(self, wire: Wire, topic: str) -> None:
        produce(wire, topic, sequenced(b"a", producer_id=4002, sequence=0, epoch=1))
        refused = produce(wire, topic, sequenced(b"b", producer_id=4002, sequence=0, epoch=0))
        assert refused.error_code == ErrorCode.INVALID_PRODUCER_EPOCH


class TestOrderOfTheChecks:
    """Which error wins when several apply: topic, acks, internal topic, batch."""

    BROKEN = bytearray(batch(b"x"))
    BROKEN[-1] ^= 1

    def test_an_unknown_topic_comes_before_wrong_acks(self, wire: Wire, topic: str) -> None:
        for topic_name, index in (("nowhere", 0), (topic, 9)):
            refused = produce(wire, topic_name, self.BROKEN, partition=index, acks=5)
            assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_wrong_acks_come_before_an_internal_topic(self, wire: Wire) -> None:
        find_group_coordinator(wire)
        refused = produce(wire, "__consumer_offsets", self.BROKEN, acks=5)
        assert refused.error_code == ErrorCode.INVALID_REQUIRED_ACKS

    def test_an_internal_topic_comes_before_a_broken_batch(self, wire: Wire) -> None:
        find_group_coordinator(wire)
        refused = produce(wire, "__consumer_offsets", self.BROKEN)
        assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION

    def test_a_broken_batch_leaves_the_log_as_it_was(self, wire: Wire, topic: str) -> None:
        refused = produce(wire, topic, self.BROKEN)
        assert refused.error_code == ErrorCode.CORRUPT_MESSAGE
        assert (refused.base_offset, refused.log_start_offset) == (-1, -1)
        assert wire.fetch_partition(topic).high_watermark == 0

    def test_a_transactional_batch_needs_a_transactional_id(self, wire: Wire, topic: str) -> None:
        records = [(1_700_000_000_000, None, b"x", ())]
        transactional = build_batch(records, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
        refused = produce(wire, topic, transactional, acks=ACKS_ALL)
        assert refused.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


class TestRefusedRecords:
    def test_a_record_without_a_key_for_a_compacted_topic_is_named(self, wire: Wire, name: str) -> None:
        create_topic(wire, name, cleanup_policy="compact")
        refused = produce(wire, name, batch(b"keyless", b"too"))
        assert refused.error_code == ErrorCode.INVALID_RECORD
        assert [each.batch_index for each in refused.record_errors] == [0, 1]
        assert refused.error_message

    def test_a_batch_above_the_limit_of_its_topic_is_too_large(self, wire: Wire, name: str) -> None:
        create_topic(wire, name, max_message_bytes="200")
        assert produce(wire, name, batch(b"x" * 300)).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert produce(wire, name, batch(b"x")).error_code == NONE

    def test_a_timestamp_too_far_ahead_is_refused(self, wire: Wire, name: str) -> None:
        create_topic(wire, name, message_timestamp_after_max_ms="1000")
        refused = produce(wire, name, batch(b"x", timestamp=4_000_000_000_000))
        assert refused.error_code == ErrorCode.INVALID_TIMESTAMP
        assert refused.error_message


class TestNoAcks:
    def test_it_is_never_answered(self, wire: Wire, topic: str) -> None:
        wire.post(m.ProduceRequest(acks=ACKS_NONE, topic_data=[to_topic(topic, (0, batch(b"a")))]), 9)
        assert wire.fetch(topic) == [b"a"], "the next response belongs to the next request"

    def test_a_failure_closes_the_connection(self, wire: Wire, topic: str) -> None:
        good, bad = to_topic(topic, (0, batch(b"a"))), to_topic("nowhere", (0, batch(b"b")))
        wire.post(m.ProduceRequest(acks=ACKS_NONE, topic_data=[good, bad]), 9)
        assert wire.is_closed_by_broker()


class TestWaitingForTheDisk:
    """With `acks=all`, on a disk that takes as long as the test wants."""

    @pytest.fixture
    def broker(self) -> Iterator[Broker]:
        with Broker({"penstock.acks.all.flush": "true"}) as it:
            it.create_topic("slow", 2)
            yield it

    @pytest.fixture
    def wire(self, broker: Broker) -> Iterator[Wire]:
        wire = Wire(broker.port)
        yield wire
        wire.close()

    @pytest.fixture
    def held(self, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> list[object]:
        """The logs whose flush never ends."""
        waiting: list[object] = []
        storage = broker._running().parts.storage
        monkeypatch.setattr(storage, "when_durable", lambda log, position, callback: waiting.append(log))
        return waiting

    def test_records_that_reach_the_disk_are_acknowledged(self, wire: Wire) -> None:
        assert produce(wire, "slow", batch(b"a"), acks=ACKS_ALL).base_offset == 0

    @pytest.mark.usefixtures("held")
    def test_acks_1_does_not_wait(self, wire: Wire) -> None:
        assert produce(wire, "slow", batch(b"a"), acks=1).error_code == NONE

    def test_records_that_are_not_on_disk_in_time_are_told_so_but_kept(
        self, broker: Broker, wire: Wire, held: list[object]
    ) -> None:
        topic = to_topic("slow", (0, batch(b"a")), (1, batch(b"b")), (9, batch(b"c")))
        wire.post(m.ProduceRequest(acks=ACKS_ALL, timeout_ms=-1, topic_data=[topic]), 9)
        eventually(lambda: len(held), lambda count: count == 2)
        broker._call(broker._running().parts.durability.end_late_waits)
        codes = [p.error_code for p in wire.take(m.ProduceResponse).responses[0].partition_responses]
        late = ErrorCode.REQUEST_TIMED_OUT
        assert codes == [late, late, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert wire.fetch("slow", 1) == [b"b"]
