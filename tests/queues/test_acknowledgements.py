"""The form of acknowledgements."""

from __future__ import annotations

import pytest

from penstock.queues.acknowledgements import check_batches, count_by_type
from penstock.queues.transitions import AcknowledgementBatch, AcknowledgeType
from penstock.wire import messages as m
from penstock.wire.errors import InvalidRequest


def wire(first: int, last: int, *types: int) -> m.ShareFetchRequest.AcknowledgementBatch:
    return m.ShareFetchRequest.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(types))


def check(
    *batches: m.ShareFetchRequest.AcknowledgementBatch, renew_supported: bool = True, renew: bool = False
) -> list[AcknowledgementBatch]:
    return check_batches(batches, renew_supported=renew_supported, is_renew_acknowledge=renew)


def test_one_type_or_one_per_offset() -> None:
    assert check(wire(0, 4, 1), wire(5, 6, 2, 3)) == [
        AcknowledgementBatch(0, 4, b"\1"),
        AcknowledgementBatch(5, 6, b"\2\3"),
    ]


@pytest.mark.parametrize(
    "batches",
    [
        (wire(5, 4, 1),),
        (wire(5, 9, 1), wire(2, 3, 1)),
        (wire(0, 4),),
        (wire(0, 4, 1, 1),),
        (wire(0, 0, 5),),
        (wire(0, 0, -1),),
        (wire(0, 0, 4),),
    ],
    ids=["backwards", "out of order", "no type", "too few types", "unknown type", "negative", "renewal unannounced"],
)
def test_malformed_batches_are_refused(batches: tuple[m.ShareFetchRequest.AcknowledgementBatch, ...]) -> None:
    with pytest.raises(InvalidRequest):
        check(*batches)


def test_renewal_needs_version_two_and_its_flag() -> None:
    assert check(wire(0, 0, 4), renew=True)
    with pytest.raises(InvalidRequest):
        check(wire(0, 0, 4), renew_supported=False, renew=True)


def test_answers_are_counted_by_type_and_gaps_are_not() -> None:
    counted = count_by_type(check(wire(0, 9, 1), wire(10, 13, 2, 0, 3, 2)))
    assert counted == {AcknowledgeType.ACCEPT: 10, AcknowledgeType.RELEASE: 2, AcknowledgeType.REJECT: 1}


def test_what_was_over_before_is_not_counted() -> None:
    batches = check(wire(0, 4, 1), wire(5, 9, 1), wire(10, 13, 2, 2, 3, 2))
    assert count_by_type(batches, 8) == {
        AcknowledgeType.ACCEPT: 2,
        AcknowledgeType.RELEASE: 3,
        AcknowledgeType.REJECT: 1,
    }
    assert count_by_type(batches, 12) == {AcknowledgeType.RELEASE: 1, AcknowledgeType.REJECT: 1}


def test_a_batch_may_begin_where_the_one_before_ended_and_none_below_the_log() -> None:
    assert check(wire(0, 4, 1), wire(4, 5, 1)) == [AcknowledgementBatch(0, 4, b"\1"), AcknowledgementBatch(4, 5, b"\1")]
    with pytest.raises(InvalidRequest):
        check(wire(-2, -2, 1))


def test_a_batch_that_ends_at_the_start_offset_counts_with_its_last_record() -> None:
    assert count_by_type(check(wire(0, 4, 1), wire(5, 9, 1)), 4) == {AcknowledgeType.ACCEPT: 6}
