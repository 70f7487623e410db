"""What a consumer reads: its subscription, its partitions, and its position in each.

A partition's *position* is the offset of the next record that `poll` will return; it is None until it is known. A
partition is fetched ahead of its position, as far as memory allows; `fetched_to` is how far. Whatever makes the fetched
data useless (seek, revocation) gives the partition a new `serial`, so that a response that is still under way is
recognized as stale.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator

from penstock.client.types import ConsumerRecord, TopicPartition
from penstock.records.batch import BatchHeader


class Chunk:
    """What one fetch brought for one partition: whole batches, not decoded yet."""

    __slots__ = ("at", "batches", "data", "end_epoch", "end_offset", "size")

    def __init__(
        self, data: memoryview, batches: list[tuple[int, BatchHeader]], end_offset: int, end_epoch: int
    ) -> None:
        self.data = data
        self.batches = batches  # those that may be seen
        self.end_offset = end_offset  # behind the last batch, seen or not
        self.end_epoch = end_epoch  # of the last batch
        self.size = len(data)
        self.at = 0  # index of the next batch to decode


class PartitionState:
    __slots__ = (
        "buffered_bytes",
        "chunks",
        "fetched_epoch",
        "fetched_to",
        "high_watermark",
        "is_unchecked",
        "last_stable_offset",
        "leadership",
        "log_start_offset",
        "paused",
        "position",
        "position_epoch",
        "replica",
        "replica_until",
        "reset_to",
        "rest",
        "retry_at",
        "serial",
        "tp",
    )

    def __init__(self, tp: TopicPartition, serial: int) -> None:
        self.tp = tp
        self.serial = serial
        self.position: int | None = None
        self.position_epoch = -1
        self.reset_to: int | None = None  # a timestamp (or OffsetSpec) to look the position up by
        self.fetched_to = -1
        self.fetched_epoch = -1  # of the leader that wrote the last record before `fetched_to`; -1: not known
        self.leadership: tuple[int, int] | None = None  # leader and its epoch, as of the last look
        self.is_unchecked = False  # the log may have been cut: see penstock.client.truncation
        self.paused = False
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.retry_at = 0.0
        self.replica = -1  # a follower nearby that the leader told us to read from (KIP-392)
        self.replica_until = 0.0
        self.chunks: deque[Chunk] = deque()
        self.buffered_bytes = 0
        self.rest: list[ConsumerRecord[bytes, bytes]] = []  # decoded, but more than one poll wanted

    def drop_buffer(self) -> None:
        self.chunks.clear()
        self.rest = []
        self.buffered_bytes = 0
        self.fetched_to = -1 if self.position is None else self.position
        self.fetched_epoch = self.position_epoch

    def notice_leader(self, node: int, epoch: int) -> None:
        """A new leader may not have all that the one before it had."""
        if self.leadership is not None and self.leadership != (node, epoch):
            self.is_unchecked = True
        self.leadership = (node, epoch)


class Subscription:
    """Topics asked for, partitions held. Knows nothing of brokers."""

    def __init__(self) -> None:
        self.topics: set[str] = set()
        self.pattern: re.Pattern[str] | None = None
        self.server_pattern: str | None = None  # matched by the broker, which hands out partitions of what it finds
        self.is_manual = False
        self.partitions: dict[TopicPartition, PartitionState] = {}
        self._serial = 0

    @property
    def is_by_group(self) -> bool:
        """Whether a group hands out the partitions."""
        return bool(self.topics) or self.pattern is not None or self.server_pattern is not None

    def choose(
        self, topics: Iterable[str] = (), *, pattern: re.Pattern[str] | None = None, server_pattern: str | None = None
    ) -> None:
        """Subscribe to topics by one of the three ways, or to nothing."""
        self.topics = set(topics)
        self.pattern = pattern
        self.server_pattern = server_pattern

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Hold exactly these; those held before keep their position and what was fetched."""
        assigned = list(dict.fromkeys(partitions))
        before = self.partitions
        self.partitions = {tp: before[tp] if tp in before else self._new(tp) for tp in assigned}

    def _new(self, tp: TopicPartition) -> PartitionState:
        self._serial += 1
        return PartitionState(tp, self._serial)

    def seek(self, state: PartitionState, offset: int, epoch: int = -1, *, is_unchecked: bool = False) -> None:
        """Stand at `offset`, behind a record that the leader of `epoch` wrote."""
        state.position = offset
        state.position_epoch = epoch
        state.reset_to = None
        state.is_unchecked = is_unchecked
        state.retry_at = 0.0
        self.drop_buffer(state)

    def drop_buffer(self, state: PartitionState) -> None:
        """Fetch again from the position on."""
        self._serial += 1
        state.serial = self._serial
        state.drop_buffer()

    def seek_by_time(self, state: PartitionState, timestamp: int) -> None:
        """Forget the position; it will be looked up by time (or by OffsetSpec)."""
        state.position = None
        state.position_epoch = -1
        state.reset_to = timestamp
        self.drop_buffer(state)

    def current(self, tp: TopicPartition, serial: int) -> PartitionState | None:
        """The state of a partition if nothing has made an answer for `serial` stale."""
        state = self.partitions.get(tp)
        return state if state is not None and state.serial == serial else None

    def without_position(self) -> Iterator[PartitionState]:
        return (state for state in self.partitions.values() if state.position is None)

    def matches(self, topic: str, is_internal: bool, exclude_internal: bool) -> bool:
        """Whether a topic belongs to the subscription by pattern."""
        if self.pattern is None or (is_internal and exclude_internal):
            return False
        return self.pattern.fullmatch(topic) is not None
