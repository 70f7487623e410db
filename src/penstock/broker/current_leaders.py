"""Tells clients that have come to the wrong broker who leads instead, and where that broker is (KIP-951).

The answers to Produce, Fetch, ShareFetch and ShareAcknowledge have room for it. It is filled in when an answer is
encoded, so that it is there whoever has refused, at once or later. A client that knows it need not ask for metadata.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.broker.requests import AnyRequest
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView, Leader
    from penstock.broker.topics import Topic

_MOVED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
_PRODUCE_VERSION, _FETCH_VERSION = 10, 16


class CurrentLeaders:
    def __init__(self, cluster: ClusterView) -> None:
        self._cluster = cluster

    def fill(self, request: AnyRequest, response: object) -> None:
        """Fill in the leaders of partitions that are not led from here; other answers are left as they are."""
        if isinstance(response, m.ProduceResponse):
            if request.api_version >= _PRODUCE_VERSION:
                moved = [
                    (self._topic(topic.name, topic.topic_id), each.index, each)
                    for topic in response.responses
                    for each in topic.partition_responses
                    if each.error_code in _MOVED
                ]
                self._fill(request, response, moved)
        elif isinstance(response, m.FetchResponse):
            if request.api_version >= _FETCH_VERSION:
                self._fill(
                    request,
                    response,
                    [
                        (self._topic(answer.topic, answer.topic_id), each.partition_index, each)
                        for answer in response.responses
                        for each in answer.partitions
                        if each.error_code in _MOVED
                    ],
                )
        elif isinstance(response, m.ShareFetchResponse | m.ShareAcknowledgeResponse):
            self._fill(
                request,
                response,
                [
                    (self._topic("", shared.topic_id), each.partition_index, each)
                    for shared in response.responses
                    for each in shared.partitions
                    if each.error_code in _MOVED
                ],
            )

    def _topic(self, name: str, topic_id: bytes) -> Topic | None:
        return self._cluster.known_topic(topic_id) or (self._cluster.find_topic(name) if name else None)

    def _fill(self, request: AnyRequest, response: Any, moved: list[tuple[Topic | None, int, Any]]) -> None:
        if not moved:
            return
        message = type(response)
        known: set[int] = set()
        for topic, index, partition in moved:
            leader: Leader | None = None
            if topic is not None and topic.has_partition(index):
                leader = self._cluster.leader(topic, index)
            if leader is not None:
                partition.current_leader = message.LeaderIdAndEpoch(leader.node_id, leader.epoch)
                known.add(leader.node_id)
        if isinstance(request.body, m.FetchRequest) and request.body.replica_state.replica_id >= 0:
            return  # Kafka names no addresses to replicas
        brokers = [self._cluster.broker(node_id, request.connection.listener_name) for node_id in sorted(known)]
        response.node_endpoints = [
            message.NodeEndpoint(broker.node_id, broker.host, broker.port, broker.rack)
            for broker in brokers
            if broker is not None
        ]
