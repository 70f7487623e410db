from __future__ import annotations

from penstock.transactions.states import TransactionState
from penstock.wire.errors import ErrorCode
from tests.transactions.harness import TV_0, TV_2, Coordinator

A, B = ("a", 0), ("b", 7)


def test_the_first_partition_opens_the_transaction() -> None:
    coordinator = Coordinator()
    pid, epoch, _ = coordinator.init()
    assert coordinator.add(pid, epoch, A) == ErrorCode.NONE
    assert (coordinator.entry.state, coordinator.entry.partitions) == (TransactionState.ONGOING, frozenset({A}))
    assert coordinator.add(pid, epoch, B) == ErrorCode.NONE
    assert coordinator.entry.partitions == {A, B}


def test_adding_what_is_there_already_writes_nothing() -> None:
    coordinator = Coordinator()
    pid, epoch, _ = coordinator.init()
    coordinator.add(pid, epoch, A, B)
    length = len(coordinator.log)
    assert coordinator.add(pid, epoch, B) == ErrorCode.NONE
    assert coordinator.add(pid, epoch, A, B) == ErrorCode.NONE
    assert len(coordinator.log) == length


def test_strangers_are_refused() -> None:
    coordinator = Coordinator()
    pid, epoch, _ = coordinator.init()
    assert coordinator.add(pid, epoch, A, transactional_id="unknown") == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert coordinator.add(pid, epoch, A, transactional_id="") == ErrorCode.INVALID_REQUEST
    assert coordinator.add(pid + 1, epoch, A) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert coordinator.add(pid, epoch + 1, A) == ErrorCode.PRODUCER_FENCED
    assert coordinator.add(pid, epoch - 1, A) == ErrorCode.PRODUCER_FENCED


def test_nothing_is_added_while_the_outcome_is_on_its_way() -> None:
    coordinator = Coordinator()
    pid, epoch, _ = coordinator.init()
    coordinator.add(pid, epoch, A, version=TV_0)
    coordinator.end(pid, epoch, commit=True, version=4)
    assert coordinator.add(pid, epoch, B) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.verify(pid, epoch, A) == ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.finish()
    assert coordinator.add(pid, epoch, B) == ErrorCode.NONE


def test_a_write_is_verified_against_the_open_transaction() -> None:
    coordinator = Coordinator()
    pid, epoch, _ = coordinator.init()
    assert coordinator.verify(pid, epoch, A) == ErrorCode.TRANSACTION_ABORTABLE
    coordinator.add(pid, epoch, A, version=TV_0)
    assert coordinator.verify(pid, epoch, A) == ErrorCode.NONE
    assert coordinator.verify(pid, epoch, B) == ErrorCode.TRANSACTION_ABORTABLE
    assert coordinator.verify(pid + 1, epoch, A) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert coordinator.verify(pid, epoch + 1, A) == ErrorCode.PRODUCER_FENCED
    assert coordinator.verify(pid, epoch, A, transactional_id="unknown") == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert coordinator.verify(pid, epoch, A, transactional_id="") == ErrorCode.INVALID_REQUEST


def test_the_protocol_of_the_client_is_kept_with_the_transaction() -> None:
    coordinator = Coordinator()
    pid, epoch, _ = coordinator.init()
    coordinator.add(pid, epoch, A, version=TV_0)
    assert coordinator.entry.client_version == TV_0
    coordinator.add(pid, epoch, B, version=TV_2)
    assert coordinator.entry.client_version == TV_2
