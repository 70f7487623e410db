"""Incremental fetch sessions (KIP-227): after the first fetch, requests contain only what has changed.

The first fetch names every partition, and the broker's response may open a session. From then on, a request names the
partitions that are new or have another position and those to forget, and a response contains only partitions with
changes. A consumer of a thousand quiet partitions therefore sends and receives next to nothing.

Requests of a session carry a rising epoch. When the two sides are out of step (the broker has dropped the session, or a
response was lost), the next request is a full fetch again, which also ends the session that it names. Brokers before
version 7 of Fetch have no sessions, and one whose table is full opens none: then every fetch is a full one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from penstock.client.metadata import Metadata
from penstock.client.subscription import PartitionState
from penstock.client.types import TopicPartition
from penstock.client.versions import FETCH_FIRST_WITH_SESSIONS, FETCH_LAST_NAMED
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode

OUT_OF_STEP = {
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
}

_NO_SESSION = 0
_OPENING, _CLOSING = 0, -1
LAST_EPOCH = 2**31 - 1  # of a session; the next one is 1


class _Requested(NamedTuple):
    """A partition as the broker knows it from us."""

    topic_id: bytes
    offset: int
    leader_epoch: int


class FetchSession:
    """What one broker knows about this consumer."""

    def __init__(self) -> None:
        self._id = _NO_SESSION
        self._epoch = _OPENING
        self._by_name = False
        self._known: dict[TopicPartition, _Requested] = {}
        self._serials: dict[TopicPartition, int] = {}

    @property
    def is_open(self) -> bool:
        return self._id != _NO_SESSION

    @property
    def is_incremental(self) -> bool:
        """Whether the last request was a part of a session, and not the one that opens it."""
        return self._epoch > _OPENING

    def fill(
        self,
        request: m.FetchRequest,
        version: int,
        states: Iterable[PartitionState],
        metadata: Metadata,
        max_bytes: int,
    ) -> m.FetchRequest:
        """Write into a request what the broker does not know yet of the partitions to fetch."""
        by_name = version <= FETCH_LAST_NAMED
        requests: dict[TopicPartition, _Requested] = {}
        starts_over = by_name != self._by_name
        for state in states:
            tp = state.tp
            requests[tp] = _Requested(metadata.topic_id(tp.topic), state.fetched_to, metadata.leader_epoch(tp))
            # A partition that was given up and came back needs its high watermark told again, which is told once.
            if state.high_watermark < 0 and self._serials.get(tp, state.serial) != state.serial:
                starts_over = True
            self._serials[tp] = state.serial
        if version < FETCH_FIRST_WITH_SESSIONS:
            request.topics = _topics(requests, max_bytes)
            return request
        if starts_over:
            self.lost()
        request.session_id = self._id
        request.session_epoch = self._epoch
        if self._epoch == _OPENING:
            request.topics = _topics(requests, max_bytes)
        else:
            changed = {tp: requested for tp, requested in requests.items() if self._known.get(tp) != requested}
            gone = {
                tp: requested
                for tp, requested in self._known.items()
                if tp not in requests or requests[tp].topic_id != requested.topic_id
            }
            request.topics = _topics(changed, max_bytes)
            request.forgotten_topics_data = _forgotten(gone)
        self._by_name = by_name
        self._known = requests
        self._serials = {tp: self._serials[tp] for tp in requests}
        return request

    def answered(self, session_id: int) -> None:
        """The broker has done what was asked, and told the session that the next request belongs to."""
        self._id = session_id
        if session_id == _NO_SESSION:
            self._epoch = _OPENING
        else:
            self._epoch = 1 if self._epoch == LAST_EPOCH else self._epoch + 1

    def lost(self) -> None:
        """Out of step: the next request names everything, and ends the session if the broker still has it."""
        self._epoch = _OPENING

    def closing(self) -> m.FetchRequest:
        """The request that ends the session."""
        return m.FetchRequest(session_id=self._id, session_epoch=_CLOSING, max_wait_ms=0, min_bytes=0, topics=[])


def _topics(partitions: dict[TopicPartition, _Requested], max_bytes: int) -> list[m.FetchRequest.FetchTopic]:
    topics: dict[str, m.FetchRequest.FetchTopic] = {}
    for tp, requested in partitions.items():
        topic = topics.get(tp.topic)
        if topic is None:
            topic = topics[tp.topic] = m.FetchRequest.FetchTopic(
                topic=tp.topic, topic_id=requested.topic_id, partitions=[]
            )
        topic.partitions.append(
            m.FetchRequest.FetchPartition(
                partition=tp.partition,
                current_leader_epoch=requested.leader_epoch,
                fetch_offset=requested.offset,
                partition_max_bytes=max_bytes,
            )
        )
    return list(topics.values())


def _forgotten(partitions: dict[TopicPartition, _Requested]) -> list[m.FetchRequest.ForgottenTopic]:
    topics: dict[tuple[str, bytes], list[int]] = {}
    for tp, requested in partitions.items():
        topics.setdefault((tp.topic, requested.topic_id), []).append(tp.partition)
    return [
        m.FetchRequest.ForgottenTopic(topic=name, topic_id=topic_id, partitions=numbers)
        for (name, topic_id), numbers in topics.items()
    ]
