"""The producer: batches records per partition and delivers them, each exactly once per partition unless told otherwise.

    async with Producer(bootstrap_servers="127.0.0.1:9092") as producer:
        delivery = await producer.send("orders", b"one order", key=b"customer 7")
        print((await delivery).offset)

`send` returns as soon as the record is in the buffer. It waits only while the buffer (`buffer_memory`) is full, so a
slow broker slows the program down instead of filling its memory. Awaiting the `Delivery` waits for the broker.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Unpack

from penstock.client.accumulator import RECORD_OVERHEAD, Batch, Delivery, PartitionQueue
from penstock.client.cluster import Cluster
from penstock.client.config import ProducerConfig, ProducerSettings, load
from penstock.client.errors import IllegalState, UsageError, kafka_error
from penstock.client.identity import ProducerIdentity
from penstock.client.metrics import ConnectionMetrics, MetricName, Metrics
from penstock.client.partitioner import other_partition, partition_for_key
from penstock.client.partitions import P, whole_offsets
from penstock.client.sender import Sender
from penstock.client.telemetry import Reporter
from penstock.client.transactions import ConsumerGroupMetadata, GroupMember, State, TransactionalIdentity
from penstock.client.types import Headers, OffsetAndMetadata, RecordMetadata, TopicPartition
from penstock.records.builder import NewRecord
from penstock.wire.errors import ErrorCode, KafkaError, MessageTooLarge

if TYPE_CHECKING:
    from penstock.client.tracing import Tracing

_NO_HEADERS: Headers = ()
_BATCH_ROWS = 10_000
_CANCELLED_CLOSE_MS = 3_000

_log = logging.getLogger("penstock.client")


class Producer:
    """Sends records. Settings are keyword arguments, or a mapping with Kafka's dotted names."""

    def __init__(self, config: Mapping[str, object] | None = None, /, **settings: Unpack[ProducerSettings]) -> None:
        self.config = _checked(load(ProducerConfig, config, settings))
        self._metrics = Metrics(self.config.client_id)
        self._cluster = Cluster(self.config, ConnectionMetrics(self._metrics, "producer"))
        self._identity: ProducerIdentity | None = None
        self._transactional: TransactionalIdentity | None = None
        self._sender: Sender | None = None
        self._sticky: dict[str, PartitionQueue] = {}
        self._last_stuck: dict[str, int] = {}
        self._reporter = Reporter(self._cluster, self._metrics, self._labels)
        self._batch_size = self.config.batch_size
        self._closed = False
        self._tracing: Tracing | None = None
        if self.config.enable_tracing:
            from penstock.client import tracing

            self._tracing = tracing.Tracing(self.config.client_id)
            # In place of a check with every record: a producer without tracing pays nothing for it.
            self.send = self._send_traced  # type: ignore[method-assign]

    # Life

    async def start(self) -> Producer:
        """Connect. With a `transactional_id`, also fence older producers that have the same one."""
        if self._sender is not None:
            return self
        if self._closed:
            raise IllegalState("this producer is closed; create another one")
        config = self.config
        await self._cluster.start()
        if config.transactional_id:
            self._transactional = self._identity = TransactionalIdentity(
                self._cluster, config.transactional_id, config.transaction_timeout_ms, config.max_block_ms
            )
            await self._transactional.prepare()
        elif config.enable_idempotence:
            self._identity = ProducerIdentity(self._cluster, config.delivery_timeout_ms)
        self._sender = sender = Sender(self._cluster, config, self._identity, self._metrics)
        self._metrics.gauge("producer-metrics", "buffer-total-bytes", lambda: float(config.buffer_memory))
        self._metrics.gauge(
            "producer-metrics", "buffer-available-bytes", lambda: float(config.buffer_memory - sender.buffered_bytes)
        )
        self._reporter.start()
        return self

    def _labels(self) -> dict[str, str]:
        """As KIP-714 names them."""
        return {"transactional_id": self.config.transactional_id}

    async def close(self, timeout_ms: int | None = None) -> None:
        """Deliver what is buffered (within the timeout or `delivery_timeout_ms`), abort an open transaction, close."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._sender is not None:
                if self._transactional is not None and self._transactional.state in (
                    State.IN_TRANSACTION,
                    State.ABORTABLE_ERROR,
                ):
                    await self._abort()
                async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                    await self._sender.flush()
        except (KafkaError, TimeoutError) as error:
            _log.warning("while closing: %s", error or "not everything was delivered in time")
        finally:
            if self._sender is not None:
                await self._sender.close()
            await self._reporter.close()
            await self._cluster.close()

    async def __aenter__(self) -> Producer:
        try:
            return await self.start()
        except BaseException:
            await self._cluster.close()
            raise

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # Whoever is cancelled (Ctrl-C) should not wait minutes for a broker that is gone.
        cancelled = kind is not None and issubclass(kind, asyncio.CancelledError)
        await self.close(_CANCELLED_CLOSE_MS if cancelled else None)

    # Sending

    async def send(
        self,
        topic: str,
        value: bytes | str | None = None,
        *,
        key: bytes | str | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] | None = None,
    ) -> Delivery:
        """Buffer one record; await the returned `Delivery` to know where it was written. Text is sent as UTF-8."""
        if value.__class__ is not bytes and value is not None:
            value = _as_bytes(value)
        if key.__class__ is not bytes and key is not None:
            key = _as_bytes(key)
        if partition is None and key is None:
            queue = self._sticky.get(topic) or await self._stick(topic)
        else:
            queue = await self._queue_of(topic, key, partition)
        size = RECORD_OVERHEAD
        if value is not None:
            size += len(value)
        if key is not None:
            size += len(key)
        if headers:
            headers, more = _checked_headers(headers)
            size += more
        sender = self._sender
        if sender is None or self._closed:
            raise IllegalState("this producer is not started; use it in `async with producer:`")
        if sender.buffered_bytes + size > self.config.buffer_memory:
            await self._make_room(sender, size)
        if self._transactional is not None:
            self._transactional.require("send")
        timestamp = timestamp_ms if timestamp_ms is not None else int(time.time() * 1000)
        batch = queue.open
        if batch is None or batch.size + size > self._batch_size:
            batch = self._next_batch(sender, queue, size)
        records = batch.records
        records.append((timestamp, key, value, headers or _NO_HEADERS))
        batch.size += size
        sender.buffered_bytes += size
        return Delivery(batch, len(records) - 1, timestamp)

    async def _send_traced(
        self,
        topic: str,
        value: bytes | str | None = None,
        *,
        key: bytes | str | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] | None = None,
    ) -> Delivery:
        assert self._tracing is not None
        span, headers = self._tracing.begin_send(topic, headers)
        try:
            delivery = await Producer.send(
                self, topic, value, key=key, partition=partition, timestamp_ms=timestamp_ms, headers=headers
            )
        except BaseException as error:
            self._tracing.failed(span, error)
            raise
        self._tracing.sent(span, delivery)
        return delivery

    async def send_and_wait(
        self,
        topic: str,
        value: bytes | str | None = None,
        *,
        key: bytes | str | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] | None = None,
    ) -> RecordMetadata:
        """`send`, and wait for the broker. The record is sent without lingering."""
        delivery = await self.send(
            topic, value, key=key, partition=partition, timestamp_ms=timestamp_ms, headers=headers
        )
        assert self._sender is not None
        self._sender.hurry(delivery)
        return await delivery

    async def send_batch(
        self,
        topic: str,
        values: Sequence[bytes | None],
        *,
        keys: Sequence[bytes | None] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> list[Delivery]:
        """Send many records at once, in their order, to one partition; much cheaper per record than `send`.

        Without `partition`, one is chosen as for a record without a key. Returns one delivery per batch that was
        made: the fate of its last record.
        """
        sender = self._sender
        if sender is None or self._closed:
            raise IllegalState("this producer is not started; use it in `async with producer:`")
        if keys is not None and len(keys) != len(values):
            raise UsageError(f"send_batch got {len(values)} values and {len(keys)} keys; it takes one key per value")
        if partition is None:
            queue = self._sticky.get(topic) or await self._stick(topic)
        else:
            queue = await self._queue_of(topic, None, partition)
        queue.close_open()
        timestamp = timestamp_ms if timestamp_ms is not None else int(time.time() * 1000)
        deliveries: list[Delivery] = []
        for first, last in _slices(values, keys, max(self._batch_size, self.config.max_request_size // 2)):
            chunk = values[first:last]
            rows: list[NewRecord]
            if keys is None:
                rows = [(timestamp, None, value, _NO_HEADERS) for value in chunk]
            else:
                rows = [(timestamp, k, v, _NO_HEADERS) for k, v in zip(keys[first:last], chunk, strict=True)]
            size = _rows_size(chunk, keys[first:last] if keys is not None else None)
            if sender.buffered_bytes + size > self.config.buffer_memory:
                await self._make_room(sender, size)
            if self._transactional is not None:
                self._transactional.require("send")
            batch = Batch(queue.tp, asyncio.get_running_loop().time(), asyncio.get_running_loop().create_future())
            batch.records = rows
            batch.size = size
            sender.buffered_bytes += size
            queue.closed.append(batch)
            sender.filled(queue)
            deliveries.append(Delivery(batch, len(rows) - 1, timestamp))
        if partition is None:
            self._sticky.pop(topic, None)
        return deliveries

    async def flush(self) -> None:
        """Send all buffered records, and return when the broker has answered for all of them."""
        if self._sender is not None:
            await self._sender.flush()

    async def partitions_for(self, topic: str) -> list[int]:
        """The numbers of a topic's partitions."""
        return await self._cluster.partitions_of(topic, self.config.max_block_ms)

    async def topic_names(self) -> list[str]:
        """All topics of the cluster."""
        return await self._cluster.topic_names()

    def metrics(self) -> dict[MetricName, float]:
        """The producer's metrics, by Kafka's names."""
        return self._metrics.snapshot()

    # The way of a record into a batch

    def _next_batch(self, sender: Sender, queue: PartitionQueue, size: int) -> Batch:
        """A new open batch, in place of one that has no room for `size` more bytes."""
        if size > self.config.max_request_size:
            raise MessageTooLarge(
                f"the record has about {size} bytes, max_request_size allows {self.config.max_request_size}"
            )
        if queue.open is not None:
            queue.close_open()
            sender.filled(queue)
            if self._sticky.get(queue.tp.topic) is queue:
                del self._sticky[queue.tp.topic]
        loop = asyncio.get_running_loop()
        batch = queue.open = Batch(queue.tp, loop.time(), loop.create_future())
        sender.buffered_bytes += batch.size
        sender.opened(queue)
        return batch

    async def _stick(self, topic: str) -> PartitionQueue:
        """Choose the partition that records without a key go to until its batch is sent."""
        count = self._cluster.metadata.partition_count(topic)
        if not count:
            await self._know(topic)
            count = self._cluster.metadata.partition_count(topic)
        if self._sender is None:
            raise IllegalState("this producer is not started; use it in `async with producer:`")
        before = self._last_stuck.get(topic, -1)
        chosen = other_partition(before, count)
        self._last_stuck[topic] = chosen
        queue = self._sticky[topic] = self._sender.queue(TopicPartition(topic, chosen))
        return queue

    async def _queue_of(self, topic: str, key: bytes | None, partition: int | None) -> PartitionQueue:
        count = self._cluster.metadata.partition_count(topic)
        if not count or (partition is not None and partition >= count):
            await self._know(topic, partition)
            count = self._cluster.metadata.partition_count(topic)
        if partition is None:
            assert key is not None
            if self.config.partitioner_ignore_keys:
                return self._sticky.get(topic) or await self._stick(topic)
            partition = partition_for_key(key, count)
        if self._sender is None:
            raise IllegalState("this producer is not started; use it in `async with producer:`")
        return self._sender.queue(TopicPartition(topic, partition))

    async def _know(self, topic: str, partition: int | None = None) -> None:
        await self._cluster.topic(topic, self.config.max_block_ms)
        if partition is None or 0 <= partition < self._cluster.metadata.partition_count(topic):
            return
        await self._cluster.refresh([topic])
        count = self._cluster.metadata.partition_count(topic)
        if not 0 <= partition < count:
            raise kafka_error(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"the topic has partitions 0 to {count - 1}, not {partition}",
                about=f"topic {topic!r}",
            )

    async def _make_room(self, sender: Sender, size: int) -> None:
        deadline = time.monotonic() + self.config.max_block_ms / 1000
        while sender.buffered_bytes + size > self.config.buffer_memory and sender.buffered_bytes > 0:
            await sender.wait_for_memory(max(deadline - time.monotonic(), 0))

    # Transactions

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Producer]:
        """`async with producer.transaction():` commits at the end, or aborts if the block raises."""
        self.begin_transaction()
        try:
            yield self
        except BaseException:
            if self._require_transactional().state is not State.FATAL_ERROR:
                await self.abort_transaction()
            raise
        await self.commit_transaction()

    def begin_transaction(self) -> None:
        """Begin a transaction: everything sent from now on belongs to it."""
        self._require_transactional().begin()

    async def commit_transaction(self) -> None:
        """Write everything sent since `begin_transaction`, all or nothing. If it raises, abort or close."""
        transactional = self._require_transactional()
        transactional.require("commit")
        assert self._sender is not None
        await self._sender.flush()
        transactional.require("commit")  # a record may have been lost on the way
        self._renew(await transactional.end(commit=True))

    async def abort_transaction(self) -> None:
        """Drop everything sent since `begin_transaction`; readers with `read_committed` never see it."""
        self._require_transactional().require("abort")
        await self._abort()

    async def _abort(self) -> None:
        transactional, sender = self._require_transactional(), self._sender
        assert sender is not None
        sender.drop_all(kafka_error(ErrorCode.TRANSACTION_ABORTABLE, "the transaction was aborted"))
        await sender.in_flight_answered()
        sender.drop_all(kafka_error(ErrorCode.TRANSACTION_ABORTABLE, "the transaction was aborted"))
        self._renew(await transactional.end(commit=False))

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[P, OffsetAndMetadata | int],
        group: GroupMember | ConsumerGroupMetadata | str,
    ) -> None:
        """Commit consumed offsets in the transaction (exactly-once processing)."""
        if isinstance(group, str):
            group = ConsumerGroupMetadata(group)
        elif not isinstance(group, ConsumerGroupMetadata):
            group = group.group_metadata()
        await self._require_transactional().send_offsets(whole_offsets(offsets), group)

    def _renew(self, renewed: bool) -> None:
        if renewed and self._sender is not None:
            for queue in self._sender.queues.values():
                queue.renumber()

    def _require_transactional(self) -> TransactionalIdentity:
        if self._transactional is None:
            raise UsageError("transactions need a transactional_id: Producer(transactional_id='my-app-1')")
        return self._transactional


def _checked(config: ProducerConfig) -> ProducerConfig:
    """Fill in what depends on other settings, and refuse what contradicts itself."""
    idempotent = config.enable_idempotence
    if config.transactional_id:
        if idempotent is False:
            raise UsageError("a transactional_id needs enable_idempotence=True (leave it out)")
        idempotent = True
    if idempotent is None:
        # As in Kafka, asking for weaker guarantees by acks turns it off; asking for both is a contradiction.
        idempotent = config.acks == "all" and config.max_in_flight_requests_per_connection <= 5
    if idempotent and config.acks != "all":
        raise UsageError(f"enable_idempotence=True needs acks='all'; acks is {config.acks!r}")
    if idempotent and config.max_in_flight_requests_per_connection > 5:
        raise UsageError("enable_idempotence=True needs max_in_flight_requests_per_connection of at most 5")
    if config.delivery_timeout_ms < config.linger_ms + config.request_timeout_ms:
        raise UsageError("delivery_timeout_ms must be at least linger_ms + request_timeout_ms")
    return dataclasses.replace(config, enable_idempotence=idempotent)


def _as_bytes(value: object) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise UsageError(f"a record's key and value are bytes or str, not {type(value).__name__}; serialize them first")


def _checked_headers(headers: Sequence[tuple[str, bytes | None]]) -> tuple[Headers, int]:
    """Headers as they will be written, and about how many bytes they take. A bad one would spoil the whole batch."""
    checked: list[tuple[str, bytes | None]] = []
    size = 0
    for header in headers:
        name, content = header if len(header) == 2 else (None, None)
        if not isinstance(name, str):
            raise UsageError(f"a header is a pair of a name and bytes, not {header!r}")
        made = None if content is None else _as_bytes(content)
        checked.append((name, made))
        size += len(name) + len(made or b"") + 10
    return tuple(checked), size


def _slices(
    values: Sequence[bytes | None], keys: Sequence[bytes | None] | None, limit: int
) -> Iterable[tuple[int, int]]:
    """Ranges of rows that fit into one batch each."""
    total = _rows_size(values, keys)
    if total <= limit and len(values) <= _BATCH_ROWS:
        if values:
            yield 0, len(values)
        return
    first = size = 0
    for index, value in enumerate(values):
        row = RECORD_OVERHEAD + len(value or b"") + (len(keys[index] or b"") if keys is not None else 0)
        if index > first and (size + row > limit or index - first >= _BATCH_ROWS):
            yield first, index
            first, size = index, 0
        size += row
    yield first, len(values)


def _rows_size(values: Sequence[bytes | None], keys: Sequence[bytes | None] | None) -> int:
    size = RECORD_OVERHEAD * len(values)
    for column in (values, keys or ()):
        try:
            size += sum(map(len, column))  # type: ignore[arg-type]
        except TypeError:  # some are null
            size += sum(len(cell) for cell in column if cell is not None)
    return size
