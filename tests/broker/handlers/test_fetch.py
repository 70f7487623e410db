"""Fetch over the wire: how long it waits, how much it brings, and what it says about the log."""

from __future__ import annotations

from typing import Any

from penstock.records.batch import iter_headers
from penstock.testing import Broker
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
from tests.broker.handlers.records import batch, produce, topic_id
from tests.transactions.wire_client import Producer, Wire
from tests.wire.records_field import records_of

NONE = ErrorCode.NONE
BY_NAME, BY_ID = 12, 17
LONG_MS = 60_000
"""Longer than a client of these tests waits: an answer that comes at all was not the timer's."""
READ_COMMITTED = 1


def part(index: int = 0, offset: int = 0, max_bytes: int = 1 << 20, epoch: int = -1) -> m.FetchRequest.FetchPartition:
    return m.FetchRequest.FetchPartition(
        partition=index, fetch_offset=offset, partition_max_bytes=max_bytes, current_leader_epoch=epoch
    )


def of(topic: str, *parts: m.FetchRequest.FetchPartition) -> m.FetchRequest.FetchTopic:
    return m.FetchRequest.FetchTopic(topic=topic, partitions=list(parts))


def fetch(*topics: m.FetchRequest.FetchTopic, min_bytes: int = 1, wait_ms: int = 0, **others: Any) -> m.FetchRequest:
    return m.FetchRequest(topics=list(topics), min_bytes=min_bytes, max_wait_ms=wait_ms, **others)


def ask(wire: Wire, request: m.FetchRequest, version: int = BY_NAME) -> m.FetchResponse:
    return wire.ask(request, m.FetchResponse, version)


def only(response: m.FetchResponse) -> m.FetchResponse.PartitionData:
    ((partition,),) = [topic.partitions for topic in response.responses]
    return partition


def offsets(data: m.FetchResponse.PartitionData) -> list[int]:
    """The base offsets of the batches."""
    return [header.base_offset for _, header in iter_headers(records_of(data))]


class TestWaiting:
    def test_it_is_answered_as_soon_as_records_come(self, wire: Wire, topic: str, port: int) -> None:
        wire.post(fetch(of(topic, part(0), part(1)), wait_ms=LONG_MS), BY_NAME)
        assert not wire.is_readable(0.05)
        writer = Wire(port)
        produce(writer, topic, batch(b"news"), partition=1)
        writer.close()
        (answered,) = wire.take(m.FetchResponse).responses
        assert [bool(each.records) for each in answered.partitions] == [False, True]

    def test_it_waits_until_there_are_min_bytes(self, wire: Wire, topic: str, port: int) -> None:
        wire.post(fetch(of(topic, part(0)), min_bytes=400, wait_ms=LONG_MS), BY_NAME)
        writer = Wire(port)
        produce(writer, topic, batch(b"x" * 200))
        assert not wire.is_readable(0.05)
        produce(writer, topic, batch(b"y" * 200))
        writer.close()
        assert offsets(only(wire.take(m.FetchResponse))) == [0, 1]

    def test_when_its_time_is_up_it_is_answered_with_what_there_is(self, wire: Wire, topic: str) -> None:
        produce(wire, topic, batch(b"little"))
        assert offsets(only(ask(wire, fetch(of(topic, part()), min_bytes=10_000, wait_ms=20)))) == [0]

    def test_an_error_does_not_wait(self, wire: Wire, topic: str) -> None:
        request = fetch(of(topic, part(0), part(1, offset=99)), wait_ms=LONG_MS)
        codes = [each.error_code for each in ask(wire, request).responses[0].partitions]
        assert codes == [NONE, ErrorCode.OFFSET_OUT_OF_RANGE]

    def test_a_fetch_of_nothing_that_exists_does_not_wait(self, wire: Wire) -> None:
        response = ask(wire, fetch(of("nowhere", part()), wait_ms=LONG_MS))
        assert only(response).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_a_topic_that_is_deleted_wakes_who_waits_for_it(self, wire: Wire, topic: str, port: int) -> None:
        wire.post(fetch(of(topic, part()), wait_ms=LONG_MS), BY_NAME)
        admin = Wire(port)
        admin.ask(m.DeleteTopicsRequest(topic_names=[topic]), m.DeleteTopicsResponse, 5)
        admin.close()
        assert only(wire.take(m.FetchResponse)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_deleted_records_wake_who_waits_for_more(self, wire: Wire, topic: str, port: int) -> None:
        produce(wire, topic, batch(b"a"))
        produce(wire, topic, batch(b"b"))
        wire.post(fetch(of(topic, part(offset=0)), min_bytes=10_000, wait_ms=LONG_MS), BY_NAME)
        admin = Wire(port)
        partition = m.DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=1)
        requested = m.DeleteRecordsRequest.DeleteRecordsTopic(name=topic, partitions=[partition])
        admin.ask(m.DeleteRecordsRequest(topics=[requested], timeout_ms=1000), m.DeleteRecordsResponse, 2)
        admin.close()
        assert only(wire.take(m.FetchResponse)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


class TestLimits:
    def test_the_first_batch_comes_whatever_its_size(self, wire: Wire, topic: str) -> None:
        produce(wire, topic, batch(b"x" * 1000))
        produce(wire, topic, batch(b"y"))
        assert offsets(only(ask(wire, fetch(of(topic, part(max_bytes=10)), max_bytes=10)))) == [0]

    def test_a_partition_brings_whole_batches_within_its_limit(self, wire: Wire, topic: str) -> None:
        sizes = [len(batch(b"x" * 100)) for _ in range(3) if produce(wire, topic, batch(b"x" * 100))]
        limit = sizes[0] + sizes[1] + 1
        assert offsets(only(ask(wire, fetch(of(topic, part(max_bytes=limit)))))) == [0, 1]

    def test_only_the_first_partition_may_exceed_the_limit_of_the_response(self, wire: Wire, topic: str) -> None:
        for index in (0, 1):
            produce(wire, topic, batch(b"x" * 1000), partition=index)
        first, second = ask(wire, fetch(of(topic, part(0), part(1)), max_bytes=100)).responses[0].partitions
        assert (offsets(first), offsets(second)) == ([0], [])
        assert second.high_watermark == 1

    def test_a_partition_without_data_leaves_the_exception_to_the_next(self, wire: Wire, topic: str) -> None:
        produce(wire, topic, batch(b"x" * 1000), partition=1)
        _, second = ask(wire, fetch(of(topic, part(0), part(1)), max_bytes=100)).responses[0].partitions
        assert offsets(second) == [0]

    def test_the_broker_has_a_limit_of_its_own(self) -> None:
        with Broker({"fetch.max.bytes": 1024}) as broker:
            broker.create_topic("large")
            wire = Wire(broker.port)
            for _ in range(4):
                produce(wire, "large", batch(b"x" * 400))
            assert offsets(only(ask(wire, fetch(of("large", part()), max_bytes=1 << 20)))) == [0, 1]
            wire.close()


class TestOffsetsAndEpochs:
    def test_an_offset_in_a_batch_brings_the_whole_batch(self, wire: Wire, topic: str) -> None:
        produce(wire, topic, batch(b"a", b"b", b"c"))
        assert offsets(only(ask(wire, fetch(of(topic, part(offset=2)))))) == [0]

    def test_at_the_end_there_is_nothing_and_beyond_it_an_error(self, wire: Wire, topic: str) -> None:
        produce(wire, topic, batch(b"a"))
        at_end = only(ask(wire, fetch(of(topic, part(offset=1)))))
        assert (at_end.error_code, at_end.high_watermark, at_end.last_stable_offset) == (NONE, 1, 1)
        assert not at_end.records
        for offset in (2, -1):
            beyond = only(ask(wire, fetch(of(topic, part(offset=offset)))))
            assert (beyond.error_code, beyond.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)

    def test_a_leader_epoch_from_the_past_is_fenced_and_one_from_the_future_unknown(
        self, wire: Wire, topic: str
    ) -> None:
        request = m.MetadataRequest(topics=[m.MetadataRequest.MetadataRequestTopic(name=topic)])
        epoch = wire.ask(request, m.MetadataResponse, 12).topics[0].partitions[0].leader_epoch
        assert only(ask(wire, fetch(of(topic, part(epoch=epoch))))).error_code == NONE
        ahead = only(ask(wire, fetch(of(topic, part(epoch=epoch + 1)), wait_ms=LONG_MS)))
        assert ahead.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH

    def test_a_consumer_that_is_ahead_of_its_epoch_is_told_where_its_log_diverges(self, wire: Wire, topic: str) -> None:
        produce(wire, topic, batch(b"a"))
        ahead = part(offset=5)
        ahead.last_fetched_epoch = 0
        diverging = only(ask(wire, fetch(of(topic, ahead), wait_ms=LONG_MS)))
        assert (diverging.error_code, diverging.diverging_epoch.end_offset) == (NONE, 1)
        assert diverging.diverging_epoch.epoch == 0
        assert not diverging.records

    def test_a_consumer_of_an_epoch_that_never_was_is_out_of_range(self, wire: Wire, topic: str) -> None:
        produce(wire, topic, batch(b"a"))
        elsewhere = part(offset=1)
        elsewhere.last_fetched_epoch = 5
        assert only(ask(wire, fetch(of(topic, elsewhere)))).error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    def test_a_follower_is_refused(self, wire: Wire, topic: str) -> None:
        by_name = fetch(of(topic, part()), wait_ms=LONG_MS, replica_id=3)
        assert only(ask(wire, by_name, 12)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_a_follower_learns_who_leads_from_version_16_on(self, wire: Wire, topic: str) -> None:
        requested = of("", part())
        requested.topic_id = topic_id(wire, topic)
        refused = only(ask(wire, fetch(requested, replica_state=m.FetchRequest.ReplicaState(replica_id=3)), 16))
        assert (refused.current_leader.leader_id, refused.current_leader.leader_epoch) == (1, 0)


class TestNamingTopics:
    def test_from_version_13_on_by_id(self, wire: Wire, topic: str) -> None:
        produce(wire, topic, batch(b"a"))
        known, unknown = of("", part()), of("", part())
        known.topic_id, unknown.topic_id = topic_id(wire, topic), bytes(range(16))
        response = ask(wire, fetch(known, unknown), BY_ID)
        codes = {each.topic_id: each.partitions[0].error_code for each in response.responses}
        assert codes == {known.topic_id: NONE, unknown.topic_id: ErrorCode.UNKNOWN_TOPIC_ID}

    def test_a_partition_that_does_not_exist(self, wire: Wire, topic: str) -> None:
        by_id = of("", part(9))
        by_id.topic_id = topic_id(wire, topic)
        for request, version in ((fetch(of(topic, part(9))), BY_NAME), (fetch(by_id), BY_ID)):
            assert only(ask(wire, request, version)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class TestIsolation:
    def test_read_committed_stops_before_an_open_transaction(self, wire: Wire, topic: str, name: str) -> None:
        produce(wire, topic, batch(b"plain"))
        producer = Producer(wire, name).start()
        assert producer.write(topic, b"open") == NONE
        uncommitted = only(ask(wire, fetch(of(topic, part()))))
        committed = only(ask(wire, fetch(of(topic, part()), isolation_level=READ_COMMITTED)))
        assert (offsets(uncommitted), uncommitted.aborted_transactions) == ([0, 1], None)
        assert (offsets(committed), committed.aborted_transactions) == ([0], [])
        assert (committed.last_stable_offset, committed.high_watermark) == (1, 2)

    def test_it_wakes_when_the_transaction_ends_and_names_what_was_aborted(
        self, wire: Wire, topic: str, name: str, port: int
    ) -> None:
        other = Wire(port)
        producer = Producer(other, name).start()
        assert producer.write(topic, b"open") == NONE
        writer_id = producer.producer_id
        wire.post(fetch(of(topic, part()), wait_ms=LONG_MS, isolation_level=READ_COMMITTED), BY_NAME)
        assert not wire.is_readable(0.05)
        assert producer.end(commit=False) == NONE
        data = only(wire.take(m.FetchResponse))
        other.close()
        assert [(each.producer_id, each.first_offset) for each in data.aborted_transactions or []] == [(writer_id, 0)]
        assert offsets(data) == [0, 1]

    def test_a_level_that_does_not_exist_is_refused(self, wire: Wire, topic: str) -> None:
        assert only(ask(wire, fetch(of(topic, part()), isolation_level=7))).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        by_id = of("", part())
        by_id.topic_id = topic_id(wire, topic)
        response = ask(wire, fetch(by_id, isolation_level=7), BY_ID)
        assert (response.error_code, response.responses) == (ErrorCode.UNKNOWN_SERVER_ERROR, [])


class TestSessions:
    def test_an_incremental_fetch_is_answered_with_news_only(self, wire: Wire, topic: str) -> None:
        first = ask(wire, fetch(of(topic, part(0), part(1)), session_epoch=0))
        assert first.session_id > 0
        assert len(first.responses[0].partitions) == 2
        produce(wire, topic, batch(b"news"), partition=1)
        second = ask(wire, fetch(session_id=first.session_id, session_epoch=1))
        assert [each.partition_index for each in second.responses[0].partitions] == [1]
        caught_up = fetch(of(topic, part(1, offset=1)), session_id=first.session_id, session_epoch=2)
        assert ask(wire, caught_up).responses == []

    def test_a_wrong_epoch_and_an_unknown_session_are_refused_as_a_whole(self, wire: Wire, topic: str) -> None:
        first = ask(wire, fetch(of(topic, part()), session_epoch=0))
        wrong = ask(wire, fetch(session_id=first.session_id, session_epoch=5))
        assert (wrong.error_code, wrong.responses) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, [])
        unknown = ask(wire, fetch(session_id=first.session_id + 1, session_epoch=1))
        assert unknown.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    def test_a_topic_that_a_session_knew_is_an_unknown_topic_and_not_an_unknown_id(
        self, wire: Wire, topic: str
    ) -> None:
        by_id = of("", part())
        by_id.topic_id = topic_id(wire, topic)
        first = ask(wire, fetch(by_id, session_epoch=0), BY_ID)
        wire.ask(m.DeleteTopicsRequest(topic_names=[topic]), m.DeleteTopicsResponse, 5)
        later = ask(wire, fetch(session_id=first.session_id, session_epoch=1), BY_ID)
        assert only(later).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
