"""The share coordinator's logic over `__share_group_state`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.coordination.effects import Effects, Respond
from penstock.queues.state import ShareStateShard
from penstock.queues.transitions import StateBatch
from penstock.wire import messages as m
from penstock.wire.codec import decode_key, decode_versioned
from penstock.wire.errors import ErrorCode

KEY = ("g", bytes(15) + b"\1", 0)
OTHER = ("g", bytes(15) + b"\1", 1)


class Log:
    """A shard with the records it wrote, as the shell would keep them."""

    def __init__(self, updates_per_snapshot: int = 500, partitions: int = 10) -> None:
        self.partitions = partitions
        self.updates_per_snapshot = updates_per_snapshot
        self.shard = self.new_shard()
        self.records: list[tuple[bytes, bytes | None]] = []
        self.written_ms: list[int] = []
        self.now_ms = 2_000
        self.results: list[object] = []

    def new_shard(self) -> ShareStateShard:
        return ShareStateShard(lambda _, index: index < self.partitions, self.updates_per_snapshot)

    def run(self, effects: Effects) -> Any:
        for key, value in effects.records:
            self.records.append((key, value))
            self.written_ms.append(self.now_ms)
            self.shard.replay(key, value, written_ms=self.now_ms)
        self.results.clear()
        effects.send()
        return self.results[0] if self.results else None

    def reload(self, after: int = 0) -> None:
        self.shard = self.new_shard()
        for (key, value), written_ms in zip(self.records[after:], self.written_ms[after:], strict=True):
            self.shard.replay(key, value, written_ms=written_ms)

    def initialize(self, state_epoch: int = 1, start: int = -1) -> int:
        result = self.run(self.shard.initialize(self.results.append, KEY, state_epoch, start, 1_000))
        assert isinstance(result, m.InitializeShareGroupStateResponse.PartitionResult)
        return result.error_code

    def read(self, leader_epoch: int = 0) -> m.ReadShareGroupStateResponse.PartitionResult:
        result = self.run(self.shard.read(self.results.append, KEY, leader_epoch))
        assert isinstance(result, m.ReadShareGroupStateResponse.PartitionResult)
        return result

    def write(
        self, start: int, *batches: StateBatch, state_epoch: int = 1, leader_epoch: int = 0, complete: int = 0
    ) -> int:
        result = self.run(
            self.shard.write(
                self.results.append,
                KEY,
                state_epoch=state_epoch,
                leader_epoch=leader_epoch,
                start_offset=start,
                delivery_complete_count=complete,
                batches=batches,
                now_ms=self.now_ms,
            )
        )
        assert isinstance(result, m.WriteShareGroupStateResponse.PartitionResult)
        return result.error_code


def spans(result: m.ReadShareGroupStateResponse.PartitionResult) -> list[tuple[int, int, int, int]]:
    return [(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count) for b in result.state_batches]


def test_a_state_is_initialized_read_and_written() -> None:
    log = Log()
    assert log.initialize() == ErrorCode.NONE
    assert log.read().start_offset == -1
    assert log.write(10, StateBatch(12, 13, 2, 1), complete=2) == ErrorCode.NONE
    state = log.read()
    assert (state.start_offset, state.state_epoch, spans(state)) == (10, 1, [(12, 13, 2, 1)])


def test_an_uninitialized_state_can_be_neither_read_nor_written() -> None:
    log = Log()
    assert log.read().error_code == ErrorCode.INVALID_REQUEST
    assert log.write(0) == ErrorCode.INVALID_REQUEST


def test_a_partition_that_does_not_exist_has_no_state() -> None:
    log = Log(partitions=0)
    assert log.initialize() == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert log.read().error_code == ErrorCode.INVALID_REQUEST
    assert log.write(0) == ErrorCode.INVALID_REQUEST


def test_an_old_state_epoch_is_fenced() -> None:
    log = Log()
    log.initialize(state_epoch=5)
    assert log.initialize(state_epoch=4) == ErrorCode.FENCED_STATE_EPOCH
    assert log.write(3, state_epoch=4) == ErrorCode.FENCED_STATE_EPOCH
    assert log.write(3, state_epoch=5) == ErrorCode.NONE


def test_a_new_owner_fences_the_old_one_by_reading() -> None:
    log = Log()
    log.initialize()
    log.read(leader_epoch=7)
    assert log.read(leader_epoch=6).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert log.write(0, leader_epoch=6) == ErrorCode.FENCED_LEADER_EPOCH
    assert log.write(0, leader_epoch=8) == ErrorCode.NONE
    assert log.read(leader_epoch=7).error_code == ErrorCode.NONE, "writing does not raise the stored epoch"


def test_reading_again_writes_nothing() -> None:
    log = Log()
    log.initialize()
    log.read(leader_epoch=0)
    number = len(log.records)
    log.read(leader_epoch=0)
    assert len(log.records) == number


def test_writes_that_arrive_late_do_not_move_the_start_offset_back() -> None:
    log = Log()
    log.initialize()
    log.write(20, complete=3)
    log.write(10, StateBatch(15, 25, 2, 1), complete=9)
    assert log.read().start_offset == 20
    assert spans(log.read()) == [(20, 25, 2, 1)]
    state = log.shard.get(KEY)
    assert state is not None
    assert state.delivery_complete_count == 3


def test_a_snapshot_is_written_after_so_many_updates() -> None:
    log = Log(updates_per_snapshot=3)
    log.initialize()
    for offset in range(1, 6):
        log.write(0, StateBatch(offset, offset, 2, 1))
    assert [int.from_bytes(key[:2], "big") for key, _ in log.records] == [0, 1, 1, 1, 0, 1]
    _key, value = log.records[4]
    assert value is not None
    snapshot = decode_versioned(m.ShareSnapshotValue, value)
    assert snapshot.snapshot_epoch == 1
    assert [(b.first_offset, b.last_offset) for b in snapshot.state_batches] == [(1, 4)]


def test_a_restart_needs_only_the_records_since_the_oldest_latest_snapshot() -> None:
    log = Log(updates_per_snapshot=2)
    log.initialize()
    for offset in range(1, 8):
        log.write(0, StateBatch(offset, offset, 2, 1))
    before = spans(log.read())
    needed = log.shard.records_needed()
    assert needed < len(log.records)
    log.reload(after=len(log.records) - needed)
    assert spans(log.read()) == before


def test_a_deleted_state_is_gone_and_holds_nothing_back() -> None:
    log = Log()
    log.initialize()
    log.run(log.shard.delete(log.results.append, KEY))
    assert log.read().error_code == ErrorCode.INVALID_REQUEST
    assert log.records[-1][1] is None
    assert log.shard.records_needed() == 0
    assert log.shard.delete(log.results.append, KEY).records == [], "deleting twice is fine"


def test_deleted_topics_take_their_states_along() -> None:
    log = Log()
    log.initialize()
    log.run(log.shard.topics_deleted({KEY[1]}))
    assert len(log.shard) == 0


def test_the_summary_of_what_nobody_knows_is_unknown() -> None:
    log = Log()
    summary = log.run(log.shard.read_summary(log.results.append, KEY))
    assert isinstance(summary, m.ReadShareGroupStateSummaryResponse.PartitionResult)
    assert (summary.error_code, summary.start_offset, summary.delivery_complete_count) == (0, -1, -1)
    log.initialize(start=5)
    log.write(9, complete=4)
    summary = log.run(log.shard.read_summary(log.results.append, KEY))
    assert isinstance(summary, m.ReadShareGroupStateSummaryResponse.PartitionResult)
    assert (summary.start_offset, summary.delivery_complete_count) == (9, 4)


def test_a_summary_that_rests_on_what_is_lost_is_not_told() -> None:
    log = Log()
    log.initialize(start=5)
    summaries: list[m.ReadShareGroupStateSummaryResponse.PartitionResult] = []
    log.shard.read_summary(summaries.append, KEY).fail(ErrorCode.NOT_COORDINATOR)
    assert (summaries[0].error_code, summaries[0].start_offset) == (ErrorCode.NOT_COORDINATOR, 0)


def test_initializing_again_wipes_what_was_in_flight() -> None:
    log = Log()
    log.initialize()
    log.write(10, StateBatch(12, 13, 2, 1))
    log.initialize(state_epoch=2, start=3)
    state = log.read()
    assert (state.start_offset, state.state_batches) == (3, [])


def test_a_state_that_is_there_stays_when_it_is_not_to_begin_anew() -> None:
    """Whoever requests that could not note that it had begun; by now it may be in use, under a higher epoch too."""
    log = Log()
    log.initialize(state_epoch=4)
    log.write(10, StateBatch(12, 13, 2, 1), state_epoch=4)
    for state_epoch in (3, 4, 5):
        effects = log.shard.initialize(log.results.append, KEY, state_epoch, -1, 1_000, anew=False)
        assert not effects.records
        assert log.run(effects).error_code == ErrorCode.NONE
    assert log.read().start_offset == 10
    log.run(log.shard.initialize(log.results.append, OTHER, 1, 7, 1_000, anew=False))
    state = log.shard.get(OTHER)
    assert state is not None
    assert state.start_offset == 7


def test_cold_keys_get_a_fresh_snapshot_once() -> None:
    log = Log()
    log.initialize()
    log.run(log.shard.initialize(log.results.append, OTHER, 1, -1, 1_000))
    assert log.shard.cold_snapshots(2_000, 300_000).records == []
    log.run(log.shard.cold_snapshots(400_000, 300_000))
    assert len(log.records) == 4
    assert log.shard.cold_snapshots(900_000, 300_000).records == []


def test_a_failed_append_tells_everyone_to_come_again() -> None:
    log = Log()
    results: list[m.InitializeShareGroupStateResponse.PartitionResult] = []
    effects = log.shard.initialize(results.append, KEY, 1, -1, 0)
    assert log.shard.append_failed(effects).replies == []
    effects.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert [result.error_code for result in results] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert len(log.shard) == 0


def test_what_is_known_of_offsets_past_the_end_of_a_log_is_forgotten() -> None:
    log = Log()
    log.initialize(start=0)
    log.write(10, StateBatch(12, 15, 2, 1), StateBatch(18, 19, 0, 1), complete=4)
    log.run(log.shard.bring_back(lambda key: 14, 3_000))
    log.reload()
    state = log.shard.get(KEY)
    assert state is not None
    assert (state.start_offset, state.batches, state.done_count()) == (10, [StateBatch(12, 13, 2, 1)], 2)
    log.run(log.shard.bring_back(lambda key: 5, 3_000))
    assert (log.read().start_offset, log.read().state_batches) == (5, [])
    assert log.write(6) == 0


def test_a_state_within_its_log_is_left_alone() -> None:
    log = Log()
    log.initialize(start=-1)
    assert log.shard.bring_back(lambda key: 0, 3_000).records == []
    log.initialize(state_epoch=2, start=10)
    assert log.shard.bring_back(lambda key: 10, 3_000).records == []
    assert log.shard.bring_back(lambda key: None, 3_000).records == []


def test_when_deliveries_were_last_completed_is_known_again_after_a_restart() -> None:
    log = Log(updates_per_snapshot=3)
    log.initialize()
    for now_ms, start, complete in ((3_000, 10, 0), (4_000, 10, 1), (5_000, 12, 0), (6_000, 13, 0), (7_000, 13, 2)):
        log.now_ms = now_ms
        log.write(start, complete=complete)
        for _ in range(2):
            state = log.shard.get(KEY)
            assert state is not None
            assert state.progress_ms == now_ms
            log.reload()


def test_what_completes_no_delivery_is_no_progress() -> None:
    log = Log(updates_per_snapshot=2)
    log.initialize()
    log.now_ms = 3_000
    log.write(10)
    log.now_ms = 400_000
    log.write(10, StateBatch(10, 10, 0, 2))  # a record was released
    log.read(leader_epoch=5)
    log.write(10, StateBatch(10, 10, 0, 3), leader_epoch=5)  # this is a snapshot
    log.run(log.shard.cold_snapshots(10_000_000, 300_000))
    for _ in range(2):
        state = log.shard.get(KEY)
        assert state is not None
        assert state.progress_ms == 3_000
        log.reload()


def commands(shard: ShareStateShard, key: tuple[str, bytes, int]) -> list[Callable[[Respond[Any]], Effects]]:
    """Each command, with what a state that begins at 0 under the epochs 5 and 7 accepts."""
    return [
        lambda respond: shard.initialize(respond, key, 5, 0, 1_000),
        lambda respond: shard.initialize(respond, key, 5, 0, 1_000, anew=False),
        lambda respond: shard.read(respond, key, 7),
        lambda respond: shard.write(
            respond,
            key,
            state_epoch=5,
            leader_epoch=7,
            start_offset=1,
            delivery_complete_count=0,
            batches=(),
            now_ms=2_000,
        ),
        lambda respond: shard.delete(respond, key),
        lambda respond: shard.read_summary(respond, key),
    ]


def with_epochs(log: Log, key: tuple[str, bytes, int] = OTHER) -> None:
    log.run(log.shard.initialize(log.results.append, key, 5, 0, 1_000))
    log.run(log.shard.read(log.results.append, key, 7))


@pytest.mark.parametrize("command", range(6))
def test_whoever_is_answered_or_failed_learns_which_partition_it_is_about(command: int) -> None:
    log = Log()
    with_epochs(log)
    sent: list[Any] = []
    effects = commands(log.shard, OTHER)[command](sent.append)
    effects.fail(ErrorCode.NOT_COORDINATOR)
    effects.send()
    assert [(each.partition, each.error_code) for each in sent] == [(1, ErrorCode.NOT_COORDINATOR), (1, 0)]


def test_deleting_what_is_not_there_names_its_partition_too() -> None:
    sent: list[Any] = []
    effects = Log().shard.delete(sent.append, OTHER)
    effects.fail(ErrorCode.NOT_COORDINATOR)
    effects.send()
    assert [(each.partition, each.error_code) for each in sent] == [(1, ErrorCode.NOT_COORDINATOR), (1, 0)]


@pytest.mark.parametrize("command", [0, 2, 3])
def test_the_state_of_a_deleted_topic_is_refused_with_a_reason(command: int) -> None:
    log = Log()
    with_epochs(log)
    log.partitions = 1
    result = log.run(commands(log.shard, OTHER)[command](log.results.append))
    assert (result.partition, result.error_code) == (1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert result.error_message == "The partition does not exist."


def test_a_partition_is_looked_up_in_its_topic() -> None:
    shard = ShareStateShard(lambda topic_id, index: (topic_id, index) == OTHER[1:])
    log = Log()
    log.shard = shard
    with_epochs(log)
    for command in (0, 2, 3):
        assert log.run(commands(shard, OTHER)[command](log.results.append)).error_code == ErrorCode.NONE
    assert log.initialize() == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_administrator_may_begin_anew_under_the_same_epoch() -> None:
    log = Log()
    log.initialize(state_epoch=5, start=-1)
    state = log.shard.get(KEY)
    assert state is not None
    assert (state.snapshot_epoch, state.start_offset, state.delivery_complete_count) == (0, -1, -1)
    assert log.initialize(state_epoch=5, start=3) == ErrorCode.NONE
    state = log.shard.get(KEY)
    assert state is not None
    assert (state.snapshot_epoch, state.start_offset, state.delivery_complete_count) == (1, 3, 0)


def test_each_update_is_followed_by_a_snapshot_if_that_is_configured() -> None:
    log = Log(updates_per_snapshot=1)
    log.initialize()
    for offset in range(1, 4):
        log.write(offset)
    assert [int.from_bytes(key[:2], "big") for key, _ in log.records] == [0, 1, 0, 1]


def test_the_summary_has_the_epochs() -> None:
    log = Log()
    with_epochs(log)
    summary = log.run(log.shard.read_summary(log.results.append, OTHER))
    assert (summary.partition, summary.state_epoch, summary.leader_epoch) == (1, 5, 7)


def test_records_name_their_partition_and_the_snapshot_they_belong_to() -> None:
    log = Log(updates_per_snapshot=2)
    with_epochs(log)
    for _ in range(3):
        log.run(commands(log.shard, OTHER)[3](log.results.append))
    keys = [decode_key(key, {0: m.ShareSnapshotKey, 1: m.ShareUpdateKey}) for key, _ in log.records]
    assert keys == [
        m.ShareSnapshotKey(group_id="g", topic_id=OTHER[1], partition=1),
        m.ShareUpdateKey(group_id="g", topic_id=OTHER[1], partition=1),
        m.ShareUpdateKey(group_id="g", topic_id=OTHER[1], partition=1),
        m.ShareSnapshotKey(group_id="g", topic_id=OTHER[1], partition=1),
        m.ShareUpdateKey(group_id="g", topic_id=OTHER[1], partition=1),
    ]
    snapshot, update = log.records[3][1], log.records[4][1]
    assert snapshot is not None
    assert update is not None
    assert decode_versioned(m.ShareSnapshotValue, snapshot).leader_epoch == 7
    assert decode_versioned(m.ShareUpdateValue, update).snapshot_epoch == 1


def test_a_write_with_the_same_start_offset_never_uncounts_what_is_done() -> None:
    log = Log()
    log.initialize(start=0)
    for complete, expected in ((4, 4), (2, 4), (5, 5)):
        log.write(10, complete=complete)
        state = log.shard.get(KEY)
        assert state is not None
        assert state.delivery_complete_count == expected


def test_a_cold_snapshot_keeps_all_that_is_known() -> None:
    log = Log()
    log.initialize(start=0)
    log.run(log.shard.initialize(log.results.append, OTHER, 1, 0, 3_000))
    log.write(1, StateBatch(2, 3, 2, 1), complete=2)
    assert log.shard.cold_snapshots(300_999, 300_000).records == []
    log.run(log.shard.cold_snapshots(301_000, 300_000))
    state, other = log.shard.get(KEY), log.shard.get(OTHER)
    assert state is not None
    assert other is not None
    assert (state.snapshot_epoch, state.start_offset, state.batches) == (1, 1, [StateBatch(2, 3, 2, 1)])
    assert (state.created_ms, state.written_ms) == (1_000, 301_000)
    assert other.snapshot_epoch == 0


def test_cold_snapshots_are_written_once_in_an_interval() -> None:
    log = Log()
    shard = ShareStateShard(lambda *_: True, cold_interval_ms=100)
    log.shard = shard
    assert shard.loaded(1_000) == Effects()
    assert shard.next_deadline_ms() is None, "there is nothing to do without a state"
    log.initialize()
    assert shard.next_deadline_ms() == 1_100
    assert shard.tick(1_099) == Effects()
    log.run(shard.tick(1_100))
    assert len(log.records) == 2
    assert shard.next_deadline_ms() == 1_200


def test_the_end_of_each_log_is_looked_at() -> None:
    log = Log()
    log.initialize(start=0)
    log.run(log.shard.initialize(log.results.append, OTHER, 1, 0, 1_000))
    log.write(10, StateBatch(12, 15, 2, 1), StateBatch(16, 16, 0, 1))
    log.run(log.shard.write(log.results.append, OTHER, **late_write(20)))
    assert log.shard.bring_back({KEY: 17, OTHER: 20}.get, 3_000).records == []
    shortened = log.shard.bring_back({OTHER: 19}.get, 3_000)
    assert len(shortened.records) == 1, "the end of the other log is not known"
    log.run(shortened)
    log.run(log.shard.bring_back({KEY: 16, OTHER: 19}.get, 3_000))
    state, other = log.shard.get(KEY), log.shard.get(OTHER)
    assert state is not None
    assert other is not None
    assert (state.snapshot_epoch, state.start_offset, state.batches) == (1, 10, [StateBatch(12, 15, 2, 1)])
    assert (other.snapshot_epoch, other.start_offset, other.batches) == (1, 19, [])


def late_write(start: int) -> dict[str, Any]:
    return {
        "state_epoch": 1,
        "leader_epoch": 0,
        "start_offset": start,
        "delivery_complete_count": 0,
        "batches": (),
        "now_ms": 2_000,
    }


def test_the_records_that_a_restart_needs_are_counted_exactly() -> None:
    log = Log()
    assert log.shard.records_needed() == 0
    log.initialize()
    assert log.shard.records_needed() == 1
    log.write(1)
    log.shard.replay_end_marker(7, commit=True)
    log.shard.replay_end_marker(7, commit=True)
    assert log.shard.records_needed() == 4
    log.initialize()
    assert log.shard.records_needed() == 1
    log.run(log.shard.initialize(log.results.append, OTHER, 1, 0, 1_000))
    assert log.shard.records_needed() == 2


def test_a_tombstone_of_what_is_not_known_is_fine() -> None:
    """What it deleted was in records that are gone."""
    log = Log()
    log.initialize()
    log.run(log.shard.delete(log.results.append, KEY))
    log.reload(after=1)
    assert len(log.shard) == 0


def test_the_states_are_found_by_topic() -> None:
    log = Log()
    log.initialize()
    log.run(log.shard.initialize(log.results.append, OTHER, 1, 0, 1_000))
    assert log.shard.states_by_topic() == {KEY[:2]: {0: log.shard.get(KEY), 1: log.shard.get(OTHER)}}
    log.run(log.shard.delete(log.results.append, KEY))
    assert log.shard.states_by_topic() == {KEY[:2]: {1: log.shard.get(OTHER)}}
    log.run(log.shard.delete(log.results.append, OTHER))
    assert log.shard.states_by_topic() == {}


def test_until_a_delivery_is_completed_the_first_snapshot_tells_the_time() -> None:
    log = Log()
    log.initialize()
    state = log.shard.get(KEY)
    assert state is not None
    assert (state.written_ms, state.progress_ms) == (1_000, 1_000)


def test_the_lag_is_what_the_log_has_beyond_what_is_done() -> None:
    log = Log()
    log.initialize(start=-1)
    state = log.shard.get(KEY)
    assert state is not None
    assert state.lag(100) is None
    log.write(10, StateBatch(12, 15, 2, 1), complete=4)
    assert [state.lag(high_watermark) for high_watermark in (100, 15, 14, 5)] == [86, 1, 0, 0]
