"""Dead letters in partitions that other brokers lead: Produce, and Fetch to see which letters are there.

A Produce that was sent and not answered may have been carried out. Then the letters are looked for before they are
written again, so that a record has one letter, as after a crash. What a broker that hung writes after it was looked at
can still be a second one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple, cast

from penstock.broker.peer_connection import PeerFailed
from penstock.broker.peers import Lane
from penstock.broker.share.log_ends import EARLIEST, LATEST, LogEnds
from penstock.broker.topics import Topic
from penstock.queues.dead_letters import Origin, buried_offsets
from penstock.records.batch import Buffer, CorruptBatch, iter_headers
from penstock.records.record import iter_records
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode, error_class

if TYPE_CHECKING:
    from penstock.broker.peers import Peers

log = logging.getLogger("penstock.share")

LOOK_BACK_OFFSETS = 20_000
_READ_BYTES = 1 << 20
_TIMEOUT_MS = 5000
_ALL_REPLICAS = -1
_NO_SESSION = -1


class PartitionElsewhere(NamedTuple):
    node_id: int
    topic: Topic
    partition: int


class Delivery(Enum):
    WRITTEN = auto()
    NOT_WRITTEN = auto()
    UNKNOWN = auto()
    REFUSED = auto()


_DELIVERIES = {
    ErrorCode.NONE: Delivery.WRITTEN,
    ErrorCode.REQUEST_TIMED_OUT: Delivery.UNKNOWN,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Delivery.UNKNOWN,
    ErrorCode.KAFKA_STORAGE_ERROR: Delivery.UNKNOWN,
    ErrorCode.UNKNOWN_SERVER_ERROR: Delivery.UNKNOWN,
}
"""What the answer to a Produce means for the letters; any other error comes before anything is written."""


class LettersElsewhere:
    def __init__(self, ends: LogEnds, peers: Callable[[], Peers]) -> None:
        self._ends = ends
        self._peers = peers

    def write(self, target: PartitionElsewhere, batch: bytes, done: Callable[[Delivery, ErrorCode], None]) -> None:
        shapes = m.ProduceRequest
        data = shapes.PartitionProduceData(index=target.partition, records=batch)
        topic = shapes.TopicProduceData(name=target.topic.name, topic_id=target.topic.topic_id, partition_data=[data])
        request = shapes(acks=_ALL_REPLICAS, timeout_ms=_TIMEOUT_MS, topic_data=[topic])

        def answered(answer: m.ProduceResponse | PeerFailed) -> None:
            if isinstance(answer, PeerFailed):
                done(Delivery.NOT_WRITTEN if answer.is_unsent else Delivery.UNKNOWN, ErrorCode.NETWORK_EXCEPTION)
                return
            codes = [ErrorCode(each.error_code) for found in answer.responses for each in found.partition_responses]
            code = codes[0] if codes else ErrorCode.UNKNOWN_SERVER_ERROR
            done(_DELIVERIES.get(code) or _unwritten(code), code)

        self._peers().send(target.node_id, Lane.RECORDS, request, m.ProduceResponse, answered)

    def search(self, target: PartitionElsewhere, origin: Origin, then: Callable[[set[int] | None], None]) -> None:
        """Find the offsets of a window whose letters are among the latest of a partition; None: it cannot be read."""
        place = (target.topic.name, target.partition)

        def ended(ends: dict[tuple[str, int], int | None]) -> None:
            end = ends[place]
            if end is None:
                then(None)
                return

            def started(starts: dict[tuple[str, int], int | None]) -> None:
                start = starts[place]
                if start is None:
                    then(None)
                else:
                    first = max(start, end - LOOK_BACK_OFFSETS)
                    _Search(self._peers(), target, origin, first, end, then).go_on()

            self._ends.find([place], started, timestamp=EARLIEST)

        self._ends.find([place], ended, timestamp=LATEST)


def _unwritten(code: ErrorCode) -> Delivery:
    """Whether the topic may take the letters later, or not at all."""
    return Delivery.NOT_WRITTEN if error_class(code).retriable else Delivery.REFUSED


class _Search:
    def __init__(
        self,
        peers: Peers,
        target: PartitionElsewhere,
        origin: Origin,
        offset: int,
        end: int,
        then: Callable[[set[int] | None], None],
    ) -> None:
        self._peers = peers
        self._target = target
        self._origin = origin
        self._offset = offset
        self._end = end
        self._then = then
        self._found: set[int] = set()

    def go_on(self) -> None:
        if self._offset >= self._end:
            self._then(self._found)
            return
        shapes = m.FetchRequest
        requested = shapes.FetchPartition(
            partition=self._target.partition, fetch_offset=self._offset, partition_max_bytes=_READ_BYTES
        )
        topic = shapes.FetchTopic(
            topic=self._target.topic.name, topic_id=self._target.topic.topic_id, partitions=[requested]
        )
        request = shapes(
            replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=_READ_BYTES, session_epoch=_NO_SESSION, topics=[topic]
        )
        self._peers.send(self._target.node_id, Lane.RECORDS, request, m.FetchResponse, self._answered)

    def _answered(self, answer: m.FetchResponse | PeerFailed) -> None:
        if isinstance(answer, PeerFailed) or answer.error_code:
            self._then(None)
            return
        partitions = [each for topic in answer.responses for each in topic.partitions]
        if not partitions or partitions[0].error_code:
            self._then(None)
            return
        begin, data = self._offset, bytes(cast("Buffer", partitions[0].records or b""))
        for position, header in iter_headers(data):
            self._offset = header.next_offset
            try:
                self._found |= buried_offsets(self._origin, iter_records(data, position))
            except CorruptBatch as error:
                log.error("letters of %s at offset %d are unreadable: %s", self._target.topic.name, begin, error)
        if self._offset == begin:
            self._offset = self._end  # nothing but offsets that compaction has emptied
        self.go_on()
