"""When records arrived that were there before this broker knew their partition: looked up by their timestamps.

After a start, or when a partition has moved, the notes of `broker.arrivals` begin anew, and the age of a backlog would
begin at zero with them. So where a group is behind from before, the log is searched for the time of the group's first
unread record: which offset is the first one at or after a time (ListOffsets, whoever leads the partition), at times
that close in on it until they are a quarter apart. Each answer is a note of the past, which serves all groups.

A search is a dozen look-ups. There is one after the other, slowly, in small turns, and what is not in memory is fetched
by threads; meanwhile a record is as old as the partition has been known. That is how it stays for a record without a
timestamp, or behind one with a timestamp in the future.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from math import sqrt
from typing import TYPE_CHECKING

from penstock import guard
from penstock.broker.arrivals import SPAN
from penstock.broker.cold_reads import when_fetched
from penstock.broker.peer_connection import PeerFailed
from penstock.broker.peers import Lane
from penstock.storage.contract import ColdRead, StorageError
from penstock.wire import messages as m
from penstock.wire.errors import KafkaError

if TYPE_CHECKING:
    from penstock.broker.arrivals import Arrivals
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.peers import Peers
    from penstock.broker.topics import Topic
    from penstock.broker.world import Timer, World

_SEARCHES_MAX = 10_000
_SETTLED_MAX = 64
_AT_ONCE = 8
_TURN_SECONDS = 0.05
_YOUNGEST_MS = 1_000
_OLDEST_MS = 10 * 365 * 24 * 3600 * 1000
_WIDEN = 8
_CLOSE = 1.25
_WHAT = "looking up when records arrived"

Key = tuple[bytes, int]
"""Topic id and partition."""


class Search:
    """Closes in on when the record at a position arrived. Ages are counted from `now_ms`, when the search began."""

    __slots__ = ("_now_ms", "_older_ms", "_younger_ms", "known", "position", "probe_ms")

    def __init__(self, position: int, end: int, known_since_ms: int, now_ms: int) -> None:
        """`end` is where the log ended when it was first known, `known_since_ms`."""
        self.position = position
        self.known = (0, end)
        """The offsets, the second one excluded, for whose records the search is as good as for its own."""
        self.probe_ms: int | None = 0
        """The time to look up next: from 0 on, which finds the first record with a timestamp. None: it is over."""
        self._now_ms = now_ms
        self._younger_ms = max(_YOUNGEST_MS, now_ms - known_since_ms)
        self._older_ms: int | None = None

    def answered(self, offset: int | None) -> int:
        """The first record at or after the time, None if there is none. Returns how far the log had come by then."""
        low, high = self.known
        end = high if offset is None else min(offset, high)
        age_ms = self._now_ms - (self.probe_ms or 0)
        if self.probe_ms == 0 and (offset is None or end > self.position):
            self.known, self.probe_ms = (low, end), None  # the record has no timestamp
            return 0
        if end > self.position:
            self.known, self._younger_ms = (low, end), age_ms
        elif self.probe_ms:
            self.known, self._older_ms = (end, high), age_ms
        self.probe_ms = self._next()
        return end

    def _next(self) -> int | None:
        younger, older = self._younger_ms, self._older_ms
        if older is None:
            age = younger * _WIDEN
            return self._now_ms - age if age < min(self._now_ms, _OLDEST_MS) else None
        return self._now_ms - int(sqrt(older * younger)) if older > younger * _CLOSE else None


class OlderArrivals:
    def __init__(self, cluster: ClusterView, arrivals: Arrivals, peers: Callable[[], Peers], world: World) -> None:
        self._cluster = cluster
        self._arrivals = arrivals
        self._peers = peers
        self._world = world
        self._searches: dict[Key, Search] = {}
        self._settled: dict[Key, list[tuple[int, int]]] = {}
        """The offsets of each partition for which a search is over."""
        self._awaited = 0
        self._timer: Timer | None = None
        self._is_stopped = False

    def stop(self) -> None:
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def topic_deleted(self, topic: Topic) -> None:
        for index in range(topic.partition_count):
            self._searches.pop((topic.topic_id, index), None)
            self._settled.pop((topic.topic_id, index), None)

    def want(self, topic: Topic, span: int, positions: Iterable[int]) -> None:
        """Search for the records at these positions of a span, as far as they were there before it was known."""
        notes = self._arrivals.notes(topic, span)
        if notes is None:
            return
        now_ms = self._world.now_ms()
        for at, (position, end) in enumerate(zip(positions, notes.first_ends, strict=False)):
            if position >= end or len(self._searches) >= _SEARCHES_MAX:
                continue
            key = topic.topic_id, span * SPAN + at
            if key not in self._searches and not self._is_settled(key, position):
                self._searches[key] = Search(position, end, notes.known_since_ms[at], now_ms)
        if self._searches and self._timer is None and not self._awaited:
            self._timer = self._world.call_later(_TURN_SECONDS, self._turn)

    def _is_settled(self, key: Key, position: int) -> bool:
        return any(low <= position < high for low, high in self._settled.get(key, ()))

    def _turn(self) -> None:
        """Look up the next times of some of the searches; the next turn comes when all of them are answered."""
        self._timer = None
        self._awaited = 1
        elsewhere: dict[int, list[Key]] = {}
        for key in list(islice(self._searches, _AT_ONCE)):
            topic = self._cluster.known_topic(key[0])
            node_id = None if topic is None else self._cluster.leader_elsewhere(topic.name, key[1])
            if node_id is None:
                self._awaited += 1
                self._begin(key)
            else:
                elsewhere.setdefault(node_id, []).append(key)
        for node_id, keys in elsewhere.items():
            self._awaited += 1
            self._send(node_id, keys)
        self._arrived()

    def _begin(self, key: Key) -> None:
        if not guard.attempt(_WHAT, self._look_up, key):
            self._searches.pop(key, None)
            self._arrived()

    def _look_up(self, key: Key) -> None:
        topic, search = self._cluster.known_topic(key[0]), self._searches.get(key)
        partition = None if topic is None else topic.find_hosted(key[1])
        try:
            if partition is None or search is None or search.probe_ms is None:
                self._searches.pop(key, None)  # nobody leads it at the moment
            else:
                found = partition.log.offset_for_timestamp(search.probe_ms)
                self._answered(key, None if found is None else found.offset)
        except ColdRead as cold:
            when_fetched(self._world, cold, partial(self._fetched, key))
            return
        except (KafkaError, StorageError):
            self._searches.pop(key, None)
        self._arrived()

    def _fetched(self, key: Key, failure: BaseException | None) -> None:
        if failure is None:
            self._begin(key)
        else:
            self._searches.pop(key, None)
            self._arrived()

    def _send(self, node_id: int, keys: list[Key]) -> None:
        shapes = m.ListOffsetsRequest
        places = {}
        for key in keys:
            topic, search = self._cluster.known_topic(key[0]), self._searches[key]
            assert topic is not None
            assert search.probe_ms is not None
            places[topic.name, key[1]] = key, search.probe_ms
        request = shapes(
            topics=[
                shapes.ListOffsetsTopic(
                    name=name, partitions=[shapes.ListOffsetsPartition(partition_index=index, timestamp=probe_ms)]
                )
                for (name, index), (_, probe_ms) in places.items()
            ]
        )

        def answered(answer: m.ListOffsetsResponse | PeerFailed) -> None:
            offsets = {} if isinstance(answer, PeerFailed) else dict(_offsets_in(answer))
            for place, (key, _) in places.items():
                if place in offsets:
                    self._answered(key, offsets[place])
                else:
                    self._searches.pop(key, None)
            self._arrived()

        self._peers().send(node_id, Lane.TIMES, request, m.ListOffsetsResponse, answered)

    def _answered(self, key: Key, offset: int | None) -> None:
        search, topic = self._searches.pop(key, None), self._cluster.known_topic(key[0])
        if search is None or topic is None:
            return
        assert search.probe_ms is not None
        time_ms, end = search.probe_ms, search.answered(offset)
        span, at = divmod(key[1], SPAN)
        notes = self._arrivals.notes(topic, span)
        if time_ms and end and notes is not None:
            notes.found(at, end, time_ms, self._world.now_ms())
        if search.probe_ms is not None:
            self._searches[key] = search  # behind the others
        else:
            settled = self._settled.setdefault(key, [])
            settled.append(search.known)
            del settled[:-_SETTLED_MAX]

    def _arrived(self) -> None:
        self._awaited -= 1
        if not self._awaited and self._searches and not self._is_stopped:
            self._timer = self._world.call_later(_TURN_SECONDS, self._turn)


def _offsets_in(answer: m.ListOffsetsResponse) -> Iterator[tuple[tuple[str, int], int | None]]:
    for topic in answer.topics:
        for each in topic.partitions:
            if not each.error_code:
                yield (topic.name, each.partition_index), None if each.offset < 0 else each.offset
