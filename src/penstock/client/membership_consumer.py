"""The consumer group protocol of KIP-848, from a member's side.

There are no rounds: the coordinator computes the assignment and sends each member its target in the response to a
heartbeat. The member reconciles in `advance`: first it gives up what it should no longer have and reports the rest,
later it takes over what it may. Partitions are reported in the heartbeat that follows each change; null means "as
before". The same holds for the subscription: names, or a pattern that the coordinator matches itself. Topics that it
finds appear in the assignment only by their ids, and are looked up.

Epoch 0 in a heartbeat joins, -1 leaves, -2 is a static member that will return. A member that is fenced by the
coordinator drops everything and joins again with epoch 0.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import uuid
from typing import NamedTuple

from penstock.client.cluster import GROUP, Backoff, Cluster
from penstock.client.config import ConsumerConfig
from penstock.client.errors import kafka_error
from penstock.client.membership import Hooks, Membership
from penstock.client.metrics import Metrics, Rebalances
from penstock.client.transactions import ConsumerGroupMetadata
from penstock.client.types import TopicPartition
from penstock.client.versions import CONSUMER_HEARTBEAT_FIRST_WITH_PATTERN
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode, KafkaError, UnsupportedVersion

_log = logging.getLogger("penstock.client")

_GROUP = "consumer-coordinator-metrics"
_JOIN_EPOCH, _LEAVE_EPOCH, _LEAVE_STATIC_EPOCH = 0, -1, -2
_FENCED = {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID}


class _Subscribed(NamedTuple):
    topics: set[str]
    pattern: str  # empty: none


class ConsumerMembership(Membership):
    by_epoch = True

    def __init__(self, cluster: Cluster, config: ConsumerConfig, hooks: Hooks, metrics: Metrics) -> None:
        self._cluster = cluster
        self._config = config
        self._hooks = hooks
        self._instance_id = config.group_instance_id or None
        self._member_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        self._epoch = _JOIN_EPOCH
        self._target: list[TopicPartition] | None = None  # what the coordinator wants us to have
        self._target_ids: dict[bytes, list[int]] | None = None  # the same, while topic names are not known yet
        self._sent_subscription: _Subscribed | None = None
        self._had_pattern = False
        self._sent_owned: list[TopicPartition] | None = None
        self._has_to_report = False  # that we have what the last assignment says, whatever we had before
        self._lost = False
        self._task: asyncio.Task[None] | None = None
        self._soon = asyncio.Event()
        self._interval = 5.0
        self._error: Exception | None = None
        self._last_poll = 0.0
        self._heartbeats = metrics.sensor(_GROUP, "heartbeat", "rate", "total")
        self._heartbeat_time = metrics.sensor(_GROUP, "heartbeat-response-time", "max")
        metrics.gauge(_GROUP, "last-heartbeat-seconds-ago", self._heartbeats.seconds_ago)
        self._rebalances = Rebalances(metrics, _GROUP)

    # What poll sees

    def identity(self) -> ConsumerGroupMetadata:
        return ConsumerGroupMetadata(self._config.group_id, self._epoch, self._member_id, self._instance_id)

    def is_settled(self) -> bool:
        return self._error is None and not self._lost and not self._has_gap()

    def _has_gap(self) -> bool:
        return self._target is not None and set(self._target) != set(self._hooks.owned())

    def subscription_changed(self) -> None:
        if self._target_ids is not None:
            self._resolve_target()
        if self._sent_subscription is not None and self._subscribed() != self._sent_subscription:
            self._soon.set()

    def _subscribed(self) -> _Subscribed:
        return _Subscribed(self._hooks.subscribed(), self._hooks.server_pattern() or "")

    def enforce_rebalance(self) -> None:
        _log.info("with group_protocol=consumer the coordinator decides when to rebalance")

    async def advance(self, deadline: float) -> None:
        self._last_poll = asyncio.get_running_loop().time()
        if self._task is None:
            await self._cluster.refresh(self._hooks.subscribed())
            self._task = asyncio.create_task(self._beat(), name="penstock-heartbeat")
            self._task.add_done_callback(self._stopped_beating)
        if self._error is not None:
            error, self._error = self._error, None
            self._task = None
            raise error
        if self._lost:
            self._lost = False
            await self._hooks.lose(self._hooks.owned())
            self._soon.set()
        if self._has_gap():
            await self._close_gap()

    async def _close_gap(self) -> None:
        target = set(self._target or ())
        owned = set(self._hooks.owned())
        if owned - target:
            await self._hooks.revoke(sorted(owned - target))
            # Report at once: somebody may be waiting for these partitions.
            self._soon.set()
        added = sorted(target - owned)
        if added:
            await self._hooks.assign(added)
            self._soon.set()
        self._rebalances.end()

    async def leave(self) -> None:
        await self._hooks.revoke(self._hooks.owned())
        self.losses += 1
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._task = None
        if self._epoch > 0:
            self._epoch = _LEAVE_EPOCH if self._instance_id is None else _LEAVE_STATIC_EPOCH
            try:
                await self._send(full=False, timeout_ms=5_000)
            except KafkaError as error:
                _log.debug("leaving group %s: %s", self._config.group_id, error)
        self._epoch = _JOIN_EPOCH
        self._target = None

    # Heartbeats

    async def _beat(self) -> None:
        config = self._config
        loop = asyncio.get_running_loop()
        backoff = Backoff(config)
        pause = 0.0
        while True:
            if pause:
                try:
                    async with asyncio.timeout(pause):
                        await self._soon.wait()
                except TimeoutError:
                    pass
            self._soon.clear()
            if loop.time() - self._last_poll > config.max_poll_interval_ms / 1000 and self._epoch > 0:
                await self._leave_for_slowness()
                return
            started = loop.time()
            try:
                answer = await self._send(full=self._epoch == _JOIN_EPOCH, timeout_ms=config.request_timeout_ms)
            except UnsupportedVersion as error:
                hint = "group_protocol='consumer' needs a broker with KIP-848; use group_protocol='classic'"
                if self._hooks.server_pattern() is not None:
                    hint = "a SubscriptionPattern needs a broker of Kafka 4.0; subscribe to re.compile(…)"
                self._fail(error, hint)
                return
            except KafkaError as error:
                _log.debug("heartbeat: %s", error)
                self._cluster.forget_coordinator(GROUP, config.group_id)
                self._sent_subscription = self._sent_owned = None
                pause = backoff.next_pause()
                continue
            self._heartbeats.record()
            self._heartbeat_time.record((loop.time() - started) * 1000)
            if answer.error_code == 0:
                backoff.reset()
                self._heartbeat_answered(answer)
                pause = self._interval
                continue
            if not self._refused(answer):
                return
            pause = backoff.next_pause()

    def _stopped_beating(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._error = error
            self._start_over()

    async def _leave_for_slowness(self) -> None:
        _log.warning(
            "leaving group %s: nobody has polled for max_poll_interval_ms=%d",
            self._config.group_id,
            self._config.max_poll_interval_ms,
        )
        self.losses += 1
        self._epoch = _LEAVE_EPOCH if self._instance_id is None else _LEAVE_STATIC_EPOCH
        try:
            await self._send(full=False, timeout_ms=self._config.request_timeout_ms)
        except KafkaError as error:
            _log.debug("leaving group %s: %s", self._config.group_id, error)
        self._start_over()
        self._task = None

    def _start_over(self) -> None:
        """Join anew; what we hold is lost."""
        self._epoch = _JOIN_EPOCH
        self._target = self._target_ids = None
        self._sent_subscription = self._sent_owned = None
        self._lost = True
        self.losses += 1
        self._hooks.wake()

    def _heartbeat_answered(self, answer: m.ConsumerGroupHeartbeatResponse) -> None:
        self._epoch = answer.member_epoch
        self._interval = answer.heartbeat_interval_ms / 1000
        if answer.assignment is not None:
            self._target_ids = {entry.topic_id: entry.partitions for entry in answer.assignment.topic_partitions}
            # What we have may be what we had: of partitions that were given and are taken back before we took them,
            # the coordinator has to hear that we do not have them.
            self._has_to_report = True
            self._resolve_target()

    def _resolve_target(self) -> None:
        """Turn topic ids into names; those not known yet are asked for, and the rest is taken meanwhile."""
        names = self._cluster.metadata.names
        assert self._target_ids is not None
        unknown = [topic_id for topic_id in self._target_ids if topic_id not in names]
        self._target = [
            TopicPartition(names[topic_id], number)
            for topic_id, numbers in self._target_ids.items()
            if topic_id in names
            for number in numbers
        ]
        if not unknown:
            self._target_ids = None
        else:
            self._cluster.want_ids(unknown)
            self._hooks.refresh()
        if self._has_gap():
            self._rebalances.begin()
        self._hooks.wake()

    def _refused(self, answer: m.ConsumerGroupHeartbeatResponse) -> bool:
        """Deal with an error in the answer; returns whether to go on."""
        code = answer.error_code
        if code in _FENCED:
            self._start_over()
            return True
        error = kafka_error(code, answer.error_message, about=f"group {self._config.group_id!r}")
        if code == ErrorCode.UNSUPPORTED_VERSION:
            self._fail(error, "the cluster has KIP-848 switched off; use group_protocol='classic'")
            return False
        if error.retriable or code == ErrorCode.UNRELEASED_INSTANCE_ID:
            if code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
                self._cluster.forget_coordinator(GROUP, self._config.group_id)
            self._sent_subscription = self._sent_owned = None
            return True
        self._fail(error, "")
        return False

    def _fail(self, error: KafkaError, hint: str) -> None:
        self._error = type(error)(f"{error}; {hint}") if hint else error
        self._epoch = _JOIN_EPOCH
        self._target = self._target_ids = None
        self._hooks.wake()

    async def _send(self, full: bool, timeout_ms: int) -> m.ConsumerGroupHeartbeatResponse:
        config = self._config
        leaving = self._epoch < 0
        subscribed = self._subscribed()
        owned = sorted(self._hooks.owned())
        request = m.ConsumerGroupHeartbeatRequest(
            group_id=config.group_id,
            member_id=self._member_id,
            member_epoch=self._epoch,
            instance_id=self._instance_id,
        )
        if full:
            request.rack_id = config.client_rack or None
            request.rebalance_timeout_ms = config.max_poll_interval_ms
            request.server_assignor = config.group_remote_assignor or None
            request.subscribed_topic_names = sorted(subscribed.topics)
            request.subscribed_topic_regex = subscribed.pattern or None
            request.topic_partitions = []
        elif not leaving:
            if subscribed != self._sent_subscription:
                request.subscribed_topic_names = sorted(subscribed.topics)
                if subscribed.pattern or self._had_pattern:
                    request.subscribed_topic_regex = subscribed.pattern
            if owned != self._sent_owned or (self._has_to_report and not self._has_gap()):
                request.topic_partitions = self._by_id(owned)
        node = await self._cluster.coordinator(GROUP, config.group_id)
        answer = await self._cluster.request(
            request,
            m.ConsumerGroupHeartbeatResponse,
            node=node,
            channel="coordinator",
            timeout_ms=timeout_ms,
            at_least=0 if request.subscribed_topic_regex is None else CONSUMER_HEARTBEAT_FIRST_WITH_PATTERN,
        )
        if answer.error_code == 0 and not leaving:
            self._sent_subscription = subscribed
            self._had_pattern = bool(subscribed.pattern)
            self._sent_owned = owned
            self._has_to_report = self._has_to_report and request.topic_partitions is None
        return answer

    def _by_id(self, partitions: list[TopicPartition]) -> list[m.ConsumerGroupHeartbeatRequest.TopicPartitions]:
        topics: dict[bytes, list[int]] = {}
        for tp in partitions:
            topics.setdefault(self._cluster.metadata.topic_id(tp.topic), []).append(tp.partition)
        return [
            m.ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=topic_id, partitions=numbers)
            for topic_id, numbers in topics.items()
        ]
