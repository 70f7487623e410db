"""How far groups are behind: records, the age of the oldest one, and the time since the last sign of progress.

For each group and topic there are the sum and the maximum over the partitions; single partitions follow on request. The
numbers are those of Kafka's tools: of a consumer group the high watermark less the committed offset, of a share group
what DescribeShareGroupOffsets answers. A position beyond the end of a log, which is left after records were lost,
counts as no lag.

A broker may have a hundred groups on a thousand partitions, so a scrape must not look at each of them by itself: the
partitions of a topic are taken a span at a time, as lists that stand beside each other, and what is done to them is
done by functions that walk over lists in C.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import lt, sub
from typing import TYPE_CHECKING

from penstock.broker.arrivals import high_watermarks, span_range, spans
from penstock.broker.metrics import Metric
from penstock.queues.state import UNKNOWN

if TYPE_CHECKING:
    from penstock.broker.arrivals import Arrivals
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.group_coordinator import GroupCoordinator
    from penstock.broker.share.coordinator import ShareCoordinator
    from penstock.broker.topics import Topic
    from penstock.groups.offset_store import CommittedOffset
    from penstock.queues.state import ShareGroupState

_FRESH_SECONDS = 0.01


class Ends:
    """Where the logs of a topic end and start. They are read again after a while, since a scrape may take long."""

    def __init__(self, precise: Callable[[], float]) -> None:
        self._precise = precise
        self._read: dict[tuple[bytes, int], tuple[float, list[int], list[int]]] = {}

    def of(self, topic: Topic, span: int) -> tuple[list[int], list[int]]:
        now = self._precise()
        known = self._read.get((topic.topic_id, span))
        if known is None or now - known[0] > _FRESH_SECONDS:
            find = topic.find_hosted
            starts = [
                0 if (partition := find(index)) is None else partition.log.log_start_offset
                for index in span_range(topic, span)
            ]
            known = self._read[topic.topic_id, span] = (now, high_watermarks(topic, span), starts)
        return known[1], known[2]


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
        self.partitions = partitions
        self._total = self._largest = self._age_ms = self._last_ms = 0

    def span(
        self, topic: Topic, span: int, lags: Sequence[int], positions: list[int], starts: list[int], last_ms: int
    ) -> None:
        """Partitions of the topic that `topic` is called for next; a position is the first offset not done, or the
        end of a partition that counts for nothing."""
        largest = max(lags, default=0)
        if largest:
            if any(map(lt, positions, starts)):
                positions = list(map(max, positions, starts))
            self._age_ms = max(self._age_ms, self._arrivals.oldest_age_ms(topic, span, positions))
            self._total += sum(lags)
            self._largest = max(self._largest, largest)
        self._last_ms = max(self._last_ms, last_ms)

    def partition(self, group_id: str, topic: Topic, index: int, lag: int, position: int, progress_ms: int) -> None:
        partition = topic.find_hosted(index)
        if partition is None:
            return
        oldest = max(position, partition.log.log_start_offset)
        age_ms = self._arrivals.age_ms(partition, oldest) if lag else 0
        figures = (lag, age_ms / 1000, self._seconds_since(progress_ms))
        for metric, value in zip(self._singles, figures, strict=True):
            metric.add(value, group_id, topic.name, str(index))

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
        if self.partitions:
            yield from self._singles


def group_lag(
    groups: GroupCoordinator, cluster: ClusterView, arrivals: Arrivals, ends: Ends, now_ms: int, *, partitions: bool
) -> Iterator[Metric | None]:
    behind = _Behind("penstock_group", "commit", arrivals, now_ms, partitions=partitions)
    for handle in groups.runtime.loaded_handles():
        for group_id, topics in list(handle.shard.state.offsets.groups()):
            for name, offsets in list(topics.items()):
                topic = cluster.find_topic(name)
                if topic is None:
                    continue
                for span in spans(topic):
                    _add_commits(behind, group_id, topic, span, offsets, *ends.of(topic, span))
                    yield None
                behind.topic(group_id, name)
    yield from behind.metrics()


def _add_commits(
    behind: _Behind,
    group_id: str,
    topic: Topic,
    span: int,
    offsets: Mapping[int, CommittedOffset],
    ends: list[int],
    starts: list[int],
) -> None:
    indexes = span_range(topic, span)
    commits = list(map(offsets.get, indexes))
    positions = [
        end if commit is None or commit[0] > end else commit[0] for commit, end in zip(commits, ends, strict=False)
    ]
    lags = list(map(sub, ends, positions))
    last_ms = max([commit[3] for commit in commits if commit is not None], default=0)
    behind.span(topic, span, lags, positions, starts, last_ms)
    if behind.partitions:
        for index, commit, lag, position in zip(indexes, commits, lags, positions, strict=False):
            if commit is not None:
                behind.partition(group_id, topic, index, lag, position, commit.commit_timestamp_ms)


def share_group_lag(
    coordinator: ShareCoordinator,
    cluster: ClusterView,
    arrivals: Arrivals,
    ends: Ends,
    now_ms: int,
    *,
    partitions: bool,
) -> Iterator[Metric | None]:
    behind = _Behind("penstock_share_group", "acknowledgement", arrivals, now_ms, partitions=partitions)
    by_topic: defaultdict[tuple[str, bytes], dict[int, ShareGroupState]] = defaultdict(dict)
    for handle in coordinator.runtime.loaded_handles():
        for key, states in handle.shard.states_by_topic().items():
            by_topic[key].update(states)
        yield None
    for (group_id, topic_id), found in sorted(by_topic.items(), key=lambda item: item[0]):
        topic = cluster.topic_by_id(topic_id)
        if topic is None or not any(map(topic.find_hosted, found)):
            continue
        for span in spans(topic):
            _add_states(behind, group_id, topic, span, found, *ends.of(topic, span))
            yield None
        behind.topic(group_id, topic.name)
    yield from behind.metrics()


def _add_states(
    behind: _Behind,
    group_id: str,
    topic: Topic,
    span: int,
    found: Mapping[int, ShareGroupState],
    ends: list[int],
    starts: list[int],
) -> None:
    indexes = span_range(topic, span)
    states = list(map(found.get, indexes))
    positions = [
        end if state is None or not UNKNOWN < state.start_offset < end else state.start_offset
        for state, end in zip(states, ends, strict=False)
    ]
    done = [0 if state is None else state.delivery_complete_count for state in states]
    if UNKNOWN in done:
        done = [0 if state is None else state.done_count() for state in states]
    lags = list(map(sub, map(sub, ends, positions), done))
    if any(done):
        lags = [max(0, lag) for lag in lags]
        positions = [position if lag else end for position, lag, end in zip(positions, lags, ends, strict=False)]
    last_ms = max([state.progress_ms for state in states if state is not None], default=0)
    behind.span(topic, span, lags, positions, starts, last_ms)
    if behind.partitions:
        for index, state, lag, position in zip(indexes, states, lags, positions, strict=False):
            if state is not None and state.start_offset != UNKNOWN:
                behind.partition(group_id, topic, index, lag, position, state.progress_ms)
