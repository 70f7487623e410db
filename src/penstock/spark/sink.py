"""`df.write.format("penstock")` and `df.writeStream.format("penstock")`: rows into topics, exactly once.

The columns are those of Spark's own Kafka sink: `value` (text or bytes), and if there are any `key`, `headers`, `topic`
(unless the option `topic` names one for all) and `partition`; others are not looked at.

Rows become visible to consumers with `isolation.level=read_committed` when the micro-batch is committed, and a
micro-batch that Spark runs again is not written again. `penstock.spark.transactions` says how.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast
from urllib.parse import urlparse

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from penstock.client.cluster import Cluster
from penstock.client.config import ClientConfig, load
from penstock.client.errors import UsageError, nearest
from penstock.client.partitioner import partition_for_key
from penstock.client.producer import Producer
from penstock.client.security import SecurityConfig
from penstock.client.types import TopicPartition
from penstock.spark.ranges import Offsets, from_json
from penstock.spark.security import NO_SECURITY, is_security_option, security_in
from penstock.spark.transactions import (
    Decision,
    Ended,
    LostBatch,
    OpenTransaction,
    TaskProducer,
    decide,
    end_all,
    read_decision,
    transactional_id,
)

DEFAULT_TIMEOUT_MS = 900_000  # transaction.max.timeout.ms of a broker as shipped

_OPTIONS = {
    name.lower(): name
    for name in (
        "kafka.bootstrap.servers",
        "kafka.transactional.id",
        "kafka.transaction.timeout.ms",
        "kafka.compression.type",
        "kafka.client.id",
        "kafka.group.id",
        "kafka.acks",
        "topic",
        "checkpointLocation",
        "includeHeaders",
        "queryName",
        "path",
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    bootstrap_servers: str
    topic: str = ""
    prefix: str = ""
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    compression: str = "none"
    client_id: str = "penstock-spark"
    input_group: str = ""
    checkpoint: str = ""
    security: SecurityConfig = NO_SECURITY

    def producer_settings(self, task: int | str, prefix: str) -> dict[str, object]:
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "client.id": self.client_id,
            "transactional.id": transactional_id(prefix, task),
            "transaction.timeout.ms": self.timeout_ms,
            "compression.type": self.compression,
            "batch.size": 262_144,
            **self.security.given(),
        }

    def cluster(self) -> Cluster:
        reached = {"bootstrap_servers": self.bootstrap_servers, "client_id": self.client_id}
        return Cluster(load(ClientConfig, self.security.given(), reached))


def parse_sink_options(given: Mapping[str, str], columns: Sequence[str]) -> SinkOptions:
    options = {name.lower(): value for name, value in given.items()}
    for name in given:
        if name.lower() not in _OPTIONS and not is_security_option(name):
            guess = nearest(name.lower(), _OPTIONS)
            hint = f"; did you mean {_OPTIONS[guess]}?" if guess else f"; there are {', '.join(_OPTIONS.values())}"
            raise UsageError(f"the penstock sink has no option {name!r}{hint}")
    servers = options.get("kafka.bootstrap.servers", "")
    if not servers:
        raise UsageError("option kafka.bootstrap.servers is missing: set it to a broker to write to, as host:port")
    if "value" not in columns:
        raise UsageError(f"the sink needs a column value; there are {', '.join(columns)}")
    if "topic" not in columns and not options.get("topic"):
        raise UsageError("the topic is missing: set the option topic, or add a column topic")
    if options.get("kafka.transactional.id") and options.get("kafka.transactional.id") == options.get("kafka.group.id"):
        raise UsageError(
            "kafka.group.id and kafka.transactional.id must differ: the sink has a group of the latter name"
        )
    timeout = options.get("kafka.transaction.timeout.ms", str(DEFAULT_TIMEOUT_MS))
    if not timeout.isdigit():
        raise UsageError(f"kafka.transaction.timeout.ms is {timeout!r}; it must be a whole number")
    return SinkOptions(
        bootstrap_servers=servers,
        topic=options.get("topic", ""),
        prefix=options.get("kafka.transactional.id", ""),
        timeout_ms=int(timeout),
        compression=options.get("kafka.compression.type", "none"),
        client_id=options.get("kafka.client.id", "penstock-spark"),
        input_group=options.get("kafka.group.id", ""),
        checkpoint=options.get("checkpointlocation", ""),
        security=security_in(options),
    )


@dataclass
class TaskResult(WriterCommitMessage):
    """What a task tells the driver."""

    prefix: str
    rows: int = 0
    transaction: OpenTransaction | None = None
    place: TopicPartition | None = None
    is_done: bool = False  # the batch was committed before; nothing was written


class BatchWriter(DataSourceArrowWriter):
    """All rows of a job become visible together, unless the driver dies while it ends the transactions."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._prefix = options.prefix or f"penstock-{uuid.uuid4().hex}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskResult:
        return asyncio.run(write_task(self._options, self._prefix, _task_number(), iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        if asyncio.run(_end(self._options, self._prefix, _transactions(messages), commit=True)) is Ended.NONE:
            raise LostBatch(f"the transactions of sink {self._prefix!r} were aborted before they could be committed")

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        asyncio.run(_end(self._options, self._prefix, _transactions(messages), commit=False))


class StreamWriter(DataSourceStreamArrowWriter):
    """Each micro-batch is written once, however often Spark runs it."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskResult:
        context = TaskContext.get()
        assert context is not None
        prefix = self._options.prefix or f"penstock-{context.getLocalProperty('sql.streaming.queryId')}"
        batch = int(cast(str, context.getLocalProperty("streaming.sql.batchId")))
        if asyncio.run(was_committed(self._options, prefix, batch)):
            return TaskResult(prefix, is_done=True)
        return asyncio.run(write_task(self._options, prefix, context.partitionId(), iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        results = _results(messages)
        if results and not any(result.is_done for result in results):
            asyncio.run(commit_batch(self._options, results, batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        results = _results(messages)
        if results:
            asyncio.run(abort_batch(self._options, results, batchId))


def _results(messages: Sequence[WriterCommitMessage | None]) -> list[TaskResult]:
    return [message for message in messages if isinstance(message, TaskResult)]


def _transactions(messages: Sequence[WriterCommitMessage | None]) -> list[OpenTransaction]:
    return [result.transaction for result in _results(messages) if result.transaction is not None]


def _task_number() -> int:
    context = TaskContext.get()
    assert context is not None
    return context.partitionId()


# In tasks


async def was_committed(options: SinkOptions, prefix: str, batch: int) -> bool:
    async with options.cluster() as cluster:
        decision = await read_decision(cluster, prefix)
        if decision.batch < batch:
            return False
        if decision.batch > batch:
            return True
        # Decided, but perhaps the driver died before it ended the transactions.
        return await end_all(cluster, prefix, decision.transactions, commit=True) is Ended.ALL


async def write_task(options: SinkOptions, prefix: str, task: int, batches: Iterator[pa.RecordBatch]) -> TaskResult:
    producer: TaskProducer | None = None
    rows = 0
    place: TopicPartition | None = None
    try:
        for batch in batches:
            if not batch.num_rows:
                continue
            if producer is None:
                producer = TaskProducer(options.producer_settings(task, prefix))
                await producer.start()
                producer.begin_transaction()
            place = await _send(producer, batch, options.topic) or place
            rows += batch.num_rows
        if producer is None:
            return TaskResult(prefix)
        producer_id, epoch = await producer.detach()
        return TaskResult(prefix, rows, OpenTransaction(task, producer_id, epoch), place)
    finally:
        if producer is not None:
            await producer.close()  # aborts, unless the transaction was detached


async def _send(producer: Producer, batch: pa.RecordBatch, topic: str) -> TopicPartition:
    """Send the rows of a batch; returns a partition of a topic that was written to."""
    columns = {name: batch.column(name) for name in batch.schema.names}
    values = _bytes(columns["value"])
    keys = _bytes(columns["key"]) if "key" in columns else None
    topics = [topic] * len(values) if topic else columns["topic"].to_pylist()
    partitions = columns["partition"].to_pylist() if "partition" in columns else None
    headers = columns["headers"].to_pylist() if "headers" in columns else None
    if None in topics:
        raise UsageError("a row has no topic")
    if headers is not None:
        for row, value in enumerate(values):
            named = [(header["key"], header["value"]) for header in headers[row] or ()]
            await producer.send(
                topics[row],
                value,
                key=keys[row] if keys else None,
                partition=partitions[row] if partitions else None,
                headers=named,
            )
        return TopicPartition(topics[-1], 0)
    # Rows of one partition go out together, which is many times cheaper than one by one.
    groups: dict[tuple[str, int | None], list[int]] = {}
    counts = {name: len(await producer.partitions_for(name)) for name in set(topics)}
    for row, name in enumerate(topics):
        chosen = partitions[row] if partitions else None
        if chosen is None and keys is not None and keys[row] is not None:
            chosen = partition_for_key(cast(bytes, keys[row]), counts[name])
        groups.setdefault((name, chosen), []).append(row)
    for (name, chosen), rows in groups.items():
        await producer.send_batch(
            name,
            [values[row] for row in rows],
            keys=[keys[row] for row in rows] if keys is not None else None,
            partition=chosen,
        )
    return TopicPartition(topics[-1], 0)


def _bytes(column: pa.Array) -> list[bytes | None]:
    if not pa.types.is_binary(column.type):
        if not pa.types.is_string(column.type):
            raise UsageError(f"key and value must be text or bytes, not {column.type}: cast them, or use to_json")
        column = column.cast(pa.binary())
    cells: list[bytes | None] = column.to_pylist()
    return cells


# On the driver


async def _end(options: SinkOptions, prefix: str, transactions: list[OpenTransaction], *, commit: bool) -> Ended:
    async with options.cluster() as cluster:
        return await end_all(cluster, prefix, transactions, commit=commit)


async def commit_batch(options: SinkOptions, results: list[TaskResult], batch: int) -> None:
    prefix = results[0].prefix
    transactions = tuple(_transactions(results))
    place = next((result.place for result in results if result.place is not None), None)
    inputs = read_inputs(options.checkpoint, batch) if options.input_group else {}
    place = place or next(iter(inputs), None)
    if place is None:
        return  # nothing was written, and there is nothing to remember
    # Taking the transactional id comes first: after it no other driver can decide, so what is read next stays true.
    async with Producer(options.producer_settings("driver", prefix)) as driver, options.cluster() as cluster:
        before = await read_decision(cluster, prefix)
        if before.batch > batch or (before.batch == batch and before.transactions == transactions):
            return
        await decide(driver, prefix, Decision(batch, transactions), place, inputs, options.input_group)
        if await end_all(cluster, prefix, transactions, commit=True) is Ended.NONE and transactions:
            raise LostBatch(
                f"batch {batch} of sink {prefix!r} was written by another driver, or its transactions timed out; it "
                "will be written again when the query is restarted"
            )


async def abort_batch(options: SinkOptions, results: list[TaskResult], batch: int) -> None:
    prefix = results[0].prefix
    async with options.cluster() as cluster:
        if (await read_decision(cluster, prefix)).batch < batch:
            await end_all(cluster, prefix, _transactions(results), commit=False)


def read_inputs(checkpoint: str, batch: int) -> Offsets:
    """Up to where a micro-batch has read topics, from the offsets that Spark wrote before it ran it."""
    parsed = urlparse(checkpoint)
    if not checkpoint or parsed.scheme not in ("", "file"):
        return {}
    path = Path(parsed.path) / "offsets" / str(batch)
    found: Offsets = {}
    try:
        lines = path.read_text().splitlines()[2:]  # a version, then the query's settings, then one line per source
    except OSError:
        return {}
    for line in lines:
        try:
            found.update(from_json(json.loads(line)))
        except (ValueError, AttributeError, TypeError):
            continue  # another kind of source
    return found
