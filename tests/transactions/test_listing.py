from __future__ import annotations

import pytest

from penstock.transactions.listing import list_filter
from penstock.transactions.metadata import TransactionMetadata
from penstock.transactions.states import TransactionState
from penstock.wire import messages as m
from penstock.wire.errors import ErrorCode, InvalidRegularExpression
from tests.transactions.harness import Coordinator


@pytest.fixture
def coordinator() -> Coordinator:
    """`idle` never began a transaction, `open-1` began one 10 s ago, `done` has committed one."""
    coordinator = Coordinator()
    coordinator.init("idle")
    pid, epoch, _ = coordinator.init("open-1")
    coordinator.add(pid, epoch, ("b", 1), ("a", 2), ("a", 0), transactional_id="open-1")
    coordinator.now_ms += 9_000
    pid, epoch, _ = coordinator.init("done")
    coordinator.add(pid, epoch, transactional_id="done")
    coordinator.end(pid, epoch, commit=True, transactional_id="done")
    coordinator.finish()
    coordinator.now_ms += 1_000
    return coordinator


def names(coordinator: Coordinator, **filters: object) -> list[str]:
    wanted = list_filter(m.ListTransactionsRequest(**filters))  # type: ignore[arg-type]
    return sorted(state.transactional_id for state in coordinator.shard.list(wanted, coordinator.now_ms))


def test_without_filters_everything_is_listed(coordinator: Coordinator) -> None:
    assert names(coordinator) == ["done", "idle", "open-1"]


def test_by_state(coordinator: Coordinator) -> None:
    assert names(coordinator, state_filters=["Ongoing"]) == ["open-1"]
    assert names(coordinator, state_filters=["Ongoing", "CompleteCommit"]) == ["done", "open-1"]


def test_an_unknown_state_matches_nothing_and_is_named(coordinator: Coordinator) -> None:
    assert names(coordinator, state_filters=["Sleeping"]) == []
    assert list_filter(m.ListTransactionsRequest(state_filters=["Sleeping", "Empty"])).unknown_states == ("Sleeping",)


def test_by_producer_id(coordinator: Coordinator) -> None:
    assert names(coordinator, producer_id_filters=[1001, 55]) == ["open-1"]


def test_by_age(coordinator: Coordinator) -> None:
    assert names(coordinator, duration_filter=5_000) == ["idle", "open-1"]
    assert names(coordinator, duration_filter=10_000, state_filters=["Ongoing"]) == []
    assert names(coordinator, duration_filter=9_999, state_filters=["Ongoing"]) == ["open-1"]
    pid, epoch, _ = coordinator.init("open-2")
    coordinator.add(pid, epoch, transactional_id="open-2")
    assert names(coordinator, duration_filter=0, state_filters=["Ongoing"]) == ["open-1"], "it began this millisecond"


def test_by_pattern_which_must_match_the_whole_id(coordinator: Coordinator) -> None:
    assert names(coordinator, transactional_id_pattern="open-.*") == ["open-1"]
    assert names(coordinator, transactional_id_pattern="open") == []
    assert names(coordinator, transactional_id_pattern="") == ["done", "idle", "open-1"]


def test_a_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidRegularExpression):
        list_filter(m.ListTransactionsRequest(transactional_id_pattern="(open"))


def test_the_state_is_shown_by_its_name(coordinator: Coordinator) -> None:
    wanted = list_filter(m.ListTransactionsRequest(producer_id_filters=[1001]))
    (state,) = coordinator.shard.list(wanted, coordinator.now_ms)
    assert (state.transactional_id, state.producer_id, state.transaction_state) == ("open-1", 1001, "Ongoing")


def test_a_description_has_the_partitions_by_topic(coordinator: Coordinator) -> None:
    state = coordinator.shard.describe("open-1")
    assert state.transactional_id == "open-1"
    assert (state.error_code, state.transaction_state, state.producer_id, state.producer_epoch) == (
        0,
        "Ongoing",
        1001,
        0,
    )
    assert (state.transaction_timeout_ms, state.transaction_start_time_ms) == (60_000, 1_000_000)
    assert [(topic.topic, topic.partitions) for topic in state.topics] == [("a", [0, 2]), ("b", [1])]


def test_an_id_without_a_transaction_has_no_start(coordinator: Coordinator) -> None:
    state = coordinator.shard.describe("idle")
    assert (state.transaction_state, state.transaction_start_time_ms, state.topics) == ("Empty", -1, [])


def test_an_unknown_id_is_said_to_be_unknown(coordinator: Coordinator) -> None:
    nobody = coordinator.shard.describe("nobody")
    assert (nobody.transactional_id, nobody.error_code) == ("nobody", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    assert coordinator.shard.describe("").error_code == ErrorCode.INVALID_REQUEST


def test_an_id_whose_tombstone_is_being_written_is_not_listed() -> None:
    dead = TransactionMetadata("t", 1000, 0, state=TransactionState.DEAD)
    assert not list_filter(m.ListTransactionsRequest()).lets_pass(dead, 0)


def test_the_summary_counts_states_and_finds_the_oldest_open_transaction(coordinator: Coordinator) -> None:
    pid, epoch, _ = coordinator.init("open-2")
    coordinator.add(pid, epoch, transactional_id="open-2")
    states = {TransactionState.EMPTY: 1, TransactionState.ONGOING: 2, TransactionState.COMPLETE_COMMIT: 1}
    assert coordinator.shard.summary() == (states, 1_000_000)
    assert Coordinator().shard.summary() == ({}, None)
