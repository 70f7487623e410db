"""The consumer: reads topics, alone or as one of a group.

    async with Consumer(bootstrap_servers="127.0.0.1:9092", group_id="billing") as consumer:
        consumer.subscribe(["orders"])
        async for record in consumer:
            await handle(record)

`poll` returns a list of records, `poll_batches` whole batches as columns, and iteration one record at a time. Records
are fetched ahead in the background. A consumer belongs to one task: concurrent calls from several tasks are refused,
because they would get each other's records.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar, Unpack, cast, overload

from penstock.client.assignors import Assignor, assignors_named
from penstock.client.batches import RecordBatch
from penstock.client.cluster import Cluster
from penstock.client.commits import Commits
from penstock.client.config import ConsumerConfig, ConsumerSettings, load
from penstock.client.errors import (
    IllegalState,
    RecordDeserializationError,
    UsageError,
)
from penstock.client.fetcher import Fetcher
from penstock.client.membership import Hooks, Membership, NoMembership, RebalanceListener
from penstock.client.metrics import ConnectionMetrics, MetricName, Metrics, PollTimes
from penstock.client.offsets import fetch_committed, list_offsets
from penstock.client.partitions import AnyPartition, P, keyed_by_partition, partition_of, partitions_of, whole_offsets
from penstock.client.positions import Positions
from penstock.client.resets import reset_timestamp
from penstock.client.subscription import PartitionState, Subscription
from penstock.client.telemetry import Reporter
from penstock.client.transactions import ConsumerGroupMetadata
from penstock.client.types import (
    ConsumerRecord,
    IsolationLevel,
    K,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    OffsetSpec,
    SubscriptionPattern,
    TopicPartition,
    V,
)
from penstock.wire.errors import KafkaError

if TYPE_CHECKING:
    from penstock.client.tracing import Tracing

_log = logging.getLogger("penstock.client")

Offsets = Mapping[P, OffsetAndMetadata | int]
_NEVER = 366 * 86_400.0
_T = TypeVar("_T")
_RECORDS_IN_BATCHES = 20_000


class Consumer(Generic[K, V]):
    """Reads records. Keys and values are bytes unless deserializers are given, which are never called with None."""

    @overload
    def __init__(
        self: Consumer[bytes, bytes],
        config: Mapping[str, object] | None = None,
        /,
        *,
        assignors: Sequence[Assignor] | None = None,
        **settings: Unpack[ConsumerSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: Consumer[bytes, V],
        config: Mapping[str, object] | None = None,
        /,
        *,
        value_deserializer: Callable[[bytes], V],
        assignors: Sequence[Assignor] | None = None,
        **settings: Unpack[ConsumerSettings],
    ) -> None: ...
    @overload
    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        /,
        *,
        key_deserializer: Callable[[bytes], K],
        value_deserializer: Callable[[bytes], V],
        assignors: Sequence[Assignor] | None = None,
        **settings: Unpack[ConsumerSettings],
    ) -> None: ...
    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        /,
        *,
        key_deserializer: Callable[[bytes], K] | None = None,
        value_deserializer: Callable[[bytes], V] | None = None,
        assignors: Sequence[Assignor] | None = None,
        **settings: Unpack[ConsumerSettings],
    ) -> None:
        self.config = load(ConsumerConfig, config, settings)
        reset_timestamp(self.config.auto_offset_reset)
        self._key_deserializer = key_deserializer
        self._value_deserializer = value_deserializer
        self._assignors = list(assignors or assignors_named(self.config.partition_assignment_strategy))
        self._metrics = Metrics(self.config.client_id)
        self._cluster = Cluster(self.config, ConnectionMetrics(self._metrics, "consumer"))
        self._subscription = Subscription()
        self._listener: RebalanceListener | None = None
        self._membership: Membership = NoMembership(self.config.group_id)
        self._fetcher: Fetcher | None = None
        self._positions: Positions | None = None
        self._commits = Commits(self._cluster, self._subscription, lambda: self._membership, self._metrics)
        self._unyielded: deque[ConsumerRecord[K, V]] = deque()
        self._user: asyncio.Task[object] | None = None
        self._next_auto_commit = 0.0
        self._closed = False
        self._poll_times = PollTimes(self._metrics, "consumer-metrics")
        self._reporter = Reporter(self._cluster, self._metrics, self._labels)
        self._tracing: Tracing | None = None
        if self.config.enable_tracing:
            from penstock.client import tracing

            self._tracing = tracing.Tracing(self.config.client_id, self.config.group_id)
        self._polls = self._metrics.sensor("consumer-metrics", "poll-records", "avg")
        self._metrics.gauge(
            "consumer-coordinator-metrics", "assigned-partitions", lambda: float(len(self._subscription.partitions))
        )

    # Life

    async def start(self) -> Consumer[K, V]:
        """Connect. Joining the group begins with the first poll."""
        if self._closed:
            raise IllegalState("this consumer is closed; create another one")
        if self._fetcher is None:
            await self._cluster.start()
            self._positions = Positions(self._cluster, self.config, self._subscription)
            self._fetcher = Fetcher(
                self._cluster,
                self.config,
                self._subscription,
                self._metrics,
                self._positions.out_of_range,
                self._positions.truncated,
            )
            self._positions.settle_with(self._fetcher)
            self._cluster.on_change(self._metadata_changed)
            self._reporter.start()
            self._next_auto_commit = self._now() + self.config.auto_commit_interval_ms / 1000
        return self

    async def close(self) -> None:
        """Commit (with auto-commit), leave the group, disconnect."""
        if self._closed:
            return
        try:
            if self._fetcher is not None:
                await self._close_group()
        finally:
            self._closed = True
            if self._positions is not None:
                await self._positions.close()
            if self._fetcher is not None:
                await self._fetcher.close()
            await self._reporter.close()
            await self._cluster.close()

    def _labels(self) -> dict[str, str]:
        """As KIP-714 names them."""
        return {
            "client_rack": self.config.client_rack,
            "group_id": self.config.group_id,
            "group_instance_id": self.config.group_instance_id,
            "group_member_id": self._membership.identity().member_id,
        }

    async def _close_group(self) -> None:
        try:
            if self.config.enable_auto_commit and self.config.group_id and self._subscription.partitions:
                await self._commits.commit(self._consumed(), timeout_ms=5_000)
            await self._commits.wait(seconds=5)
            await self._membership.leave()
        except KafkaError as error:
            _log.warning("while closing: %s", error)

    async def __aenter__(self) -> Consumer[K, V]:
        try:
            return await self.start()
        except BaseException:
            await self._cluster.close()
            raise

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # What to read

    def subscribe(
        self,
        topics: Iterable[str] | str | re.Pattern[str] | SubscriptionPattern,
        *,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read these topics as a member of the group.

        A pattern stands for all topics whose names it matches in full, those that do not exist yet included: matched
        here if it is `re.compile(…)`, by the broker if it is a `SubscriptionPattern` (`group_protocol="consumer"`).
        """
        if not self.config.group_id:
            raise UsageError("subscribe needs a group_id; to read partitions without a group use consumer.assign(…)")
        if self._subscription.is_manual:
            raise IllegalState("this consumer uses assign; call consumer.unsubscribe() before consumer.subscribe(…)")
        self._listener = listener
        if isinstance(topics, re.Pattern):
            self._subscription.choose(pattern=topics)
            self._cluster.set_topics(None)
        elif isinstance(topics, SubscriptionPattern):
            if self.config.group_protocol != "consumer":
                raise UsageError(
                    "a SubscriptionPattern is matched by the broker, which needs group_protocol='consumer'; "
                    "with the classic protocol subscribe to re.compile(…)"
                )
            if not topics.pattern:
                raise UsageError("the SubscriptionPattern is empty; to stop reading use consumer.unsubscribe()")
            self._subscription.choose(server_pattern=topics.pattern)
            self._cluster.set_topics(tp.topic for tp in self._subscription.partitions)
        else:
            names = {topics} if isinstance(topics, str) else set(topics)
            if not names:
                raise UsageError("subscribe got no topics; to stop reading use consumer.unsubscribe()")
            self._subscription.choose(names)
            self._cluster.set_topics(names)
        if isinstance(self._membership, NoMembership):
            self._membership = self._join()
            self._commits.begin_anew()
        else:
            self._membership.subscription_changed()

    def assign(self, partitions: Iterable[AnyPartition]) -> None:
        """Read exactly these partitions, without a group."""
        if self._subscription.is_by_group:
            raise IllegalState("this consumer uses subscribe; call consumer.unsubscribe() before consumer.assign(…)")
        requested = partitions_of(partitions)
        self._subscription.is_manual = bool(requested)
        self._subscription.assign(requested)
        self._cluster.set_topics(tp.topic for tp in requested)
        self._kick()

    async def unsubscribe(self) -> None:
        """Stop reading; leave the group."""
        if not isinstance(self._membership, NoMembership):
            await self._membership.leave()
            self._membership = NoMembership(self.config.group_id)
            self._commits.begin_anew()
        self._subscription.choose()
        self._subscription.is_manual = False
        self._subscription.assign([])
        self._unyielded.clear()
        self._recount()

    def subscription(self) -> set[str]:
        """The topics that this consumer subscribes to."""
        return set(self._subscription.topics)

    def assignment(self) -> list[TopicPartition]:
        """The partitions that this consumer reads."""
        return list(self._subscription.partitions)

    def enforce_rebalance(self) -> None:
        """Ask the group to rebalance at the next poll."""
        self._membership.enforce_rebalance()

    def group_metadata(self) -> ConsumerGroupMetadata:
        """This member's identity at its last poll, for `Producer.send_offsets_to_transaction`."""
        return self._commits.identity()

    def _join(self) -> Membership:
        hooks = Hooks(
            self._subscribed,
            lambda: self._subscription.server_pattern,
            self.assignment,
            self._revoke,
            self._lose,
            self._receive,
            self._wake,
            self._refresh,
        )
        if self.config.group_protocol == "consumer":
            from penstock.client.membership_consumer import ConsumerMembership

            return ConsumerMembership(self._cluster, self.config, hooks, self._metrics)
        from penstock.client.membership_classic import ClassicMembership

        return ClassicMembership(self._cluster, self.config, hooks, self._assignors, self._metrics)

    def _subscribed(self) -> set[str]:
        if self._subscription.pattern is None:
            return set(self._subscription.topics)
        return {
            topic.name
            for topic in self._cluster.metadata.topics.values()
            if self._subscription.matches(topic.name, topic.is_internal, self.config.exclude_internal_topics)
        }

    def _metadata_changed(self) -> None:
        if self._subscription.is_by_group and not self._closed:
            self._membership.subscription_changed()

    # Reading

    async def poll(
        self, timeout_ms: float | None = None, *, max_records: int | None = None
    ) -> list[ConsumerRecord[K, V]]:
        """The next records, at most `max_poll_records`; an empty list if none came within the timeout (None: wait)."""
        limit = max_records or self.config.max_poll_records
        self._unyielded.clear()
        fetcher = self._ready()
        began_ns = 0 if self._tracing is None else time.time_ns()
        records = await self._wait_for(fetcher.take_records, limit, timeout_ms)
        if records:
            self._polls.record(len(records))
        if self._tracing is not None:
            self._tracing.polled(records, began_ns)
        if self._key_deserializer is None and self._value_deserializer is None:
            return cast("list[ConsumerRecord[K, V]]", records)
        return self._deserialized(records)

    async def poll_batches(
        self, timeout_ms: float | None = None, *, max_records: int | None = None
    ) -> list[RecordBatch]:
        """Like `poll`, but returns whole batches, whose columns are decoded when they are requested.

        Returns batches with about `max_records` records in all, by default many more than `poll` returns.
        """
        limit = max_records or max(self.config.max_poll_records, _RECORDS_IN_BATCHES)
        fetcher = self._ready()
        return await self._wait_for(fetcher.take_batches, limit, timeout_ms)

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord[K, V]]:
        unyielded = self._unyielded
        while not self._closed:
            while unyielded:
                yield unyielded.popleft()
            unyielded.extend(await self.poll())

    async def get_one(self, timeout_ms: float | None = None) -> ConsumerRecord[K, V] | None:
        """The next record, or None if none came within the timeout."""
        if not self._unyielded:
            self._unyielded.extend(await self.poll(timeout_ms))
        return self._unyielded.popleft() if self._unyielded else None

    def _ready(self) -> Fetcher:
        if self._fetcher is None or self._closed:
            raise IllegalState("this consumer is not started; use it in `async with consumer:`")
        if not self._subscription.is_by_group and not self._subscription.is_manual:
            raise IllegalState("nothing to read yet: call consumer.subscribe([…]) or consumer.assign([…]) first")
        return self._fetcher

    async def _wait_for(self, take: Callable[[int], list[_T]], limit: int, timeout_ms: float | None) -> list[_T]:
        task = cast("asyncio.Task[object] | None", asyncio.current_task())
        if self._user is not None and self._user is not task:
            raise IllegalState("another task is polling this consumer; give each task a consumer of its own")
        self._user = task
        self._poll_times.started()
        try:
            return await self._poll(take, limit, timeout_ms)
        finally:
            self._poll_times.ended()
            self._user = None

    async def _poll(self, take: Callable[[int], list[_T]], limit: int, timeout_ms: float | None) -> list[_T]:
        fetcher = self._fetcher
        assert fetcher is not None
        now = self._now()
        deadline = now + (_NEVER if timeout_ms is None else timeout_ms / 1000)
        self._auto_commit(now)
        while True:
            await self._membership.advance(deadline)
            self._commits.polled()
            if fetcher.error is not None:
                error, fetcher.error = fetcher.error, None
                raise error
            self._locate()
            taken = take(limit)
            if taken:
                return taken
            fetcher.arrived.clear()
            remaining = deadline - self._now()
            if remaining <= 0:
                # One turn for the background, so that a loop of polls with no timeout makes progress.
                await asyncio.sleep(0)
                return []
            if fetcher.has_data() or not self._membership.is_settled():
                continue
            try:
                async with asyncio.timeout(min(remaining, 1.0)):
                    await fetcher.arrived.wait()
            except TimeoutError:
                continue

    def _deserialized(self, records: list[ConsumerRecord[bytes, bytes]]) -> list[ConsumerRecord[K, V]]:
        made: list[ConsumerRecord[K, V]] = []
        for record in records:
            key: object = record.key
            value: object = record.value
            try:
                if key is not None and self._key_deserializer is not None:
                    key = self._key_deserializer(record.key or b"")
                if value is not None and self._value_deserializer is not None:
                    value = self._value_deserializer(record.value or b"")
            except Exception as error:
                state = self._subscription.partitions.get(record.topic_partition)
                if made:
                    # Give out what came before it; the next poll starts at the bad one and raises.
                    self._rewind(records[len(made) :])
                    return made
                if state is not None:
                    self._rewind(records)
                raise RecordDeserializationError(record.topic, record.partition, record.offset) from error
            made.append(cast("ConsumerRecord[K, V]", record._replace(key=key, value=value)))  # type: ignore[arg-type]
        return made

    def _rewind(self, records: list[ConsumerRecord[bytes, bytes]]) -> None:
        first: dict[TopicPartition, int] = {}
        for record in records:
            first.setdefault(record.topic_partition, record.offset)
        for tp, offset in first.items():
            if tp in self._subscription.partitions:
                self.seek(tp, offset)

    # Positions

    def seek(self, tp: AnyPartition, offset: int | OffsetAndMetadata) -> None:
        """Continue at `offset`. With a leader epoch, the consumer checks that the log was not truncated before it."""
        state = self._held(tp)
        number, epoch = (offset.offset, offset.leader_epoch) if isinstance(offset, OffsetAndMetadata) else (offset, -1)
        if number < 0:
            raise UsageError(f"cannot seek to offset {number}; use seek_to_beginning or seek_to_end")
        self._subscription.seek(state, number, epoch, is_unchecked=True)
        self._forget_unyielded([state.tp])
        self._recount()
        self._kick()

    def seek_to_beginning(self, *partitions: AnyPartition) -> None:
        """Continue at the first offset of these partitions, by default of all assigned ones."""
        self._seek_by_time(partitions, OffsetSpec.EARLIEST)

    def seek_to_end(self, *partitions: AnyPartition) -> None:
        """Continue at the end of these partitions, by default of all assigned ones."""
        self._seek_by_time(partitions, OffsetSpec.LATEST)

    def _seek_by_time(self, partitions: Iterable[AnyPartition], timestamp: int) -> None:
        states = [self._held(tp) for tp in partitions] or list(self._subscription.partitions.values())
        for state in states:
            self._subscription.seek_by_time(state, timestamp)
        self._forget_unyielded(state.tp for state in states)
        self._recount()
        self._locate()

    async def position(self, tp: AnyPartition, timeout_ms: int | None = None) -> int:
        """The offset of the next record that will be returned."""
        state = self._held(tp)
        for record in self._unyielded:
            if record.topic_partition == state.tp:
                return record.offset
        limit = self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        if state.position is None:
            if self._positions is None:
                raise IllegalState("this consumer is not started; use it in `async with consumer:`")
            async with asyncio.timeout(limit / 1000):
                await self._positions.wait_for(state)
        assert state.position is not None
        return state.position

    def pause(self, *partitions: AnyPartition) -> None:
        """Return no records of these partitions until `resume`; they stay assigned."""
        for tp in partitions:
            self._held(tp).paused = True

    def resume(self, *partitions: AnyPartition) -> None:
        """Return records of paused partitions again."""
        for tp in partitions:
            self._held(tp).paused = False
        self._wake()
        self._kick()

    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused."""
        return {tp for tp, state in self._subscription.partitions.items() if state.paused}

    def current_lag(self, tp: AnyPartition) -> int | None:
        """How many offsets the position is behind the end, as of the last fetch; None before the first."""
        state = self._held(tp)
        end = state.high_watermark
        if self.config.isolation_level == "read_committed":
            end = state.last_stable_offset
        return None if end < 0 or state.position is None else max(end - state.position, 0)

    async def beginning_offsets(self, partitions: Iterable[AnyPartition]) -> dict[TopicPartition, int]:
        """The first offset that each partition still has."""
        return await self._edges(partitions, OffsetSpec.EARLIEST)

    async def end_offsets(self, partitions: Iterable[AnyPartition]) -> dict[TopicPartition, int]:
        """The offset after the last record that this consumer may read."""
        return await self._edges(partitions, OffsetSpec.LATEST)

    async def _edges(self, partitions: Iterable[AnyPartition], spec: OffsetSpec) -> dict[TopicPartition, int]:
        found = await list_offsets(
            self._cluster, dict.fromkeys(partitions_of(partitions), int(spec)), self._isolation()
        )
        return {tp: place.offset for tp, place in found.items()}

    async def offsets_for_times(self, timestamps: Mapping[P, int]) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each time (ms since 1970); None if there is no such record."""
        requested = keyed_by_partition(timestamps)
        found = await list_offsets(self._cluster, requested, self._isolation())
        return {tp: found[tp] if found[tp].offset >= 0 else None for tp in requested}

    async def partitions_for(self, topic: str) -> list[int]:
        """The numbers of a topic's partitions."""
        return await self._cluster.partitions_of(topic)

    async def topic_names(self) -> list[str]:
        """All topics of the cluster."""
        return await self._cluster.topic_names()

    def metrics(self) -> dict[MetricName, float]:
        """The consumer's metrics, by Kafka's names."""
        return self._metrics.snapshot()

    # Commits

    async def commit(self, offsets: Offsets[P] | None = None, *, timeout_ms: int | None = None) -> None:
        """Commit offsets (of the *next* record to read), by default of all that poll has returned. Returns when
        done.
        """
        self._require_group()
        await self._commits.commit(self._consumed() if offsets is None else whole_offsets(offsets), timeout_ms)

    def commit_async(
        self,
        offsets: Offsets[P] | None = None,
        callback: Callable[[dict[TopicPartition, OffsetAndMetadata], Exception | None], object] | None = None,
    ) -> asyncio.Task[None]:
        """Commit in the background, with few retries; `callback` receives the result."""
        self._require_group()
        whole = self._consumed() if offsets is None else whole_offsets(offsets)
        return self._commits.begin(whole, self.config.request_timeout_ms, callback)

    async def committed(self, partitions: Iterable[AnyPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The committed offsets of the group; None for partitions without one."""
        self._require_group()
        requested = partitions_of(partitions)
        found = await fetch_committed(self._cluster, self.config.group_id, requested, require_stable=True)
        return {tp: found.get(tp) for tp in requested}

    def _consumed(self, partitions: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, OffsetAndMetadata]:
        """The positions, less what an iteration holds back."""
        chosen = self._subscription.partitions if partitions is None else set(partitions)
        offsets = {
            tp: OffsetAndMetadata(state.position, "", state.position_epoch)
            for tp, state in self._subscription.partitions.items()
            if tp in chosen and state.position is not None
        }
        for record in reversed(self._unyielded):
            tp = TopicPartition(record.topic, record.partition)
            if tp in offsets:
                offsets[tp] = OffsetAndMetadata(record.offset, "", record.leader_epoch)
        return offsets

    def _auto_commit(self, now: float) -> None:
        if not self.config.enable_auto_commit or not self.config.group_id or now < self._next_auto_commit:
            return
        self._next_auto_commit = now + self.config.auto_commit_interval_ms / 1000
        if self._subscription.partitions and not self._commits.is_busy:
            self.commit_async(None)

    def _require_group(self) -> None:
        if not self.config.group_id:
            raise UsageError("committing offsets needs a group_id: Consumer(group_id='my-app')")
        if self._fetcher is None or self._closed:
            raise IllegalState("this consumer is not started; use it in `async with consumer:`")

    # What the group does to the assignment

    async def _revoke(self, partitions: list[TopicPartition]) -> None:
        if not partitions:
            return
        if self.config.enable_auto_commit:
            try:
                await self._commits.commit(self._consumed(partitions), self.config.request_timeout_ms)
            except KafkaError as error:
                _log.warning("offsets of revoked partitions were not committed: %s", error)
        if self._listener is not None:
            await _called(self._listener.on_partitions_revoked(partitions))
        self._let_go(partitions)

    async def _lose(self, partitions: list[TopicPartition]) -> None:
        if not partitions:
            return
        if self._listener is not None:
            await _called(self._listener.on_partitions_lost(partitions))
        self._let_go(partitions)

    def _let_go(self, partitions: list[TopicPartition]) -> None:
        gone = set(partitions)
        self._forget_unyielded(gone)
        self._subscription.assign(tp for tp in self._subscription.partitions if tp not in gone)
        self._recount()

    async def _receive(self, partitions: list[TopicPartition]) -> None:
        self._subscription.assign([*self._subscription.partitions, *partitions])
        self._cluster.want(tp.topic for tp in partitions)
        if self._listener is not None:
            await _called(self._listener.on_partitions_assigned(partitions))
        self._locate()
        self._kick()

    # Small things

    def _held(self, given: AnyPartition) -> PartitionState:
        tp = partition_of(given)
        state = self._subscription.partitions.get(tp)
        if state is None:
            raise IllegalState(f"{tp} is not assigned to this consumer; it has {self.assignment()}")
        return state

    def _forget_unyielded(self, partitions: Iterable[TopicPartition]) -> None:
        gone = set(partitions)
        kept = [record for record in self._unyielded if (record.topic, record.partition) not in gone]
        self._unyielded.clear()
        self._unyielded.extend(kept)

    def _isolation(self) -> IsolationLevel:
        return IsolationLevel[self.config.isolation_level.upper()]

    def _wake(self) -> None:
        if self._fetcher is not None:
            self._fetcher.arrived.set()

    def _refresh(self) -> None:
        if self._fetcher is not None:
            self._fetcher.refresh_metadata()

    def _locate(self) -> None:
        if self._positions is not None:
            self._positions.locate()

    def _kick(self) -> None:
        if self._fetcher is not None:
            self._fetcher.kick()

    def _recount(self) -> None:
        if self._fetcher is not None:
            self._fetcher.recount()

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


async def _called(result: Awaitable[None] | None) -> None:
    if inspect.isawaitable(result):
        await result
