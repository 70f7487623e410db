"""What the driver asks the cluster: which partitions there are, where they begin and end, and what a group committed.

The client is asyncio; Spark's calls block. `ClusterView` keeps one client and one event loop, and lets the loop run
only while a call waits, so there is no thread and nothing happens between calls.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Iterable, Mapping
from types import TracebackType
from typing import Self, TypeVar

from penstock.client.cluster import Cluster
from penstock.client.config import ClientConfig, load
from penstock.client.errors import UsageError, kafka_error
from penstock.client.offsets import commit_offsets, fetch_committed, list_offsets
from penstock.client.security import SecurityConfig
from penstock.client.transactions import ConsumerGroupMetadata
from penstock.client.types import IsolationLevel, OffsetAndMetadata, OffsetSpec, TopicPartition
from penstock.spark.options import EARLIEST, LATEST, Bound, SourceOptions, Subscription
from penstock.spark.ranges import OffsetRange, Offsets, split_ranges
from penstock.spark.security import NO_SECURITY
from penstock.wire.errors import ErrorCode

T = TypeVar("T")

_LOOKS = 10


class DataLoss(Exception):
    """Records that were to be read are gone. `failOnDataLoss=false` reads on with what is left."""


class ClusterView:
    """A blocking view of the cluster, for the driver."""

    def __init__(
        self,
        bootstrap_servers: str,
        client_id: str = "penstock-spark",
        timeout_ms: int = 60_000,
        security: SecurityConfig = NO_SECURITY,
    ) -> None:
        settings = {
            "bootstrap_servers": bootstrap_servers,
            "client_id": client_id,
            "default_api_timeout_ms": timeout_ms,
            "allow_auto_create_topics": False,
        }
        config = load(ClientConfig, security.given(), settings)
        self._loop = asyncio.new_event_loop()
        self.cluster = Cluster(config)
        self._started = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def run(self, work: Coroutine[object, object, T]) -> T:
        """Run a coroutine of the client to its end."""
        return self._loop.run_until_complete(self._with_cluster(work))

    async def _with_cluster(self, work: Coroutine[object, object, T]) -> T:
        if not self._started:
            try:
                await self.cluster.retrying(self.cluster.start)
            except BaseException:
                work.close()
                raise
            self._started = True
        return await work

    def close(self) -> None:
        if not self._loop.is_closed():
            self._loop.run_until_complete(self.cluster.close())
            self._loop.close()

    def partitions(self, subscription: Subscription) -> list[TopicPartition]:
        """The partitions that are subscribed to, now. A topic named in full must exist."""
        return self.run(self._partitions(subscription))

    async def _partitions(self, subscription: Subscription) -> list[TopicPartition]:
        metadata = self.cluster.metadata
        if subscription.pattern:
            await self.cluster.retrying(self.cluster.refresh_all)
            wanted = re.compile(subscription.pattern)
            names = [n for n, info in metadata.topics.items() if wanted.fullmatch(n) and not info.is_internal]
            return self._all_of(names)
        names = list(subscription.topics or sorted({tp.topic for tp in subscription.partitions}))
        await self.cluster.retrying(lambda: self.cluster.refresh(names))
        for _ in range(_LOOKS):
            missing = [name for name in names if name not in metadata.topics]
            if not missing:
                break
            await asyncio.sleep(0.1)  # it may have been created a moment ago
            await self.cluster.retrying(lambda: self.cluster.refresh(names))
        else:
            raise kafka_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, about=f"topic {missing[0]!r}")
        if not subscription.partitions:
            return self._all_of(names)
        for tp in subscription.partitions:
            if tp.partition not in metadata.topics[tp.topic].partitions:
                raise kafka_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, about=f"partition {tp}")
        return list(subscription.partitions)

    def _all_of(self, topics: Iterable[str]) -> list[TopicPartition]:
        known = self.cluster.metadata.topics
        return sorted(TopicPartition(name, number) for name in topics for number in known[name].partitions)

    def topic_id(self, topic: str) -> bytes:
        return self.cluster.metadata.topic_id(topic)

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return self._listed({tp: int(OffsetSpec.EARLIEST) for tp in partitions}, IsolationLevel.READ_UNCOMMITTED)

    def latest(self, partitions: Iterable[TopicPartition], isolation: IsolationLevel) -> Offsets:
        return self._listed({tp: int(OffsetSpec.LATEST) for tp in partitions}, isolation)

    def at_times(self, times_ms: Mapping[TopicPartition, int]) -> Offsets:
        """The first offset at or behind a time; -1 where every record is older."""
        return self._listed(times_ms, IsolationLevel.READ_UNCOMMITTED)

    def _listed(self, times_ms: Mapping[TopicPartition, int], isolation: IsolationLevel) -> Offsets:
        if not times_ms:
            return {}
        found = self.run(list_offsets(self.cluster, times_ms, isolation))
        return {tp: place.offset for tp, place in found.items()}

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit as nobody in particular: fine for a group without members, refused for one that has some."""
        entries = {tp: OffsetAndMetadata(offset, "spark") for tp, offset in offsets.items()}
        self.run(commit_offsets(self.cluster, lambda: ConsumerGroupMetadata(group_id), entries, 10_000))

    def committed(self, group_id: str) -> dict[TopicPartition, OffsetAndMetadata]:
        return self.run(fetch_committed(self.cluster, group_id, None, require_stable=True))


def resolve(view: ClusterView, partitions: list[TopicPartition], bound: Bound, options: SourceOptions) -> Offsets:
    """The offsets that a bound means."""
    if bound.kind == "earliest":
        return view.earliest(partitions)
    if bound.kind == "latest":
        return view.latest(partitions, options.isolation)
    if bound.kind == "timestamp":
        return _at_times(view, dict.fromkeys(partitions, bound.timestamp_ms), bound, options)
    _check_named(bound.offsets, partitions)
    if bound.kind == "timestamps":
        return _at_times(view, bound.offsets, bound, options)
    found = dict(bound.offsets)
    found.update(view.earliest([tp for tp, offset in found.items() if offset == EARLIEST]))
    found.update(view.latest([tp for tp, offset in found.items() if offset == LATEST], options.isolation))
    return found


def _at_times(view: ClusterView, times_ms: Offsets, bound: Bound, options: SourceOptions) -> Offsets:
    found = view.at_times(times_ms)
    late = [tp for tp, offset in found.items() if offset < 0]
    if late and bound is options.starting and options.starting_without_match == "error":
        raise kafka_error(
            ErrorCode.OFFSET_NOT_AVAILABLE,
            f"no record is as young as the starting timestamp {times_ms[late[0]]}; "
            "startingOffsetsByTimestampStrategy=latest starts at the end instead",
            about=f"partition {late[0]}",
        )
    return {**found, **view.latest(late, options.isolation)}


def _check_named(named: Offsets, partitions: list[TopicPartition]) -> None:
    missing = sorted(set(partitions) - set(named))
    foreign = sorted(set(named) - set(partitions))
    if missing or foreign:
        what = f"{missing[0]} is missing" if missing else f"{foreign[0]} is not subscribed to"
        raise UsageError(f"offsets must name exactly the partitions that are read; {what}")


def plan_batch(view: ClusterView, options: SourceOptions) -> list[OffsetRange]:
    """The ranges that a batch query reads, not yet split."""
    partitions = view.partitions(options.subscription)
    if not partitions:
        return []
    starts = resolve(view, partitions, options.starting, options)
    ends = resolve(view, partitions, options.ending, options)
    ranges = [
        OffsetRange(tp.topic, tp.partition, starts[tp], ends[tp], view.topic_id(tp.topic)) for tp in sorted(starts)
    ]
    return check_available(view, ranges, options.fail_on_data_loss)


def check_available(view: ClusterView, ranges: list[OffsetRange], fail_on_data_loss: bool) -> list[OffsetRange]:
    """Ranges without what the log no longer has; raises `DataLoss` where something is missing and that matters."""
    earliest = view.earliest([TopicPartition(piece.topic, piece.partition) for piece in ranges if piece.size > 0])
    kept: list[OffsetRange] = []
    for piece in ranges:
        first = earliest.get(TopicPartition(piece.topic, piece.partition), piece.start)
        if piece.start < first and piece.size > 0:
            if fail_on_data_loss:
                raise DataLoss(
                    f"partition {piece.topic}-{piece.partition}: offset {piece.start} is gone, the log begins at "
                    f"{first}. The records were deleted before they were read; failOnDataLoss=false goes on without"
                )
            piece = OffsetRange(piece.topic, piece.partition, min(first, piece.end), piece.end, piece.topic_id)
        kept.append(piece)
    return kept


def tasks_of(ranges: list[OffsetRange], options: SourceOptions) -> list[OffsetRange]:
    return split_ranges(ranges, min_partitions=options.min_partitions, max_records=options.max_records_per_partition)
