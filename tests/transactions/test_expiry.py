from __future__ import annotations

from penstock.transactions.expiry import NEVER_MS, abort_deadline_ms, is_expired
from penstock.transactions.metadata import TransactionMetadata
from penstock.transactions.states import TransactionState
from penstock.wire.errors import ErrorCode
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
