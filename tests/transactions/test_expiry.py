from __future__ import annotations

from penstock.transactions.expiry import NEVER_MS, abort_deadline_ms, is_expired
from penstock.transactions.metadata import TransactionMetadata, TransactionVersion
from penstock.transactions.records import key_of, value_of
from penstock.transactions.shard import RETRY_MS
from penstock.transactions.states import TransactionState
from penstock.wire.errors import CoordinatorLoadInProgress, ErrorCode
from tests.transactions.harness import TV_0, Coordinator

WEEK_MS = 604_800_000


def test_only_an_open_transaction_has_a_deadline() -> None:
    meta = TransactionMetadata("t", 1, 0, 100, TransactionState.ONGOING, start_timestamp_ms=50)
    assert abort_deadline_ms(meta) == 151
    assert abort_deadline_ms(meta._replace(timeout_ms=NEVER_MS)) is None
    assert abort_deadline_ms(meta._replace(state=TransactionState.PREPARE_COMMIT)) is None


def test_an_id_expires_only_while_it_is_idle() -> None:
    meta = TransactionMetadata("t", 1, 0, state=TransactionState.EMPTY, last_update_timestamp_ms=50)
    assert is_expired(meta, 100, 150)
    assert not is_expired(meta, 100, 149)
    for state in (TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT):
        assert not is_expired(meta._replace(state=state), 100, 10**9)


def test_a_transaction_that_lasts_too_long_is_aborted_and_its_producer_fenced() -> None:
    coordinator = Coordinator()
    pid, epoch, _ = coordinator.init(timeout_ms=5_000)
    coordinator.add(pid, epoch)
    deadline_ms = coordinator.shard.next_deadline_ms()
    assert deadline_ms == coordinator.now_ms + 5_001
    coordinator.now_ms += 5_000
    coordinator.tick()
    assert coordinator.state() == TransactionState.ONGOING
    coordinator.now_ms += 1
    coordinator.tick()
    assert coordinator.state() == TransactionState.PREPARE_ABORT
    coordinator.finish()
    assert coordinator.marked == [(("a", 0), pid, epoch + 1, False)]
    assert coordinator.add(pid, epoch) == ErrorCode.PRODUCER_FENCED
    assert coordinator.end(pid, epoch, commit=True, version=4)[2] == ErrorCode.PRODUCER_FENCED
    assert coordinator.end(pid, epoch, commit=True)[2] == ErrorCode.INVALID_TXN_STATE
    assert coordinator.end(pid, epoch, commit=False) == (pid, epoch + 1, ErrorCode.NONE)


def test_the_deadline_holds_across_a_restart() -> None:
    coordinator = Coordinator()
    pid, epoch, _ = coordinator.init(timeout_ms=5_000)
    coordinator.add(pid, epoch, version=TV_0)
    coordinator.now_ms += 5_001
    coordinator.crash()
    coordinator.tick()
    assert coordinator.state() == TransactionState.PREPARE_ABORT


def test_a_transaction_that_ended_in_time_is_left_alone() -> None:
    coordinator = Coordinator()
    pid, epoch, _ = coordinator.init(timeout_ms=5_000)
    coordinator.add(pid, epoch)
    coordinator.end(pid, epoch, commit=True)
    coordinator.finish()
    coordinator.now_ms += 60_000
    length = len(coordinator.log)
    coordinator.tick()
    assert len(coordinator.log) == length


def test_an_unused_id_is_removed_with_a_tombstone_and_starts_anew() -> None:
    coordinator = Coordinator()
    pid, epoch, _ = coordinator.init()
    coordinator.now_ms += WEEK_MS
    coordinator.tick()
    assert coordinator.log[-1].value is None
    assert coordinator.shard.metadata("t") is None
    assert coordinator.add(pid, epoch) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert coordinator.end(pid, epoch, commit=False)[2] == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert coordinator.init(pid=pid, epoch=epoch) == (pid + 1, 0, ErrorCode.NONE)


def test_a_used_id_stays() -> None:
    coordinator = Coordinator()
    coordinator.init()
    coordinator.now_ms += WEEK_MS - 1
    coordinator.tick()
    assert coordinator.shard.metadata("t") is not None


def test_expiry_is_looked_at_once_an_hour() -> None:
    coordinator = Coordinator()
    coordinator.init()
    assert coordinator.shard.next_deadline_ms() == coordinator.now_ms + 3_600_000
    coordinator.crash()
    assert coordinator.shard.next_deadline_ms() == coordinator.now_ms + 3_600_000
    coordinator.now_ms += 3_600_000
    coordinator.tick()
    assert coordinator.shard.next_deadline_ms() == coordinator.now_ms + 3_600_000


def test_each_open_transaction_is_aborted_at_its_own_time() -> None:
    coordinator = Coordinator()
    for transactional_id, timeout_ms in (("t", 5_000), ("soon", 1_000), ("late", 9_000)):
        pid, epoch, _ = coordinator.init(transactional_id, timeout_ms=timeout_ms)
        coordinator.add(pid, epoch, transactional_id=transactional_id)
    began_ms = coordinator.now_ms
    for passed_ms, aborted in ((1_001, ["soon"]), (5_001, ["soon", "t"]), (9_001, ["soon", "t", "late"])):
        assert coordinator.shard.next_deadline_ms() == began_ms + passed_ms
        coordinator.now_ms = began_ms + passed_ms
        coordinator.tick()
        assert [markers.transactional_id for markers in coordinator.to_mark] == aborted
    assert coordinator.shard.next_deadline_ms() == began_ms + 3_600_000


def test_an_abort_that_needs_a_producer_id_is_tried_again_until_there_is_one() -> None:
    coordinator = Coordinator()
    used_up = TransactionMetadata("t", 77, 32766, 1_000, TransactionState.ONGOING, frozenset({("a", 0)}), 0)
    coordinator.shard.replay(key_of("t"), value_of(used_up, TransactionVersion.TV_2))
    give = coordinator.shard._new_producer_id

    def none_left() -> int:
        raise CoordinatorLoadInProgress

    coordinator.shard._new_producer_id = none_left
    coordinator.tick()
    assert coordinator.state() == TransactionState.ONGOING
    coordinator.now_ms += RETRY_MS
    assert coordinator.shard.next_deadline_ms() == coordinator.now_ms
    coordinator.shard._new_producer_id = give
    coordinator.tick()
    assert coordinator.state() == TransactionState.PREPARE_ABORT


def test_a_tombstone_ends_all_that_is_known_of_an_id() -> None:
    coordinator = Coordinator()
    coordinator.shard.replay(key_of("t"), None)
    pid, epoch, _ = coordinator.init(timeout_ms=1_000)
    coordinator.add(pid, epoch)
    coordinator.shard.replay(key_of("t"), None)
    coordinator.now_ms += 1_001
    coordinator.tick()
    assert coordinator.shard.metadata("t") is None
    assert coordinator.to_mark == []
