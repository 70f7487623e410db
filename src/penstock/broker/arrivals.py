"""When the records of each partition arrived, well enough to tell how old a group's oldest unread record is.

The timestamps of records are their producers' (they may be missing, or in the future), and reading them may mean to
read from the disk. So the broker notes once a second how far each log has come. A record is as old as the first note
that has it: to within a second if it is recent, and more coarsely the older it is, because few notes are kept and those
of the past are thinned out. What was there when the broker started counts from the start.

A note holds the ends of up to a thousand partitions of a topic, a *span*: comparing a note with the positions of a
group is then one step, not a thousand. With 150 groups on a thousand partitions nothing slower would do.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from operator import gt, itemgetter, lt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.topics import Partition, Topic
    from penstock.broker.world import Timer, World

SPAN = 1000
NOT_HOSTED = -1

_LOOK_SECONDS = 1.0
_NOTES_MAX = 32
_PARTITIONS_PER_TURN = 500


def spans(topic: Topic) -> range:
    return range((topic.partition_count + SPAN - 1) // SPAN)


def span_range(topic: Topic, span: int) -> range:
    """The partitions of a span."""
    return range(span * SPAN, min((span + 1) * SPAN, topic.partition_count))


def high_watermarks(topic: Topic, span: int) -> list[int]:
    find = topic.find_hosted
    return [
        NOT_HOSTED if (partition := find(index)) is None else partition.log.high_watermark
        for index in span_range(topic, span)
    ]


class _Notes:
    """At which time which offsets were the next ones; no offset is lower than in the note before."""

    __slots__ = ("ends", "times_ms")

    def __init__(self) -> None:
        self.ends: list[array[int]] = []
        self.times_ms: list[int] = []

    def add(self, ends: array[int], now_ms: int) -> None:
        if self.ends:
            if any(map(lt, ends, self.ends[-1])):
                self._cut(ends)
            if ends == self.ends[-1]:
                return
        if len(self.ends) == _NOTES_MAX:
            self._forget_one(now_ms)
        self.ends.append(ends)
        self.times_ms.append(now_ms)

    def _cut(self, ends: array[int]) -> None:
        """A log lost its end, or is hosted elsewhere now: what was noted of it beyond that never was."""
        self.ends = [array("q", map(min, noted, ends)) for noted in self.ends]

    def _forget_one(self, now_ms: int) -> None:
        """Forget the note whose neighbours are closest, measured by their age: what is recent stays precise."""
        times = self.times_ms
        gaps = [(times[at + 1] - times[at - 1]) / (now_ms - times[at + 1] + 1) for at in range(1, len(times) - 1)]
        at = gaps.index(min(gaps)) + 1
        del self.ends[at], times[at]

    def first_past(self, positions: Sequence[int]) -> int | None:
        """The time of the first note with a record at or past any of these positions."""
        low, high = 0, len(self.ends)
        while low < high:
            middle = (low + high) // 2
            if any(map(gt, self.ends[middle], positions)):
                high = middle
            else:
                low = middle + 1
        return self.times_ms[low] if low < len(self.ends) else None


class Arrivals:
    def __init__(self, cluster: ClusterView, world: World) -> None:
        self._cluster = cluster
        self._world = world
        self._notes: dict[tuple[bytes, int], _Notes] = {}
        self._timer: Timer | None = None

    def start(self) -> None:
        self._look((topic, span) for topic in self._cluster.topics() for span in spans(topic))

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def topic_deleted(self, topic: Topic) -> None:
        for span in spans(topic):
            self._notes.pop((topic.topic_id, span), None)

    def age_ms(self, partition: Partition, offset: int) -> int:
        """How long ago the record at this offset, which is in the log, arrived."""
        span, at = divmod(partition.index, SPAN)
        notes = self._notes.get((partition.topic.topic_id, span))
        if notes is None:
            return 0
        with_it = [
            (ends[at], time_ms) for ends, time_ms in zip(notes.ends, notes.times_ms, strict=True) if at < len(ends)
        ]
        found = bisect_right(with_it, offset, key=itemgetter(0))
        return max(0, self._world.now_ms() - with_it[found][1]) if found < len(with_it) else 0

    def oldest_age_ms(self, topic: Topic, span: int, positions: Sequence[int]) -> int:
        """How long ago the oldest record arrived that is at or past the position of its partition in a span."""
        notes = self._notes.get((topic.topic_id, span))
        time_ms = None if notes is None else notes.first_past(positions)
        return 0 if time_ms is None else max(0, self._world.now_ms() - time_ms)

    def _look(self, unseen: Iterator[tuple[Topic, int]]) -> None:
        """Note where some partitions are, then the rest in the next turns of the event loop."""
        now_ms = self._world.now_ms()
        seen = 0
        for topic, span in unseen:
            ends = array("q", high_watermarks(topic, span))
            notes = self._notes.get((topic.topic_id, span))
            if notes is None and self._cluster.topic_by_id(topic.topic_id) is topic:
                notes = self._notes[topic.topic_id, span] = _Notes()
            if notes is not None:
                notes.add(ends, now_ms)
            seen += len(ends)
            if seen >= _PARTITIONS_PER_TURN:
                self._timer = self._world.call_soon(self._look, unseen)
                return
        self._timer = self._world.call_later(_LOOK_SECONDS, self.start)
