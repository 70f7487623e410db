"""Incremental fetch sessions (KIP-227): a consumer names only what changed since its last fetch.

A session remembers the partitions of a consumer in order, with the high watermark and log start offset that were last
told, so that a response carries only the partitions that have news. Each request carries the session's epoch, which
goes up by one; anything out of step is answered with an error and the consumer starts anew. The table is bounded: when
it is full and no session is old enough to be evicted, the fetch is answered without a session, which clients accept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator

from penstock.broker.metrics import Metric
from penstock.wire import messages as m
from penstock.wire.errors import FetchSessionIdNotFound, FetchSessionTopicIdError, InvalidFetchSessionEpoch

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
EVICTION_MS = 120_000
_MAX_EPOCH = 2**31 - 1
TOPIC_IDS_VERSION = 13  # the first Fetch that names topics by id (KIP-516)

Key = tuple[str | bytes, int]


class FetchPartition:
    """One partition as a consumer asks for it, and what it was last told of it."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "index",
        "last_fetched_epoch",
        "max_bytes",
        "sent_high_watermark",
        "sent_log_start_offset",
        "topic",
        "was_found",
    )

    def __init__(self, topic: str | bytes, requested: m.FetchRequest.FetchPartition) -> None:
        self.topic = topic  # a name, or an id from version 13 on
        self.index = requested.partition
        self.sent_high_watermark = -1
        self.sent_log_start_offset = -1
        self.was_found = False
        self.update(requested)

    def update(self, requested: m.FetchRequest.FetchPartition) -> None:
        self.fetch_offset = requested.fetch_offset
        self.max_bytes = requested.partition_max_bytes
        self.current_leader_epoch = requested.current_leader_epoch
        self.last_fetched_epoch = requested.last_fetched_epoch

    def has_news(self, data: m.FetchResponse.PartitionData) -> bool:
        """Whether an incremental response must carry `data`; remembers what it tells."""
        news = bool(data.records)
        if data.high_watermark != self.sent_high_watermark:
            self.sent_high_watermark = data.high_watermark
            news = True
        if data.log_start_offset != self.sent_log_start_offset:
            self.sent_log_start_offset = data.log_start_offset
            news = True
        if data.error_code:
            self.sent_high_watermark = -1  # the recovery has to be told as well
            news = True
        return news or data.diverging_epoch.epoch >= 0


class FetchSession:
    __slots__ = ("by_id", "epoch", "last_used_ms", "partitions", "session_id")

    def __init__(self, session_id: int, by_id: bool, partitions: OrderedDict[Key, FetchPartition], now_ms: int) -> None:
        self.session_id = session_id
        self.by_id = by_id
        self.partitions = partitions
        self.epoch = 1
        self.last_used_ms = now_ms

    def served(self, key: Key) -> None:
        """Data was returned: the others come first next time."""
        if key in self.partitions:
            self.partitions.move_to_end(key)


class FetchContext:
    """What one fetch is about: the partitions to read, and how to answer."""

    __slots__ = ("incremental", "partitions", "session")

    def __init__(
        self, partitions: OrderedDict[Key, FetchPartition], session: FetchSession | None, incremental: bool
    ) -> None:
        self.partitions = partitions
        self.session = session
        self.incremental = incremental

    @property
    def session_id(self) -> int:
        return self.session.session_id if self.session is not None else NO_SESSION


class FetchSessions:
    def __init__(self, slots: int, random_id: Callable[[], int]) -> None:
        self._slots = slots
        self._random_id = random_id
        self._sessions: dict[int, FetchSession] = {}
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def metrics(self) -> Iterator[Metric]:
        name = "kafka_server_fetchsessioncache_"
        yield Metric(name + "numincrementalfetchsessions").add(len(self))
        yield Metric(name + "numincrementalfetchpartitionscached").add(self.partitions())
        yield Metric(name + "incrementalfetchsessionevictions_total").add(self.evictions)

    def partitions(self) -> int:
        """Partitions in all open sessions."""
        return sum([len(session.partitions) for session in self._sessions.values()])

    def context(self, request: m.FetchRequest, version: int, now_ms: int) -> FetchContext:
        """The partitions of this fetch. Raises the session errors of Kafka."""
        by_id = version >= TOPIC_IDS_VERSION
        epoch = request.session_epoch
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if request.session_id != NO_SESSION:
                self._sessions.pop(request.session_id, None)
            partitions = OrderedDict(
                (key, FetchPartition(key[0], requested)) for key, requested in _requested_partitions(request, by_id)
            )
            session = None
            if epoch == INITIAL_EPOCH:
                session = self._open(partitions, by_id, now_ms)
            return FetchContext(partitions, session, incremental=False)
        return self._continue(request, by_id, now_ms)

    def forget(self, context: FetchContext) -> None:
        """The client is not told of the session that its request has opened."""
        if context.session is not None:
            self._sessions.pop(context.session.session_id, None)

    def _continue(self, request: m.FetchRequest, by_id: bool, now_ms: int) -> FetchContext:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise FetchSessionIdNotFound()
        if session.epoch != request.session_epoch:
            raise InvalidFetchSessionEpoch()
        if session.by_id != by_id:
            raise FetchSessionTopicIdError()
        for key, requested in _requested_partitions(request, by_id):
            known = session.partitions.get(key)
            if known is None:
                session.partitions[key] = FetchPartition(key[0], requested)
            else:
                known.update(requested)
        for forgotten in request.forgotten_topics_data:
            topic = forgotten.topic_id if by_id else forgotten.topic
            for index in forgotten.partitions:
                session.partitions.pop((topic, index), None)
        session.epoch = 1 if session.epoch == _MAX_EPOCH else session.epoch + 1
        session.last_used_ms = now_ms
        if not session.partitions:
            del self._sessions[session.session_id]
            partitions = OrderedDict(
                (key, FetchPartition(key[0], requested)) for key, requested in _requested_partitions(request, by_id)
            )
            return FetchContext(partitions, None, incremental=False)
        return FetchContext(session.partitions, session, incremental=True)

    def _open(self, partitions: OrderedDict[Key, FetchPartition], by_id: bool, now_ms: int) -> FetchSession | None:
        if len(self._sessions) >= self._slots and not self._evict(now_ms):
            return None
        session_id = self._random_id()
        while session_id in self._sessions or session_id == NO_SESSION:
            session_id = self._random_id()
        session = FetchSession(session_id, by_id, partitions, now_ms)
        self._sessions[session_id] = session
        return session

    def _evict(self, now_ms: int) -> bool:
        oldest = min(self._sessions.values(), key=lambda session: session.last_used_ms, default=None)
        if oldest is None or now_ms - oldest.last_used_ms < EVICTION_MS:
            return False
        del self._sessions[oldest.session_id]
        self.evictions += 1
        return True


def _requested_partitions(request: m.FetchRequest, by_id: bool) -> Iterator[tuple[Key, m.FetchRequest.FetchPartition]]:
    for topic in request.topics:
        name = topic.topic_id if by_id else topic.topic
        for requested in topic.partitions:
            yield (name, requested.partition), requested
