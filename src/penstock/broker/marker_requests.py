"""Markers for partitions that other brokers lead: WriteTxnMarkers, one request for all that a turn gathers.

Many transactions end in the same turn of the event loop, with partitions on the same few brokers. What is due to one
broker is gathered until the turn is over and sent as one request. Nothing is repeated here: whoever asks is told each
partition's result, None where there was no answer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.peer_connection import PeerFailed
from penstock.broker.peers import Lane
from penstock.transactions.metadata import TopicPartition
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode

if TYPE_CHECKING:
    from penstock.broker.peers import Peers
    from penstock.broker.world import World
    from penstock.transactions.shard import WriteMarkers

log = logging.getLogger("penstock.transactions")

MAX_MARKERS = 200
"""In one request."""

Done = Callable[[TopicPartition, ErrorCode | None], None]


class _Due(NamedTuple):
    markers: WriteMarkers
    partitions: tuple[TopicPartition, ...]
    done: Done


class MarkerRequests:
    def __init__(self, peers: Callable[[], Peers], world: World) -> None:
        self._peers = peers
        self._world = world
        self._due: dict[int, list[_Due]] = {}

    def send(self, node_id: int, markers: WriteMarkers, partitions: Iterable[TopicPartition], done: Done) -> None:
        """Have a broker write the outcome of a transaction into partitions that it leads; `done` with each result."""
        if not self._due:
            self._world.call_soon(self._send_all)
        self._due.setdefault(node_id, []).append(_Due(markers, tuple(partitions), done))

    def _send_all(self) -> None:
        due, self._due = self._due, {}
        for node_id, markers in due.items():
            for batch in _batches(markers):
                self._send(node_id, batch)

    def _send(self, node_id: int, batch: list[_Due]) -> None:
        def answered(answer: m.WriteTxnMarkersResponse | PeerFailed) -> None:
            codes = {} if isinstance(answer, PeerFailed) else _codes(answer)
            for markers, partitions, done in batch:
                for tp in partitions:
                    done(tp, codes.get((markers.producer_id, tp)))

        request = m.WriteTxnMarkersRequest(markers=[_marker(due) for due in batch])
        self._peers().send(node_id, Lane.MARKERS, request, m.WriteTxnMarkersResponse, answered)


def _batches(due: Iterable[_Due]) -> list[list[_Due]]:
    """Answers name producers only, so a request holds one marker of each."""
    batches: list[list[_Due]] = []
    producers: set[int] = set()
    for each in due:
        if not batches or len(batches[-1]) >= MAX_MARKERS or each.markers.producer_id in producers:
            batches.append([])
            producers = set()
        batches[-1].append(each)
        producers.add(each.markers.producer_id)
    return batches


def _marker(due: _Due) -> m.WriteTxnMarkersRequest.WritableTxnMarker:
    shapes = m.WriteTxnMarkersRequest
    topics: dict[str, list[int]] = {}
    for name, index in due.partitions:
        topics.setdefault(name, []).append(index)
    return shapes.WritableTxnMarker(
        producer_id=due.markers.producer_id,
        producer_epoch=due.markers.producer_epoch,
        transaction_result=due.markers.commit,
        topics=[
            shapes.WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()
        ],
        coordinator_epoch=due.markers.coordinator_epoch,
        transaction_version=due.markers.transaction_version,
    )


def _codes(answer: m.WriteTxnMarkersResponse) -> dict[tuple[int, TopicPartition], ErrorCode]:
    return {
        (marker.producer_id, (topic.name, partition.partition_index)): ErrorCode(partition.error_code)
        for marker in answer.markers
        for topic in marker.topics
        for partition in topic.partitions
    }
