"""The share consumer: a worker that takes records off a queue (KIP-932).

Any number of workers share a partition. Each record that a worker gets is locked for it. The worker accepts it (done),
releases it (deliver it again) or rejects it (never deliver it again); a lock that expires releases it too.

    async with ShareConsumer(group_id="resize-images") as worker:
        worker.subscribe(["images"])
        await worker.run(handle, concurrency=50)

`run` does everything: success accepts, an exception releases, `Reject` rejects, and locks are renewed while a handler
is slow. Without it, `poll` returns records. With `share_acknowledgement_mode="implicit"`, the next poll accepts all of
the last one; with "explicit", each must be acknowledged before the next poll.

Where a new group starts reading is a setting of the group (`share.auto.offset.reset`, latest by default), not of a
worker.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Generic, Unpack, cast, overload

from penstock.client.cluster import Backoff, Cluster
from penstock.client.config import ShareConsumerConfig, ShareConsumerSettings, load
from penstock.client.errors import IllegalState, RecordDeserializationError, UsageError, kafka_error
from penstock.client.metrics import ConnectionMetrics, MetricName, Metrics, PollTimes
from penstock.client.share_acknowledgements import GAP, Acknowledgements, AcknowledgeType
from penstock.client.share_decoding import Delivered, decode_share_partition, runs_of_records
from penstock.client.share_locks import LockKeeper, Locks, merged, renew_locks
from penstock.client.share_membership import ShareMembership
from penstock.client.share_session import Runs, SharePartition, ShareSession, TopicIdPartition
from penstock.client.share_worker import Handler, Worker
from penstock.client.share_worker import Reject as Reject
from penstock.client.telemetry import Reporter
from penstock.client.types import ConsumerRecord, K, TopicPartition, V
from penstock.wire.codec import MalformedMessage
from penstock.wire.errors import CorruptMessage, ErrorCode, KafkaError

if TYPE_CHECKING:
    from penstock.client.tracing import Tracing

_log = logging.getLogger("penstock.client")

_GROUP = "consumer-share-fetch-manager-metrics"
_DECISIONS = frozenset({AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT})
_NO_TYPES: dict[int, int] = {}
_NEVER = 366 * 86_400.0
_CLOSE_SECONDS = 5.0
# A program that comes back for more this soon gets the next records fetched while it works on the last. A slower one
# does not: records that wait in its buffer are locked, and another worker could have them.
_QUICK_SECONDS = 0.02
# How long such a fetch may be parked. Acknowledgements of what the program does meanwhile wait behind it, and what they
# would free may be just what it is parked for: a partition has only so many locks.
_AHEAD_WAIT_MS = 10
_BUSY_WAIT_MS = 100  # how long a fetch may be parked while handlers run whose acknowledgements wait behind it

AckCallback = Callable[[dict[TopicPartition, set[int]], KafkaError | None], object]


class ShareConsumer(Generic[K, V]):
    """Takes records from queues (share groups). Keys and values are bytes unless deserializers are given."""

    @overload
    def __init__(
        self: ShareConsumer[bytes, bytes],
        config: Mapping[str, object] | None = None,
        /,
        **settings: Unpack[ShareConsumerSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: ShareConsumer[bytes, V],
        config: Mapping[str, object] | None = None,
        /,
        *,
        value_deserializer: Callable[[bytes], V],
        **settings: Unpack[ShareConsumerSettings],
    ) -> None: ...
    @overload
    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        /,
        *,
        key_deserializer: Callable[[bytes], K],
        value_deserializer: Callable[[bytes], V],
        **settings: Unpack[ShareConsumerSettings],
    ) -> None: ...
    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        /,
        *,
        key_deserializer: Callable[[bytes], K] | None = None,
        value_deserializer: Callable[[bytes], V] | None = None,
        **settings: Unpack[ShareConsumerSettings],
    ) -> None:
        self.config = load(ShareConsumerConfig, config, settings)
        if not self.config.group_id:
            raise UsageError("a share consumer needs a group_id: ShareConsumer(group_id='my-workers')")
        self._explicit = self.config.share_acknowledgement_mode == "explicit"
        self._key_deserializer = key_deserializer
        self._value_deserializer = value_deserializer
        self._metrics = Metrics(self.config.client_id)
        self._cluster = Cluster(self.config, ConnectionMetrics(self._metrics, "consumer-share"))
        self._membership: ShareMembership | None = None
        self._topics: set[str] = set()
        self._sessions: dict[int, ShareSession] = {}
        self._fetches: dict[int, asyncio.Task[None]] = {}
        self._arrived = asyncio.Event()
        self._fetched: deque[tuple[ShareSession, TopicPartition, SharePartition]] = deque()  # not decoded yet
        self._buffer: deque[Delivered] = deque()
        self._locks = Locks()  # explicit mode: delivered, undecided
        self._keeper = LockKeeper(lambda: self.acquisition_lock_timeout_ms, self._renew_all)
        self._implicit: list[Delivered] = []  # implicit mode: delivered by the last poll
        self._callback: AckCallback | None = None
        self._in_callback = False
        self._outcomes: list[dict[TopicPartition, KafkaError | None]] = []  # of the commits that are under way
        self._refreshing: asyncio.Task[None] | None = None
        self._commits: set[asyncio.Task[dict[TopicPartition, KafkaError | None]]] = set()
        self._backoff = Backoff(self.config)
        self._returned_at = 0.0
        # What is assigned and how it spreads over the brokers, until either changes.
        self._grouped: tuple[set[TopicIdPartition], dict[int, set[TopicIdPartition]]] | None = None
        self._awaits_more = False  # a quick program is waiting in poll
        self._closed = False
        self._poll_times = PollTimes(self._metrics, "consumer-share-metrics")
        self._reporter = Reporter(self._cluster, self._metrics, self._labels)
        self._tracing: Tracing | None = None
        if self.config.enable_tracing:
            from penstock.client import tracing

            self._tracing = tracing.Tracing(self.config.client_id, self.config.group_id)
        self._fetch_size = self._metrics.sensor(_GROUP, "fetch-size", "avg", "max")
        self._fetch_latency = self._metrics.sensor(_GROUP, "fetch-latency", "avg", "max")
        self._fetch_count = self._metrics.sensor(_GROUP, "fetch", "rate", "total")
        self._consumed = self._metrics.sensor(_GROUP, "records-consumed", "rate", "total")
        self._per_request = self._metrics.sensor(_GROUP, "records-per-request", "avg", "max")
        self._ack_count = self._metrics.sensor(_GROUP, "acknowledgements-send", "rate", "total")
        self._ack_errors = self._metrics.sensor(_GROUP, "acknowledgements-error", "rate", "total")

    # Life

    async def start(self) -> ShareConsumer[K, V]:
        """Connect. Joining the group begins with the first poll."""
        if self._closed:
            raise IllegalState("this consumer is closed; create another one")
        if self._membership is None:
            await self._cluster.start()
            self._cluster.on_change(self._metadata_changed)
            self._reporter.start()
            self._membership = ShareMembership(self._cluster, self.config, self._metrics, self._arrived.set)
        return self

    async def close(self) -> None:
        """Send pending acknowledgements, release all other records, leave the group."""
        if self._closed:
            return
        if self._commits:
            await asyncio.wait(self._commits, timeout=_CLOSE_SECONDS)
        self._closed = True
        await self._keeper.close()
        tasks = [*self._fetches.values()]
        if self._refreshing is not None:
            tasks.append(self._refreshing)
        if self._fetches:
            # A parked fetch is answered soon; cutting it off would leave its records locked until they time out.
            await asyncio.wait(self._fetches.values(), timeout=self.config.fetch_max_wait_ms / 1000 + 1)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for session in self._sessions.values():
            try:
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await session.acknowledge(close=True)
            except (KafkaError, TimeoutError) as error:
                _log.debug("closing the share session with broker %d: %s", session.node, error)
        if self._membership is not None:
            await self._membership.leave()
        await self._reporter.close()
        await self._cluster.close()

    async def __aenter__(self) -> ShareConsumer[K, V]:
        try:
            return await self.start()
        except BaseException:
            await self._cluster.close()
            raise

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _labels(self) -> dict[str, str]:
        """As KIP-714 names them."""
        return {
            "client_rack": self.config.client_rack,
            "group_id": self.config.group_id,
            "group_member_id": self._membership.member_id if self._membership is not None else "",
        }

    def subscribe(self, topics: Iterable[str] | str) -> None:
        """Take records of these topics."""
        names = {topics} if isinstance(topics, str) else set(topics)
        self._topics = names
        self._cluster.set_topics(names)
        self._started().subscribe(names)

    async def unsubscribe(self) -> None:
        """Leave the group; locked records are released."""
        self._topics = set()
        for session in self._sessions.values():
            await session.acknowledge(close=True)
        await self._started().leave()

    def subscription(self) -> set[str]:
        """The topics that this consumer subscribes to."""
        return set(self._topics)

    def metrics(self) -> dict[MetricName, float]:
        """The consumer's metrics, by Kafka's names."""
        return self._metrics.snapshot()

    @property
    def acquisition_lock_timeout_ms(self) -> int:
        """How long the broker locks a record for this consumer, as of the last response."""
        return min((session.lock_timeout_ms for session in self._sessions.values()), default=30_000)

    # Taking records

    async def poll(self, timeout_ms: float | None = None) -> list[ConsumerRecord[K, V]]:
        """The next records; an empty list if none came within the timeout (None: wait)."""
        if self._explicit and self._locks:
            raise IllegalState(
                "all records must be acknowledged before the next poll in explicit mode: "
                "consumer.acknowledge(record) for each"
            )
        self._accept_implicitly()
        limit, wait_ms = self.config.max_poll_records, self.config.fetch_max_wait_ms
        loop = asyncio.get_running_loop()
        quick = loop.time() - self._returned_at < _QUICK_SECONDS
        records = await self._poll(timeout_ms, limit, wait_ms, fetch_ahead=quick)
        self._returned_at = loop.time()
        return records

    async def take(self, max_records: int, timeout_ms: float) -> list[ConsumerRecord[K, V]]:
        """`poll` for programs that collect records before they acknowledge them: earlier records may be unacknowledged.

        With a timeout of 0 it returns the records that have arrived already, without another request.
        """
        if not self._explicit:
            raise IllegalState("take needs share_acknowledgement_mode='explicit'")
        if timeout_ms <= 0:
            return self._take_arrived()
        return await self._poll(timeout_ms, max_records, self.config.fetch_max_wait_ms)

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord[K, V]]:
        """One record at a time; in implicit mode a record is accepted when all that came with it were handed out."""
        while not self._closed:
            for record in await self.poll():
                yield record

    def _started(self) -> ShareMembership:
        if self._membership is None or self._closed:
            raise IllegalState("this consumer is not started; use it in `async with consumer:`")
        if self._in_callback:
            raise IllegalState("the consumer cannot be called from its acknowledgement callback")
        return self._membership

    async def _poll(
        self, timeout_ms: float | None, limit: int, max_wait_ms: int, *, fetch_ahead: bool = False
    ) -> list[ConsumerRecord[K, V]]:
        self._poll_times.started()
        began_ns = 0 if self._tracing is None else time.time_ns()
        try:
            records = await self._poll_until(timeout_ms, limit, max_wait_ms, fetch_ahead=fetch_ahead)
        finally:
            self._poll_times.ended()
        if self._tracing is not None:
            self._tracing.polled(records, began_ns)
        return records

    async def _poll_until(
        self, timeout_ms: float | None, limit: int, max_wait_ms: int, *, fetch_ahead: bool
    ) -> list[ConsumerRecord[K, V]]:
        membership = self._started()
        if not self._topics:
            raise IllegalState("nothing to read yet: call consumer.subscribe([…]) first")
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (_NEVER if timeout_ms is None else timeout_ms / 1000)
        while True:
            membership.last_poll = loop.time()
            membership.ensure_started()
            if membership.error is not None:
                error, membership.error = membership.error, None
                raise error
            if self._fetched and not self._buffer:
                fetched = self._fetched.popleft()
                if fetch_ahead and not self._fetched and self._start_fetches(limit, _AHEAD_WAIT_MS):
                    await asyncio.sleep(0)  # the next request is on its way before these records are decoded
                self._decode(*fetched)
            if self._buffer:
                records = self._hand_out(self._buffer.popleft())
                if records:
                    self._consumed.record(len(records))
                    return records
                continue
            if self._fetched:
                continue
            self._arrived.clear()
            self._start_fetches(limit, max_wait_ms)
            remaining = deadline - loop.time()
            if remaining <= 0:
                await asyncio.sleep(0)
                return []
            self._awaits_more = fetch_ahead
            try:
                async with asyncio.timeout(min(remaining, 1.0)):
                    await self._arrived.wait()
            except TimeoutError:
                continue
            finally:
                self._awaits_more = False

    def _take_arrived(self) -> list[ConsumerRecord[K, V]]:
        self._started()
        while self._buffer or self._fetched:
            if not self._buffer:
                self._decode(*self._fetched.popleft())
                continue
            records = self._hand_out(self._buffer.popleft())
            if records:
                self._consumed.record(len(records))
                return records
        return []

    def _assigned_by_node(self) -> dict[int, set[TopicIdPartition]]:
        """The partitions to fetch from, by the broker that leads them."""
        assert self._membership is not None
        if self._grouped is not None and self._grouped[0] is self._membership.assigned:
            return dict(self._grouped[1])
        metadata = self._cluster.metadata
        wanted: dict[int, set[TopicIdPartition]] = {}
        for topic_id, number in self._membership.assigned:
            name = metadata.names.get(topic_id)
            node = metadata.leader(TopicPartition(name, number)) if name is not None else -1
            wanted.setdefault(node, set()).add((topic_id, number))
        if not wanted or wanted.pop(-1, set()):
            self._refresh_metadata()
        else:
            self._grouped = (self._membership.assigned, dict(wanted))
        return wanted

    def _metadata_changed(self) -> None:
        self._grouped = None

    def _start_fetches(self, limit: int, max_wait_ms: int) -> bool:
        """One fetch to each broker that leads partitions of ours and has none under way; returns whether any was
        started.
        """
        wanted = self._assigned_by_node()
        for node, session in self._sessions.items():
            if session.has_acknowledgements:
                wanted.setdefault(node, set())
        idle = [node for node in wanted if node not in self._fetches]
        for node in idle:
            self._fetches[node] = asyncio.create_task(self._fetch(node, wanted[node], limit, max_wait_ms))
        return bool(idle)

    def _session(self, node: int) -> ShareSession:
        session = self._sessions.get(node)
        if session is None:
            assert self._membership is not None
            session = self._sessions[node] = ShareSession(
                self._cluster, self.config, node, self._membership.member_id, self._acknowledged
            )
        return session

    async def _fetch(self, node: int, wanted: set[TopicIdPartition], limit: int, max_wait_ms: int) -> None:
        session = self._session(node)
        try:
            if not wanted:
                await session.acknowledge()
            while wanted:
                await self._fetch_once(session, wanted, limit, max_wait_ms)
                if not self._awaits_more or len(self._fetched) != 1:
                    break
                # A quick program waits for just this, and will want more: ask before anything else is done, as the
                # broker has nothing to do until then.
                self._awaits_more = False
                self._arrived.set()
                max_wait_ms = _AHEAD_WAIT_MS
                wanted = self._assigned_by_node().get(node, set())
        except KafkaError as error:
            if not error.retriable:
                assert self._membership is not None
                self._membership.error = error
            _log.debug("share fetch from broker %d: %s", node, error)
            self._refresh_metadata()
            await asyncio.sleep(self._backoff.next_pause())
        except MalformedMessage as error:
            assert self._membership is not None
            self._membership.error = error
        finally:
            self._fetches.pop(node, None)
            self._arrived.set()

    async def _fetch_once(
        self, session: ShareSession, assigned: set[TopicIdPartition], limit: int, max_wait_ms: int
    ) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        self._take_in(session, await session.fetch(assigned, limit, max_wait_ms))
        self._backoff.reset()
        self._fetch_count.record()
        self._fetch_latency.record((loop.time() - started) * 1000)

    def _take_in(self, session: ShareSession, partitions: list[SharePartition]) -> None:
        size = 0
        for partition in partitions:
            if partition.error_code:
                self._partition_refused(partition)
                continue
            name = self._cluster.metadata.names.get(partition.partition[0])
            if name is None or not partition.acquired:
                continue
            self._fetched.append((session, TopicPartition(name, partition.partition[1]), partition))
            size += len(partition.records)
        if size:
            self._fetch_size.record(size)

    def _decode(self, session: ShareSession, tp: TopicPartition, partition: SharePartition) -> None:
        delivered = decode_share_partition(session, tp, partition, self.config.check_crcs)
        acks = session.acknowledgements(partition.partition)
        for first, last in delivered.gaps:
            acks.add_run(first, last, GAP)
            acks.locked(first, last, partition.locked_at + session.lock_timeout_ms / 1000)
        if delivered.records or delivered.corrupt:
            self._per_request.record(len(delivered.records))
            self._buffer.append(delivered)

    def _partition_refused(self, partition: SharePartition) -> None:
        error = kafka_error(partition.error_code, partition.error_message)
        if error.retriable or error.code == ErrorCode.UNKNOWN_SERVER_ERROR:
            self._refresh_metadata()
        else:
            assert self._membership is not None
            self._membership.error = error

    def _refresh_metadata(self) -> None:
        if self._refreshing is None and not self._closed:
            self._refreshing = asyncio.create_task(self._refresh())

    async def _refresh(self) -> None:
        try:
            await asyncio.sleep(self.config.retry_backoff_ms / 1000)
            await self._cluster.refresh(self._topics)
        except KafkaError as error:
            _log.debug("metadata: %s", error)
        finally:
            self._refreshing = None
            self._arrived.set()

    def _hand_out(self, delivered: Delivered) -> list[ConsumerRecord[K, V]]:
        """Records for the program; from now on it has to decide about them."""
        if asyncio.get_running_loop().time() - delivered.locked_at > delivered.session.lock_timeout_ms / 1000:
            _log.info("%d records of %s waited until their locks expired", len(delivered.records), delivered.tp)
            return []
        if delivered.corrupt:
            if not delivered.records:
                raise self._rejected(delivered)
            self._buffer.appendleft(replace(delivered, records=[]))
        records = delivered.records
        if self._key_deserializer is not None or self._value_deserializer is not None:
            records = self._deserialized(delivered)
        if self._explicit:
            locked_at = delivered.locked_at
            self._locks.add(delivered.session, delivered.tp, delivered.partition, runs_of_records(records), locked_at)
            self._keeper.locked(locked_at)
        elif records:
            is_whole = records is delivered.records and not delivered.corrupt
            self._implicit.append(delivered if is_whole else replace(delivered, records=records, corrupt=[]))
        return cast("list[ConsumerRecord[K, V]]", records)

    def _rejected(self, delivered: Delivered) -> CorruptMessage:
        """Reject batches that cannot be read: nobody else could read them either."""
        acks = delivered.session.acknowledgements(delivered.partition)
        for first, last in delivered.corrupt:
            acks.add_run(first, last, AcknowledgeType.REJECT)
        runs = ", ".join(f"{first} to {last}" for first, last in delivered.corrupt)
        return CorruptMessage(f"{delivered.tp} offsets {runs} are in batches that cannot be read; they were rejected")

    def _deserialized(self, delivered: Delivered) -> list[ConsumerRecord[bytes, bytes]]:
        made: list[ConsumerRecord[bytes, bytes]] = []
        for index, record in enumerate(delivered.records):
            key: object = record.key
            value: object = record.value
            try:
                if record.key is not None and self._key_deserializer is not None:
                    key = self._key_deserializer(record.key)
                if record.value is not None and self._value_deserializer is not None:
                    value = self._value_deserializer(record.value)
            except Exception as error:
                rest = delivered.records[index if made else index + 1 :]
                if rest:
                    self._buffer.appendleft(replace(delivered, records=rest, corrupt=[]))
                if made:
                    return made  # the next poll begins with the bad one
                acks = delivered.session.acknowledgements(delivered.partition)
                acks.add(record.offset, AcknowledgeType.RELEASE)
                raise RecordDeserializationError(record.topic, record.partition, record.offset) from error
            made.append(record._replace(key=key, value=value))  # type: ignore[arg-type]
        return made

    # Deciding about records

    def acknowledge(self, record: ConsumerRecord[K, V], kind: AcknowledgeType = AcknowledgeType.ACCEPT) -> None:
        """Set the acknowledgement of a record (explicit mode), which the next poll or commit sends."""
        # The usual case, written out, because it runs once per record.
        try:
            types = self._locks.newest[record[0]][record[1]].types
        except KeyError:
            types = _NO_TYPES
        offset = record[2]
        if offset in types and kind in _DECISIONS and not self._closed and not self._in_callback:
            types[offset] = kind
        else:
            self._acknowledge(record, kind)

    def _acknowledge(self, record: ConsumerRecord[K, V], kind: AcknowledgeType) -> None:
        self._started()
        if kind == AcknowledgeType.RENEW:
            raise UsageError(
                "to keep a record locked use `async with consumer.hold(record):` or consumer.renew(record)"
            )
        if kind not in _DECISIONS:
            raise UsageError(f"{kind!r} is not an acknowledgement: use one of AcknowledgeType")
        if not self._explicit:
            raise IllegalState("acknowledge needs share_acknowledgement_mode='explicit'")
        if self._locks.decide(record, kind):
            return
        raise IllegalState(
            f"the record at {record.topic_partition} offset {record.offset} is not locked by this consumer"
        )

    def accept(self, record: ConsumerRecord[K, V]) -> None:
        """Mark a record as done (explicit mode)."""
        self.acknowledge(record)

    def release(self, record: ConsumerRecord[K, V]) -> None:
        """Give back a record for another delivery (explicit mode)."""
        self.acknowledge(record, AcknowledgeType.RELEASE)

    def reject(self, record: ConsumerRecord[K, V]) -> None:
        """Give up a record for good: it is not delivered again (explicit mode)."""
        self.acknowledge(record, AcknowledgeType.REJECT)

    async def renew(self, *records: ConsumerRecord[K, V]) -> None:
        """Restart the lock time of records (needs a broker with ShareAcknowledge version 2).

        If some locks have expired already, the others are renewed, and then InvalidRecordState is raised.
        """
        await self._locks.renew(records)

    @asynccontextmanager
    async def hold(self, record: ConsumerRecord[K, V]) -> AsyncIterator[ConsumerRecord[K, V]]:
        """Keep a record locked for as long as the block runs, by renewing in the background (explicit mode).

        All other unacknowledged records of this consumer are kept locked as well.
        """
        if not self._explicit:
            raise IllegalState("hold needs share_acknowledgement_mode='explicit'")
        with self._keeper.hold():
            yield record

    async def _renew_all(self) -> None:
        """Renew all locks: of what the program has, and of what waits in the buffers."""
        loop = asyncio.get_running_loop()
        failures: list[KafkaError] = []
        for session in list(self._sessions.values()):
            waiting: list[Delivered | SharePartition] = []

            def choose(
                session: ShareSession = session, waiting: list[Delivered | SharePartition] = waiting
            ) -> dict[TopicIdPartition, Runs]:
                oldest = loop.time() - session.lock_timeout_ms / 1000
                waiting += [one for one in self._buffer if one.session is session and one.locked_at >= oldest]
                waiting += [one for owner, _, one in self._fetched if owner is session and one.locked_at >= oldest]
                in_buffers = ((one.partition, one.locked_runs()) for one in waiting)
                return merged([*session.held(), *in_buffers])

            started = loop.time()
            renewed = await renew_locks(session, choose, failures)
            for one in waiting:
                if one.partition in renewed:
                    one.locked_at = started
        if failures:
            raise failures[0]

    async def commit(self) -> dict[TopicPartition, KafkaError | None]:
        """Send all acknowledgements now; returns an error or None for each partition. In implicit mode accept all.

        The acknowledgement callback receives the records that failed.
        """
        self._started()
        self._accept_implicitly()
        return await self._commit()

    def commit_async(self) -> asyncio.Task[dict[TopicPartition, KafkaError | None]]:
        """`commit` in the background; the acknowledgement callback receives the result."""
        self._started()
        self._accept_implicitly()  # now: what the next poll returns is not accepted by this commit
        task = asyncio.create_task(self._commit())
        self._commits.add(task)
        task.add_done_callback(self._commits.discard)
        return task

    async def _commit(self) -> dict[TopicPartition, KafkaError | None]:
        outcomes: dict[TopicPartition, KafkaError | None] = {}
        self._outcomes.append(outcomes)
        try:
            sessions = [session for session in self._sessions.values() if session.has_acknowledgements]
            results = await asyncio.gather(*(session.acknowledge() for session in sessions), return_exceptions=True)
        finally:
            self._outcomes = [each for each in self._outcomes if each is not outcomes]
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, KafkaError):
                raise result
        return outcomes

    def set_acknowledgement_commit_callback(self, callback: AckCallback | None) -> None:
        """Call `callback(offsets, error)` for acknowledgements; after an error the records are delivered again."""
        self._callback = callback

    def _accept_implicitly(self) -> None:
        for delivered in self._implicit:
            acks = delivered.session.acknowledgements(delivered.partition)
            for first, last in delivered.runs():
                acks.add_run(first, last, AcknowledgeType.ACCEPT)
        self._implicit.clear()

    def _acknowledged(self, partition: TopicIdPartition, acks: Acknowledgements, error: KafkaError | None) -> None:
        count = acks.count()
        self._ack_count.record(count)
        if error is not None:
            self._ack_errors.record(count)
        name = self._cluster.metadata.names.get(partition[0])
        if name is None:
            return
        tp = TopicPartition(name, partition[1])
        for outcomes in self._outcomes:
            outcomes[tp] = error or outcomes.get(tp)  # one request may be answered in parts
        if self._callback is None:
            if error is not None:
                _log.warning("%d records of %s will be delivered again: %s", count, tp, error)
            return
        self._in_callback = True
        try:
            self._callback({tp: acks.offsets()}, error)
        finally:
            self._in_callback = False

    # The worker

    async def run(
        self,
        handler: Handler[K, V],
        *,
        concurrency: int = 1,
        stop: asyncio.Event | None = None,
    ) -> None:
        """Call `handler` for every record, up to `concurrency` at a time, until cancelled or `stop` is set.

        A record is accepted when its handler returns, rejected when it raises `Reject`, released for another delivery
        when it raises anything else. Its lock is renewed until its handler is done.
        """
        if concurrency < 1:
            raise UsageError(f"concurrency is {concurrency}; it must be at least 1")
        self._started()
        self._accept_implicitly()
        self._explicit = True
        worker = Worker(
            handler,
            concurrency,
            self._take_for_worker,
            self._locks.decide,
            self._has_acknowledgements,
            self.commit,
            nullcontext if self._tracing is None else self._tracing.processing,
        )
        with self._keeper.hold():
            await worker.run(stop)

    async def _take_for_worker(self, limit: int, is_busy: bool) -> list[ConsumerRecord[K, V]]:
        wait_ms = _BUSY_WAIT_MS if is_busy else self.config.fetch_max_wait_ms
        return await self._poll(wait_ms, limit, wait_ms)

    def _has_acknowledgements(self) -> bool:
        return any(session.has_acknowledgements for session in self._sessions.values())
