"""Brings records from the brokers ahead of `poll`, within bounds.

For every broker that leads assigned partitions, one Fetch request is under way at a time, on a connection of its own;
it waits at the broker until there is something to return. `penstock.client.fetch_session` decides what it contains. A
partition is included while less than one fetch of it (`max_partition_fetch_bytes`) is unread, and all of them only
while less than `queued_max_bytes` are, so a slow program slows fetching down. There is no loop: whatever changes what
may be fetched (a poll, a seek, a response, new metadata) calls `kick`.

Fetched data stays undecoded until `poll` needs it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import cast

from penstock.client.batches import RecordBatch
from penstock.client.cluster import Backoff, Cluster
from penstock.client.config import ConsumerConfig
from penstock.client.decoding import decode_batch, visible_batches
from penstock.client.errors import kafka_error
from penstock.client.fetch_session import OUT_OF_STEP, FetchSession
from penstock.client.metrics import Metrics
from penstock.client.subscription import Chunk, PartitionState, Subscription
from penstock.client.truncation import TruncationCheck, Verdict
from penstock.client.types import NO_TOPIC_ID, ConsumerRecord, IsolationLevel, TopicPartition
from penstock.client.versions import FETCH_FIRST_WITH_SESSIONS, FETCH_LAST_NAMED
from penstock.records.batch import BatchHeader, CorruptBatch, crc_is_valid, iter_headers
from penstock.wire import messages as m
from penstock.wire.codec import MalformedMessage
from penstock.wire.conversation import NEWEST
from penstock.wire.errors import CorruptMessage, ErrorCode, KafkaError

_log = logging.getLogger("penstock.client")

_GROUP = "consumer-fetch-manager-metrics"
_CLOSE_SECONDS = 1.0

_MOVED = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.LEADER_NOT_AVAILABLE,
}


class Fetcher:
    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        subscription: Subscription,
        metrics: Metrics,
        out_of_range: Callable[[PartitionState], None],
        truncated: Callable[[Verdict], None],
    ) -> None:
        self.arrived = asyncio.Event()  # set whenever poll has something to look at
        self.error: Exception | None = None
        self._cluster = cluster
        self._config = config
        self._subscription = subscription
        self._out_of_range = out_of_range
        self._isolation = IsolationLevel[config.isolation_level.upper()]
        self._truncation = TruncationCheck(cluster, subscription, truncated, self._unchecked, self._checked)
        self._sessions: dict[int, FetchSession] = {}
        self._requests: dict[int, asyncio.Task[None]] = {}
        self._refreshing: asyncio.Task[None] | None = None
        self._buffered = 0
        self._order: list[TopicPartition] = []
        self._backoff = Backoff(config)
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._closed = False
        cluster.on_change(self.kick)
        self._fetch_size = metrics.sensor(_GROUP, "fetch-size", "avg", "max")
        self._bytes = metrics.sensor(_GROUP, "bytes-consumed", "rate", "total")
        self._records = metrics.sensor(_GROUP, "records-consumed", "rate", "total")
        self._per_request = metrics.sensor(_GROUP, "records-per-request", "avg")
        self._latency = metrics.sensor(_GROUP, "fetch-latency", "avg", "max")
        self._fetches = metrics.sensor(_GROUP, "fetch", "rate", "total")
        self._throttle = metrics.sensor(_GROUP, "fetch-throttle-time", "avg", "max")

    async def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        tasks = [task for task in (*self._requests.values(), self._refreshing) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._truncation.close()
        await asyncio.gather(*(self._end(node, session) for node, session in self._sessions.items()))

    async def _end(self, node: int, session: FetchSession) -> None:
        """Free the broker's memory of a session now; it would forget it after a while anyway."""
        if not session.is_open:
            return
        try:
            # Not on the fetches' own connection, where one may still be parked.
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._cluster.request(
                    session.closing(), m.FetchResponse, node=node, at_least=FETCH_FIRST_WITH_SESSIONS
                )
        except (KafkaError, MalformedMessage, TimeoutError) as error:
            _log.debug("closing the fetch session with broker %d: %s", node, error)

    # Asking

    def kick(self) -> None:
        """Send a fetch to every broker that has none under way and something to fetch."""
        if self._closed:
            return
        if self._buffered >= self._config.queued_max_bytes:
            return
        now = self._loop.time()
        metadata = self._cluster.metadata
        by_node: dict[int, list[PartitionState]] = {}
        doubted: dict[int, list[PartitionState]] = {}
        leaderless = False
        for state in self._subscription.partitions.values():
            if state.position is None or state.paused:
                continue
            node = metadata.leader(state.tp)
            if node >= 0:
                state.notice_leader(node, metadata.leader_epoch(state.tp))
            if state.fetched_epoch < 0:
                state.is_unchecked = False  # nothing is known that could be checked
            if state.buffered_bytes >= self._config.max_partition_fetch_bytes and not state.is_unchecked:
                continue
            if state.retry_at > now:
                self._kick_at(state.retry_at)
                continue
            if state.is_unchecked and node >= 0:
                doubted.setdefault(node, []).append(state)
                continue
            if state.replica in metadata.nodes and now < state.replica_until:
                node = state.replica
            if node < 0:
                leaderless = True
            elif node not in self._requests:
                by_node.setdefault(node, []).append(state)
        for node, states in doubted.items():
            self._truncation.start(node, states)
        for node, states in by_node.items():
            task = asyncio.create_task(self._fetch(node, states))
            self._requests[node] = task
            task.add_done_callback(lambda _, node=node: self._answered(node))  # type: ignore[misc]
        if leaderless:
            self.refresh_metadata()

    def _kick_at(self, when: float) -> None:
        if self._timer is None:
            self._timer = self._loop.call_at(when, self._due)

    def _due(self) -> None:
        self._timer = None  # first, as uvloop's timers may be up to a millisecond early, and the kick sets another
        self.kick()

    def _answered(self, node: int) -> None:
        self._requests.pop(node, None)
        self.kick()

    def refresh_metadata(self) -> None:
        """Ask for fresh metadata, after a pause, until it comes."""
        if self._refreshing is None and not self._closed:
            self._refreshing = asyncio.create_task(self._refresh())

    async def _refresh(self) -> None:
        try:
            await asyncio.sleep(self._backoff.next_pause())
            await self._cluster.refresh()
        except KafkaError as error:
            _log.debug("metadata: %s", error)
            self._refreshing = None
            self.refresh_metadata()
        else:
            self._refreshing = None

    async def _fetch(self, node: int, states: list[PartitionState]) -> None:
        requested = {(state.tp.topic, state.tp.partition): (state, state.serial, state.fetched_to) for state in states}
        started = self._loop.time()
        session = self._sessions.setdefault(node, FetchSession())
        metadata = self._cluster.metadata
        named = any(metadata.topic_id(state.tp.topic) == NO_TOPIC_ID for state in states)
        try:
            connection = await self._cluster.connection(node, "fetch")
            answer = await connection.request(
                lambda version: self._build(session, version, states),
                m.FetchResponse,
                timeout_ms=self._config.request_timeout_ms + self._config.fetch_max_wait_ms,
                at_least=4,
                at_most=FETCH_LAST_NAMED if named else NEWEST,
            )
        except KafkaError as error:
            _log.debug("fetch from broker %d: %s", node, error)
            session.lost()
            self._doubt(states)
            self._delay(states)
            self.refresh_metadata()
            return
        except MalformedMessage as error:
            session.lost()
            self._fail(error)
            self._delay(states)
            return
        self._latency.record((self._loop.time() - started) * 1000)
        self._fetches.record()
        self._throttle.record(answer.throttle_time_ms)
        if answer.error_code:
            _log.debug("fetch from broker %d: error %d", node, answer.error_code)
            if answer.error_code not in OUT_OF_STEP or not session.is_incremental:
                self._delay(states)
            session.lost()
            return
        session.answered(answer.session_id)
        size = 0
        for topic in answer.responses:
            name = topic.topic or self._cluster.metadata.names.get(topic.topic_id, "")
            for partition in topic.partitions:
                state, serial, fetched_to = requested.get((name, partition.partition_index), (None, 0, 0))
                if state is None or self._subscription.current(state.tp, serial) is not state:
                    continue
                size += self._take(state, fetched_to, partition)
        if size:
            self._backoff.reset()
            self._fetch_size.record(size)

    def _build(self, session: FetchSession, version: int, states: list[PartitionState]) -> m.FetchRequest:
        config = self._config
        request = m.FetchRequest(
            max_wait_ms=config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            isolation_level=int(self._isolation),
            rack_id=config.client_rack,
        )
        return session.fill(request, version, states, self._cluster.metadata, config.max_partition_fetch_bytes)

    @staticmethod
    def _doubt(states: list[PartitionState]) -> None:
        """The broker is gone: a leader may come back with a shorter log, a replica may not come back at all."""
        for state in states:
            state.is_unchecked = True
            state.replica = -1

    def _checked(self) -> None:
        self.recount()
        self.arrived.set()
        self.kick()

    def _unchecked(self, states: list[PartitionState], error: KafkaError) -> None:
        """It could not be checked whether partitions were cut short: later, then."""
        _log.debug("checking for truncation: %s", error)
        self._delay(states)
        if error.retriable or error.code in _MOVED:
            self.refresh_metadata()
        else:
            self._fail(error)

    def _delay(self, states: list[PartitionState]) -> None:
        until = self._loop.time() + self._backoff.next_pause()
        for state in states:
            state.retry_at = until

    # Taking in

    def _take(self, state: PartitionState, fetched_to: int, answer: m.FetchResponse.PartitionData) -> int:
        """Put what came for a partition into its buffer; returns how many bytes."""
        code = answer.error_code
        if code:
            self._refused(state, code)
            return 0
        if answer.preferred_read_replica >= 0:
            state.replica = answer.preferred_read_replica
            state.replica_until = self._loop.time() + self._config.metadata_max_age_ms / 1000
            return 0
        state.high_watermark = answer.high_watermark
        state.last_stable_offset = answer.last_stable_offset
        state.log_start_offset = answer.log_start_offset
        data = answer.records
        if data is None or not len(data) or state.fetched_to != fetched_to:
            return 0
        view = data if isinstance(data, memoryview) else memoryview(cast(bytes, data))
        try:
            batches = list(iter_headers(view))
        except CorruptBatch as error:
            self._fail(CorruptMessage(f"{state.tp} offset {fetched_to}: {error}"))
            return 0
        if not batches:
            return 0
        aborted = None
        if self._isolation is IsolationLevel.READ_COMMITTED:
            aborted = [(entry.first_offset, entry.producer_id) for entry in answer.aborted_transactions or ()]
        state.fetched_to = batches[-1][1].next_offset
        state.fetched_epoch = batches[-1][1].partition_leader_epoch
        # A chunk of which nothing is visible still moves the position, when poll comes to its end.
        visible = list(visible_batches(view, batches, aborted))
        state.chunks.append(Chunk(view, visible, state.fetched_to, state.fetched_epoch))
        state.buffered_bytes += len(view)
        self._buffered += len(view)
        self.arrived.set()
        return len(view)

    def _refused(self, state: PartitionState, code: int) -> None:
        if state.replica >= 0:
            # A follower may be behind, or gone: ask the leader, whose word counts.
            state.replica = -1
            return
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if not state.chunks:
                self._out_of_range(state)
            else:
                state.retry_at = self._loop.time() + self._backoff.next_pause()
        elif code in _MOVED:
            self._delay([state])
            self.refresh_metadata()
        elif code == ErrorCode.CORRUPT_MESSAGE or not kafka_error(code).retriable:
            self._fail(kafka_error(code, about=str(state.tp)))
            self._delay([state])
        else:
            self._delay([state])

    def _fail(self, error: Exception) -> None:
        """Let the next poll raise."""
        self.error = error
        self.arrived.set()

    # Giving out

    def has_data(self) -> bool:
        return any(state.chunks and not state.paused for state in self._subscription.partitions.values())

    def _turn(self) -> list[PartitionState]:
        """Partitions with data, in turn, so that a busy one does not starve the others."""
        ready = [state for state in self._subscription.partitions.values() if state.chunks and not state.paused]
        if len(ready) > 1:
            rank = {tp: index for index, tp in enumerate(self._order)}
            ready.sort(key=lambda state: rank.get(state.tp, -1))
        return ready

    def _next_batch(self, state: PartitionState) -> tuple[Chunk, int, BatchHeader] | None:
        """The next batch of a partition's buffer; chunks that are used up leave it."""
        while state.chunks:
            chunk = state.chunks[0]
            if chunk.at < len(chunk.batches):
                pos, header = chunk.batches[chunk.at]
                return chunk, pos, header
            state.chunks.popleft()
            state.buffered_bytes -= chunk.size
            self._buffered -= chunk.size
            if chunk.end_offset > (state.position or 0):
                state.position = chunk.end_offset
                state.position_epoch = chunk.end_epoch
        return None

    def _check(self, state: PartitionState, chunk: Chunk, pos: int, header: BatchHeader) -> None:
        if self._config.check_crcs and not crc_is_valid(chunk.data, pos, header.size):
            raise CorruptMessage(
                f"the batch at {state.tp} offset {header.base_offset} does not match its checksum; "
                f"seek past it: consumer.seek({state.tp!r}, {header.next_offset})"
            )

    def take_records(self, limit: int) -> list[ConsumerRecord[bytes, bytes]]:
        """Up to `limit` records in the order of their offsets per partition."""
        taken: list[ConsumerRecord[bytes, bytes]] = []
        used: list[TopicPartition] = []
        for state in self._turn():
            used.append(state.tp)
            while len(taken) < limit:
                try:
                    records = self._decoded(state)
                except CorruptMessage:
                    if not taken:
                        raise
                    used.pop()  # what came before is given out; the next poll begins with this partition, and raises
                    break
                if records is None:
                    break
                room = limit - len(taken)
                if len(records) > room:
                    state.rest = records[room:]
                    records = records[:room]
                if records:
                    state.position = records[-1].offset + 1
                    state.position_epoch = records[-1].leader_epoch
                    taken += records
            if len(taken) >= limit:
                break
        self._order = [tp for tp in self._order if tp not in used] + used
        if taken:
            self._records.record(len(taken))
        self.kick()
        return taken

    def _decoded(self, state: PartitionState) -> list[ConsumerRecord[bytes, bytes]] | None:
        """The records of a partition's next batch from its position on, or None at the end of the buffer."""
        if state.rest:
            records, state.rest = state.rest, []
            return records
        found = self._next_batch(state)
        if found is None:
            return None
        chunk, pos, header = found
        self._check(state, chunk, pos, header)
        try:
            records = decode_batch(state.tp.topic, state.tp.partition, chunk.data, pos, header, state.position or 0)
        except CorruptBatch as error:
            raise CorruptMessage(f"the batch at {state.tp} offset {header.base_offset}: {error}") from error
        chunk.at += 1
        self._bytes.record(header.size)
        if not records:
            state.position = max(state.position or 0, header.next_offset)
            state.position_epoch = header.partition_leader_epoch
        return records

    def take_batches(self, limit: int) -> list[RecordBatch]:
        """Whole batches of together at least `limit` records, or all there are."""
        taken: list[RecordBatch] = []
        used: list[TopicPartition] = []
        count = 0
        for state in self._turn():
            used.append(state.tp)
            if state.rest:  # the rest of a batch that poll has begun: give that batch from the position on
                state.rest = []
                state.chunks[0].at -= 1
            while count < limit:
                found = self._next_batch(state)
                if found is None:
                    break
                chunk, pos, header = found
                try:
                    self._check(state, chunk, pos, header)
                except CorruptMessage:
                    if not taken:
                        raise
                    used.pop()
                    break
                chunk.at += 1
                batch = RecordBatch(state.tp.topic, state.tp.partition, chunk.data, pos, header, state.position or 0)
                state.position = header.next_offset
                state.position_epoch = header.partition_leader_epoch
                taken.append(batch)
                count += header.records_count
                self._bytes.record(header.size)
        self._order = [tp for tp in self._order if tp not in used] + used
        if count:
            self._records.record(count)
        self.kick()
        return taken

    def recount(self) -> None:
        """Buffers were dropped: count what is left."""
        self._buffered = sum(other.buffered_bytes for other in self._subscription.partitions.values())
