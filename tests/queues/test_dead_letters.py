"""What a dead letter says."""

from __future__ import annotations

from penstock.queues.dead_letters import Origin, buried_offsets, letters, without
from penstock.queues.transitions import DeadLetterCause, DeadLetterRange
from penstock.records.builder import build_batch
from penstock.records.record import Record, iter_records

ORIGIN = Origin("mailers", "mails", 3)
DEAD = DeadLetterRange(7, 9, 5, DeadLetterCause.EXHAUSTED)


def test_there_is_a_letter_for_each_offset_with_a_copy_where_there_is_one() -> None:
    made = letters(ORIGIN, DEAD, [Record(8, 0, b"k", b"v", [])], now_ms=1_000)
    assert [(key, value) for _, key, value, _ in made] == [(None, None), (b"k", b"v"), (None, None)]
    assert dict(made[0][3]) == {
        "__dlq.errors.topic": b"mails",
        "__dlq.errors.partition": b"3",
        "__dlq.errors.offset": b"7",
        "__dlq.errors.group": b"mailers",
        "__dlq.errors.delivery.count": b"5",
        "__dlq.errors.message": b"Offset delivery count exceeded the threshold.",
    }


def test_letters_are_recognized_by_where_they_came_from() -> None:
    written = list(iter_records(bytes(build_batch(letters(ORIGIN, DEAD, [], now_ms=0)))))
    assert buried_offsets(ORIGIN, written) == {7, 8, 9}
    assert buried_offsets(Origin("others", "mails", 3), written) == set()
    assert buried_offsets(ORIGIN, [Record(0, 0, None, None, [])]) == set()


def test_what_is_buried_already_is_left_out() -> None:
    assert without([DEAD], {8}) == [
        DeadLetterRange(7, 7, 5, DeadLetterCause.EXHAUSTED),
        DeadLetterRange(9, 9, 5, DeadLetterCause.EXHAUSTED),
    ]
