from __future__ import annotations

import pytest

from penstock.coordination.effects import CoordinatorRecord, Effects, TransactionalProducer, answered
from penstock.wire.errors import ErrorCode


def test_effects_are_carried_out_in_the_order_in_which_they_were_extended() -> None:
    first, second = Effects([CoordinatorRecord(b"1", None)]), Effects([CoordinatorRecord(b"2", b"v")], actions=["act"])
    first.extend(second)
    assert [record.key for record in first.records] == [b"1", b"2"]
    assert first.actions == ["act"]


def test_records_of_a_transaction_do_not_join_a_batch_outside_it() -> None:
    with pytest.raises(AssertionError):
        Effects().extend(Effects(transaction=TransactionalProducer(1, 0)))


def test_replies_go_to_those_who_asked() -> None:
    first: list[str] = []
    second: list[int] = []
    effects = Effects()
    effects.reply(first.append, "joined", lambda error: error.name)
    effects.reply(second.append, 7, int)
    effects.send()
    assert (first, second) == (["joined"], [7])


def test_a_reply_becomes_an_error_when_its_records_cannot_be_written() -> None:
    responses: list[str] = []
    effects = Effects([CoordinatorRecord(b"k", b"v")])
    effects.reply(responses.append, "committed", lambda error: error.name)
    effects.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert responses == ["COORDINATOR_NOT_AVAILABLE"]


def test_an_answer_that_writes_nothing_holds_whatever_becomes_of_the_records_beside_it() -> None:
    responses: list[str] = []
    effects = Effects([CoordinatorRecord(b"k", b"v")])
    effects.extend(answered(responses.append, "refused"))
    effects.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert responses == ["refused"]


def test_an_answer_that_rests_on_records_before_it_becomes_an_error_when_they_are_lost() -> None:
    responses: list[str] = []
    answered(responses.append, "read", lambda error: error.name).fail(ErrorCode.NOT_COORDINATOR)
    assert responses == ["NOT_COORDINATOR"]


def test_an_answer_that_writes_nothing_is_the_answer() -> None:
    responses: list[str] = []
    answered(responses.append, "read").send()
    answered(responses.append, "read too", lambda error: error.name).send()
    assert responses == ["read", "read too"]
