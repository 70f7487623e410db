from __future__ import annotations

import pytest

from penstock.transactions.metadata import TransactionMetadata, TransactionVersion
from penstock.transactions.records import key_of, value_of
from penstock.transactions.shard import AddPartitions
from penstock.transactions.states import TransactionState
from penstock.wire.errors import ErrorCode
from tests.transactions.harness import Coordinator

FENCED = (-1, -1, ErrorCode.PRODUCER_FENCED)
CONCURRENT = (-1, -1, ErrorCode.CONCURRENT_TRANSACTIONS)


def test_a_new_transactional_id_gets_a_producer_id_at_epoch_zero() -> None:
    coordinator = Coordinator()
    assert coordinator.init() == (1000, 0, ErrorCode.NONE)
    assert coordinator.state() == TransactionState.EMPTY


def test_each_further_producer_with_the_same_id_gets_the_next_epoch() -> None:
    coordinator = Coordinator()
    coordinator.init()
    assert coordinator.init() == (1000, 1, ErrorCode.NONE)
    assert coordinator.init("other") == (1001, 0, ErrorCode.NONE)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001, 2**31 - 1])
def test_a_timeout_outside_the_allowed_range_is_refused(timeout_ms: int) -> None:
    assert Coordinator().init(timeout_ms=timeout_ms)[2] == ErrorCode.INVALID_TRANSACTION_TIMEOUT


@pytest.mark.parametrize("timeout_ms", [1, 900_000])
def test_the_ends_of_that_range_are_allowed(timeout_ms: int) -> None:
    coordinator = Coordinator()
    assert coordinator.init(timeout_ms=timeout_ms)[2] == ErrorCode.NONE
    assert coordinator.entry.timeout_ms == timeout_ms


def test_an_empty_transactional_id_is_refused() -> None:
    assert Coordinator().init("")[2] == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("pid", "epoch"), [(5, -1), (-1, 5)])
def test_producer_id_and_epoch_go_together(pid: int, epoch: int) -> None:
    assert Coordinator().init(pid=pid, epoch=epoch)[2] == ErrorCode.INVALID_REQUEST


def test_an_open_transaction_is_aborted_first_and_the_next_request_gets_a_fresh_epoch() -> None:
    coordinator = Coordinator()
    pid, epoch, _ = coordinator.init()
    coordinator.add(pid, epoch)
    assert coordinator.init() == CONCURRENT
    assert coordinator.state() == TransactionState.PREPARE_ABORT
    assert coordinator.init() == CONCURRENT
    coordinator.finish()
    assert coordinator.marked == [(("a", 0), pid, epoch + 1, False)]
    assert coordinator.init() == (pid, epoch + 2, ErrorCode.NONE)
    assert coordinator.add(pid, epoch) == ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("server_version", [TransactionVersion.TV_0, TransactionVersion.TV_1])
def test_the_same_holds_on_a_broker_of_the_classic_protocol(server_version: TransactionVersion) -> None:
    coordinator = Coordinator(server_version=server_version)
    pid, epoch, _ = coordinator.init()
    coordinator.add(pid, epoch, version=TransactionVersion.TV_0)
    assert coordinator.init() == CONCURRENT
    coordinator.finish()
    assert coordinator.marked == [(("a", 0), pid, epoch + 1, False)]
    assert coordinator.init() == (pid, epoch + 2, ErrorCode.NONE)


def test_a_producer_goes_on_with_the_id_and_epoch_it_has() -> None:
    coordinator = Coordinator()
    pid, epoch, _ = coordinator.init()
    assert coordinator.init(pid=pid, epoch=epoch) == (pid, 1, ErrorCode.NONE)
    # The answer was lost and the producer asks again.
    assert coordinator.init(pid=pid, epoch=epoch) == (pid, 1, ErrorCode.NONE)
    assert coordinator.init(pid=pid, epoch=1) == (pid, 2, ErrorCode.NONE)
    assert coordinator.init(pid=pid, epoch=0) == FENCED


def test_a_producer_that_was_replaced_cannot_go_on() -> None:
    coordinator = Coordinator()
    pid, epoch, _ = coordinator.init()
    coordinator.init()
    assert coordinator.init(pid=pid, epoch=epoch) == FENCED
    assert coordinator.init(pid=pid + 7, epoch=epoch) == FENCED


def test_a_retry_across_a_restart_is_fenced_because_the_log_does_not_keep_the_epoch_before() -> None:
    coordinator = Coordinator()
    pid, epoch, _ = coordinator.init()
    coordinator.init(pid=pid, epoch=epoch)
    coordinator.crash()
    assert coordinator.init(pid=pid, epoch=epoch) == FENCED


def test_a_producer_whose_id_expired_may_go_on_under_a_new_producer_id() -> None:
    coordinator = Coordinator()
    assert coordinator.init(pid=77, epoch=3) == (1000, 0, ErrorCode.NONE)


def test_versions_before_four_know_a_fenced_producer_as_an_invalid_epoch() -> None:
    coordinator = Coordinator()
    pid, epoch, _ = coordinator.init()
    coordinator.init()
    assert coordinator.init(pid=pid, epoch=epoch, version=3)[2] == ErrorCode.INVALID_PRODUCER_EPOCH
    assert coordinator.init(pid=pid, epoch=epoch, version=4)[2] == ErrorCode.PRODUCER_FENCED


def exhaust(coordinator: Coordinator) -> int:
    """Bring the transactional id to its last epoch; gives the producer id."""
    pid = coordinator.init()[0]
    for _ in range(32766):
        coordinator.init()
    assert coordinator.entry.producer_epoch == 32766
    return pid


def test_when_the_epochs_are_used_up_a_new_producer_id_begins() -> None:
    coordinator = Coordinator()
    pid = exhaust(coordinator)
    assert coordinator.init(pid=pid, epoch=32765)[2] == ErrorCode.PRODUCER_FENCED
    assert coordinator.init(pid=pid, epoch=32766) == (pid + 1, 0, ErrorCode.NONE)
    # The answer was lost: the producer still names the old producer id and its last epoch.
    assert coordinator.init(pid=pid, epoch=32766) == (pid + 1, 0, ErrorCode.NONE)
    coordinator.init()
    assert coordinator.init(pid=pid, epoch=32766) == FENCED


def test_the_producer_id_before_the_last_rotation_is_good_for_its_last_epoch_only() -> None:
    coordinator = Coordinator()
    rotated = TransactionMetadata("t", 77, 0, 60_000, previous_producer_id=76, last_producer_epoch=32766)
    coordinator.shard.replay(key_of("t"), value_of(rotated, TransactionVersion.TV_2))
    assert coordinator.init(pid=76, epoch=0) == FENCED
    assert coordinator.init(pid=75, epoch=32766) == FENCED


def test_a_transaction_that_began_without_partitions_is_aborted_at_once() -> None:
    coordinator = Coordinator()
    pid, epoch, _ = coordinator.init()
    nothing = AddPartitions("t", pid, epoch, frozenset(), TransactionVersion.TV_2)
    coordinator.do(coordinator.shard.add_partitions(coordinator.respond()[1], coordinator.now_ms, nothing))
    assert coordinator.state() == TransactionState.ONGOING
    coordinator.now_ms += 5
    assert coordinator.init() == CONCURRENT
    assert coordinator.state() == TransactionState.COMPLETE_ABORT
    assert coordinator.entry.last_update_timestamp_ms == coordinator.now_ms
