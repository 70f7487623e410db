"""How far groups are behind: records, the age of the oldest one, and the time since the last sign of progress.

For each group and topic there are the sum and the maximum over the partitions; single partitions follow on request. The
numbers are those of Kafka's tools: of a consumer group the high watermark less the committed offset, of a share group
what DescribeShareGroupOffsets answers. A position beyond the end of a log, which is left after records were lost,
counts as no lag.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.broker.metrics import Metric

if TYPE_CHECKING:
    from penstock.broker.arrivals import Arrivals
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.group_coordinator import GroupCoordinator
    from penstock.broker.share.coordinator import ShareCoordinator
    from penstock.broker.topics import Partition
    from penstock.queues.state import ShareGroupState

_PARTITIONS_PER_PIECE = 200


class _Behind:
    """The metrics of one kind of groups, being filled."""

    def __init__(self, prefix: str, progress: str, arrivals: Arrivals, now_ms: int, *, partitions: bool) -> None:
        self._sum = Metric(f"{prefix}_lag_records_sum")
        self._max = Metric(f"{prefix}_lag_records_max")
        self._age = Metric(f"{prefix}_lag_age_seconds")
        self._progress = Metric(f"{prefix}_{progress}_age_seconds")
        self._singles = (
            Metric(f"{prefix}_partition_lag_records"),
            Metric(f"{prefix}_partition_lag_age_seconds"),
            Metric(f"{prefix}_partition_{progress}_age_seconds"),
        )
        self._arrivals = arrivals
        self._now_ms = now_ms
        self._partitions = partitions
        self._total = self._largest = self._age_ms = self._last_ms = 0

    def partition(self, group_id: str, partition: Partition, lag: int, oldest: int, progress_ms: int) -> None:
        """A partition of the topic that `topic` is called for next; `oldest` is the first offset not done."""
        lag = max(0, lag)
        start = partition.log.log_start_offset
        age_ms = self._arrivals.age_ms(partition, max(oldest, start)) if lag else 0
        self._total += lag
        self._largest = max(self._largest, lag)
        self._age_ms = max(self._age_ms, age_ms)
        self._last_ms = max(self._last_ms, progress_ms)
        if self._partitions:
            labels = (group_id, partition.topic.name, str(partition.index))
            for metric, value in zip(
                self._singles, (lag, age_ms / 1000, self._seconds_since(progress_ms)), strict=True
            ):
                metric.add(value, *labels)

    def topic(self, group_id: str, name: str) -> None:
        self._sum.add(self._total, group_id, name)
        self._max.add(self._largest, group_id, name)
        self._age.add(self._age_ms / 1000, group_id, name)
        self._progress.add(self._seconds_since(self._last_ms), group_id, name)
        self._total = self._largest = self._age_ms = self._last_ms = 0

    def _seconds_since(self, moment_ms: int) -> float:
        return max(0, self._now_ms - moment_ms) / 1000

    def metrics(self) -> Iterator[Metric]:
        yield from (self._sum, self._max, self._age, self._progress)
        if self._partitions:
            yield from self._singles


def group_lag(
    groups: GroupCoordinator, cluster: ClusterView, arrivals: Arrivals, now_ms: int, *, partitions: bool
) -> Iterator[Metric | None]:
    behind = _Behind("penstock_group", "commit", arrivals, now_ms, partitions=partitions)
    for handle in groups.runtime.loaded_handles():
        for group_id, topics in list(handle.shard.state.offsets.groups()):
            for name, offsets in list(topics.items()):
                topic = cluster.find_topic(name)
                if topic is None:
                    continue
                for at, (index, committed) in enumerate(list(offsets.items())):
                    partition = topic.find_hosted(index)
                    if partition is not None:
                        lag = partition.log.high_watermark - committed.offset
                        behind.partition(group_id, partition, lag, committed.offset, committed.commit_timestamp_ms)
                    if at % _PARTITIONS_PER_PIECE == _PARTITIONS_PER_PIECE - 1:
                        yield None
                behind.topic(group_id, name)
                yield None
    yield from behind.metrics()


def share_group_lag(
    coordinator: ShareCoordinator, cluster: ClusterView, arrivals: Arrivals, now_ms: int, *, partitions: bool
) -> Iterator[Metric | None]:
    behind = _Behind("penstock_share_group", "acknowledgement", arrivals, now_ms, partitions=partitions)
    by_topic: dict[tuple[str, bytes], list[tuple[Partition, int, ShareGroupState]]] = {}
    for handle in coordinator.runtime.loaded_handles():
        for at, ((group_id, topic_id, index), state) in enumerate(handle.shard.states()):
            topic = cluster.topic_by_id(topic_id)
            partition = None if topic is None else topic.find_hosted(index)
            if partition is not None and (lag := state.lag(partition.log.high_watermark)) is not None:
                by_topic.setdefault((group_id, topic_id), []).append((partition, lag, state))
            if at % _PARTITIONS_PER_PIECE == _PARTITIONS_PER_PIECE - 1:
                yield None
        yield None
    for group_id, topic_id in sorted(by_topic):
        for partition, lag, state in by_topic[group_id, topic_id]:
            behind.partition(group_id, partition, lag, state.start_offset, state.written_ms)
            name = partition.topic.name
        behind.topic(group_id, name)
        yield None
    yield from behind.metrics()
