"""One ShareAcknowledge on its way: answered when every partition's outcome is known and durable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.requests import Pending, Request
from penstock.broker.share.fetch import NO_LEADER, explanation
from penstock.queues.sessions import ShareSession, TopicIdPartition
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from penstock.broker.share.configs import ShareConfigs


class ShareAcknowledge:
    def __init__(
        self, settings: ShareConfigs, request: Request[m.ShareAcknowledgeRequest], session: ShareSession
    ) -> None:
        self._settings = settings
        self._session = session
        self.pending: Pending = request.defer()
        self._outcomes: dict[TopicIdPartition, KafkaError | None] = {}
        self._under_way = 0
        self._is_started = False

    def expect_acknowledgement(self, partition: TopicIdPartition) -> None:
        self._outcomes[partition] = None
        self._under_way += 1

    def acknowledged(self, partition: TopicIdPartition, error: KafkaError | None) -> None:
        self._outcomes[partition] = error
        self._under_way -= 1
        self._maybe_answer()

    def start(self) -> None:
        self._is_started = True
        self._maybe_answer()

    def _maybe_answer(self) -> None:
        if not self._is_started or self._under_way:
            return
        response = m.ShareAcknowledgeResponse
        topics: dict[bytes, m.ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse] = {}
        for (topic_id, index), error in self._outcomes.items():
            data = response.PartitionData(partition_index=index)
            if error is not None:
                data.error_code, data.error_message = error.code, explanation(error)
                if error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    data.current_leader = response.LeaderIdAndEpoch(leader_id=NO_LEADER, leader_epoch=NO_LEADER)
            if topic_id not in topics:
                topics[topic_id] = response.ShareAcknowledgeTopicResponse(topic_id=topic_id)
            topics[topic_id].partitions.append(data)
        lock_ms = self._settings.settings(self._session.group_id).record_lock_duration_ms
        self.pending.complete(response(acquisition_lock_timeout_ms=lock_ms, responses=list(topics.values())))
