"""The transaction APIs over the wire, request by request."""

from __future__ import annotations

import pytest

from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
from tests.transactions.wire_client import Producer, Wire, eventually

NONE = ErrorCode.NONE
PROTOCOLS = pytest.mark.parametrize("classic", [True, False], ids=["classic", "kip-890"])


def begin(producer: Producer, *partitions: tuple[str, int]) -> None:
    if producer.classic:
        assert producer.add(*partitions) == NONE


@PROTOCOLS
def test_committed_records_are_seen_when_the_commit_is_answered_and_not_before(
    wire: Wire, topic: str, name: str, classic: bool
) -> None:
    producer = Producer(wire, name, classic=classic).start()
    begin(producer, (topic, 0), (topic, 1))
    assert producer.write(topic, b"a", b"b") == NONE
    assert producer.write(topic, b"c") == NONE
    assert producer.write(topic, b"d", partition=1) == NONE
    assert wire.fetch(topic) == []
    assert wire.fetch(topic, committed=False) == [b"a", b"b", b"c"]
    assert producer.end(commit=True) == NONE
    assert wire.fetch(topic) == [b"a", b"b", b"c"]
    assert wire.fetch(topic, 1) == [b"d"]


@PROTOCOLS
def test_aborted_records_are_never_seen(wire: Wire, topic: str, name: str, classic: bool) -> None:
    producer = Producer(wire, name, classic=classic).start()
    begin(producer, (topic, 0))
    assert producer.write(topic, b"aborted") == NONE
    assert producer.end(commit=False) == NONE
    begin(producer, (topic, 0))
    assert producer.write(topic, b"committed") == NONE
    assert producer.end(commit=True) == NONE
    assert wire.fetch(topic) == [b"committed"]
    assert wire.fetch(topic, committed=False) == [b"aborted", b"committed"]


@PROTOCOLS
def test_many_transactions_in_a_row_never_meet_the_one_before(wire: Wire, topic: str, name: str, classic: bool) -> None:
    producer = Producer(wire, name, classic=classic).start()
    for number in range(30):
        begin(producer, (topic, 0))
        assert producer.write(topic, b"%d" % number) == NONE
        assert producer.end(commit=True) == NONE
    assert wire.fetch(topic) == [b"%d" % number for number in range(30)]


def test_the_epoch_moves_with_every_transaction_of_kip_890_only(wire: Wire, topic: str, name: str) -> None:
    modern = Producer(wire, name).start()
    for expected in range(1, 4):
        assert modern.write(topic, b"x") == NONE
        assert modern.end(commit=True) == NONE
        assert modern.epoch == expected
    classic = Producer(wire, name + "-classic", classic=True).start()
    begin(classic, (topic, 0))
    assert classic.write(topic, b"x") == NONE
    assert classic.end(commit=True) == NONE
    assert classic.epoch == 0


def test_pipelined_writes_keep_their_order_behind_a_transaction_that_is_ending(
    wire: Wire, topic: str, name: str
) -> None:
    producer = Producer(wire, name).start()
    expected = []
    for number in range(20):
        first, second = b"%d-1" % number, b"%d-2" % number
        wire.post(producer.produce_request(topic, 0, first, sequence=0), 12)
        wire.post(producer.produce_request(topic, 0, second, sequence=1), 12)
        for _ in range(2):
            response = wire.take(m.ProduceResponse)
            assert response.responses[0].partition_responses[0].error_code == NONE
        # The next writes follow the EndTxn on the same connection without waiting for its answer.
        wire.post(
            m.EndTxnRequest(
                transactional_id=name, producer_id=producer.producer_id, producer_epoch=producer.epoch, committed=True
            ),
            5,
        )
        producer.become(producer.producer_id, producer.epoch + 1)
        wire.post(producer.produce_request(topic, 1, first, sequence=0), 12)
        wire.post(producer.produce_request(topic, 1, second, sequence=1), 12)
        assert wire.take(m.EndTxnResponse).producer_epoch == producer.epoch
        for _ in range(2):
            response = wire.take(m.ProduceResponse)
            assert response.responses[0].partition_responses[0].error_code == NONE
        assert producer.end(commit=True) == NONE
        expected += [first, second]
    assert wire.fetch(topic) == expected
    assert wire.fetch(topic, 1) == expected


@PROTOCOLS
def test_a_second_producer_with_the_same_id_fences_the_first(wire: Wire, topic: str, name: str, classic: bool) -> None:
    first = Producer(wire, name, classic=classic).start()
    begin(first, (topic, 0))
    assert first.write(topic, b"of the zombie") == NONE
    second = Producer(wire, name, classic=classic).start()
    assert (second.producer_id, second.epoch) == (first.producer_id, first.epoch + 2)
    assert first.write(topic, b"too late") == ErrorCode.INVALID_PRODUCER_EPOCH
    if classic:
        assert first.add((topic, 0)) == ErrorCode.PRODUCER_FENCED
    assert first.end(commit=True) == ErrorCode.PRODUCER_FENCED
    begin(second, (topic, 0))
    assert second.write(topic, b"of the heir") == NONE
    assert second.end(commit=True) == NONE
    assert wire.fetch(topic) == [b"of the heir"]


@PROTOCOLS
def test_a_transaction_that_takes_too_long_is_aborted_and_readers_go_on(
    wire: Wire, topic: str, name: str, classic: bool
) -> None:
    slow = Producer(wire, name, classic=classic, timeout_ms=100).start()
    begin(slow, (topic, 0))
    assert slow.write(topic, b"slow") == NONE
    other = Producer(wire, name + "-other", classic=classic).start()
    begin(other, (topic, 0))
    assert other.write(topic, b"quick") == NONE
    assert other.end(commit=True) == NONE
    assert eventually(lambda: wire.fetch(topic), lambda values: values == [b"quick"]) == [b"quick"]
    late = slow.end(commit=True)
    assert late == (ErrorCode.PRODUCER_FENCED if classic else ErrorCode.INVALID_TXN_STATE)
    assert slow.write(topic, b"late") == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_waiting_read_committed_fetch_wakes_when_the_transaction_ends(
    port: int, wire: Wire, topic: str, name: str
) -> None:
    producer = Producer(wire, name).start()
    assert producer.write(topic, b"x") == NONE
    reader = Wire(port)
    reader.post(
        m.FetchRequest(
            max_wait_ms=60_000,
            min_bytes=1,
            isolation_level=1,
            topics=[
                m.FetchRequest.FetchTopic(
                    topic=topic,
                    partitions=[m.FetchRequest.FetchPartition(partition=0, partition_max_bytes=1 << 20)],
                )
            ],
        ),
        12,
    )
    assert producer.end(commit=True) == NONE
    data = reader.take(m.FetchResponse).responses[0].partitions[0]
    assert data.last_stable_offset == 2
    assert data.records
    reader.close()


def test_a_classic_write_to_a_partition_that_was_not_named_is_refused(wire: Wire, topic: str, name: str) -> None:
    producer = Producer(wire, name, classic=True).start()
    assert producer.write(topic, b"x", version=11) == ErrorCode.TRANSACTION_ABORTABLE
    assert producer.write(topic, b"x", version=10) == ErrorCode.INVALID_TXN_STATE
    begin(producer, (topic, 0))
    assert producer.write(topic, b"x", partition=1) == ErrorCode.TRANSACTION_ABORTABLE
    assert producer.write(topic, b"x") == NONE
    assert producer.end(commit=False) == NONE


def test_a_transactional_batch_without_a_transactional_id_is_refused(wire: Wire, topic: str, name: str) -> None:
    producer = Producer(wire, name).start()
    request = producer.produce_request(topic, 0, b"x")
    assert isinstance(request, m.ProduceRequest)
    request.transactional_id = None
    response = wire.ask(request, m.ProduceResponse, 12)
    code = response.responses[0].partition_responses[0].error_code
    assert code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_a_write_of_an_unknown_transactional_id_is_refused(wire: Wire, topic: str, name: str) -> None:
    stranger = Producer(wire, name)
    stranger.become(4711, 0)
    assert stranger.write(topic, b"x") == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    stranger.classic = True
    assert stranger.write(topic, b"x") == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_repeated_write_gets_the_offset_of_the_first(wire: Wire, topic: str, name: str) -> None:
    producer = Producer(wire, name).start()
    offsets = []
    for _ in range(2):
        response = wire.ask(producer.produce_request(topic, 0, b"x", sequence=0), m.ProduceResponse, 12)
        answer = response.responses[0].partition_responses[0]
        assert answer.error_code == NONE
        offsets.append(answer.base_offset)
    assert offsets == [0, 0]
    assert producer.end(commit=True) == NONE
    assert wire.fetch(topic) == [b"x"]


def test_one_unknown_partition_fails_the_whole_addition(wire: Wire, topic: str, name: str) -> None:
    producer = Producer(wire, name, classic=True).start()
    request = m.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[
            m.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=[0, 7]),
            m.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name="nowhere", partitions=[0]),
            m.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name="__transaction_state", partitions=[0]),
        ],
    )
    response = wire.ask(request, m.AddPartitionsToTxnResponse, 3)
    codes = {
        (result.name, each.partition_index): each.partition_error_code
        for result in response.results_by_topic_v3_and_below
        for each in result.results_by_partition
    }
    assert codes == {
        (topic, 0): ErrorCode.OPERATION_NOT_ATTEMPTED,
        (topic, 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("nowhere", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("__transaction_state", 0): ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
    assert describe(wire, name).transaction_state == "Empty"


def test_a_broker_asks_about_many_transactions_at_once(wire: Wire, topic: str, name: str) -> None:
    added = Producer(wire, name, classic=True).start()
    begin(added, (topic, 0))
    fresh = Producer(wire, name + "-2", classic=True).start()
    request = m.AddPartitionsToTxnRequest(
        transactions=[
            m.AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
                transactional_id=producer.transactional_id,
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                verify_only=verify_only,
                topics=[m.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=[0, 1])],
            )
            for producer, verify_only in ((added, True), (fresh, False))
        ]
    )
    response = wire.ask(request, m.AddPartitionsToTxnResponse, 5)
    codes = {
        result.transactional_id: [each.partition_error_code for each in result.topic_results[0].results_by_partition]
        for result in response.results_by_transaction
    }
    assert codes == {name: [NONE, ErrorCode.TRANSACTION_ABORTABLE], name + "-2": [NONE, NONE]}
    assert describe(wire, name + "-2").transaction_state == "Ongoing"


def test_an_idempotent_producer_needs_no_coordinator(wire: Wire) -> None:
    ids = [
        wire.ask(m.InitProducerIdRequest(transactional_id=None), m.InitProducerIdResponse, 5).producer_id
        for _ in range(2)
    ]
    assert ids[0] != ids[1]
    wrong = wire.ask(m.InitProducerIdRequest(transactional_id=None, producer_id=5), m.InitProducerIdResponse, 5)
    assert (wrong.error_code, wrong.producer_id, wrong.producer_epoch) == (ErrorCode.INVALID_REQUEST, -1, -1)


def describe(wire: Wire, name: str) -> m.DescribeTransactionsResponse.TransactionState:
    request = m.DescribeTransactionsRequest(transactional_ids=[name])
    (state,) = wire.ask(request, m.DescribeTransactionsResponse, 0).transaction_states
    return state


def test_transactions_are_described_and_listed(wire: Wire, topic: str, name: str) -> None:
    producer = Producer(wire, name).start()
    assert producer.write(topic, b"x") == NONE
    state = describe(wire, name)
    assert (state.transaction_state, state.producer_id) == ("Ongoing", producer.producer_id)
    assert [(each.topic, each.partitions) for each in state.topics] == [(topic, [0])]
    request = m.ListTransactionsRequest(transactional_id_pattern=f"{name}.*", state_filters=["Ongoing", "Asleep"])
    response = wire.ask(request, m.ListTransactionsResponse, 2)
    assert [each.transactional_id for each in response.transaction_states] == [name]
    assert response.unknown_state_filters == ["Asleep"]
    bad = wire.ask(m.ListTransactionsRequest(transactional_id_pattern="("), m.ListTransactionsResponse, 2)
    assert bad.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert describe(wire, "nobody").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert producer.end(commit=True) == NONE


def test_a_transaction_ends_although_one_of_its_topics_was_deleted(wire: Wire, topic: str, name: str) -> None:
    doomed = f"{topic}-doomed"
    wire.create_topic(doomed)
    producer = Producer(wire, name).start()
    assert producer.write(topic, b"x") == NONE
    assert producer.write(doomed, b"y") == NONE
    request = m.DeleteTopicsRequest(topics=[m.DeleteTopicsRequest.DeleteTopicState(name=doomed)], timeout_ms=5000)
    assert wire.ask(request, m.DeleteTopicsResponse, 6).responses[0].error_code == NONE
    assert producer.end(commit=True) == NONE
    assert (
        eventually(lambda: describe(wire, name).transaction_state, lambda state: state == "CompleteCommit")
        == "CompleteCommit"
    )
    assert wire.fetch(topic) == [b"x"]


def test_the_features_announce_transaction_version_two(wire: Wire) -> None:
    request = m.ApiVersionsRequest(client_software_name="test", client_software_version="1")
    wire.post(request, 4)
    response = wire.take(m.ApiVersionsResponse)
    levels = {each.name: each.max_version_level for each in response.finalized_features}
    assert levels["transaction.version"] == 2
    assert response.finalized_features_epoch >= 0
