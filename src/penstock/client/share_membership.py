"""A share consumer's membership: heartbeats, and the assignment that comes back with them (KIP-932).

Unlike in other groups, nothing is handed over: several members may share a partition, so a new assignment simply
applies from now on.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import uuid
from collections.abc import Callable

from penstock.client.cluster import GROUP, Backoff, Cluster
from penstock.client.config import ShareConsumerConfig
from penstock.client.errors import kafka_error
from penstock.client.metrics import Metrics
from penstock.client.share_session import TopicIdPartition
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode, KafkaError, UnsupportedVersion

_log = logging.getLogger("penstock.client")

_GROUP = "consumer-share-coordinator-metrics"
_JOIN_EPOCH, _LEAVE_EPOCH = 0, -1


class ShareMembership:
    def __init__(
        self, cluster: Cluster, config: ShareConsumerConfig, metrics: Metrics, wake: Callable[[], None]
    ) -> None:
        self.member_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        self.assigned: set[TopicIdPartition] = set()
        self.error: Exception | None = None
        self.last_poll = 0.0
        self._cluster = cluster
        self._config = config
        self._wake = wake
        self._topics: set[str] = set()
        self._sent: set[str] | None = None
        self._epoch = _JOIN_EPOCH
        self._interval = 5.0
        self._soon = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._heartbeats = metrics.sensor(_GROUP, "heartbeat", "rate", "total")
        self._heartbeat_time = metrics.sensor(_GROUP, "heartbeat-response-time", "max")
        metrics.gauge(_GROUP, "last-heartbeat-seconds-ago", self._heartbeats.seconds_ago)
        self._rebalances = metrics.sensor(_GROUP, "rebalance", "total")

    def subscribe(self, topics: set[str]) -> None:
        self._topics = topics
        self._soon.set()

    def ensure_started(self) -> None:
        """Join, unless we are in the group already."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._beat(), name="penstock-share-heartbeat")
            self._task.add_done_callback(self._stopped_beating)

    def _stopped_beating(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._fail(error)

    async def leave(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        if self._epoch > 0:
            self._epoch = _LEAVE_EPOCH
            try:
                await self._send(timeout_ms=5_000)
            except KafkaError as error:
                _log.debug("leaving share group %s: %s", self._config.group_id, error)
        self._start_over()

    def _start_over(self) -> None:
        self._epoch = _JOIN_EPOCH
        self._sent = None
        self.assigned = set()

    async def _beat(self) -> None:
        config = self._config
        loop = asyncio.get_running_loop()
        backoff = Backoff(config)
        while True:
            self._soon.clear()
            started = loop.time()
            if started - self.last_poll > config.max_poll_interval_ms / 1000 and self._epoch > 0:
                _log.warning("leaving share group %s: nobody has polled for max_poll_interval_ms", config.group_id)
                self._epoch = _LEAVE_EPOCH
                try:
                    await self._send(config.request_timeout_ms)
                except KafkaError as error:
                    _log.debug("leaving share group %s: %s", config.group_id, error)
                self._start_over()
                return
            try:
                answer = await self._send(config.request_timeout_ms)
            except UnsupportedVersion as error:
                self._fail(UnsupportedVersion(f"{error}; share groups need Kafka 4.1 or Penstock"))
                return
            except KafkaError as error:
                _log.debug("share heartbeat: %s", error)
                self._cluster.forget_coordinator(GROUP, config.group_id)
                self._sent = None
                pause = backoff.next_pause()
            else:
                self._heartbeats.record()
                self._heartbeat_time.record((loop.time() - started) * 1000)
                if answer.error_code == 0:
                    backoff.reset()
                    self._heartbeat_answered(answer)
                    # A brand-new group gets its partitions with the second heartbeat: do not wait long for that one.
                    pause = self._interval if self.assigned else min(self._interval, 0.5)
                elif self._refused(answer):
                    pause = backoff.next_pause()
                else:
                    return
            try:
                async with asyncio.timeout(pause):
                    await self._soon.wait()
            except TimeoutError:
                continue

    async def _send(self, timeout_ms: int) -> m.ShareGroupHeartbeatResponse:
        config = self._config
        topics = set(self._topics)
        full = self._epoch == _JOIN_EPOCH or (topics != self._sent and self._epoch > 0)
        request = m.ShareGroupHeartbeatRequest(
            group_id=config.group_id,
            member_id=self.member_id,
            member_epoch=self._epoch,
            rack_id=config.client_rack or None if self._epoch == _JOIN_EPOCH else None,
            subscribed_topic_names=sorted(topics) if full else None,
        )
        node = await self._cluster.coordinator(GROUP, config.group_id)
        answer = await self._cluster.request(
            request, m.ShareGroupHeartbeatResponse, node=node, channel="coordinator", timeout_ms=timeout_ms
        )
        if answer.error_code == 0:
            self._sent = topics
        return answer

    def _heartbeat_answered(self, answer: m.ShareGroupHeartbeatResponse) -> None:
        self._epoch = answer.member_epoch
        self._interval = answer.heartbeat_interval_ms / 1000
        if answer.assignment is None:
            return
        assigned = {
            (entry.topic_id, number) for entry in answer.assignment.topic_partitions for number in entry.partitions
        }
        if assigned != self.assigned:
            self._rebalances.record()
            self.assigned = assigned
            self._wake()

    def _refused(self, answer: m.ShareGroupHeartbeatResponse) -> bool:
        """Deal with an error in the answer; returns whether to go on."""
        code = answer.error_code
        if code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            self._start_over()
            return True
        error = kafka_error(code, answer.error_message, about=f"share group {self._config.group_id!r}")
        if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            self.error = error
            self._wake()
            return True
        if error.retriable:
            if code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
                self._cluster.forget_coordinator(GROUP, self._config.group_id)
            return True
        if code == ErrorCode.UNSUPPORTED_VERSION:
            error = UnsupportedVersion("the cluster has share groups switched off (feature share.version is 0)")
        self._fail(error)
        return False

    def _fail(self, error: Exception) -> None:
        self.error = error
        self._start_over()
        self._wake()
