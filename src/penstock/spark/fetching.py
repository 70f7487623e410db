"""How a task reads its range: a small blocking client for Fetch alone.

A task reads one partition from front to back and nothing else, so it needs no groups, no sessions and no event loop:
one blocking connection to the partition's leader, large fetches, and one thread that receives the next answer while the
last one is decoded (receiving releases the interpreter lock). At most three answers are in memory at a time: one being
decoded, one waiting, one being received.

A micro-batch is a handful of records, and a task of it should cost little more than they do. So the size of a fetch
follows from how much of the range is left, and the connection of a task that has read its range is kept for the next
task on the same partition in this process: opening one takes three questions where the records take one.

A broker that goes away, or a leader that moves, is looked for again until `poll_timeout_ms` has passed without
progress. An answer that was lost is simply asked for again: reading has no side effects.
"""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, cast

from penstock.client.blocking import BlockingConnection
from penstock.client.config import parse_addresses
from penstock.client.errors import BrokerUnreachable, kafka_error
from penstock.client.security import SecurityConfig
from penstock.client.types import NO_TOPIC_ID, IsolationLevel
from penstock.client.versions import FETCH_LAST_NAMED
from penstock.records.batch import Buffer, iter_headers
from penstock.spark.planning import DataLoss
from penstock.spark.ranges import OffsetRange
from penstock.spark.security import NO_SECURITY, open_connection
from penstock.wire import messages as m
from penstock.wire.conversation import NEWEST
from penstock.wire.errors import ErrorCode, KafkaError

_MAX_WAIT_MS = 500
_CLOSE_S = 10.0
_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0
_SMALLEST_FETCH = 256 * 1024
_ASSUMED_RECORD_BYTES = 1024  # until the first answer shows how large records are
_PARKED_MAX = 16
_PARKED_S = 60.0  # less than any broker waits before it closes an idle connection

_MOVED = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.OFFSET_NOT_AVAILABLE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    """What a task needs to know to fetch; travels to it with the range."""

    bootstrap_servers: str
    client_id: str = "penstock-spark"
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    fetch_bytes: int = 8 * 1024 * 1024
    poll_timeout_ms: int = 120_000
    fail_on_data_loss: bool = True
    security: SecurityConfig = NO_SECURITY


class Fetched(NamedTuple):
    """One answer: whole batches, and which transactions in it were aborted (first offset, producer id)."""

    records: Buffer
    aborted: list[tuple[int, int]]
    offset: int  # what was asked for; beyond the end of the answer before when records were lost in between
    next_offset: int


class _Parking:
    """Connections to leaders that no task of this process uses now, by what they were used for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parked: dict[tuple[object, ...], tuple[float, BlockingConnection]] = {}

    def park(self, use: tuple[object, ...], connection: BlockingConnection) -> None:
        surplus: list[BlockingConnection] = []
        with self._lock:
            before = self._parked.pop(use, None)
            self._parked[use] = (time.monotonic(), connection)
            if before is not None:
                surplus.append(before[1])
            while len(self._parked) > _PARKED_MAX:
                surplus.append(self._parked.pop(next(iter(self._parked)))[1])
        for each in surplus:
            each.close()

    def take(self, use: tuple[object, ...]) -> BlockingConnection | None:
        with self._lock:
            parked_at, connection = self._parked.pop(use, (0.0, None))
        if connection is None or time.monotonic() - parked_at < _PARKED_S:
            return connection
        connection.close()
        return None


_parking = _Parking()


class RangeFetcher:
    """Iterates over the answers that hold one range. Close it, or iterate to the end."""

    def __init__(self, offsets: OffsetRange, settings: FetchSettings) -> None:
        self._range = offsets
        self._settings = settings
        self._use = (
            settings.bootstrap_servers,
            settings.client_id,
            settings.security,
            offsets.topic,
            offsets.partition,
            offsets.topic_id,
        )
        self._connection = _parking.take(self._use)
        self._record_bytes = _ASSUMED_RECORD_BYTES
        self._answers: queue.Queue[Fetched | BaseException | None] = queue.Queue(maxsize=1)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._receive_all, name=f"fetch {offsets}", daemon=True)

    def __iter__(self) -> Iterator[Fetched]:
        self._thread.start()
        try:
            while (answer := self._answers.get()) is not None:
                if isinstance(answer, BaseException):
                    raise answer
                yield answer
        finally:
            self.close()

    def close(self) -> None:
        self._stopped.set()
        connection = self._connection
        if connection is not None:
            connection.close()
        with suppress(queue.Empty):
            self._answers.get_nowait()  # room for a thread that waits to put
        if self._thread.is_alive():
            self._thread.join(_CLOSE_S)

    # The thread

    def _receive_all(self) -> None:
        try:
            offset = self._range.start
            while offset < self._range.end and not self._stopped.is_set():
                fetched = self._next(offset)
                if fetched is None:
                    break
                offset = fetched.next_offset
                self._put(fetched)
            self._park()
            self._put(None)
        except BaseException as error:
            self._put(error)
        finally:
            if self._connection is not None:
                self._connection.close()

    def _park(self) -> None:
        # Without an id nothing but the metadata tells that a topic was deleted and created again: they must be asked.
        connection, self._connection = self._connection, None
        if connection is not None:
            if self._stopped.is_set() or not self._is_fetched_by_id(connection):
                connection.close()
            else:
                _parking.park(self._use, connection)

    def _put(self, answer: Fetched | BaseException | None) -> None:
        while not self._stopped.is_set():
            with suppress(queue.Full):
                self._answers.put(answer, timeout=0.5)
                return

    def _next(self, offset: int) -> Fetched | None:
        """The next answer with records; None when the rest of the range is lost and that was allowed."""
        deadline = time.monotonic() + self._settings.poll_timeout_ms / 1000
        pause = _PAUSE_S
        while not self._stopped.is_set():
            try:
                partition = self._fetch(offset)
                if partition.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    moved = self._out_of_range(offset)
                    if moved is None:
                        return None
                    offset = moved
                    continue
                if partition.error_code in _MOVED:
                    raise kafka_error(partition.error_code)
                if partition.error_code:
                    raise _Refused(kafka_error(partition.error_code, about=self._about(offset)))
                fetched = self._taken(offset, partition)
                if fetched is not None:
                    return fetched
                if time.monotonic() > deadline:
                    raise _Refused(TimeoutError(f"{self._about(offset)}: no record came in time"))
            except _Refused as refused:
                raise refused.reason from None
            except KafkaError as error:
                if self._connection is not None:
                    self._connection.close()
                    self._connection = None
                if time.monotonic() > deadline or not error.retriable:
                    raise type(error)(f"{self._about(offset)}: {error}") from error
                self._stopped.wait(pause * random.uniform(0.8, 1.2))
                pause = min(pause * 2, _LONGEST_PAUSE_S)
        return None

    def _about(self, offset: int) -> str:
        return f"partition {self._range.topic}-{self._range.partition} offset {offset}"

    def _fetch(self, offset: int) -> m.FetchResponse.PartitionData:
        connection = self._connection
        if connection is None:
            connection = self._connection = self._leader()
        by_id = self._is_fetched_by_id(connection)
        size = min(self._settings.fetch_bytes, max(_SMALLEST_FETCH, (self._range.end - offset) * self._record_bytes))
        request = m.FetchRequest(
            max_wait_ms=_MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=size,
            isolation_level=int(self._settings.isolation),
            topics=[
                m.FetchRequest.FetchTopic(
                    topic=self._range.topic,
                    topic_id=self._range.topic_id,
                    partitions=[
                        m.FetchRequest.FetchPartition(
                            partition=self._range.partition,
                            fetch_offset=offset,
                            partition_max_bytes=size,
                        )
                    ],
                )
            ],
        )
        answer = connection.request(request, m.FetchResponse, at_most=NEWEST if by_id else FETCH_LAST_NAMED)
        if answer.error_code:
            raise kafka_error(answer.error_code)
        return answer.responses[0].partitions[0]

    def _is_fetched_by_id(self, connection: BlockingConnection) -> bool:
        return self._range.topic_id != NO_TOPIC_ID and connection.offers(m.FetchResponse, FETCH_LAST_NAMED + 1)

    def _taken(self, offset: int, partition: m.FetchResponse.PartitionData) -> Fetched | None:
        data = cast("Buffer | None", partition.records)
        if data is None or not len(data):
            return None
        next_offset = offset
        for _, header in iter_headers(data):
            next_offset = header.next_offset
        if next_offset <= offset:
            return None
        self._record_bytes = max(1, len(data) // (next_offset - offset)) * 5 // 4
        aborted = [(entry.first_offset, entry.producer_id) for entry in partition.aborted_transactions or ()]
        return Fetched(data, aborted, offset, next_offset)

    def _out_of_range(self, offset: int) -> int | None:
        """Where to go on; None when nothing of the range is left."""
        first = self._earliest()
        if self._settings.fail_on_data_loss:
            what = f"the log begins at {first} by now" if first > offset else "the log ends before it"
            raise _Refused(
                DataLoss(
                    f"{self._about(offset)}: {what}. The records were deleted before they were read; "
                    "failOnDataLoss=false goes on without them"
                )
            )
        return first if offset < first < self._range.end else None

    def _earliest(self) -> int:
        assert self._connection is not None
        partition = m.ListOffsetsRequest.ListOffsetsPartition(partition_index=self._range.partition, timestamp=-2)
        topic = m.ListOffsetsRequest.ListOffsetsTopic(name=self._range.topic, partitions=[partition])
        answer = self._connection.request(
            m.ListOffsetsRequest(replica_id=-1, topics=[topic]), m.ListOffsetsResponse, at_most=6
        )
        return answer.topics[0].partitions[0].offset

    def _leader(self) -> BlockingConnection:
        """A connection to whoever leads the partition now."""
        failures: list[str] = []
        for host, port in parse_addresses(self._settings.bootstrap_servers):
            try:
                connection = self._open(host, port)
            except KafkaError as error:
                if not error.retriable:
                    raise
                failures.append(str(error))
                continue
            try:
                return self._leader_through(connection)
            except BaseException:
                connection.close()
                raise
        raise BrokerUnreachable("; ".join(failures))

    def _open(self, host: str, port: int) -> BlockingConnection:
        return open_connection(host, port, self._settings.client_id, self._settings.security)

    def _leader_through(self, connection: BlockingConnection) -> BlockingConnection:
        topic = m.MetadataRequest.MetadataRequestTopic(name=self._range.topic)
        request = m.MetadataRequest(topics=[topic], allow_auto_topic_creation=False)
        answer = connection.request(request, m.MetadataResponse, at_most=12)
        found = answer.topics[0]
        if found.error_code:
            raise kafka_error(found.error_code)
        if self._range.topic_id not in (NO_TOPIC_ID, found.topic_id):
            raise _Refused(
                DataLoss(f"{self._about(self._range.start)}: the topic was deleted and created again meanwhile")
            )
        leaders = {p.partition_index: p.leader_id for p in found.partitions}
        for broker in answer.brokers:
            if broker.node_id == leaders.get(self._range.partition):
                if (broker.host, broker.port) == connection.address:
                    return connection
                connection.close()
                return self._open(broker.host, broker.port)
        raise kafka_error(ErrorCode.LEADER_NOT_AVAILABLE)


class _Refused(Exception):
    """Carries an error that trying again cannot fix past the loop that tries again."""

    def __init__(self, reason: BaseException) -> None:
        super().__init__(str(reason))
        self.reason = reason
