"""How far groups are behind: records, the age of the oldest one, and the time since the last sign of progress.

For each group and topic there are the sum and the maximum over the partitions; single partitions follow on request. The
numbers are those of Kafka's tools: of a consumer group the high watermark less the committed offset, of a share group
what DescribeShareGroupOffsets answers. A position beyond the end of a log, which is left after records were lost,
counts as no lag.

The broker that coordinates a group shows all of its lag, whoever leads the partitions and keeps the states; what it
knows of others is in `broker.lag_elsewhere`. A topic is left out until that has been read for the first time.

A broker may have a hundred groups on a thousand partitions, so a scrape must not look at each of them by itself: the
partitions of a topic are taken a span at a time, as lists that stand beside each other, and what is done to them is
done by functions that walk over lists in C.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import repeat
from operator import itemgetter, lt, sub
from typing import TYPE_CHECKING, Protocol, TypeVar

from penstock.broker.arrivals import NOT_KNOWN, SPAN, span_range, spans
from penstock.broker.metrics import Metric
from penstock.groups.offset_store import CommittedOffset
from penstock.queues.state import UNKNOWN, ShareGroupState

if TYPE_CHECKING:
    from penstock.broker.arrivals import Arrivals
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.group_coordinator import GroupCoordinator
    from penstock.broker.lag_elsewhere import LagElsewhere, QueueKey
    from penstock.broker.share.coordinator import ShareCoordinator
    from penstock.broker.topics import Topic

_FRESH_SECONDS = 0.02
_NOWHERE = 2**62  # behind every log
_SINGLES_PER_SLICE = 50
_NO_COMMIT = CommittedOffset(_NOWHERE, -1, "", 0, None, b"", -1)
_NO_STATE = ShareGroupState(0, 0, -1, _NOWHERE, 0, 0, 0)
"""In the place of a partition for which a group has none, so that no function has to be called to tell."""
_OFFSET, _COMMIT_MS = itemgetter(0), itemgetter(3)

T = TypeVar("T")


class Want(Protocol):
    """Hears the positions of a group in a span, to find out when older records arrived (`broker.older_arrivals`)."""

    def __call__(self, topic: Topic, span: int, positions: Sequence[int]) -> None: ...


class Ends:
    """Where the logs of a topic end and start. They are read again after a while, since a scrape may take long."""

    def __init__(self, precise: Callable[[], float], elsewhere: LagElsewhere | None = None) -> None:
        self._precise = precise
        self._elsewhere = elsewhere
        self._read: dict[tuple[bytes, int], tuple[float, list[int], list[int]]] = {}

    def of(self, topic: Topic, span: int) -> tuple[list[int], list[int]]:
        now = self._precise()
        known = self._read.get((topic.topic_id, span))
        if known is None or now - known[0] > _FRESH_SECONDS:
            known = self._read[topic.topic_id, span] = (now, *self._of(topic, span_range(topic, span)))
        return known[1], known[2]

    def _of(self, topic: Topic, indexes: range) -> tuple[list[int], list[int]]:
        hosted = list(map(topic.find_hosted, indexes))
        if None not in hosted:
            logs = [partition.log for partition in hosted if partition is not None]
            return [log.high_watermark for log in logs], [log.log_start_offset for log in logs]
        bounds = {} if self._elsewhere is None else self._elsewhere.bounds(topic)
        unknown = (_NOWHERE, NOT_KNOWN)
        found = [
            bounds.get(index, unknown)
            if partition is None
            else (partition.log.log_start_offset, partition.log.high_watermark)
            for index, partition in zip(indexes, hosted, strict=True)
        ]
        return [end for _, end in found], [start for start, _ in found]


class LagReader:
    """Makes the metrics of lag. What it needs of the broker is handed to it once."""

    def __init__(
        self,
        cluster: ClusterView,
        groups: GroupCoordinator,
        share: ShareCoordinator,
        arrivals: Arrivals,
        ends: Ends,
        elsewhere: LagElsewhere | None,
        now_ms: int,
        *,
        singles_max: int = 0,
        want: Want | None = None,
    ) -> None:
        """`singles_max` is how many single partitions of each kind of groups are shown."""
        self._cluster = cluster
        self._groups = groups
        self._share = share
        self._arrivals = arrivals
        self._ends = ends
        self._elsewhere = elsewhere
        self._now_ms = now_ms
        self._singles_max = singles_max
        self._want = want

    def metrics(self) -> Iterator[Metric | None]:
        yield from self._of_groups()
        yield from self._of_queues()

    def _of_groups(self) -> Iterator[Metric | None]:
        behind = self._behind("penstock_group", "commit")
        for handle in self._groups.runtime.loaded_handles():
            for group_id, topics in list(handle.shard.state.offsets.groups()):
                for name, offsets in list(topics.items()):
                    topic = self._cluster.find_topic(name)
                    if topic is None or (self._elsewhere is not None and not self._elsewhere.is_known(topic)):
                        continue
                    for span in spans(topic):
                        yield from _add_commits(behind, group_id, topic, span, offsets, *self._ends.of(topic, span))
                        yield None
                    behind.topic(group_id, name)
        yield from behind.metrics()

    def _of_queues(self) -> Iterator[Metric | None]:
        behind = self._behind("penstock_share_group", "acknowledgement")
        by_topic: defaultdict[QueueKey, dict[int, ShareGroupState]] = defaultdict(dict)
        for handle in self._share.runtime.loaded_handles():
            for key, states in handle.shard.states_by_topic().items():
                by_topic[key].update(states)
            yield None
        found = by_topic if self._elsewhere is None else self._coordinated_here(by_topic, self._elsewhere)
        for (group_id, topic_id), states_of_it in sorted(found.items(), key=lambda item: item[0]):
            topic = self._cluster.topic_by_id(topic_id)
            if topic is None or not states_of_it:
                continue
            for span in spans(topic):
                yield from _add_states(behind, group_id, topic, span, states_of_it, *self._ends.of(topic, span))
                yield None
            behind.topic(group_id, topic.name)
        yield from behind.metrics()

    def _coordinated_here(
        self, kept_here: Mapping[QueueKey, dict[int, ShareGroupState]], elsewhere: LagElsewhere
    ) -> dict[QueueKey, dict[int, ShareGroupState]]:
        return {
            key: {**elsewhere.states(key), **kept_here.get(key, {})}
            for handle in self._groups.runtime.loaded_handles()
            for group_id, topics in handle.shard.share_groups()
            for topic_id in topics
            if elsewhere.knows_queue(key := (group_id, topic_id))
        }

    def _behind(self, prefix: str, progress: str) -> _Behind:
        return _Behind(prefix, progress, self._arrivals, self._now_ms, self._singles_max, self._want)


class _Behind:
    """The metrics of one kind of groups, being filled."""

    def __init__(
        self, prefix: str, progress: str, arrivals: Arrivals, now_ms: int, singles_max: int, want: Want | None
    ) -> None:
        self._sum = Metric(f"{prefix}_lag_records_sum")
        self._max = Metric(f"{prefix}_lag_records_max")
        self._age = Metric(f"{prefix}_lag_age_seconds")
        self._progress = Metric(f"{prefix}_{progress}_age_seconds")
        self._stalled = Metric(f"{prefix}_stalled_seconds")
        self._singles = (
            Metric(f"{prefix}_partition_lag_records"),
            Metric(f"{prefix}_partition_lag_age_seconds"),
            Metric(f"{prefix}_partition_{progress}_age_seconds"),
        )
        self._arrivals = arrivals
        self._now_ms = now_ms
        self.singles_max = singles_max
        self._want = want
        self._total = self._largest = self._age_ms = self._last_ms = self._stalled_ms = 0

    def span(
        self,
        topic: Topic,
        span: int,
        lags: Sequence[int],
        positions: list[int],
        starts: list[int],
        times_ms: Sequence[int],
    ) -> None:
        """Partitions of the topic that `topic` is called for next; a position is the first offset not done, or the
        end of a partition that counts for nothing. Each has the time of its last progress, 0 without any."""
        self._last_ms = max(self._last_ms, max(times_ms, default=0))
        largest = max(lags, default=0)
        if not largest:
            return
        if any(starts) and any(map(lt, positions, starts)):
            positions = list(map(max, positions, starts))
        self._total += sum(lags)
        self._largest = max(self._largest, largest)
        age_ms, self._stalled_ms = self._arrivals.ages_ms(topic, span, positions, times_ms, self._stalled_ms)
        self._age_ms = max(self._age_ms, age_ms)
        if self._want is not None:
            self._want(topic, span, positions)

    def partition(self, group_id: str, topic: Topic, index: int, lag: int, position: int, time_ms: int) -> None:
        if len(self._singles[0].samples) >= self.singles_max:
            for metric in self._singles:
                metric.leave_out()
            return
        age_ms = self._arrivals.age_ms(topic, index, position) if lag else 0
        labels = (group_id, topic.name, str(index))
        figures = (lag, age_ms / 1000, self._seconds_since(time_ms))
        for metric, value in zip(self._singles, figures, strict=True):
            metric.add_labelled(value, labels)

    def topic(self, group_id: str, name: str) -> None:
        self._sum.add(self._total, group_id, name)
        self._max.add(self._largest, group_id, name)
        self._age.add(self._age_ms / 1000, group_id, name)
        self._progress.add(self._seconds_since(self._last_ms), group_id, name)
        self._stalled.add(self._stalled_ms / 1000, group_id, name)
        self._total = self._largest = self._age_ms = self._last_ms = self._stalled_ms = 0

    def _seconds_since(self, moment_ms: int) -> float:
        return max(0, self._now_ms - moment_ms) / 1000

    def metrics(self) -> Iterator[Metric]:
        yield from (self._sum, self._max, self._age, self._progress, self._stalled)
        if self.singles_max:
            yield from self._singles


def _of_span(found: Mapping[int, T], indexes: range, missing: T) -> list[T]:
    """What was found for each of these partitions. Most groups have all, and in their order."""
    if len(found) == len(indexes) and list(found) == list(indexes):
        return list(found.values())
    return list(map(found.get, indexes, repeat(missing)))


def _lags(positions: list[int], ends: list[int]) -> tuple[list[int], list[int]]:
    """How far the positions are from the ends of their logs; those beyond their end count as being there."""
    lags = list(map(sub, ends, positions))
    if min(lags, default=0) >= 0:
        return lags, positions[: len(ends)]
    positions = list(map(min, positions, ends))
    return list(map(sub, ends, positions)), positions


def _add_commits(
    behind: _Behind,
    group_id: str,
    topic: Topic,
    span: int,
    offsets: Mapping[int, CommittedOffset],
    ends: list[int],
    starts: list[int],
) -> Iterator[None]:
    commits = _of_span(offsets, span_range(topic, span), _NO_COMMIT)
    lags, positions = _lags(list(map(_OFFSET, commits)), ends)
    times_ms = list(map(_COMMIT_MS, commits))
    behind.span(topic, span, lags, positions, starts, times_ms)
    if behind.singles_max:
        shown = [
            at
            for at, (commit, end) in enumerate(zip(commits, ends, strict=False))
            if commit is not _NO_COMMIT and end != NOT_KNOWN
        ]
        yield from _add_singles(behind, group_id, topic, span, shown, lags, positions, starts, times_ms)


def _add_states(
    behind: _Behind,
    group_id: str,
    topic: Topic,
    span: int,
    found: Mapping[int, ShareGroupState],
    ends: list[int],
    starts: list[int],
) -> Iterator[None]:
    states = _of_span(found, span_range(topic, span), _NO_STATE)
    positions = [state.start_offset for state in states]
    if UNKNOWN in positions:
        positions = [_NOWHERE if position == UNKNOWN else position for position in positions]
    done = [state.delivery_complete_count for state in states]
    if UNKNOWN in done:
        done = [state.done_count() for state in states]
    lags, positions = _lags(positions, ends)
    if any(done):
        lags = [max(0, lag - finished) for lag, finished in zip(lags, done, strict=False)]
        positions = [position if lag else end for position, lag, end in zip(positions, lags, ends, strict=False)]
    times_ms = [state.progress_ms for state in states]
    behind.span(topic, span, lags, positions, starts, times_ms)
    if behind.singles_max:
        shown = [
            at
            for at, (state, end) in enumerate(zip(states, ends, strict=False))
            if state is not _NO_STATE and state.start_offset != UNKNOWN and end != NOT_KNOWN
        ]
        yield from _add_singles(behind, group_id, topic, span, shown, lags, positions, starts, times_ms)


def _add_singles(
    behind: _Behind,
    group_id: str,
    topic: Topic,
    span: int,
    shown: Sequence[int],
    lags: Sequence[int],
    positions: Sequence[int],
    starts: Sequence[int],
    times_ms: Sequence[int],
) -> Iterator[None]:
    """The partitions of a span by themselves, some of them in each slice of the scrape."""
    for number, at in enumerate(shown, 1):
        position = max(positions[at], starts[at])
        behind.partition(group_id, topic, span * SPAN + at, lags[at], position, times_ms[at])
        if number % _SINGLES_PER_SLICE == 0:
            yield None
