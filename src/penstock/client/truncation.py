"""Notices when a partition has lost records that this consumer has already read (KIP-320).

A leader that fails before its last records are replicated is succeeded by one that never had them, which then assigns
their offsets to other records. A consumer that continued would miss some of those, or read from the middle of others.
But every record carries the epoch of the leader that wrote it. So after a change of leader, after a lost connection,
and before it continues from a committed offset, the consumer asks the broker where the epoch of the last record ends.
If it ends before the consumer's position, the log was truncated.

The end of what was fetched ahead is checked first. If that was truncated, it is dropped, and the position itself is
checked.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple

from penstock.client.cluster import Cluster
from penstock.client.errors import kafka_error
from penstock.client.subscription import PartitionState, Subscription
from penstock.client.types import OffsetAndMetadata, TopicPartition
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode, KafkaError, UnsupportedVersion

_log = logging.getLogger("penstock.client")

_CONSUMER = -1  # the replica id that stands for "not a replica"


class Verdict(NamedTuple):
    """What became of a check. `end` is where the log and what we read part, None if the broker cannot tell."""

    state: PartitionState
    end: OffsetAndMetadata | None


class TruncationCheck:
    """Asks one broker at a time about many partitions. `truncated` hears of those that were cut, `failed` of those
    that could not be checked and why, `done` whenever an answer was dealt with.
    """

    def __init__(
        self,
        cluster: Cluster,
        subscription: Subscription,
        truncated: Callable[[Verdict], None],
        failed: Callable[[list[PartitionState], KafkaError], None],
        done: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._subscription = subscription
        self._truncated = truncated
        self._failed = failed
        self._done = done
        self._checks: dict[int, asyncio.Task[None]] = {}

    async def close(self) -> None:
        for task in self._checks.values():
            task.cancel()
        await asyncio.gather(*self._checks.values(), return_exceptions=True)

    def start(self, node: int, states: Iterable[PartitionState]) -> None:
        """Check partitions at the broker that leads them, unless a check with it is under way."""
        if node in self._checks:
            return
        task = self._checks[node] = asyncio.create_task(self._check(node, list(states)))
        task.add_done_callback(lambda _: self._checked(node))

    def _checked(self, node: int) -> None:
        self._checks.pop(node, None)
        self._done()

    async def _check(self, node: int, states: list[PartitionState]) -> None:
        requested = {state.tp: (state, state.serial, state.fetched_to) for state in states}
        try:
            answer = await self._cluster.request(
                self._build(states), m.OffsetForLeaderEpochResponse, node=node, at_least=3
            )
        except UnsupportedVersion:
            for state in states:
                state.is_unchecked = False  # the broker is too old to tell
            return
        except KafkaError as error:
            self._failed(states, error)
            return
        for topic in answer.topics:
            for p in topic.partitions:
                found = requested.pop(TopicPartition(topic.topic, p.partition), None)
                if found is None:
                    continue
                state, serial, fetched_to = found
                if self._subscription.current(state.tp, serial) is not state:
                    continue
                if p.error_code:
                    self._failed([state], kafka_error(p.error_code, about=str(state.tp)))
                elif state.fetched_to == fetched_to:
                    self._judge(state, p)
        if requested:
            self._failed([entry[0] for entry in requested.values()], kafka_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))

    def _judge(self, state: PartitionState, answer: m.OffsetForLeaderEpochResponse.EpochEndOffset) -> None:
        is_known = answer.end_offset >= 0 and answer.leader_epoch >= 0
        if is_known and answer.end_offset >= state.fetched_to:
            state.is_unchecked = False
        elif state.chunks or state.fetched_to != state.position:
            _log.info("%s was cut short at offset %d; reading ahead starts over", state.tp, answer.end_offset)
            self._subscription.drop_buffer(state)
        else:
            end = OffsetAndMetadata(answer.end_offset, "", answer.leader_epoch) if is_known else None
            self._truncated(Verdict(state, end))

    def _build(self, states: list[PartitionState]) -> m.OffsetForLeaderEpochRequest:
        metadata = self._cluster.metadata
        request = m.OffsetForLeaderEpochRequest
        topics: dict[str, m.OffsetForLeaderEpochRequest.OffsetForLeaderTopic] = {}
        for state in states:
            topic = topics.setdefault(state.tp.topic, request.OffsetForLeaderTopic(topic=state.tp.topic, partitions=[]))
            topic.partitions.append(
                request.OffsetForLeaderPartition(
                    partition=state.tp.partition,
                    current_leader_epoch=metadata.leader_epoch(state.tp),
                    leader_epoch=state.fetched_epoch,
                )
            )
        return request(replica_id=_CONSUMER, topics=list(topics.values()))
