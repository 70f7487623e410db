"""Where the logs of partitions end, or start, that other brokers lead: ListOffsets, one request to each broker."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from penstock.broker.peer_connection import PeerFailed
from penstock.broker.peers import Lane
from penstock.broker.share.gathering import Gathering
from penstock.wire import messages as m

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.peers import Peers

LATEST, EARLIEST = -1, -2

Place: TypeAlias = tuple[str, int]
Offsets = Callable[[dict[Place, int | None]], None]


class LogEnds:
    def __init__(self, cluster: ClusterView, peers: Callable[[], Peers]) -> None:
        self._cluster = cluster
        self._peers = peers

    def find(self, partitions: Iterable[Place], done: Offsets, *, timestamp: int = LATEST) -> None:
        """Look up the high watermarks of partitions, or where they start; None where nobody answers.

        `done` is called at once if all of them are led from here.
        """
        found: dict[Place, int | None] = {}
        elsewhere: dict[int, list[Place]] = {}
        for name, index in partitions:
            topic = self._cluster.find_topic(name)
            partition = None if topic is None else topic.find_hosted(index)
            if partition is not None:
                is_end = timestamp == LATEST
                found[name, index] = partition.log.high_watermark if is_end else partition.log.log_start_offset
                continue
            node_id = self._cluster.leader_elsewhere(name, index)
            if node_id is None:
                found[name, index] = None
            else:
                elsewhere.setdefault(node_id, []).append((name, index))
        gathering = Gathering(found, len(elsewhere), done)
        for node_id, there in elsewhere.items():
            answered = partial(_answered, there, gathering)
            request = _request(there, timestamp)
            self._peers().send(node_id, Lane.RECORDS, request, m.ListOffsetsResponse, answered)


def _request(partitions: Iterable[Place], timestamp: int) -> m.ListOffsetsRequest:
    shapes = m.ListOffsetsRequest
    topics: dict[str, list[m.ListOffsetsRequest.ListOffsetsPartition]] = {}
    for name, index in partitions:
        requested = shapes.ListOffsetsPartition(partition_index=index, timestamp=timestamp)
        topics.setdefault(name, []).append(requested)
    return shapes(topics=[shapes.ListOffsetsTopic(name=name, partitions=each) for name, each in topics.items()])


def _answered(
    partitions: Iterable[Place], gathering: Gathering[Place, int | None], answer: m.ListOffsetsResponse | PeerFailed
) -> None:
    offsets: dict[Place, int | None] = dict.fromkeys(partitions)
    if not isinstance(answer, PeerFailed):
        for topic in answer.topics:
            for each in topic.partitions:
                if not each.error_code and each.offset >= 0:
                    offsets[topic.name, each.partition_index] = each.offset
    gathering.add(offsets)
