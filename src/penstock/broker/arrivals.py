"""When the records of each partition arrived, well enough to tell how old a group's oldest unread record is.

The timestamps of records are their producers' (they may be missing, or in the future), and reading them may mean to
read from the disk. So the broker notes once a second how far each log has come. A record is as old as the first note
that has it: to within a second if it is recent, and more coarsely the older it is, because few notes are kept and those
of the past are thinned out. Logs that other brokers lead are noted as far as they are known here.

What a partition held when this broker first knew it, after a start or a move, is as old as its timestamps say: where a
group needs to know, `broker.older_arrivals` looks them up, and what it finds is added to the notes of the past.

A note holds the ends of up to a thousand partitions of a topic, a *span*: comparing a note with the positions of a
group is then one step, not a thousand. With 150 groups on a thousand partitions nothing slower would do. An end in a
note is a lower bound: at the time of the note the log had come at least that far.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from operator import gt, lt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.topics import Topic
    from penstock.broker.world import Timer, World

SPAN = 1000
NOT_KNOWN = -1

FindEnds = Callable[["Topic", int], list[int]]
"""The high watermarks of the partitions of a span, NOT_KNOWN for those that are not known here."""

_LOOK_SECONDS = 1.0
_NOTES_MAX = 64
_FOUND_NOTES_MAX = 96
_PARTITIONS_PER_TURN = 500
_SAME_AGE = 1.1
_FORGOTTEN_MS = 10_000


def spans(topic: Topic) -> range:
    return range((topic.partition_count + SPAN - 1) // SPAN)


def span_range(topic: Topic, span: int) -> range:
    """The partitions of a span."""
    return range(span * SPAN, min((span + 1) * SPAN, topic.partition_count))


def hosted_ends(topic: Topic, span: int) -> list[int]:
    """The high watermarks of a span's partitions that are led from here."""
    find = topic.find_hosted
    return [
        NOT_KNOWN if (partition := find(index)) is None else partition.log.high_watermark
        for index in span_range(topic, span)
    ]


class Notes:
    """At which time which offsets were the next ones; no offset is lower than in the note before."""

    __slots__ = ("_missing", "ends", "first_ends", "known_since_ms", "times_ms")

    def __init__(self) -> None:
        self.ends: list[array[int]] = []
        self.times_ms: list[int] = []
        self.known_since_ms: array[int] = array("q")
        self.first_ends: array[int] = array("q")
        """Where each log ended then: when its records before that arrived was not seen from here."""
        self._missing: dict[int, int] = {}
        """The logs that are not known at the moment, and since when."""

    def add(self, ends: Sequence[int], now_ms: int) -> None:
        self._grow(len(ends), now_ms)
        noted = array("q", ends)
        if self._missing or NOT_KNOWN in noted:
            self._fill(noted, now_ms)
        if self.ends:
            if any(map(lt, noted, self.ends[-1])):
                self._cut(noted)
            if noted == self.ends[-1]:
                return
        if len(self.ends) >= _NOTES_MAX:
            self._forget_one(now_ms)
        self.ends.append(noted)
        self.times_ms.append(now_ms)

    def _grow(self, partitions: int, now_ms: int) -> None:
        """A topic may get more partitions; one that has never been known has been missing for ever."""
        more = partitions - len(self.first_ends)
        if more:
            self._missing.update(dict.fromkeys(range(len(self.first_ends), partitions), now_ms - _FORGOTTEN_MS))
            for column in (self.first_ends, self.known_since_ms, *self.ends):
                column.extend([0] * more)

    def _fill(self, noted: array[int], now_ms: int) -> None:
        """What is not known now ends where it was known to end; what was not known for long is known anew."""
        for at, end in enumerate(noted):
            if end == NOT_KNOWN:
                noted[at] = self.ends[-1][at] if self.ends else 0
                self._missing.setdefault(at, now_ms)
            elif at in self._missing and now_ms - self._missing.pop(at) >= _FORGOTTEN_MS:
                self.first_ends[at], self.known_since_ms[at] = end, now_ms

    def _cut(self, ends: array[int]) -> None:
        """A log lost its end: what was noted of it beyond that never was."""
        self.ends = [array("q", map(min, noted, ends)) for noted in self.ends]
        self.first_ends = array("q", map(min, self.first_ends, ends))

    def _forget_one(self, now_ms: int) -> None:
        """Forget the note whose neighbors are closest, measured by their age: what is recent stays precise."""
        times = self.times_ms
        gaps = [(times[at + 1] - times[at - 1]) / (now_ms - times[at + 1] + 1) for at in range(1, len(times) - 1)]
        at = gaps.index(min(gaps)) + 1
        del self.ends[at], times[at]

    def found(self, at: int, end: int, time_ms: int, now_ms: int) -> None:
        """Add to the past that a log had come so far by then, at least."""
        times = self.times_ms
        place = bisect_left(times, time_ms)
        if place == len(times):
            return
        if now_ms - time_ms > (now_ms - times[place]) * _SAME_AGE:
            if len(times) >= _FOUND_NOTES_MAX:
                self._forget_one(now_ms)
                place = bisect_left(times, time_ms)
            before = self.ends[place - 1] if place else bytes(8 * len(self.first_ends))
            self.ends.insert(place, array("q", before))
            times.insert(place, time_ms)
        for noted in self.ends[place:]:
            if noted[at] >= end:
                break
            noted[at] = end

    def first_past(self, positions: Sequence[int]) -> int | None:
        """The time of the first note with a record at or past any of these positions."""
        found = self._search(lambda at: any(map(gt, self.ends[at], positions)))
        return self.times_ms[found] if found < len(self.ends) else None

    def stalled_since(self, positions: Sequence[int], progress_ms: Sequence[int], first: int | None) -> int | None:
        """Since when a partition has had a record at or past its position, and made no progress. The time of the last
        progress of each is never 0 where there is such a record. `first` is what `first_past` has found."""
        if first is None or max(progress_ms) <= first:
            return first
        # No note from before the earliest progress holds anything.
        earliest = min(progress_ms) or min(filter(None, progress_ms), default=0)
        found = self._search(lambda at: self._has_stalled(at, positions, progress_ms), earliest)
        times = self.times_ms[found : found + 1]
        if found:  # what was noted before, and has made progress after that
            noted, at = self.ends[found - 1], progress_ms.index(earliest)
            if noted[at] > positions[at]:
                times.append(earliest)
            else:
                columns = zip(noted, positions, progress_ms, strict=False)
                times += [time for end, position, time in columns if end > position]
        return min(times, default=None)

    def _has_stalled(self, at: int, positions: Sequence[int], progress_ms: Sequence[int]) -> bool:
        time = self.times_ms[at]
        return any(
            end > position and progress <= time
            for end, position, progress in zip(self.ends[at], positions, progress_ms, strict=False)
        )

    def _search(self, holds: Callable[[int], bool], from_ms: int = 0) -> int:
        """The first note, from a time on, of which something holds that holds of all later ones too."""
        low, high = bisect_left(self.times_ms, from_ms) if from_ms else 0, len(self.ends)
        while low < high:
            middle = (low + high) // 2
            if holds(middle):
                high = middle
            else:
                low = middle + 1
        return low

    def first_past_one(self, at: int, position: int) -> int | None:
        """The same for one partition."""
        found = bisect_right(self.ends, position, key=lambda noted: noted[at])
        return self.times_ms[found] if found < len(self.ends) else None


class Arrivals:
    def __init__(self, cluster: ClusterView, world: World, ends: FindEnds = hosted_ends) -> None:
        self._cluster = cluster
        self._world = world
        self._ends = ends
        self._notes: dict[tuple[bytes, int], Notes] = {}
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

    def notes(self, topic: Topic, span: int) -> Notes | None:
        return self._notes.get((topic.topic_id, span))

    def age_ms(self, topic: Topic, index: int, offset: int) -> int:
        """How long ago the record at this offset, which is in the log, arrived."""
        span, at = divmod(index, SPAN)
        notes = self.notes(topic, span)
        known = notes is not None and at < len(notes.first_ends)
        return self._age_ms(notes.first_past_one(at, offset) if notes is not None and known else None)

    def ages_ms(
        self, topic: Topic, span: int, positions: Sequence[int], progress_ms: Sequence[int], known_ms: int = 0
    ) -> tuple[int, int]:
        """How long ago the oldest record arrived that is at or past the position of its partition in a span, and for
        how long a partition has had such a record and made no progress. The latter is not looked for if it cannot be
        longer than what is known already."""
        notes = self.notes(topic, span)
        if notes is None:
            return 0, known_ms
        first = notes.first_past(positions)
        age_ms = self._age_ms(first)
        if age_ms <= known_ms:
            return age_ms, known_ms
        return age_ms, max(known_ms, self._age_ms(notes.stalled_since(positions, progress_ms, first)))

    def _age_ms(self, time_ms: int | None) -> int:
        return 0 if time_ms is None else max(0, self._world.now_ms() - time_ms)

    def _look(self, unseen: Iterator[tuple[Topic, int]]) -> None:
        """Note where some partitions are, then the rest in the next turns of the event loop."""
        now_ms = self._world.now_ms()
        seen = 0
        for topic, span in unseen:
            ends = self._ends(topic, span)
            notes = self._notes.get((topic.topic_id, span))
            if notes is None and self._cluster.topic_by_id(topic.topic_id) is topic:
                notes = self._notes[topic.topic_id, span] = Notes()
            if notes is not None:
                notes.add(ends, now_ms)
            seen += len(ends)
            if seen >= _PARTITIONS_PER_TURN:
                self._timer = self._world.call_soon(self._look, unseen)
                return
        self._timer = self._world.call_later(_LOOK_SECONDS, self.start)
