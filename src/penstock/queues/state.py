"""The share coordinator: what of each share-partition survives a crash, in the topic `__share_group_state`.

One shard per partition of that topic. A share-partition's state is its start offset, how many offsets past it are done,
and the state batches: ranges of records that are done or were delivered before. It is written as a *snapshot* now and
then and as an *update* with only the changed ranges in between
(`share.coordinator.snapshot.update.records.per.snapshot`), byte for byte as Apache Kafka writes them. The topic is not
compacted: records older than every key's latest snapshot are deleted (`records_needed`), and keys that went cold get
a fresh snapshot so that they do not pin the rest.

Two epochs fence those who are late. The *state epoch* is set by Initialize and grows when an administrator resets the
offsets; the *leader epoch* is set by Read when a partition's owner takes over. A Write must carry neither a lower one.
A Write never moves the start offset back, whatever order writes arrive in; only a log that lost its end does
(`bring_back`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from penstock.coordination.effects import CoordinatorRecord, Effects, R, Respond, answered
from penstock.queues.cells import RecordState
from penstock.queues.merging import merge_batches
from penstock.queues.transitions import StateBatch
from penstock.wire import messages as m
from penstock.wire.codec import decode_key, decode_versioned, encode_key, encode_versioned
from penstock.wire.errors import (
    ErrorCode,
    FencedLeaderEpoch,
    FencedStateEpoch,
    InvalidRequest,
    KafkaError,
    UnknownTopicOrPartition,
)

SharePartitionKey: TypeAlias = tuple[str, bytes, int]
"""Group id, topic id, partition."""

UNKNOWN = -1
_VALUE_VERSION = 0
_KEYS = {cls.RECORD_TYPE: cls for cls in (m.ShareSnapshotKey, m.ShareUpdateKey)}


@dataclass(slots=True)
class ShareGroupState:
    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    created_ms: int
    written_ms: int
    batches: list[StateBatch] = field(default_factory=list)
    progress_ms: int = 0
    """When the delivery of records was last completed, by the times at which records of the state were written."""

    def done_count(self) -> int:
        """Offsets past the start offset whose delivery is complete; counted, where the writer did not tell."""
        if self.delivery_complete_count != UNKNOWN:
            return self.delivery_complete_count
        return sum(
            batch.last_offset - batch.first_offset + 1
            for batch in self.batches
            if batch.delivery_state in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)
        )

    @property
    def progress(self) -> tuple[int, int]:
        """What changes when the delivery of records is completed."""
        return self.start_offset, self.delivery_complete_count

    def lag(self, high_watermark: int) -> int | None:
        """Records of the log whose delivery is not complete (KIP-1226); None while it is unknown where to start."""
        if self.start_offset == UNKNOWN:
            return None
        return max(0, high_watermark - self.start_offset - self.done_count())


class ShareStateShard:
    def __init__(
        self,
        partition_exists: Callable[[bytes, int], bool],
        updates_per_snapshot: int = 500,
        cold_interval_ms: int = 300_000,
    ) -> None:
        self._partition_exists = partition_exists
        self._updates_per_snapshot = updates_per_snapshot
        self._cold_interval_ms = cold_interval_ms
        self._next_cold_ms = 0
        self._replayed = 0
        self._states: dict[SharePartitionKey, ShareGroupState] = {}
        self._by_topic: dict[tuple[str, bytes], dict[int, ShareGroupState]] = {}
        """The same once more, for who looks at all of them every few seconds."""
        self._updates: dict[SharePartitionKey, int] = {}
        self._snapshot_at: dict[SharePartitionKey, int] = {}

    def __len__(self) -> int:
        return len(self._states)

    def states_by_topic(self) -> Mapping[tuple[str, bytes], Mapping[int, ShareGroupState]]:
        """The states of each group and topic id, by partition."""
        return self._by_topic

    def get(self, key: SharePartitionKey) -> ShareGroupState | None:
        return self._states.get(key)

    # Commands: one key each; the shell gathers the results of a request that names many.

    def initialize(
        self,
        respond: Respond[m.InitializeShareGroupStateResponse.PartitionResult],
        key: SharePartitionKey,
        state_epoch: int,
        start_offset: int,
        now_ms: int,
        *,
        anew: bool = True,
    ) -> Effects:
        """Begin at a start offset; -1 leaves it to `share.auto.offset.reset`.

        A state that is there already is wiped, with what was in flight; unless `anew` is false: then it stays.
        """
        result = m.InitializeShareGroupStateResponse.PartitionResult
        known = self._states.get(key)
        if not self._partition_exists(key[1], key[2]):
            return _refused(respond, result, key, UnknownTopicOrPartition("The partition does not exist."))
        if known is not None and not anew:
            return answered(respond, result(partition=key[2]), partial(_failed, result, key))
        if known is not None and state_epoch < known.state_epoch:
            return _refused(respond, result, key, FencedStateEpoch("The state has a higher state epoch."))
        state = ShareGroupState(
            snapshot_epoch=known.snapshot_epoch + 1 if known is not None else 0,
            state_epoch=state_epoch,
            leader_epoch=UNKNOWN,
            start_offset=start_offset,
            delivery_complete_count=UNKNOWN if start_offset == UNKNOWN else 0,
            created_ms=now_ms,
            written_ms=now_ms,
        )
        return _written(respond, result, key, _snapshot_record(key, state))

    def read(
        self, respond: Respond[m.ReadShareGroupStateResponse.PartitionResult], key: SharePartitionKey, leader_epoch: int
    ) -> Effects:
        """The state, for the partition's owner; a new owner's epoch is written down, which fences the old one."""
        result = m.ReadShareGroupStateResponse.PartitionResult
        state = self._states.get(key)
        if state is None:
            return _refused(respond, result, key, InvalidRequest("The share-partition is not initialized."))
        if not self._partition_exists(key[1], key[2]):
            return _refused(respond, result, key, UnknownTopicOrPartition("The partition does not exist."))
        if leader_epoch != UNKNOWN and leader_epoch < state.leader_epoch:
            return _refused(respond, result, key, FencedLeaderEpoch("The state has a higher leader epoch."))
        effects = Effects()
        if leader_epoch > state.leader_epoch:
            effects.records.append(_update_record(key, state, leader_epoch, state.start_offset, UNKNOWN, []))
        batches = m.ReadShareGroupStateResponse.StateBatch
        effects.reply(
            respond,
            result(
                partition=key[2],
                state_epoch=state.state_epoch,
                start_offset=state.start_offset,
                state_batches=[
                    batches(
                        first_offset=batch.first_offset,
                        last_offset=batch.last_offset,
                        delivery_state=batch.delivery_state,
                        delivery_count=batch.delivery_count,
                    )
                    for batch in state.batches
                ],
            ),
            partial(_failed, result, key),
        )
        return effects

    def write(
        self,
        respond: Respond[m.WriteShareGroupStateResponse.PartitionResult],
        key: SharePartitionKey,
        *,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Iterable[StateBatch],
        now_ms: int,
    ) -> Effects:
        result = m.WriteShareGroupStateResponse.PartitionResult
        state = self._states.get(key)
        if state is None:
            return _refused(respond, result, key, InvalidRequest("The share-partition is not initialized."))
        if not self._partition_exists(key[1], key[2]):
            return _refused(respond, result, key, UnknownTopicOrPartition("The partition does not exist."))
        if leader_epoch != UNKNOWN and leader_epoch < state.leader_epoch:
            return _refused(respond, result, key, FencedLeaderEpoch("The state has a higher leader epoch."))
        if state_epoch != UNKNOWN and state_epoch < state.state_epoch:
            return _refused(respond, result, key, FencedStateEpoch("The state has a higher state epoch."))
        start, count = _furthest(state, start_offset, delivery_complete_count)
        changed = list(batches)
        if self._updates.get(key, 0) >= self._updates_per_snapshot:
            merged = ShareGroupState(
                snapshot_epoch=state.snapshot_epoch + 1,
                state_epoch=state.state_epoch,
                leader_epoch=state.leader_epoch,
                start_offset=start,
                delivery_complete_count=count,
                created_ms=now_ms,
                written_ms=now_ms,
                batches=merge_batches(start, state.batches, changed),
            )
            record = _snapshot_record(key, merged)
        else:
            record = _update_record(key, state, state.leader_epoch, start, count, changed)
        return _written(respond, result, key, record)

    def delete(
        self, respond: Respond[m.DeleteShareGroupStateResponse.PartitionResult], key: SharePartitionKey
    ) -> Effects:
        """Deleting what is not there is fine, so that a delete can be repeated."""
        result = m.DeleteShareGroupStateResponse.PartitionResult
        if key not in self._states:
            return answered(respond, result(partition=key[2]), partial(_failed, result, key))
        return _written(respond, result, key, CoordinatorRecord(_snapshot_key(key), None))

    def read_summary(
        self, respond: Respond[m.ReadShareGroupStateSummaryResponse.PartitionResult], key: SharePartitionKey
    ) -> Effects:
        state = self._states.get(key)
        result = m.ReadShareGroupStateSummaryResponse.PartitionResult(
            partition=key[2], start_offset=UNKNOWN, delivery_complete_count=UNKNOWN
        )
        if state is not None:
            result.state_epoch = state.state_epoch
            result.leader_epoch = state.leader_epoch
            result.start_offset = state.start_offset
            result.delivery_complete_count = state.delivery_complete_count
        return answered(respond, result, partial(_failed, m.ReadShareGroupStateSummaryResponse.PartitionResult, key))

    def topics_deleted(self, topic_ids: Collection[bytes]) -> Effects:
        gone = [key for key in self._states if key[1] in topic_ids]
        return Effects([CoordinatorRecord(_snapshot_key(key), None) for key in gone])

    def cold_snapshots(self, now_ms: int, interval_ms: int) -> Effects:
        """Fresh snapshots for keys that nobody writes, so that older records can be deleted.

        When every key has had one since its last write there is nothing to gain.
        """
        states = self._states.values()
        if all(state.created_ms != state.written_ms for state in states):
            return Effects()
        effects = Effects()
        for key, state in self._states.items():
            if now_ms - state.written_ms >= interval_ms:
                fresh = ShareGroupState(
                    state.snapshot_epoch + 1,
                    state.state_epoch,
                    state.leader_epoch,
                    state.start_offset,
                    state.delivery_complete_count,
                    state.created_ms,
                    now_ms,
                    state.batches,
                )
                effects.records.append(_snapshot_record(key, fresh))
        return effects

    def bring_back(self, log_end_offset: Callable[[SharePartitionKey], int | None], now_ms: int) -> Effects:
        """Forget what is known of offsets past the end of a log: a power cut can take records that groups have passed.

        Other records will get those offsets, and they are to be delivered. This is the one way by which a start offset
        moves back without an administrator.
        """
        effects = Effects()
        for key, state in self._states.items():
            end = log_end_offset(key)
            reach = max([state.start_offset, *(batch.last_offset + 1 for batch in state.batches)])
            if end is None or reach <= end:
                continue
            shortened = ShareGroupState(
                state.snapshot_epoch + 1,
                state.state_epoch,
                state.leader_epoch,
                min(state.start_offset, end),
                UNKNOWN,
                now_ms,
                now_ms,
                [
                    batch._replace(last_offset=min(batch.last_offset, end - 1))
                    for batch in state.batches
                    if batch.first_offset < end
                ],
            )
            shortened.delivery_complete_count = shortened.done_count()
            effects.records.append(_snapshot_record(key, shortened))
        return effects

    def records_needed(self) -> int:
        """How many of the shard's latest records a restart needs: those from the oldest of the latest snapshots on.

        Everything before them can be deleted from the log.
        """
        return self._replayed - min(self._snapshot_at.values(), default=self._replayed)

    def unload(self, error: ErrorCode) -> Effects:
        """Nobody waits in here."""
        return Effects()

    def append_failed(self, effects: Effects, error: ErrorCode = ErrorCode.COORDINATOR_NOT_AVAILABLE) -> Effects:
        """The log could not take the records. Nobody but their writers waits for them."""
        return Effects()

    # Time

    def loaded(self, now_ms: int) -> Effects:
        self._next_cold_ms = now_ms + self._cold_interval_ms
        return Effects()

    def next_deadline_ms(self) -> int | None:
        return self._next_cold_ms if self._states else None

    def tick(self, now_ms: int) -> Effects:
        if now_ms < self._next_cold_ms:
            return Effects()
        self._next_cold_ms = now_ms + self._cold_interval_ms
        return self.cold_snapshots(now_ms, self._cold_interval_ms)

    # Replay: the only way state changes

    def replay(self, key: bytes, value: bytes | None, producer_id: int = -1, *, written_ms: int = 0) -> None:
        self._replayed += 1
        parsed = decode_key(key, _KEYS)
        assert isinstance(parsed, m.ShareSnapshotKey | m.ShareUpdateKey)
        name = (parsed.group_id, parsed.topic_id, parsed.partition)
        if isinstance(parsed, m.ShareSnapshotKey):
            self._replay_snapshot(name, value, written_ms)
        elif value is not None:
            self._replay_update(name, value, written_ms)

    def replay_end_marker(self, producer_id: int, commit: bool) -> None:
        """Nobody writes share state inside a transaction."""
        self._replayed += 1

    def _replay_snapshot(self, key: SharePartitionKey, value: bytes | None, written_ms: int) -> None:
        self._updates.pop(key, None)
        if value is None:
            if self._states.pop(key, None) is not None:
                self._forget_in_topic(key)
            self._snapshot_at.pop(key, None)
            return
        snapshot = decode_versioned(m.ShareSnapshotValue, value)
        known = self._states.get(key)
        self._states[key] = state = ShareGroupState(
            snapshot.snapshot_epoch,
            snapshot.state_epoch,
            snapshot.leader_epoch,
            snapshot.start_offset,
            snapshot.delivery_complete_count,
            snapshot.create_timestamp,
            snapshot.write_timestamp,
            [
                StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
                for batch in snapshot.state_batches
            ],
            snapshot.write_timestamp,
        )
        if known is not None and known.state_epoch == snapshot.state_epoch:
            state.progress_ms = known.progress_ms if known.progress == state.progress else written_ms
        self._by_topic.setdefault(key[:2], {})[key[2]] = state
        self._snapshot_at[key] = self._replayed - 1

    def _forget_in_topic(self, key: SharePartitionKey) -> None:
        states = self._by_topic[key[:2]]
        del states[key[2]]
        if not states:
            del self._by_topic[key[:2]]

    def _replay_update(self, key: SharePartitionKey, value: bytes, written_ms: int) -> None:
        state = self._states.get(key)
        if state is None:
            return  # its snapshot was deleted after it: the topic was deleted, and the tombstone pruned
        before = state.progress
        update = decode_versioned(m.ShareUpdateValue, value)
        state.leader_epoch = update.leader_epoch
        if update.start_offset != UNKNOWN:
            state.start_offset = update.start_offset
        if update.delivery_complete_count != UNKNOWN:
            state.delivery_complete_count = update.delivery_complete_count
        changed = [
            StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
            for batch in update.state_batches
        ]
        state.batches = merge_batches(state.start_offset, state.batches, changed)
        self._updates[key] = self._updates.get(key, 0) + 1
        if state.progress != before:
            state.progress_ms = written_ms


def _written(
    respond: Respond[R], result: Callable[..., R], key: SharePartitionKey, record: CoordinatorRecord
) -> Effects:
    effects = Effects([record])
    effects.reply(respond, result(partition=key[2]), partial(_failed, result, key))
    return effects


def _failed(result: Callable[..., R], key: SharePartitionKey, error: ErrorCode) -> R:
    """The result when the log could not take the record: the writer may come again."""
    return result(partition=key[2], error_code=int(error))


def _refused(respond: Respond[R], result: Callable[..., R], key: SharePartitionKey, error: KafkaError) -> Effects:
    return answered(respond, result(partition=key[2], error_code=int(error.code), error_message=error.message))


def _furthest(state: ShareGroupState, start_offset: int, delivery_complete_count: int) -> tuple[int, int]:
    """Writes may arrive out of order: the furthest start offset holds, and the count that belongs to it."""
    if start_offset > state.start_offset:
        return start_offset, delivery_complete_count
    if start_offset == state.start_offset:
        return start_offset, max(delivery_complete_count, state.delivery_complete_count)
    return state.start_offset, state.delivery_complete_count


def _snapshot_key(key: SharePartitionKey) -> bytes:
    return encode_key(m.ShareSnapshotKey(group_id=key[0], topic_id=key[1], partition=key[2]))


def _snapshot_record(key: SharePartitionKey, state: ShareGroupState) -> CoordinatorRecord:
    batch_class = m.ShareSnapshotValue.StateBatch
    value = m.ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        create_timestamp=state.created_ms,
        write_timestamp=state.written_ms,
        state_batches=[
            batch_class(first_offset=first, last_offset=last, delivery_state=delivery_state, delivery_count=count)
            for first, last, delivery_state, count in state.batches
        ],
    )
    return CoordinatorRecord(_snapshot_key(key), encode_versioned(value, _VALUE_VERSION))


def _update_record(
    key: SharePartitionKey,
    state: ShareGroupState,
    leader_epoch: int,
    start_offset: int,
    delivery_complete_count: int,
    batches: Iterable[StateBatch],
) -> CoordinatorRecord:
    batch_class = m.ShareUpdateValue.StateBatch
    value = m.ShareUpdateValue(
        snapshot_epoch=state.snapshot_epoch,
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=delivery_complete_count,
        state_batches=[
            batch_class(first_offset=first, last_offset=last, delivery_state=delivery_state, delivery_count=count)
            for first, last, delivery_state, count in batches
        ],
    )
    record_key = encode_key(m.ShareUpdateKey(group_id=key[0], topic_id=key[1], partition=key[2]))
    return CoordinatorRecord(record_key, encode_versioned(value, _VALUE_VERSION))
