"""What the sender of a ShareFetch or ShareAcknowledge may read: its group, and each topic. Asked anew at every step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.handlers.table import READ_GROUP, READ_TOPIC
from penstock.wire.errors import TopicAuthorizationFailed

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.gate import Gate
    from penstock.broker.requests import AnyRequest


class ReadRights:
    __slots__ = ("_cluster", "_gate", "_group_id", "_request")

    def __init__(self, gate: Gate, cluster: ClusterView, request: AnyRequest, group_id: str) -> None:
        self._gate = gate
        self._cluster = cluster
        self._request = request
        self._group_id = group_id

    def may_use_group(self) -> bool:
        return self._gate.allows(self._request, *READ_GROUP, self._group_id)

    def check_topic(self, topic_id: bytes) -> None:
        """Raise TopicAuthorizationFailed for a topic that may not be read; an unknown id is somebody else's error."""
        if self._gate.is_open:
            return
        topic = self._cluster.topic_by_id(topic_id)
        if topic is not None and not self._gate.allows(self._request, *READ_TOPIC, topic.name):
            raise TopicAuthorizationFailed
