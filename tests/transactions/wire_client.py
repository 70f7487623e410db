"""A transactional producer made of single requests, so that a test decides what is sent, when, and how wrong it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from penstock.records.batch import BatchHeader, iter_headers
from penstock.records.builder import build_batch
from penstock.records.record import Record, iter_records
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode
from penstock.wire.messages import Message
from tests.broker.raw import RawClient
from tests.wire.records_field import records_of

WAIT_S = 15.0
RETRIABLE = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}


class Wire(RawClient):
    """One connection to a broker, with a few questions that tests of transactions ask."""

    def transaction_state(self, transactional_id: str) -> str:
        request = m.DescribeTransactionsRequest(transactional_ids=[transactional_id])
        return self.ask(request, m.DescribeTransactionsResponse, 0).transaction_states[0].transaction_state

    # --- topics and records ---

    def create_topic(self, name: str, partitions: int = 1) -> None:
        topic = m.CreateTopicsRequest.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        response = self.ask(m.CreateTopicsRequest(topics=[topic], timeout_ms=5000), m.CreateTopicsResponse, 7)
        assert [each.error_code for each in response.topics] == [ErrorCode.NONE]

    def fetch(self, topic: str, partition: int = 0, *, committed: bool = True, offset: int = 0) -> list[bytes]:
        """The values that a consumer shows: without markers and, if `committed`, without what was aborted."""
        data = self.fetch_partition(topic, partition, committed=committed, offset=offset)
        aborted = sorted(data.aborted_transactions or [], key=lambda each: each.first_offset)
        values = []
        dropped: set[int] = set()
        for header, records in _batches(records_of(data)):
            while aborted and aborted[0].first_offset <= header.base_offset:
                dropped.add(aborted.pop(0).producer_id)
            if header.is_control:
                dropped.discard(header.producer_id)
            elif not (committed and header.is_transactional and header.producer_id in dropped):
                values += [bytes(record.value or b"") for record in records]
        return values

    def fetch_partition(
        self, topic: str, partition: int = 0, *, committed: bool = True, offset: int = 0, wait_ms: int = 0
    ) -> m.FetchResponse.PartitionData:
        request = m.FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            isolation_level=1 if committed else 0,
            topics=[
                m.FetchRequest.FetchTopic(
                    topic=topic,
                    partitions=[
                        m.FetchRequest.FetchPartition(
                            partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20
                        )
                    ],
                )
            ],
        )
        response = self.ask(request, m.FetchResponse, 12)
        return response.responses[0].partitions[0]


def _batches(data: bytes) -> Iterator[tuple[BatchHeader, list[Record]]]:
    for position, header in iter_headers(data):
        yield header, list(iter_records(data, position))


class Producer:
    """A transactional producer of either protocol. Each method is one request and gives its error code."""

    def __init__(self, wire: Wire, transactional_id: str, *, classic: bool = False, timeout_ms: int = 60_000) -> None:
        self.wire = wire
        self.transactional_id = transactional_id
        self.classic = classic
        self.timeout_ms = timeout_ms
        self.producer_id = -1
        self.epoch = -1
        self._sequences: dict[tuple[str, int], int] = {}

    def init(self, *, goes_on: bool = False) -> ErrorCode:
        request = m.InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            producer_id=self.producer_id if goes_on else -1,
            producer_epoch=self.epoch if goes_on else -1,
        )
        response = self.wire.ask(request, m.InitProducerIdResponse, 5)
        if response.error_code == ErrorCode.NONE:
            self.become(response.producer_id, response.producer_epoch)
        return ErrorCode(response.error_code)

    def start(self) -> Producer:
        assert eventually(self.init, lambda code: code not in RETRIABLE) == ErrorCode.NONE
        return self

    def become(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self._sequences.clear()
        self.producer_id, self.epoch = producer_id, epoch

    def add_request(self, *partitions: tuple[str, int]) -> m.AddPartitionsToTxnRequest:
        topics: dict[str, list[int]] = {}
        for name, index in partitions:
            topics.setdefault(name, []).append(index)
        return m.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[
                m.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=name, partitions=indexes)
                for name, indexes in topics.items()
            ],
        )

    def add(self, *partitions: tuple[str, int]) -> ErrorCode:
        response = self.wire.ask(self.add_request(*partitions), m.AddPartitionsToTxnResponse, 3)
        codes = {
            ErrorCode(result.partition_error_code)
            for topic in response.results_by_topic_v3_and_below
            for result in topic.results_by_partition
        }
        return max(codes)

    def produce_request(self, topic: str, partition: int, *values: bytes, sequence: int | None = None) -> Message:
        first = self._sequences.get((topic, partition), 0) if sequence is None else sequence
        now_ms = int(time.time() * 1000)
        batch = build_batch(
            [(now_ms, None, value, ()) for value in values],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=first,
            transactional=True,
        )
        return m.ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[
                m.ProduceRequest.TopicProduceData(
                    name=topic,
                    partition_data=[m.ProduceRequest.PartitionProduceData(index=partition, records=batch)],
                )
            ],
        )

    def write(self, topic: str, *values: bytes, partition: int = 0, version: int | None = None) -> ErrorCode:
        if version is None:
            version = 11 if self.classic else 12
        response = self.wire.ask(self.produce_request(topic, partition, *values), m.ProduceResponse, version)
        code = ErrorCode(response.responses[0].partition_responses[0].error_code)
        if code == ErrorCode.NONE:
            self._sequences[topic, partition] = self._sequences.get((topic, partition), 0) + len(values)
        return code

    def end(self, commit: bool) -> ErrorCode:
        self.post_end(commit)
        return self.take_end()

    def post_end(self, commit: bool) -> None:
        request = m.EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        self.wire.post(request, 4 if self.classic else 5)

    def take_end(self) -> ErrorCode:
        response = self.wire.take(m.EndTxnResponse)
        if response.error_code == ErrorCode.NONE and not self.classic:
            self.become(response.producer_id, response.producer_epoch)
        return ErrorCode(response.error_code)

    def add_offsets(self, group: str) -> ErrorCode:
        request = m.AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=group,
        )
        return ErrorCode(self.wire.ask(request, m.AddOffsetsToTxnResponse, 4).error_code)

    def commit_offset(
        self, group: str, topic: str, partition: int, offset: int, *, version: int | None = None, generation: int = -1
    ) -> ErrorCode:
        if version is None:
            version = 4 if self.classic else 5
        request = m.TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            generation_id=generation,
            member_id="someone" if generation >= 0 else "",
            topics=[
                m.TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        m.TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=offset, committed_metadata=""
                        )
                    ],
                )
            ],
        )
        response = self.wire.ask(request, m.TxnOffsetCommitResponse, version)
        return ErrorCode(response.topics[0].partitions[0].error_code)


T = TypeVar("T")


def eventually(ask: Callable[[], T], good: Callable[[T], bool], timeout_s: float = WAIT_S) -> T:
    """Ask until the answer is good; the last answer if it never is."""
    deadline = time.monotonic() + timeout_s
    answer = ask()
    while not good(answer) and time.monotonic() < deadline:
        time.sleep(0.01)
        answer = ask()
    return answer


def patiently(ask: Callable[[], ErrorCode]) -> ErrorCode:
    """As a client does: again, while the answer is that it may work later."""
    return eventually(ask, lambda code: code not in RETRIABLE)
