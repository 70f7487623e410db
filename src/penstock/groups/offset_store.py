"""Committed offsets in memory, and those that wait for the end of a transaction.

An offset committed in a transaction is pending under its producer id until the marker comes: COMMIT makes it the
committed offset, unless a later plain commit has already replaced it in the log; ABORT drops it. `require_stable`
fetches see that a partition has a pending offset, plain ones see the last committed value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from penstock.wire import messages as m


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None
    topic_id: bytes
    # The place of the record in the log, to tell which of two commits is the later one.
    sequence: int

    @classmethod
    def from_value(cls, value: m.OffsetCommitValue, sequence: int) -> CommittedOffset:
        expires_ms = None if value.expire_timestamp == -1 else value.expire_timestamp
        return cls(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            expires_ms,
            value.topic_id,
            sequence,
        )


Partition = tuple[str, int]  # topic name and partition
GroupOffsets = dict[str, dict[int, CommittedOffset]]


class OffsetStore:
    def __init__(self) -> None:
        self._groups: dict[str, GroupOffsets] = {}
        # producer id -> group -> topic and partition -> offset
        self._pending: dict[int, dict[str, dict[Partition, CommittedOffset]]] = {}
        # group -> topic and partition -> producer ids with a pending offset there
        self._open: dict[str, dict[Partition, set[int]]] = {}
        self._sequence = 0

    # ---- reading -----------------------------------------------------------------------------------------------------

    def of_group(self, group_id: str) -> GroupOffsets:
        return self._groups.get(group_id, {})

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        return self._groups.get(group_id, {}).get(topic, {}).get(partition)

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        return (topic, partition) in self._open.get(group_id, {})

    def has_pending(self, group_id: str) -> bool:
        return bool(self._open.get(group_id))

    def pending_of_group(self, group_id: str) -> Iterator[Partition]:
        return iter(self._open.get(group_id, {}))

    def pending_topics(self) -> Iterator[tuple[str, str, int, CommittedOffset]]:
        for groups in self._pending.values():
            for group_id, offsets in groups.items():
                for (topic, partition), offset in offsets.items():
                    yield group_id, topic, partition, offset

    def groups(self) -> Iterator[tuple[str, GroupOffsets]]:
        return iter(self._groups.items())

    def __len__(self) -> int:
        return sum(len(offsets) for topics in self._groups.values() for offsets in topics.values())

    # ---- replay ------------------------------------------------------------------------------------------------------

    def put(
        self, group_id: str, topic: str, partition: int, value: m.OffsetCommitValue, producer_id: int | None
    ) -> None:
        self._sequence += 1
        offset = CommittedOffset.from_value(value, self._sequence)
        if producer_id is None:
            self._groups.setdefault(group_id, {}).setdefault(topic, {})[partition] = offset
            return
        self._pending.setdefault(producer_id, {}).setdefault(group_id, {})[topic, partition] = offset
        self._open.setdefault(group_id, {}).setdefault((topic, partition), set()).add(producer_id)

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """A tombstone takes the committed offset and all pending ones."""
        topics = self._groups.get(group_id)
        if topics is not None and topics.get(topic, {}).pop(partition, None) is not None:
            if not topics[topic]:
                del topics[topic]
            if not topics:
                del self._groups[group_id]
        for producer_id in self._open.get(group_id, {}).pop((topic, partition), ()):
            self._pending.get(producer_id, {}).get(group_id, {}).pop((topic, partition), None)
        if not self._open.get(group_id, True):
            del self._open[group_id]

    def end_transaction(self, producer_id: int, commit: bool) -> None:
        for group_id, offsets in self._pending.pop(producer_id, {}).items():
            for (topic, partition), offset in offsets.items():
                self._close(group_id, (topic, partition), producer_id)
                current = self.get(group_id, topic, partition)
                if commit and (current is None or offset.sequence > current.sequence):
                    self._groups.setdefault(group_id, {}).setdefault(topic, {})[partition] = offset

    def _close(self, group_id: str, partition: Partition, producer_id: int) -> None:
        producers = self._open[group_id][partition]
        producers.discard(producer_id)
        if not producers:
            del self._open[group_id][partition]
        if not self._open[group_id]:
            del self._open[group_id]
