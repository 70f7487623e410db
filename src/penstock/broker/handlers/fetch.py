"""Fetch: whole batches from the log, by long poll.

A fetch is answered at once when it has `MinBytes` of data, an error, or no patience (`MaxWaitMs` 0); otherwise it waits
on its partitions and looks again when one of them grows (for `read_committed`: when a transaction ends), until its time
is up. The first partition with data may exceed the size limits so that a large batch always gets through; after that
the limits hold. Batches go out as they are stored: the response names ranges of segment files (`FileRange`), which the
kernel sends. A fetch that needs an index or headers which are not in memory waits until threads have fetched them.

Who fetches needs READ on each topic, also at the time of the answer: when rules change, waiting fetches look again.

Sessions (KIP-227) are in `fetch_sessions`. A fetch from a follower (ReplicaId ≥ 0) is refused: this broker's logs are
replicated by the storage below it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from penstock.broker.cold_reads import when_fetched
from penstock.broker.fetch_sessions import NO_SESSION, TOPIC_IDS_VERSION, FetchContext, FetchPartition
from penstock.broker.file_range import FileRange
from penstock.broker.handlers.table import READ_TOPIC
from penstock.broker.requests import Answer, Pending, Request
from penstock.broker.topics import Partition, Topic, leader_epoch_error
from penstock.storage.contract import ColdRead, IsolationLevel
from penstock.wire import messages as m
from penstock.wire.acls import AclOperation
from penstock.wire.errors import ErrorCode, KafkaError, NotLeaderOrFollower, OffsetOutOfRange, UnknownServerError

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.config import BrokerConfig
    from penstock.broker.fetch_sessions import FetchSessions
    from penstock.broker.gate import Gate
    from penstock.broker.quotas import Quotas
    from penstock.broker.traffic import Traffic
    from penstock.broker.world import World

logger = logging.getLogger("penstock.broker")

_PARTITION_BYTES = 40  # what a response takes for a partition beside its records

Found = tuple[FetchPartition, m.FetchResponse.PartitionData]
_MOVED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
_NAMES_LEADER = 16  # the first Fetch that says who leads instead (KIP-951)


class FetchWait:
    """A parked fetch. It is woken by its partitions, by its timer, or when what it needs is in memory."""

    __slots__ = (
        "_context",
        "_handlers",
        "_held",
        "_is_fetching",
        "_pending",
        "_request",
        "_scheduled",
        "_time_is_up",
        "_timer",
        "_waiting_on",
        "_world",
    )

    def __init__(
        self,
        handlers: FetchHandlers,
        world: World,
        request: Request[m.FetchRequest],
        context: FetchContext,
        waiting_on: list[Partition],
    ) -> None:
        self._handlers = handlers
        self._world = world
        self._request = request
        self._context = context
        self._pending = request.defer()
        self._scheduled = False
        self._is_fetching = False
        self._held: list[ColdRead] = []
        """What was fetched: held so that it stays here until the next look, however small the cache is."""
        self._time_is_up = False
        self._waiting_on = waiting_on
        self._timer = world.call_later(max(request.body.max_wait_ms, 0) / 1000, self._expire)
        self._wait()

    @property
    def pending(self) -> Pending:
        return self._pending

    def wake(self) -> None:
        """Look again soon: once, however many appends arrive until then."""
        if not self._scheduled:
            self._scheduled = True
            self._world.call_soon(self._look)

    def fetch_first(self, cold: ColdRead) -> None:
        """Look again when threads have fetched what is missing, whether the time is up or not."""
        self._is_fetching = True
        self._held.append(cold)
        when_fetched(self._world, cold, self._fetched)

    def _fetched(self, failure: BaseException | None) -> None:
        self._is_fetching = False
        if failure is not None:
            logger.error("closed the connection of %s: a fetch failed: %s", self._request.client_host, failure)
            self._finish()
            self._pending.close_connection()
        else:
            self._look()

    def _expire(self) -> None:
        self._time_is_up = True
        self._look()

    def _wait(self) -> None:
        for partition in self._waiting_on:
            partition.waiters[self] = None

    def _look(self) -> None:
        self._scheduled = False
        if self._pending.done or self._is_fetching:
            return
        if not self._pending.is_open:
            self._finish()
            return
        body = self._request.body
        try:
            found, size, waiting_on, is_final = self._handlers.read_later(
                self._request, self._context, has_fetched=bool(self._held)
            )
        except ColdRead as cold:
            self.fetch_first(cold)
            return
        is_gone = len(waiting_on) < len(self._waiting_on)  # a topic was deleted, which Kafka tells at once
        if self._time_is_up or is_final or is_gone or size >= body.min_bytes or not waiting_on:
            self._finish()
            self._pending.complete(self._handlers.respond(self._request, self._context, found, size))
        else:
            self._held.clear()
            self._waiting_on = waiting_on
            self._wait()

    def _finish(self) -> None:
        self._timer.cancel()
        self._held.clear()
        for partition in self._waiting_on:
            partition.waiters.pop(self, None)


class FetchHandlers:
    def __init__(
        self,
        cluster: ClusterView,
        sessions: FetchSessions,
        config: BrokerConfig,
        world: World,
        gate: Gate,
        quotas: Quotas,
        traffic: Traffic | None,
    ) -> None:
        """`traffic` counts what is sent, where somebody looks at the metrics."""
        self._cluster = cluster
        self._sessions = sessions
        self._config = config
        self._world = world
        self._gate = gate
        self._quotas = quotas
        self._traffic = traffic
        gate.on_rules_changed.append(self._rules_changed)

    def _rules_changed(self) -> None:
        """Have every waiting fetch look at what it may still read."""
        for topic in self._cluster.topics():
            for partition in topic.hosted_partitions():
                if partition.waiters:
                    partition.wake()

    def fetch(self, request: Request[m.FetchRequest]) -> Answer:
        body = request.body
        is_odd = body.isolation_level not in (IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED)
        if is_odd and self._names_something(request, body):
            return _refuse(request, body)
        try:
            context = self._sessions.context(body, request.api_version, int(self._world.monotonic() * 1000))
        except KafkaError as error:
            return m.FetchResponse(error_code=error.code)
        if is_odd and context.incremental:
            return _refuse(request, body)
        try:
            found, size, waiting_on, is_final = self.read(request, context)
        except ColdRead as cold:
            wait = FetchWait(self, self._world, request, context, [])
            wait.fetch_first(cold)
            return wait.pending
        if is_final or size >= body.min_bytes or body.max_wait_ms <= 0 or not waiting_on:
            return self.respond(request, context, found, size)
        return FetchWait(self, self._world, request, context, waiting_on).pending

    def read_later(
        self, request: Request[m.FetchRequest], context: FetchContext, *, has_fetched: bool
    ) -> tuple[list[Found], int, list[Partition], bool]:
        """As `read`, for a fetch that has waited: the time that it takes counts against the quota of requests."""
        if not self._quotas.limits_requests:
            return self.read(request, context, has_fetched=has_fetched)
        began = self._world.precise()
        try:
            return self.read(request, context, has_fetched=has_fetched)
        finally:
            self._quotas.spend(request, self._world.precise() - began)

    def read(
        self, request: Request[m.FetchRequest], context: FetchContext, *, has_fetched: bool = False
    ) -> tuple[list[Found], int, list[Partition], bool]:
        """Read all partitions once.

        Returns what was found, how many bytes, the partitions that can be waited on, and whether an answer must not
        wait. Raises ColdRead with all that is missing. Once threads have fetched something for this request, it is
        answered with what there is: a cache that is too small for all of its partitions would never have them at once.
        """
        body = request.body
        budget = min(body.max_bytes, self._config.fetch_max_bytes)
        is_cut = False
        if self._quotas.limits_fetches and (allowed := self._quotas.fetch_budget(request)) < budget:
            budget = allowed
            is_cut = budget < body.min_bytes
        by_id = request.api_version >= TOPIC_IDS_VERSION
        replica_id = body.replica_state.replica_id if request.api_version >= 15 else body.replica_id
        found: list[Found] = []
        waiting_on: list[Partition] = []
        total = 0
        is_final = False
        missing: list[Callable[[], None]] = []
        cluster = self._cluster
        topic: Topic | None = None
        topic_key: str | bytes | None = None
        gate = self._gate
        is_denied = False
        is_denied_replica = replica_id >= 0 and not gate.allows_on_cluster(request, AclOperation.CLUSTER_ACTION)
        for requested in context.partitions.values():
            data = m.FetchResponse.PartitionData(requested.index)
            found.append((requested, data))
            if requested.topic != topic_key:
                topic_key = requested.topic
                topic = (
                    cluster.topic_by_id(topic_key) if isinstance(topic_key, bytes) else cluster.find_topic(topic_key)
                )
                name = topic.name if topic is not None else topic_key
                is_denied = replica_id < 0 and isinstance(name, str) and not gate.allows(request, *READ_TOPIC, name)
            if is_denied or is_denied_replica:
                _fail(data, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                data.aborted_transactions = []
                continue
            if topic is None or not topic.has_partition(requested.index):
                # A session remembers the name of a topic that it has seen, so only a new id is an unknown id.
                is_new_id = by_id and topic is None and not requested.was_found
                _fail(data, ErrorCode.UNKNOWN_TOPIC_ID if is_new_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                data.aborted_transactions = []
                continue
            requested.was_found = True
            try:
                partition = topic.readable(requested.index)
                if replica_id >= 0:
                    raise NotLeaderOrFollower
                is_final |= _read_partition(
                    partition, requested, data, budget - total, body.isolation_level, total == 0
                )
            except KafkaError as error:
                _fail(data, error.code)
                if error.code in _MOVED and request.api_version >= _NAMES_LEADER:
                    self._name_leader(topic, data)
                is_final = True
                continue
            except ColdRead as cold:
                missing += cold.fetches
                _leave_out(partition, data, body.isolation_level)
                continue
            total += len(data.records) if data.records is not None else 0
            waiting_on.append(partition)
        if missing and not (has_fetched and total):
            raise ColdRead(*missing)
        return found, total, waiting_on, is_final or bool(missing) or (is_cut and total > 0)

    def _name_leader(self, topic: Topic, data: m.FetchResponse.PartitionData) -> None:
        leader = self._cluster.leader(topic, data.partition_index)
        if leader is not None:
            data.current_leader = m.FetchResponse.LeaderIdAndEpoch(leader.node_id, leader.epoch)

    def respond(
        self, request: Request[m.FetchRequest], context: FetchContext, found: list[Found], size: int
    ) -> m.FetchResponse:
        """The answer with what was found, or without it if its client has fetched too much."""
        quotas = self._quotas
        if quotas.limits_fetches and (waits_ms := quotas.fetched(request, size + _PARTITION_BYTES * len(found))):
            if not context.incremental:
                # The client asks for all partitions again: it knows of none that this answer leaves out (KIP-219).
                self._sessions.forget(context)
            session_id = context.session_id if context.incremental else NO_SESSION
            return m.FetchResponse(session_id=session_id, throttle_time_ms=waits_ms)
        if self._traffic is not None and size:
            fetched = self._traffic.fetched
            if len(found) == 1:
                fetched[found[0][0].topic] += size
            else:
                for requested, data in found:
                    if data.records:
                        fetched[requested.topic] += len(data.records)
        return _respond(request, context, found)

    def _names_something(self, request: Request[m.FetchRequest], body: m.FetchRequest) -> bool:
        """Whether there is anything to read, which is when Kafka looks at how it is to be read."""
        by_id = request.api_version >= TOPIC_IDS_VERSION
        for requested in body.topics:
            topic = (
                self._cluster.topic_by_id(requested.topic_id) if by_id else self._cluster.find_topic(requested.topic)
            )
            if topic is not None and not self._gate.shows(request, *READ_TOPIC, topic.name):
                continue
            count = 0 if topic is None else topic.partition_count
            if any(0 <= each.partition < count for each in requested.partitions):
                return True
        return False


def _read_partition(
    partition: Partition,
    requested: FetchPartition,
    data: m.FetchResponse.PartitionData,
    budget: int,
    isolation: int,
    is_first: bool,
) -> bool:
    """Fill in one partition. Returns True when the answer must not wait (the consumer's log diverged)."""
    log = partition.log
    epoch = requested.current_leader_epoch
    if epoch >= 0 and epoch != log.leader_epoch:
        raise leader_epoch_error(epoch, log.leader_epoch)
    if requested.last_fetched_epoch >= 0:
        end_epoch, end_offset = log.end_offset_for_epoch(requested.last_fetched_epoch)
        if end_epoch < 0:
            raise OffsetOutOfRange()
        if end_epoch < requested.last_fetched_epoch or end_offset < requested.fetch_offset:
            data.diverging_epoch = m.FetchResponse.EpochEndOffset(end_epoch, end_offset)
            data.records = b""
            data.high_watermark = log.high_watermark
            data.last_stable_offset = log.last_stable_offset
            data.log_start_offset = log.log_start_offset
            return True
    limit = min(requested.max_bytes, budget)
    found = log.read(requested.fetch_offset, limit, min_one_batch=is_first, isolation=isolation)
    if limit < 0 and is_first and found.size:
        raise UnknownServerError("A negative number of bytes was asked for.")
    data.high_watermark = found.high_watermark
    data.last_stable_offset = found.last_stable_offset
    data.log_start_offset = found.log_start_offset
    data.records = FileRange(found.file, found.position, found.size) if found.file is not None else found.read()
    if isolation == IsolationLevel.READ_COMMITTED:
        data.aborted_transactions = [
            m.FetchResponse.AbortedTransaction(txn.producer_id, txn.first_offset) for txn in found.aborted or ()
        ]
    else:
        data.aborted_transactions = None
    return False


def _leave_out(partition: Partition, data: m.FetchResponse.PartitionData, isolation: int) -> None:
    """Answer with no records: the client fetches them again."""
    log = partition.log
    data.high_watermark = log.high_watermark
    data.last_stable_offset = log.last_stable_offset
    data.log_start_offset = log.log_start_offset
    data.records = b""
    data.aborted_transactions = [] if isolation == IsolationLevel.READ_COMMITTED else None


def _refuse(request: Request[m.FetchRequest], body: m.FetchRequest) -> m.FetchResponse:
    """A request that makes no sense as a whole: an error for each partition, or one for all from version 13 on."""
    response = m.FetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR, session_id=body.session_id)
    if request.api_version >= TOPIC_IDS_VERSION:
        return response
    for topic in body.topics:
        answer = m.FetchResponse.FetchableTopicResponse(topic=topic.topic)
        response.responses.append(answer)
        for requested in topic.partitions:
            data = m.FetchResponse.PartitionData(requested.partition)
            _fail(data, ErrorCode.UNKNOWN_SERVER_ERROR)
            data.aborted_transactions = []
            answer.partitions.append(data)
    return response


def _fail(data: m.FetchResponse.PartitionData, code: int) -> None:
    data.error_code = code
    data.high_watermark = data.last_stable_offset = data.log_start_offset = -1
    data.records = b""
    data.aborted_transactions = None


def _respond(request: Request[m.FetchRequest], context: FetchContext, found: list[Found]) -> m.FetchResponse:
    response = m.FetchResponse(session_id=context.session_id)
    by_id = request.api_version >= TOPIC_IDS_VERSION
    answer: m.FetchResponse.FetchableTopicResponse | None = None
    topic: str | bytes | None = None
    for requested, data in _to_answer(context, found):
        if requested.topic != topic or answer is None:
            topic = requested.topic
            answer = m.FetchResponse.FetchableTopicResponse()
            if by_id:
                assert isinstance(topic, bytes)
                answer.topic_id = topic
            else:
                assert isinstance(topic, str)
                answer.topic = topic
            response.responses.append(answer)
        answer.partitions.append(data)
    return response


def _to_answer(context: FetchContext, found: list[Found]) -> Iterator[Found]:
    """All partitions in a full response; those with news in an incremental one."""
    session = context.session
    if session is None:
        yield from found
        return
    for requested, data in found:
        has_news = requested.has_news(data)
        if has_news or not context.incremental:
            yield requested, data
        if data.records:
            session.served((requested.topic, requested.index))
