from __future__ import annotations

from penstock.transactions.states import ENDING, IDLE, LABELS, NEXT_STATES, STATE_OF_LABEL, TransactionState


def test_every_state_has_a_row_and_a_name() -> None:
    assert set(NEXT_STATES) == set(TransactionState) == set(LABELS)
    assert STATE_OF_LABEL["PrepareEpochFence"] == TransactionState.PREPARE_EPOCH_FENCE


def test_a_prepared_outcome_leads_only_to_its_own_completion() -> None:
    assert NEXT_STATES[TransactionState.PREPARE_COMMIT] == {TransactionState.COMPLETE_COMMIT}
    assert NEXT_STATES[TransactionState.PREPARE_ABORT] == {TransactionState.COMPLETE_ABORT}


def test_an_outcome_is_never_reached_without_being_prepared() -> None:
    for complete, prepare in (
        (TransactionState.COMPLETE_COMMIT, TransactionState.PREPARE_COMMIT),
        (TransactionState.COMPLETE_ABORT, TransactionState.PREPARE_ABORT),
    ):
        assert {state for state, following in NEXT_STATES.items() if complete in following} == {prepare}


def test_only_an_open_transaction_can_be_committed() -> None:
    before = {state for state, following in NEXT_STATES.items() if TransactionState.PREPARE_COMMIT in following}
    assert before == {TransactionState.ONGOING}


def test_only_idle_ids_can_expire() -> None:
    assert {state for state, following in NEXT_STATES.items() if TransactionState.DEAD in following} == IDLE
    assert not IDLE & ENDING
