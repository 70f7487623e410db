from __future__ import annotations

import pytest

from penstock.coordination.effects import CoordinatorRecord, Effects, TransactionalProducer


def test_effects_are_carried_out_in_the_order_in_which_they_were_extended() -> None:
    first, second = Effects([CoordinatorRecord(b"1", None)]), Effects([CoordinatorRecord(b"2", b"v")], actions=["act"])
    first.extend(second)
    assert [record.key for record in first.records] == [b"1", b"2"]
    assert first.actions == ["act"]


def test_records_of_a_transaction_do_not_join_a_batch_outside_it() -> None:
    with pytest.raises(AssertionError):
        Effects().extend(Effects(transaction=TransactionalProducer(1, 0)))
