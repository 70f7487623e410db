"""Sends the batches in the producer's queues to the brokers, until the outcome of each is final.

One task wakes when a batch is full or due, collects for every broker the next batch of each partition that it leads,
and sends them as one Produce request; up to `max_in_flight_requests_per_connection` requests are under way per broker.

What the response means for a batch:

====================================  ================================================================================
no error, or a known duplicate        done
retriable                             again, after a pause and with fresh metadata, until `delivery_timeout_ms`
too large, and more than one record   split in two
out of order, behind a failed batch   again, after that one
out of order, nothing before it       the broker has lost track: new producer epoch, numbers start over, again
anything else                         failed; if it had a sequence number, those behind it need a new epoch
====================================  ================================================================================

A new epoch (idempotent producers may raise it on their own, KIP-360) begins when no batch with the old one is in
flight; until then only retries are sent.

A transaction that has lost a batch, for whatever reason, can only be aborted: its other waiting batches are given up
too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable

from penstock.client.accumulator import Batch, Delivery, PartitionQueue
from penstock.client.cluster import Backoff, Cluster
from penstock.client.config import ProducerConfig
from penstock.client.connection import Connection
from penstock.client.errors import RequestTimeout, kafka_error
from penstock.client.identity import ProducerIdentity
from penstock.client.metrics import Metrics
from penstock.client.types import NO_TOPIC_ID, TopicPartition
from penstock.client.versions import PRODUCE_LAST_NAMED, PRODUCE_LAST_OF_OLD_TRANSACTIONS
from penstock.records.codecs import Codec
from penstock.wire import messages as m
from penstock.wire.conversation import NEWEST
from penstock.wire.errors import ErrorCode, KafkaError, MessageTooLarge, OutOfOrderSequenceNumber

_log = logging.getLogger("penstock.client")

_GROUP = "producer-metrics"
_CHECK_SECONDS = 1.0  # how often delivery timeouts are looked at while something waits


class Sender:
    def __init__(
        self, cluster: Cluster, config: ProducerConfig, identity: ProducerIdentity | None, metrics: Metrics
    ) -> None:
        self.queues: dict[TopicPartition, PartitionQueue] = {}
        self.busy: dict[TopicPartition, PartitionQueue] = {}
        self.buffered_bytes = 0
        self._cluster = cluster
        self._config = config
        self._identity = identity
        self._acks = {"all": -1, "1": 1, "0": 0}[config.acks]
        self._codec = Codec[config.compression_type.upper()]
        self._linger = config.linger_ms / 1000
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._due = False  # send open batches at once: a flush or a close is waiting, or the memory is full
        self._requests: set[asyncio.Task[None]] = set()
        self._chores: set[asyncio.Task[None]] = set()
        self._node_requests: dict[int, int] = {}
        self._turns: dict[int, asyncio.Lock] = {}
        self._refreshing = False
        self._paused_until = 0.0
        # Partitions where a batch was lost for good, or whose numbers the broker no longer follows.
        self._broken: set[TopicPartition] = set()
        self._backoff = Backoff(config)
        self._memory_free = asyncio.Event()
        self._memory_free.set()
        self._task = asyncio.create_task(self._run(), name="penstock-sender")
        self._sent = metrics.sensor(_GROUP, "record-send", "rate", "total")
        self._bytes = metrics.sensor(_GROUP, "outgoing-byte", "rate", "total")
        self._batch_size = metrics.sensor(_GROUP, "batch-size", "avg", "max")
        self._per_request = metrics.sensor(_GROUP, "records-per-request", "avg")
        self._latency = metrics.sensor(_GROUP, "request-latency", "avg", "max")
        self._throttle = metrics.sensor(_GROUP, "produce-throttle-time", "avg", "max")
        self._request_count = metrics.sensor(_GROUP, "request", "rate", "total")
        self._retried = metrics.sensor(_GROUP, "record-retry", "rate", "total")
        self._errors = metrics.sensor(_GROUP, "record-error", "rate", "total")
        self._queue_time = metrics.sensor(_GROUP, "record-queue-time", "avg", "max")
        self._splits = metrics.sensor(_GROUP, "batch-split", "rate", "total")

    # What the producer calls

    def queue(self, tp: TopicPartition) -> PartitionQueue:
        queue = self.queues.get(tp)
        if queue is None:
            queue = self.queues[tp] = PartitionQueue(tp)
        return queue

    def opened(self, queue: PartitionQueue) -> None:
        """A queue has a new open batch: see to it when it is due."""
        self.busy[queue.tp] = queue
        if self._linger <= 0 or self._due:
            self._wake.set()
        else:
            self._wake_at(self._loop.time() + self._linger)

    def filled(self, queue: PartitionQueue) -> None:
        """A queue has a closed batch."""
        self.busy[queue.tp] = queue
        self._wake.set()

    def hurry(self, delivery: Delivery) -> None:
        """Send the batch of a record that is waited for without lingering."""
        queue = self.queues[delivery.topic_partition]
        queue.close_open()
        self._wake.set()

    async def wait_for_memory(self, timeout: float) -> None:
        """Return once there is room in the buffer; everything that waits is sent right away to make some."""
        self._memory_free.clear()
        self._due = True
        self._wake.set()
        try:
            async with asyncio.timeout(timeout):
                await self._memory_free.wait()
        except TimeoutError:
            raise RequestTimeout(
                f"the producer's buffer of {self._config.buffer_memory} bytes stayed full for max_block_ms: "
                "the broker takes records more slowly than they are sent"
            ) from None

    async def flush(self) -> None:
        """Send everything that waits now, and return when all of it was answered."""
        waiting = []
        for queue in self.busy.values():
            queue.close_open()
            waiting += [batch.done for batch in (*queue.retries, *queue.closed, *queue.in_flight)]
        self._wake.set()
        if waiting:
            await asyncio.wait(waiting)

    def drop_all(self, error: BaseException) -> None:
        """Fail everything that is not under way (an aborted transaction, a fatal error)."""
        for queue in self.busy.values():
            for batch in queue.drop_all():
                self._finish(batch, error)

    async def in_flight_answered(self) -> None:
        while self._requests:
            await asyncio.wait(self._requests)

    async def close(self) -> None:
        tasks = [self._task, *self._requests, *self._chores]
        for task in tasks:
            task.cancel()
        if self._timer is not None:
            self._timer.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # The loop

    def wake(self) -> None:
        self._wake.set()

    def _wake_at(self, when: float) -> None:
        if self._timer is not None:
            if self._timer_at <= when:
                return
            self._timer.cancel()
        self._timer_at = when
        self._timer = self._loop.call_at(when, self._time_has_come)

    def _time_has_come(self) -> None:
        self._timer = None  # uvloop's timers may be up to a millisecond early: what is not due yet sets another
        self._wake.set()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            self._drain()

    def _drain(self) -> None:
        now = self._loop.time()
        self._close_due_batches(now)
        self._expire(now)
        if not self.busy:
            self._due = False
            return
        self._wake_at(now + _CHECK_SECONDS)
        if now < self._paused_until:
            self._wake_at(self._paused_until)
            return
        if self._identity is not None and not self._ready_identity():
            return
        while True:
            requests = self._gather()
            if not requests:
                return
            for node, batches in requests.items():
                self._node_requests[node] = self._node_requests.get(node, 0) + 1
                task = asyncio.create_task(self._send(node, batches))
                self._requests.add(task)
                task.add_done_callback(self._requests.discard)

    def _close_due_batches(self, now: float) -> None:
        next_due = 0.0
        for queue in self.busy.values():
            batch = queue.open
            if batch is None:
                continue
            due_at = batch.created_at + self._linger
            if self._due or due_at <= now:
                queue.close_open()
            elif not next_due or due_at < next_due:
                next_due = due_at
        if next_due:
            self._wake_at(next_due)

    def _expire(self, now: float) -> None:
        """Give up what has waited longer than the delivery timeout, and forget queues that have no work."""
        oldest = now - self._config.delivery_timeout_ms / 1000
        for queue in list(self.busy.values()):
            for waiting in queue.retries, queue.closed:
                while waiting and waiting[0].created_at <= oldest:
                    batch = waiting[0]
                    del waiting[0]
                    self._give_up(batch, self._too_late(batch))
            if not queue.has_work():
                del self.busy[queue.tp]

    def _too_late(self, batch: Batch) -> RequestTimeout:
        return RequestTimeout(
            f"{len(batch.records)} records for {batch.tp} were not delivered within delivery_timeout_ms="
            f"{self._config.delivery_timeout_ms}"
        )

    def _ready_identity(self) -> bool:
        """Whether batches may be numbered now; starts what is missing for it."""
        identity = self._identity
        assert identity is not None
        if identity.failure is not None:
            self.drop_all(identity.failure)
            return False
        if self._broken:
            if any(queue.in_flight or (queue.retries and tp not in self._broken) for tp, queue in self.busy.items()):
                return True  # what may have been written under the old numbers must be answered first
            self._broken.clear()
            identity.raise_epoch()
            for queue in self.queues.values():
                queue.renumber()
        if identity.is_ready:
            return True
        if not self._chores:
            self._chore(self._prepare_identity(identity))
        return False

    async def _prepare_identity(self, identity: ProducerIdentity) -> None:
        try:
            await identity.prepare()
        except KafkaError as error:
            self.drop_all(error)

    def _gather(self) -> dict[int, list[Batch]]:
        """For every broker with room for a request, the next batches of the partitions that it leads."""
        config, metadata = self._config, self._cluster.metadata
        limit = config.max_in_flight_requests_per_connection
        requests: dict[int, list[Batch]] = {}
        sizes: dict[int, int] = {}
        leaderless: set[str] = set()
        unregistered: list[TopicPartition] = []
        only_retries = bool(self._broken)
        for queue in self.busy.values():
            if queue.tp in self._broken or not queue.is_sendable(limit, self._identity is not None, only_retries):
                continue
            node = metadata.leader(queue.tp)
            if node < 0:
                leaderless.add(queue.tp.topic)
                continue
            if self._node_requests.get(node, 0) >= limit:
                continue
            if self._identity is not None and not self._identity.may_write(queue.tp):
                unregistered.append(queue.tp)
                continue
            size = (queue.retries or queue.closed)[0].size
            if sizes.get(node) and sizes[node] + size > config.max_request_size:
                continue
            sizes[node] = sizes.get(node, 0) + size
            batch = queue.take()
            if batch.position < 0:
                if self._identity is not None:
                    queue.number(batch, self._identity.producer_id, self._identity.epoch)
                else:
                    queue.number(batch, -1, -1)
            requests.setdefault(node, []).append(batch)
        if leaderless:
            self._refresh_metadata(leaderless)
        if unregistered and self._identity is not None and not self._chores:
            self._chore(self._register(self._identity, unregistered))
        return requests

    async def _register(self, identity: ProducerIdentity, partitions: list[TopicPartition]) -> None:
        try:
            await identity.add_partitions(partitions)
        except KafkaError as error:
            self.drop_all(error)

    def _refresh_metadata(self, topics: Iterable[str]) -> None:
        if not self._refreshing:
            self._refreshing = True
            self._chore(self._refresh(list(topics)))

    async def _refresh(self, topics: list[str]) -> None:
        try:
            await asyncio.sleep(self._backoff.next_pause())
            await self._cluster.refresh(topics)
        except KafkaError as error:
            _log.debug("metadata of %s: %s", topics, error)
        finally:
            self._refreshing = False

    def _chore(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._chores.add(task)
        task.add_done_callback(self._chore_done)

    def _chore_done(self, task: asyncio.Task[None]) -> None:
        self._chores.discard(task)
        self._wake.set()

    # One request

    async def _send(self, node: int, batches: list[Batch]) -> None:
        started = self._loop.time()
        try:
            # In turn: a request that finds the connection open must not overtake one that waits for it to be opened,
            # because a broker that does not know a producer yet takes whichever of its batches comes first.
            async with self._turns.setdefault(node, asyncio.Lock()):
                connection = await self._cluster.connection(node, "produce")
            batches = self._in_order(batches)
            if not batches:
                return
            answer = await self._exchange(connection, batches)
        except KafkaError as error:
            for batch in batches:
                self._failed(batch, error)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            _log.exception("a Produce request to broker %d could not be sent", node)
            for batch in batches:
                self.queues[batch.tp].answered(batch)
                self._give_up(batch, error)
        else:
            self._latency.record((self._loop.time() - started) * 1000)
            self._read(answer, batches)
        finally:
            self._node_requests[node] -= 1
            self._wake.set()

    def _in_order(self, batches: list[Batch]) -> list[Batch]:
        """Those that may be sent: a batch before one of them may have found no connection, and then it goes first."""
        ready = []
        for batch in batches:
            queue = self.queues[batch.tp]
            if queue.follows_a_retry(batch):
                queue.answered(batch)
                queue.retry(batch)
            else:
                ready.append(batch)
        return ready

    async def _exchange(self, connection: Connection, batches: list[Batch]) -> m.ProduceResponse | None:
        config = self._config
        transactional_id = config.transactional_id or None
        at_most = PRODUCE_LAST_NAMED
        if transactional_id and self._identity is not None and not self._identity.writing_adds_partitions:
            at_most = PRODUCE_LAST_OF_OLD_TRANSACTIONS
        elif all(self._cluster.metadata.topic_id(batch.tp.topic) != NO_TOPIC_ID for batch in batches):
            at_most = NEWEST
        version = connection.version_for(m.ProduceResponse, at_least=3, at_most=at_most)
        topics: dict[str, m.ProduceRequest.TopicProduceData] = {}
        for batch in batches:
            topic = topics.get(batch.tp.topic)
            if topic is None:
                topic = topics[batch.tp.topic] = m.ProduceRequest.TopicProduceData(
                    name=batch.tp.topic, topic_id=self._cluster.metadata.topic_id(batch.tp.topic), partition_data=[]
                )
            data = batch.build(self._codec, config.compression_level, transactional_id is not None)
            topic.partition_data.append(m.ProduceRequest.PartitionProduceData(batch.tp.partition, data))
            batch.attempts += 1
        request = m.ProduceRequest(
            transactional_id=transactional_id,
            acks=self._acks,
            timeout_ms=config.request_timeout_ms,
            topic_data=list(topics.values()),
        )
        self._measure(batches)
        if self._acks == 0:
            await connection.send_only(request, version)
            return None
        return await connection.request(
            request, m.ProduceResponse, timeout_ms=config.request_timeout_ms, at_most=version, at_least=version
        )

    def _measure(self, batches: list[Batch]) -> None:
        now = self._loop.time()
        records = 0
        for batch in batches:
            records += len(batch.records)
            size = len(batch.data or b"")
            self._batch_size.record(size)
            self._bytes.record(size)
            self._queue_time.record((now - batch.created_at) * 1000)
        self._sent.record(records)
        self._per_request.record(records)
        self._request_count.record()

    def _read(self, answer: m.ProduceResponse | None, batches: list[Batch]) -> None:
        if answer is None:
            for batch in batches:
                self.queues[batch.tp].answered(batch)
                self._finish(batch, None)
            return
        self._throttle.record(answer.throttle_time_ms)
        names = self._cluster.metadata.names
        results = {
            (topic.name or names.get(topic.topic_id, ""), partition.index): partition
            for topic in answer.responses
            for partition in topic.partition_responses
        }
        for batch in batches:
            result = results.get(batch.tp)
            if result is None:
                # The broker left the partition out, or its topic was created anew meanwhile.
                self._failed(batch, kafka_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, about=str(batch.tp)))
            elif result.error_code == 0 or result.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                self._backoff.reset()
                self.queues[batch.tp].answered(batch)
                self._finish(batch, None, result.base_offset, result.log_append_time_ms)
            else:
                text = result.error_message
                if result.record_errors:
                    text = "; ".join(
                        f"record {entry.batch_index}: {entry.batch_index_error_message or text}"
                        for entry in result.record_errors
                    )
                self._failed(batch, kafka_error(result.error_code, text, about=str(batch.tp)))

    def _failed(self, batch: Batch, error: KafkaError) -> None:
        queue = self.queues[batch.tp]
        was_first = queue.is_first(batch)
        queue.answered(batch)
        if isinstance(error, MessageTooLarge) and len(batch.records) > 1:
            self._splits.record()
            for half in batch.split():
                queue.retry(half)
            return
        out_of_order = isinstance(error, OutOfOrderSequenceNumber)
        idempotent_only = self._identity is not None and not self._identity.is_transactional
        if error.retriable or (out_of_order and (not was_first or idempotent_only)):
            if self._loop.time() < batch.created_at + self._config.delivery_timeout_ms / 1000:
                if out_of_order and was_first:
                    self._broken.add(batch.tp)
                self._retried.record(len(batch.records))
                queue.retry(batch)
                self._pause_for(error, batch.tp.topic)
                return
            error = self._too_late(batch)
        self._give_up(batch, error)

    def _give_up(self, batch: Batch, error: Exception) -> None:
        """A batch will not be written: its transaction must not be committed, and its number stays a gap."""
        if self._identity is not None:
            self._identity.fail(error)
            if batch.sequence >= 0 and not self._identity.is_transactional:
                self._broken.add(batch.tp)
        self._finish(batch, error)

    def _pause_for(self, error: KafkaError, topic: str) -> None:
        if isinstance(error, OutOfOrderSequenceNumber):
            return
        if self._paused_until <= self._loop.time():
            self._paused_until = self._loop.time() + self._backoff.next_pause()
            _log.info("will retry: %s", error)
        self._refresh_metadata([topic])

    def _finish(self, batch: Batch, error: BaseException | None, offset: int = -1, timestamp: int = -1) -> None:
        self.buffered_bytes -= batch.size
        if self.buffered_bytes < self._config.buffer_memory and not self._memory_free.is_set():
            self._memory_free.set()
            self._due = False
        if error is None:
            batch.succeed(offset, timestamp)
            return
        self._errors.record(len(batch.records))
        _log.warning("%d records for %s were not delivered: %s", len(batch.records), batch.tp, error)
        batch.fail(error)
