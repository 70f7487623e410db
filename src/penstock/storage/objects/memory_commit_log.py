"""A commit log in memory, for tests: it forgets nothing as long as it is held, whatever becomes of the brokers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from penstock.storage.objects.commit_log import (
    NOBODY,
    Extent,
    FencedWriter,
    Layout,
    Outcome,
    PartitionKey,
    PartitionState,
    SegmentEntry,
    StoredObject,
    Tail,
    Usage,
    outcome_of,
)


class _Writer(NamedTuple):
    noted_at: float
    listed_at: float | None = None
    is_done: bool = False


class MemoryCommitLog:
    """See `commit_log.CommitLog`. Every topic exists unless `delete` was called for it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._rows: dict[PartitionKey, PartitionState] = {}
        self._epochs: dict[PartitionKey, list[tuple[int, int]]] = {}
        self._extents: dict[PartitionKey, list[Extent]] = {}
        self._inline: dict[PartitionKey, dict[int, bytes]] = {}
        self._segments: dict[PartitionKey, list[SegmentEntry]] = {}
        self._objects: dict[str, int] = {}
        self._marked: dict[str, float] = {}
        """When each object was marked."""
        self._turns: dict[str, float] = {}
        self._writers: dict[str, _Writer] = {}

    def create(self, partition: PartitionKey, leader: int = NOBODY, leader_epoch: int = -1) -> None:
        """What the catalog does when a topic is created, and when leadership moves."""
        with self._lock:
            row = self._rows.get(partition, PartitionState(NOBODY, -1, 0, 0))
            self._rows[partition] = row._replace(leader=leader, leader_epoch=leader_epoch)

    def delete(self, partition: PartitionKey) -> None:
        with self._lock:
            self._rows.pop(partition, None)

    def lead(self, node_id: int, partitions: Collection[PartitionKey]) -> dict[PartitionKey, PartitionState]:
        with self._lock:
            for key in partitions:
                row = self._rows.get(key, PartitionState(NOBODY, -1, 0, 0))
                self._rows[key] = row._replace(leader=node_id, leader_epoch=row.leader_epoch + 1)
            return {key: self._rows[key] for key in partitions}

    def partitions(self) -> list[PartitionKey]:
        with self._lock:
            return sorted(self._rows)

    def states(self, partitions: Collection[PartitionKey]) -> dict[PartitionKey, PartitionState]:
        with self._lock:
            return {key: self._rows[key] for key in partitions if key in self._rows}

    def commit(self, stored: StoredObject | None, tails: Sequence[Tail]) -> list[Outcome]:
        with self._lock:
            return [self._commit(stored, tail) for tail in tails]

    def _commit(self, stored: StoredObject | None, tail: Tail) -> Outcome:
        key = tail.partition
        row = self._rows.get(key)
        outcome = outcome_of(row, tail)
        if outcome is not Outcome.COMMITTED or row is None or row.end_offset != tail.base_offset:
            return outcome
        self._rows[key] = row._replace(end_offset=tail.end_offset)
        epochs = self._epochs.setdefault(key, [])
        if not epochs or epochs[-1][0] < tail.leader_epoch:
            epochs.append((tail.leader_epoch, tail.base_offset))
        object_key = None
        if tail.data is None:
            assert stored is not None
            object_key = stored.key
            self._objects[stored.key] = stored.size
        else:
            self._inline.setdefault(key, {})[tail.base_offset] = tail.data
        extent = Extent(tail.base_offset, tail.end_offset, object_key, tail.position, tail.size)
        self._extents.setdefault(key, []).append(extent)
        return outcome

    def layouts(self, partitions: Collection[PartitionKey]) -> dict[PartitionKey, Layout]:
        with self._lock:
            return {key: self._layout(key) for key in partitions if key in self._rows}

    def read_inline(self, partition: PartitionKey, first: int, last: int) -> list[tuple[int, bytes]]:
        with self._lock:
            kept = self._inline.get(partition, {})
            return [(base, kept[base]) for base in sorted(kept) if first <= base <= last]

    def _layout(self, key: PartitionKey) -> Layout:
        segments = list(self._segments.get(key, ()))
        covered = segments[-1].end_offset if segments else 0
        extents = [each for each in self._extents.get(key, ()) if each.end_offset > covered]
        return Layout(self._rows[key], list(self._epochs.get(key, ())), segments, extents)

    def add_segment(self, partition: PartitionKey, leader_epoch: int, segment: SegmentEntry) -> Outcome:
        with self._lock:
            failure = self._guard(partition, leader_epoch)
            if failure is not None:
                return failure
            segments = self._segments.setdefault(partition, [])
            if segment not in segments:
                is_beyond = segment.end_offset > self._rows[partition].end_offset
                if is_beyond or (segments and segments[-1].end_offset > segment.base_offset):
                    return Outcome.DIVERGED
                segments.append(segment)
                self._objects[segment.object_key] = segment.size
            self._drop_covered(partition, segment)
            return Outcome.COMMITTED

    def replace_segments(
        self, partition: PartitionKey, leader_epoch: int, replaced: Sequence[str], segment: SegmentEntry
    ) -> Outcome:
        with self._lock:
            failure = self._guard(partition, leader_epoch)
            if failure is not None:
                return failure
            segments = self._segments.setdefault(partition, [])
            if segment in segments:
                return Outcome.COMMITTED
            if [each.object_key for each in segments if each.object_key in replaced] != list(replaced):
                return Outcome.DIVERGED
            kept = [each for each in segments if each.object_key not in replaced]
            self._segments[partition] = sorted([*kept, segment], key=lambda each: each.base_offset)
            self._objects[segment.object_key] = segment.size
            self._drop_covered(partition, segment)
            return Outcome.COMMITTED

    def move_start(self, partition: PartitionKey, leader_epoch: int, log_start_offset: int) -> Outcome:
        with self._lock:
            failure = self._guard(partition, leader_epoch)
            if failure is not None:
                return failure
            row = self._rows[partition]
            if log_start_offset > row.end_offset:
                return Outcome.DIVERGED
            start = max(row.log_start_offset, log_start_offset)
            self._rows[partition] = row._replace(log_start_offset=start)
            self._segments[partition] = [each for each in self._segments.get(partition, ()) if each.end_offset > start]
            self._keep_extents(partition, lambda each: each.end_offset > start)
            return Outcome.COMMITTED

    def _drop_covered(self, partition: PartitionKey, segment: SegmentEntry) -> None:
        self._keep_extents(partition, lambda each: not segment.base_offset < each.end_offset <= segment.end_offset)

    def _keep_extents(self, partition: PartitionKey, is_kept: Callable[[Extent], bool]) -> None:
        kept = self._extents[partition] = [each for each in self._extents.get(partition, ()) if is_kept(each)]
        bases = {each.base_offset for each in kept}
        inline = self._inline.get(partition, {})
        self._inline[partition] = {base: data for base, data in inline.items() if base in bases}

    def _guard(self, partition: PartitionKey, leader_epoch: int) -> Outcome | None:
        row = self._rows.get(partition)
        if row is None:
            return Outcome.DELETED
        return None if row.leader_epoch == leader_epoch else Outcome.FENCED

    # Objects

    def forget_deleted(self) -> int:
        with self._lock:
            count = 0
            for table in (self._extents, self._segments, self._epochs):
                for key in [key for key in table if key not in self._rows]:
                    count += len(table.pop(key))
                    self._inline.pop(key, None)
            return count

    def mark_unreferenced(self) -> int:
        with self._lock:
            named = {each.object_key for extents in self._extents.values() for each in extents}
            named |= {each.object_key for segments in self._segments.values() for each in segments}
            found = set(self._objects) - named - self._marked.keys()
            self._marked.update(dict.fromkeys(sorted(found), self._clock()))
            return len(found)

    def marked(self, grace_seconds: float) -> list[str]:
        with self._lock:
            before = self._clock() - grace_seconds
            return sorted(key for key, marked_at in self._marked.items() if marked_at <= before)

    def forget_objects(self, keys: Iterable[str]) -> None:
        with self._lock:
            for key in keys:
                self._marked.pop(key, None)
                self._objects.pop(key, None)

    def known_objects(self) -> dict[str, int]:
        with self._lock:
            return dict(self._objects)

    def known_among(self, keys: Collection[str]) -> set[str]:
        with self._lock:
            return self._objects.keys() & set(keys)

    def broker_epochs(self) -> dict[int, int]:
        return {}

    def take_turn(self, task: str, seconds: float) -> bool:
        with self._lock:
            now = self._clock()
            if self._turns.get(task, now) > now:
                return False
            self._turns[task] = now + seconds
            return True

    def fenced_writers(self) -> dict[str, FencedWriter]:
        with self._lock:
            now = self._clock()
            return {
                folder: FencedWriter(
                    now - each.noted_at, None if each.listed_at is None else now - each.listed_at, each.is_done
                )
                for folder, each in self._writers.items()
            }

    def note_fenced(self, folders: Collection[str]) -> None:
        with self._lock:
            for folder in folders:
                self._writers.setdefault(folder, _Writer(self._clock()))

    def note_listed(self, folder: str, is_done: bool) -> None:
        with self._lock:
            self._writers[folder] = self._writers[folder]._replace(listed_at=self._clock(), is_done=is_done)

    def forget_writers(self, folders: Collection[str]) -> None:
        with self._lock:
            for folder in folders:
                self._writers.pop(folder, None)

    def usage(self) -> Usage:
        with self._lock:
            extents = [each for extents in self._extents.values() for each in extents]
            return Usage(
                len(self._objects),
                sum(self._objects.values()),
                len(extents),
                sum(each.size for each in extents if each.object_key is None),
                sum(map(len, self._segments.values())),
                len(self._marked),
            )

    def close(self) -> None:
        pass
