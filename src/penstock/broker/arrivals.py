"""When the records of each partition arrived, well enough to tell how old a group's oldest unread record is.

The timestamps of records are their producers' (they may be missing, or in the future), and reading them may mean to
read from the disk. So the broker notes once a second how far each log has come. A record is as old as the first note
that has it: to within a second if it is recent, and more coarsely the older it is, because a log keeps few
notes and thins out those of its past. What was there when the broker started counts from the start.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.topics import Partition, Topic
    from penstock.broker.world import Timer, World

_LOOK_SECONDS = 1.0
_NOTES_MAX = 32
_PARTITIONS_PER_TURN = 500


class _Notes:
    """At which time which offset was the next one."""

    __slots__ = ("ends", "times_ms")

    def __init__(self) -> None:
        self.ends: list[int] = []
        self.times_ms: list[int] = []

    def add(self, end: int, now_ms: int) -> None:
        if self.ends and end <= self.ends[-1]:
            return
        if len(self.ends) == _NOTES_MAX:
            self._forget_one(now_ms)
        self.ends.append(end)
        self.times_ms.append(now_ms)

    def _forget_one(self, now_ms: int) -> None:
        """Forget the note whose neighbours are closest, measured by their age: what is recent stays precise."""
        times = self.times_ms
        gaps = [(times[at + 1] - times[at - 1]) / (now_ms - times[at + 1] + 1) for at in range(1, len(times) - 1)]
        at = gaps.index(min(gaps)) + 1
        del self.ends[at], times[at]


class Arrivals:
    def __init__(self, cluster: ClusterView, world: World) -> None:
        self._cluster = cluster
        self._world = world
        self._notes: dict[tuple[bytes, int], _Notes] = {}
        self._timer: Timer | None = None

    def start(self) -> None:
        self._look(self._cluster.hosted_partitions())

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def topic_deleted(self, topic: Topic) -> None:
        for index in range(topic.partition_count):
            self._notes.pop((topic.topic_id, index), None)

    def age_ms(self, partition: Partition, offset: int) -> int:
        """How long ago the record at this offset, which is in the log, arrived."""
        notes = self._notes.get((partition.topic.topic_id, partition.index))
        if notes is None:
            return 0
        at = bisect_right(notes.ends, offset)
        return max(0, self._world.now_ms() - notes.times_ms[at]) if at < len(notes.ends) else 0

    def _look(self, partitions: Iterator[Partition]) -> None:
        """Note where some partitions are, then the rest in the next turns of the event loop."""
        now_ms = self._world.now_ms()
        seen = 0
        for partition in islice(partitions, _PARTITIONS_PER_TURN):
            seen += 1
            key = (partition.topic.topic_id, partition.index)
            notes = self._notes.get(key)
            if notes is None:
                if self._cluster.topic_by_id(key[0]) is None:
                    continue
                notes = self._notes[key] = _Notes()
            notes.add(partition.log.high_watermark, now_ms)
        if seen == _PARTITIONS_PER_TURN:
            self._timer = self._world.call_soon(self._look, partitions)
        else:
            self._timer = self._world.call_later(_LOOK_SECONDS, self.start)
