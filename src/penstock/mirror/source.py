"""Reads the partitions of the source, all of a broker in one request at a time.

Only what is committed is read. A partition is left out of the next request while enough of it waits to be written, and
all partitions together keep to a bound.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.client.cluster import Backoff
from penstock.client.errors import kafka_error
from penstock.client.types import NO_TOPIC_ID, IsolationLevel, OffsetSpec, TopicPartition
from penstock.client.versions import FETCH_LAST_NAMED
from penstock.mirror.failures import TopicStopped
from penstock.mirror.pieces import records_of
from penstock.records.batch import BatchHeader, iter_headers
from penstock.records.record import Record
from penstock.wire import messages as m
from penstock.wire.conversation import NEWEST
from penstock.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from penstock.client.admin import Admin

PARTITION_BYTES = 4 << 20
REQUEST_BYTES = 32 << 20
BUFFERED_MAX = 128 << 20
_CHUNKS_MAX = 2
_WAIT_MS = 500
_WAIT_MS_WHILE_SOME_ARE_FULL = 20
_PAUSE_S = 0.2
_GAP_TO_FILL = 1_000
"""A gap before the first record that is larger becomes part of what was deleted."""
_GONE = frozenset({ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})


@dataclass(slots=True)
class Chunk:
    """What one answer holds of a partition, read from `position` on."""

    position: int
    data: memoryview
    aborted: list[tuple[int, int]]
    skipped_to: int = -1
    """Where the partition begins now, if the records at `position` are gone already."""


@dataclass(slots=True, eq=False)
class Feed:
    """One partition of the source, read ahead of whoever takes its chunks."""

    tp: TopicPartition
    topic_id: bytes
    source: Source
    position: int = -1
    stable_end: int = -1
    """The last stable offset, as of the last answer."""
    chunks: deque[Chunk] = field(default_factory=deque)
    failure: Exception | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    serial: int = 0

    @property
    def wants_more(self) -> bool:
        return self.position >= 0 and len(self.chunks) < _CHUNKS_MAX and self.failure is None

    def seek(self, position: int) -> None:
        """Read from here on; forget what was read."""
        self.source.buffered -= sum(len(chunk.data) for chunk in self.chunks)
        self.chunks.clear()
        self.position = position
        self.failure = None
        self.serial += 1
        self.source.wake()

    async def next(self) -> Chunk:
        """The next chunk, in order; raises what stops the partition."""
        while not self.chunks:
            if self.failure is not None:
                raise self.failure
            self.changed.clear()
            await self.changed.wait()
        chunk = self.chunks.popleft()
        self.source.buffered -= len(chunk.data)
        self.source.wake()
        return chunk

    def put(self, chunk: Chunk) -> None:
        self.chunks.append(chunk)
        self.source.buffered += len(chunk.data)
        self.changed.set()

    def fail(self, failure: Exception) -> None:
        self.failure = failure
        self.changed.set()


class Source:
    """All partitions that are read."""

    def __init__(self, admin: Admin) -> None:
        self.admin = admin
        self.buffered = 0
        self._feeds: dict[TopicPartition, Feed] = {}
        self._readers: dict[int, asyncio.Task[None]] = {}
        self._awake = asyncio.Event()

    def open(self, tp: TopicPartition, topic_id: bytes) -> Feed:
        """A feed that begins to read after its first `seek`."""
        feed = self._feeds[tp] = Feed(tp, topic_id, self)
        return feed

    def shut(self, tp: TopicPartition) -> None:
        feed = self._feeds.pop(tp, None)
        if feed is not None:
            feed.seek(-1)

    def wake(self) -> None:
        self._awake.set()

    async def run(self) -> None:
        """Keep one reader per broker that leads something; until cancelled."""
        try:
            while True:
                leaders = {self.admin.cluster.metadata.leader(tp) for tp in self._feeds} - {-1}
                for node in leaders:
                    if node not in self._readers:
                        self._readers[node] = asyncio.create_task(self._read(node), name=f"penstock-mirror-read-{node}")
                for task in self._readers.values():
                    if task.done():
                        await task  # a bug: let it be seen
                for tp in [tp for tp in self._feeds if tp.topic not in self.admin.cluster.metadata.topics]:
                    if (feed := self._feeds.get(tp)) is not None and feed.wants_more:
                        await self._gone(feed)
                await asyncio.sleep(_PAUSE_S)
        finally:
            for task in self._readers.values():
                task.cancel()
            await asyncio.gather(*self._readers.values(), return_exceptions=True)

    async def _read(self, node: int) -> None:
        backoff = Backoff(self.admin.config)
        while True:
            self._awake.clear()
            led = [feed for tp, feed in self._feeds.items() if self.admin.cluster.metadata.leader(tp) == node]
            wanted = [feed for feed in led if feed.wants_more]
            if not wanted or self.buffered >= BUFFERED_MAX:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._awake.wait(), _PAUSE_S)
                continue
            wait_ms = _WAIT_MS if len(wanted) == len(led) else _WAIT_MS_WHILE_SOME_ARE_FULL
            serials = {feed.tp: feed.serial for feed in wanted}
            try:
                answer = await _fetch(self.admin, node, wanted, wait_ms)
                backoff.reset()
            except KafkaError as error:
                if not error.retriable:
                    for feed in wanted:
                        feed.fail(error)
                await self._pause(backoff)
                continue
            if not await self._take(answer, [feed for feed in wanted if serials[feed.tp] == feed.serial]):
                await self._pause(backoff)

    async def _pause(self, backoff: Backoff) -> None:
        await asyncio.sleep(backoff.next_pause())
        with contextlib.suppress(KafkaError):
            await self.admin.cluster.refresh()

    async def _take(self, answer: m.FetchResponse, feeds: list[Feed]) -> bool:
        """Hand out an answer; False if some partition was refused for a reason that may pass."""
        well = True
        named: dict[tuple[str | bytes, int], Feed] = {(feed.tp.topic, feed.tp.partition): feed for feed in feeds}
        named |= {(feed.topic_id, feed.tp.partition): feed for feed in feeds}
        for topic in answer.responses:
            for p in topic.partitions:
                feed = named.get((topic.topic or topic.topic_id, p.partition_index))
                if feed is None or feed.position < 0:
                    continue
                if p.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    well = await self._out_of_range(feed) and well
                elif p.error_code in _GONE:
                    await self._gone(feed)
                    well = False
                elif p.error_code:
                    error = kafka_error(p.error_code, about=str(feed.tp))
                    well = False
                    if not error.retriable:
                        feed.fail(error)
                else:
                    self._hand_out(feed, p)
        return well

    def _hand_out(self, feed: Feed, p: m.FetchResponse.PartitionData) -> None:
        feed.stable_end = p.last_stable_offset
        data = p.records if isinstance(p.records, memoryview) else memoryview(b"")
        last: BatchHeader | None = None
        for _, header in iter_headers(data):
            last = header
        if last is None:
            return
        aborted = [(entry.first_offset, entry.producer_id) for entry in p.aborted_transactions or ()]
        chunk = Chunk(feed.position, data, aborted)
        feed.position = max(feed.position, last.next_offset)
        feed.put(chunk)

    async def _out_of_range(self, feed: Feed) -> bool:
        try:
            first = await self.admin.list_offsets({feed.tp: OffsetSpec.EARLIEST})
        except KafkaError:
            return False
        start = first[feed.tp].offset
        if start <= feed.position:
            feed.fail(
                TopicStopped(
                    f"{feed.tp} ends before offset {feed.position:,} at the source: it has lost records that the "
                    "target has. Delete the topic at the target, and it is copied again"
                )
            )
            return True
        chunk = Chunk(feed.position, memoryview(b""), [], start)
        feed.position = start
        feed.put(chunk)
        return True

    async def _gone(self, feed: Feed) -> None:
        """Stop a topic that was deleted; not one that a broker has just not heard of."""
        name = feed.tp.topic
        try:
            await self.admin.cluster.refresh_all()
        except KafkaError:
            return
        now = self.admin.cluster.metadata.topics.get(name)
        if now is None:
            feed.fail(TopicStopped(f"the topic {name} was deleted at the source; the target keeps its copy"))
        elif feed.topic_id not in (now.topic_id, NO_TOPIC_ID):
            feed.fail(recreated(name))


def recreated(name: str) -> TopicStopped:
    return TopicStopped(
        f"the topic {name} was deleted and created again at the source. Delete it at the target too, and the new one "
        "is copied"
    )


async def _fetch(
    admin: Admin,
    node: int,
    feeds: Iterable[Feed],
    wait_ms: int,
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
    channel: str = "mirror-fetch",
    partition_bytes: int | None = None,
) -> m.FetchResponse:
    topics: dict[str, m.FetchRequest.FetchTopic] = {}
    for feed in feeds:
        name = feed.tp.topic
        topic = topics.setdefault(name, m.FetchRequest.FetchTopic(topic=name, topic_id=feed.topic_id, partitions=[]))
        topic.partitions.append(
            m.FetchRequest.FetchPartition(
                partition=feed.tp.partition,
                current_leader_epoch=-1,
                fetch_offset=feed.position,
                last_fetched_epoch=-1,
                log_start_offset=-1,
                partition_max_bytes=PARTITION_BYTES if partition_bytes is None else partition_bytes,
            )
        )
    request = m.FetchRequest(
        replica_id=-1,
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=REQUEST_BYTES,
        isolation_level=int(isolation),
        session_id=0,
        session_epoch=-1,
        topics=list(topics.values()),
    )
    by_id = all(feed.topic_id != NO_TOPIC_ID for feed in feeds)
    answer = await admin.cluster.request(
        request,
        m.FetchResponse,
        node=node,
        channel=channel,
        at_least=4,
        at_most=NEWEST if by_id else FETCH_LAST_NAMED,
    )
    if answer.error_code:
        raise kafka_error(answer.error_code, about="a fetch")
    return answer


async def read(admin: Admin, tp: TopicPartition, start: int, end: int) -> list[Record]:
    """The committed records at the offsets from `start` up to `end`, `end` left out."""
    found: list[Record] = []
    source = Source(admin)
    feed = Feed(tp, NO_TOPIC_ID, source)

    async def attempt() -> m.FetchResponse.PartitionData:
        node = await admin.cluster.leader(tp)
        answer = await _fetch(admin, node, [feed], 0, channel="mirror-compare")
        answered = answer.responses[0].partitions[0]
        if answered.error_code:
            raise kafka_error(answered.error_code, about=str(tp))
        return answered

    feed.position = start
    while feed.position < end:
        answered = await admin.cluster.retrying(attempt)
        data = answered.records if isinstance(answered.records, memoryview) else memoryview(b"")
        aborted = [(entry.first_offset, entry.producer_id) for entry in answered.aborted_transactions or ()]
        records, position = records_of(data, feed.position, aborted)
        found += [record for record in records if record.offset < end]
        if position == feed.position:
            break  # nothing more that a reader of committed records sees
        feed.position = position
    return found


async def first_offsets(admin: Admin, tps: list[TopicPartition], topic_id: bytes) -> dict[TopicPartition, int]:
    """Where the records of each partition begin: its log start offset, or behind that if compaction took the first."""
    starts = await admin.list_offsets(dict.fromkeys(tps, OffsetSpec.EARLIEST))
    return {tp: await _first_offset(admin, tp, topic_id, found.offset) for tp, found in starts.items()}


async def _first_offset(admin: Admin, tp: TopicPartition, topic_id: bytes, start: int) -> int:
    feed = Feed(tp, topic_id, Source(admin), position=start)

    async def attempt() -> m.FetchResponse.PartitionData:
        answer = await _fetch(
            admin, await admin.cluster.leader(tp), [feed], 0, channel="mirror-compare", partition_bytes=1
        )
        answered = answer.responses[0].partitions[0]
        if answered.error_code:
            raise kafka_error(answered.error_code, about=str(tp))
        return answered

    answered = await admin.cluster.retrying(attempt)
    data = answered.records if isinstance(answered.records, memoryview) else memoryview(b"")
    for _, header in iter_headers(data):
        if header.base_offset > start + _GAP_TO_FILL:
            return header.base_offset
        break
    return start
