"""What other brokers know and the lag of the groups coordinated here needs: ends of logs, and states of queues.

The broker that coordinates a group shows its lag, so that each series comes from one broker, and sums over brokers are
right. It knows the commits, but not where the logs end that others lead; of a share group it does not know the states
that others keep. Both are read in rounds, in Kafka's own requests (ListOffsets, ReadShareGroupStateSummary), one small
request after the other, so many partitions in a second at most. A scrape takes what was read last and waits for nobody.
What cannot be read stays as it was.

A broker without others never builds this.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from penstock import guard
from penstock.broker.arrivals import NOT_KNOWN
from penstock.broker.share.log_ends import EARLIEST, LATEST, Place
from penstock.broker.topics import SHARE_STATE_TOPIC
from penstock.queues.state import ShareGroupState
from penstock.wire.errors import KafkaError

if TYPE_CHECKING:
    from penstock.broker.cluster_view import ClusterView
    from penstock.broker.measuring import Coordinators, FindCoordinators
    from penstock.broker.share.coordinator import ShareCoordinator
    from penstock.broker.share.log_ends import LogEnds
    from penstock.broker.topics import Topic
    from penstock.broker.world import Timer, World
    from penstock.queues.sessions import TopicIdPartition
    from penstock.wire.errors import ErrorCode

TASK = "lag on other brokers"
ROUND_SECONDS = 5.0
_FIRST_SECONDS = 0.5
_PARTITIONS_PER_REQUEST = 200
_PARTITIONS_PER_SECOND = 1_000
_REQUEST_COSTS_PARTITIONS = 20

QueueKey = tuple[str, bytes]
"""Group and topic id."""

Step = Callable[[], None]


class LagElsewhere:
    def __init__(
        self,
        cluster: ClusterView,
        coordinators: FindCoordinators,
        world: World,
    ) -> None:
        self._cluster = cluster
        self._coordinators = coordinators
        self._world = world
        self._bounds: dict[bytes, dict[int, tuple[int, int]]] = {}
        """By topic id and partition: start and end of a log."""
        self._states: dict[QueueKey, dict[int, ShareGroupState]] = {}
        self._kept_in: dict[QueueKey, array[int]] = {}
        """By queue and partition: the partition of the state topic that keeps the state."""
        self._steps: Iterator[Step] = iter(())
        self._in_use: set[bytes | QueueKey] = set()
        self._read: set[bytes | QueueKey] = set()
        """What at least one round has tried to read."""
        self._timer: Timer | None = None
        self._began = self._succeeded = world.monotonic()

    def start(self) -> None:
        self._timer = self._world.call_later(_FIRST_SECONDS, self._begin)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def success_ages(self) -> dict[str, float]:
        """For how long no round was completed."""
        return {TASK: self._world.monotonic() - self._succeeded}

    # -- what is known ---------------------------------------------------------------------------------------------

    def is_known(self, topic: Topic) -> bool:
        """Whether the logs of a topic that others lead were read, as far as they can be."""
        return topic.topic_id in self._read

    def knows_queue(self, key: QueueKey) -> bool:
        return key in self._read

    def bounds(self, topic: Topic) -> Mapping[int, tuple[int, int]]:
        """Start and end of the topic's logs that others lead, by partition."""
        return self._bounds.get(topic.topic_id, {})

    def ends(self, topic: Topic, indexes: range) -> list[int]:
        """The high watermarks of partitions, led from here or not."""
        bounds, find = self.bounds(topic), topic.find_hosted
        return [
            partition.log.high_watermark
            if (partition := find(index)) is not None
            else bounds[index][1]
            if index in bounds
            else NOT_KNOWN
            for index in indexes
        ]

    def states(self, key: QueueKey) -> Mapping[int, ShareGroupState]:
        """The states of a queue that others keep, by partition."""
        return self._states.get(key, {})

    # -- rounds ----------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._began = self._world.monotonic()
        self._in_use = set()
        self._steps = self._round()
        self._go_on()

    def _round(self) -> Iterator[Step]:
        coordinators = self._coordinators()
        if coordinators is None:
            return
        queues = [
            ((group_id, topic_id), indexes)
            for handle in coordinators.groups.runtime.loaded_handles()
            for group_id, topics in handle.shard.share_groups()
            for topic_id, indexes in topics.items()
        ]
        places = self._places(coordinators, {topic_id for (_, topic_id), _ in queues})
        while chunk := list(islice(places, _PARTITIONS_PER_REQUEST)):
            yield partial(self._read_bounds, coordinators.share_groups.log_ends, chunk)
        share = coordinators.share_groups.coordinator
        for key, indexes in queues:
            self._in_use.add(key)
            elsewhere = iter(self._kept_elsewhere(share, key, indexes))
            while part := [(key[1], index) for index in islice(elsewhere, _PARTITIONS_PER_REQUEST)]:
                yield partial(self._read_states, share, key[0], part)

    def _places(self, coordinators: Coordinators, topic_ids: set[bytes]) -> Iterator[Place]:
        """The partitions that others lead, of these topics and of those that groups coordinated here have read."""
        names = {
            name
            for handle in coordinators.groups.runtime.loaded_handles()
            for _, topics in handle.shard.state.offsets.groups()
            for name in topics
        }
        names.update(topic.name for topic_id in topic_ids if (topic := self._cluster.known_topic(topic_id)) is not None)
        for name in sorted(names):
            topic = self._cluster.find_topic(name)
            if topic is not None:
                self._in_use.add(topic.topic_id)
                for index in range(topic.partition_count):
                    if self._cluster.leader_elsewhere(name, index) is not None:
                        yield name, index

    def _kept_elsewhere(self, share: ShareCoordinator, key: QueueKey, indexes: Collection[int]) -> list[int]:
        """The partitions of a queue whose states others keep."""
        known = self._kept_in.get(key)
        if known is None or len(known) <= max(indexes, default=-1):
            highest = range(max(indexes, default=-1) + 1)
            known = self._kept_in[key] = array("i", [share.state_partition((*key, index)) for index in highest])
        there = {part for part in set(known) if self._cluster.leader_elsewhere(SHARE_STATE_TOPIC, part) is not None}
        return [index for index in sorted(indexes) if known[index] in there]

    def _go_on(self) -> None:
        """Take the next step of the round; it calls back when its answers are here."""
        self._timer = None
        if not guard.attempt("reading lag on other brokers", self._step):
            self._finish()

    def _step(self) -> None:
        step = next(self._steps, None)
        if step is None:
            self._succeeded = self._world.monotonic()
            self._finish()
        else:
            step()

    def _finish(self) -> None:
        """Forget what no group needs any more; the next round comes when its time has come."""
        self._read = self._in_use
        self._bounds = {key: known for key, known in self._bounds.items() if key in self._in_use}
        self._states = {key: known for key, known in self._states.items() if key in self._in_use}
        self._kept_in = {key: known for key, known in self._kept_in.items() if key in self._in_use}
        passed = self._world.monotonic() - self._began
        self._timer = self._world.call_later(max(0.0, ROUND_SECONDS - passed), self._begin)

    def _pause(self, partitions: int) -> None:
        seconds = max(partitions, _REQUEST_COSTS_PARTITIONS) / _PARTITIONS_PER_SECOND
        self._timer = self._world.call_later(seconds, self._go_on)

    def _read_bounds(self, log_ends: LogEnds, places: list[Place]) -> None:
        found: dict[int, dict[Place, int | None]] = {}

        def answered(timestamp: int, offsets: dict[Place, int | None]) -> None:
            found[timestamp] = offsets
            if len(found) == 2:
                for place in places:
                    self._note_bounds(place, found[EARLIEST].get(place), found[LATEST].get(place))
                self._pause(2 * len(places))

        for timestamp in (EARLIEST, LATEST):
            log_ends.find(places, partial(answered, timestamp), timestamp=timestamp)

    def _note_bounds(self, place: Place, start: int | None, end: int | None) -> None:
        topic = self._cluster.find_topic(place[0])
        if topic is not None and start is not None and end is not None:
            self._bounds.setdefault(topic.topic_id, {})[place[1]] = start, end

    def _read_states(self, share: ShareCoordinator, group_id: str, partitions: list[TopicIdPartition]) -> None:
        def answered(states: dict[TopicIdPartition, ShareGroupState | ErrorCode | None]) -> None:
            for (topic_id, index), state in states.items():
                if isinstance(state, ShareGroupState):
                    self._note_state((group_id, topic_id), index, state)
            self._pause(len(partitions))

        try:
            share.states(group_id, partitions, answered)
        except KafkaError:  # it has come here meanwhile, and is being loaded
            self._pause(len(partitions))

    def _note_state(self, key: QueueKey, index: int, state: ShareGroupState) -> None:
        """An answer tells no time: a state has made progress when it was first read as it is."""
        known = self._states.setdefault(key, {})
        before = known.get(index)
        if before is not None and before.progress == state.progress:
            state.progress_ms = before.progress_ms
        else:
            state.progress_ms = self._world.now_ms()
        known[index] = state
