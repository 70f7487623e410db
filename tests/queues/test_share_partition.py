"""The rules of a share-partition's window, one by one (KIP-932 and its follow-ups)."""

from __future__ import annotations

import pytest

from penstock.queues.cells import RecordState
from penstock.queues.settings import RetryBackoff, ShareSettings
from penstock.queues.share_partition import SharePartition
from penstock.queues.transitions import (
    AcknowledgementBatch,
    AcknowledgeType,
    AcquiredRange,
    DeadLetterCause,
    DeadLetterRange,
    StateBatch,
    StateWrite,
    Transition,
)
from penstock.wire.errors import InvalidRecordState, InvalidRequest

SETTINGS = ShareSettings()
ACCEPT, RELEASE, REJECT, RENEW, GAP = (
    AcknowledgeType.ACCEPT,
    AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT,
    AcknowledgeType.RENEW,
    AcknowledgeType.GAP,
)


def window_of(records: int, start: int = 0) -> SharePartition:
    partition = SharePartition(start)
    partition.extend(start + records)
    return partition


def fetch(
    partition: SharePartition, member: str, max_records: int, settings: ShareSettings = SETTINGS, now_ms: int = 0
) -> list[AcquiredRange]:
    ranges = partition.select(max_records, settings)
    return partition.take(member, ranges, now_ms, settings.record_lock_duration_ms)


def answer(
    partition: SharePartition,
    member: str,
    first: int,
    last: int,
    *types: int,
    settings: ShareSettings = SETTINGS,
    now_ms: int = 0,
) -> Transition:
    transition = partition.acknowledge(member, [AcknowledgementBatch(first, last, bytes(types))], settings)
    partition.commit(transition, now_ms, settings)
    return transition


def states(partition: SharePartition) -> list[tuple[int, str, int]]:
    return [
        (offset, run.state, run.delivery_count)
        for run in partition.view(0)
        for offset in range(run.offset, run.offset + run.number)
    ]


def test_a_fetch_gets_no_more_records_than_it_asked_for_whatever_the_log_has() -> None:
    partition = window_of(1_000)
    assert fetch(partition, "a", 20) == [(0, 19, 1)]
    assert fetch(partition, "b", 20) == [(20, 39, 1)]
    assert partition.in_flight == 40


def test_a_fetch_gets_nothing_when_it_asks_for_nothing() -> None:
    assert fetch(window_of(10), "a", 0) == []


def test_accepted_records_move_the_start_offset_over_them() -> None:
    partition = window_of(10)
    fetch(partition, "a", 10)
    written = answer(partition, "a", 0, 4, ACCEPT).write
    assert partition.start_offset == 5
    assert (written.start_offset, written.delivery_complete_count, written.batches) == (5, 0, [])


def test_the_start_offset_waits_for_the_first_record() -> None:
    partition = window_of(10)
    fetch(partition, "a", 10)
    written = answer(partition, "a", 1, 9, ACCEPT).write
    assert partition.start_offset == 0
    assert partition.delivery_complete_count == 9
    assert written.batches == [StateBatch(1, 9, RecordState.ACKNOWLEDGED, 1)]
    assert written.delivery_complete_count == 9
    answer(partition, "a", 0, 0, ACCEPT)
    assert (partition.start_offset, partition.end_offset) == (10, 10)


def test_released_records_come_back_first_with_one_more_delivery() -> None:
    partition = window_of(100)
    fetch(partition, "a", 10)
    answer(partition, "a", 3, 4, RELEASE)
    assert fetch(partition, "b", 5) == [(3, 4, 2), (10, 12, 1)]


def test_rejected_records_never_come_back() -> None:
    partition = window_of(3)
    fetch(partition, "a", 3)
    answer(partition, "a", 0, 2, REJECT)
    assert partition.start_offset == 3
    assert fetch(partition, "a", 10) == []


def test_each_offset_may_have_its_own_answer() -> None:
    partition = window_of(5)
    fetch(partition, "a", 5)
    written = answer(partition, "a", 0, 4, ACCEPT, RELEASE, REJECT, GAP, ACCEPT).write
    assert written.start_offset == 1
    assert written.batches == [
        StateBatch(1, 1, RecordState.AVAILABLE, 1),
        StateBatch(2, 3, RecordState.ARCHIVED, 1),
        StateBatch(4, 4, RecordState.ACKNOWLEDGED, 1),
    ]


def test_the_last_allowed_delivery_ends_in_the_archive() -> None:
    settings = ShareSettings(delivery_count_limit=2)
    partition = window_of(1)
    assert fetch(partition, "a", 1, settings) == [(0, 0, 1)]
    answer(partition, "a", 0, 0, RELEASE, settings=settings)
    assert fetch(partition, "a", 1, settings) == [(0, 0, 2)]
    answer(partition, "a", 0, 0, RELEASE, settings=settings)
    assert fetch(partition, "a", 1, settings) == []
    assert partition.start_offset == 1


def test_a_lowered_delivery_limit_archives_what_is_beyond_it() -> None:
    partition = window_of(2)
    for _ in range(3):
        fetch(partition, "a", 1)
        answer(partition, "a", 0, 0, RELEASE)
    partition.tick(0, SETTINGS)
    lowered = partition.tick(0, ShareSettings(delivery_count_limit=3))
    assert lowered is not None
    assert lowered.write.start_offset == 1
    assert fetch(partition, "a", 5, ShareSettings(delivery_count_limit=3)) == [(1, 1, 1)]


def test_nobody_answers_for_records_of_another_member() -> None:
    partition = window_of(10)
    fetch(partition, "a", 5)
    fetch(partition, "b", 5)
    with pytest.raises(InvalidRecordState):
        answer(partition, "b", 4, 6, ACCEPT)
    assert states(partition)[4] == (4, "ACQUIRED", 1)


def test_one_wrong_batch_refuses_all_batches_of_the_request() -> None:
    partition = window_of(10)
    fetch(partition, "a", 5)
    good, bad = AcknowledgementBatch(0, 4, bytes((ACCEPT,))), AcknowledgementBatch(5, 5, bytes((ACCEPT,)))
    fetch(partition, "b", 1)
    with pytest.raises(InvalidRecordState):
        partition.acknowledge("a", [good, bad], SETTINGS)
    answer(partition, "a", 0, 4, ACCEPT)
    assert partition.start_offset == 5


def test_overlapping_batches_in_one_request_are_refused() -> None:
    partition = window_of(10)
    fetch(partition, "a", 10)
    batches = [AcknowledgementBatch(0, 4, bytes((ACCEPT,))), AcknowledgementBatch(4, 9, bytes((RELEASE,)))]
    with pytest.raises(InvalidRecordState):
        partition.acknowledge("a", batches, SETTINGS)


def test_an_answer_for_what_is_long_done_is_silently_fine() -> None:
    partition = window_of(10)
    fetch(partition, "a", 10)
    answer(partition, "a", 0, 4, ACCEPT)
    assert not answer(partition, "a", 0, 4, RELEASE).needs_write
    answer(partition, "a", 3, 6, ACCEPT)
    assert partition.start_offset == 7


def test_an_answer_beyond_everything_acquired_is_an_invalid_request() -> None:
    partition = window_of(10)
    fetch(partition, "a", 5)
    with pytest.raises(InvalidRequest):
        answer(partition, "a", 3, 7, ACCEPT)


def test_an_answer_when_nothing_is_in_flight_is_an_invalid_record_state() -> None:
    with pytest.raises(InvalidRecordState):
        answer(SharePartition(0), "a", 0, 0, ACCEPT)


def test_an_answer_can_be_given_only_once() -> None:
    partition = window_of(10)
    fetch(partition, "a", 10)
    answer(partition, "a", 5, 5, ACCEPT)
    with pytest.raises(InvalidRecordState):
        answer(partition, "a", 5, 5, ACCEPT)


def test_staged_records_can_be_neither_acquired_nor_answered_nor_passed() -> None:
    partition = window_of(4)
    fetch(partition, "a", 4)
    staged = partition.acknowledge("a", [AcknowledgementBatch(0, 1, bytes((RELEASE,)))], SETTINGS)
    assert fetch(partition, "b", 4) == []
    with pytest.raises(InvalidRecordState):
        answer(partition, "a", 0, 0, ACCEPT)
    answer(partition, "a", 2, 3, ACCEPT)
    assert partition.start_offset == 0
    partition.commit(staged, 0, SETTINGS)
    assert fetch(partition, "b", 4) == [(0, 1, 2)]


def test_a_failed_write_gives_the_records_back_to_their_holder() -> None:
    partition = window_of(4)
    fetch(partition, "a", 4)
    staged = partition.acknowledge("a", [AcknowledgementBatch(0, 3, bytes((ACCEPT,)))], SETTINGS)
    partition.rollback(staged, SETTINGS)
    assert partition.start_offset == 0
    answer(partition, "a", 0, 3, ACCEPT)
    assert partition.start_offset == 4


def test_a_failed_write_after_the_lock_ran_out_makes_the_records_available() -> None:
    partition = window_of(2)
    fetch(partition, "a", 2, now_ms=0)
    staged = partition.acknowledge("a", [AcknowledgementBatch(0, 1, bytes((ACCEPT,)))], SETTINGS)
    assert partition.tick(30_000, SETTINGS) is None
    partition.rollback(staged, SETTINGS)
    assert fetch(partition, "b", 2) == [(0, 1, 2)]
    assert partition.locks == 1


def test_a_lock_that_runs_out_makes_its_records_available_again() -> None:
    partition = window_of(10)
    fetch(partition, "a", 4, now_ms=1_000)
    assert partition.next_deadline_ms() == 31_000
    assert partition.tick(30_999, SETTINGS) is None
    expired = partition.tick(31_000, SETTINGS)
    assert expired is not None
    assert expired.write.batches == [StateBatch(0, 3, RecordState.AVAILABLE, 1)]
    assert fetch(partition, "b", 10) == [(0, 3, 2), (4, 9, 1)]
    with pytest.raises(InvalidRecordState):
        answer(partition, "a", 0, 3, ACCEPT)


def test_an_old_deadline_does_not_end_a_new_lock_on_the_same_record() -> None:
    partition = window_of(1)
    fetch(partition, "a", 1, now_ms=0)
    answer(partition, "a", 0, 0, RELEASE)
    fetch(partition, "a", 1, now_ms=20_000)
    assert partition.tick(30_000, SETTINGS) is None
    assert partition.next_deadline_ms() == 50_000


def test_a_renewal_moves_the_deadline_of_the_named_records_only() -> None:
    partition = window_of(4)
    fetch(partition, "a", 4, now_ms=0)
    renewed = answer(partition, "a", 1, 2, RENEW, now_ms=20_000)
    assert not renewed.needs_write
    expired = partition.tick(30_000, SETTINGS)
    assert expired is not None
    assert [(batch.first_offset, batch.last_offset) for batch in expired.write.batches] == [(0, 0), (3, 3)]
    assert partition.next_deadline_ms() == 50_000
    answer(partition, "a", 1, 2, ACCEPT)


def test_a_renewed_record_has_been_held_since_it_was_acquired() -> None:
    partition = window_of(4)
    fetch(partition, "a", 2, now_ms=1_000)
    fetch(partition, "a", 2, now_ms=5_000)
    answer(partition, "a", 0, 3, RENEW, now_ms=20_000)
    assert partition.oldest_held_ms() == {"a": 1_000}
    answer(partition, "a", 0, 3, ACCEPT)
    assert partition.oldest_held_ms() == {}


def test_a_renewal_can_be_forbidden() -> None:
    settings = ShareSettings(renew_acknowledge_enabled=False)
    partition = window_of(1)
    fetch(partition, "a", 1, settings)
    with pytest.raises(InvalidRecordState):
        answer(partition, "a", 0, 0, RENEW, settings=settings)


def test_a_session_that_ends_returns_its_records_and_the_delivery_counts() -> None:
    partition = window_of(10)
    fetch(partition, "a", 3)
    fetch(partition, "b", 3)
    fetch(partition, "a", 2)
    released = partition.release_member("a", SETTINGS)
    assert released is not None
    partition.commit(released, 0, SETTINGS)
    assert fetch(partition, "c", 10) == [(0, 2, 2), (6, 7, 2), (8, 9, 1)]
    assert partition.release_member("a", SETTINGS) is None


def test_the_window_never_grows_beyond_the_limit_on_record_locks() -> None:
    settings = ShareSettings(max_record_locks=100)
    partition = SharePartition(0)
    partition.extend(min(1_000, partition.end_offset + partition.room(settings)))
    assert fetch(partition, "a", 500, settings) == [(0, 99, 1)]
    assert partition.room(settings) == 0
    answer(partition, "a", 1, 99, ACCEPT, settings=settings)
    assert partition.room(settings) == 0
    answer(partition, "a", 0, 0, ACCEPT, settings=settings)
    assert partition.room(settings) == 100


def test_a_lowered_lock_limit_still_lets_released_records_come_back() -> None:
    partition = window_of(400)
    fetch(partition, "a", 200)
    answer(partition, "a", 150, 160, RELEASE)
    assert fetch(partition, "b", 500, ShareSettings(max_record_locks=100)) == [(150, 160, 2)]


def test_offsets_without_a_record_are_never_acquired_and_do_not_hold_the_start_back() -> None:
    partition = SharePartition(0)
    partition.extend(10, [(0, 1), (4, 4), (9, 9)])
    assert partition.start_offset == 2
    assert fetch(partition, "a", 10) == [(2, 3, 1), (5, 8, 1)]
    answer(partition, "a", 2, 3, ACCEPT)
    assert partition.start_offset == 5
    answer(partition, "a", 5, 8, ACCEPT)
    assert partition.start_offset == 10


def test_records_that_compaction_took_are_not_delivered_again() -> None:
    partition = window_of(6)
    fetch(partition, "a", 6)
    answer(partition, "a", 0, 3, RELEASE)
    partition.mark_absent([(0, 1), (4, 4)])
    assert fetch(partition, "b", 6) == [(2, 3, 2)]
    answer(partition, "a", 4, 5, ACCEPT)


def test_the_log_start_takes_the_window_along() -> None:
    partition = window_of(10)
    fetch(partition, "a", 6)
    partition.move_start(4)
    assert partition.start_offset == 4
    answer(partition, "a", 0, 5, ACCEPT)
    assert partition.start_offset == 6
    partition.move_start(50)
    assert (partition.start_offset, partition.end_offset, partition.locks) == (50, 50, 0)
    partition.move_start(20)
    assert partition.start_offset == 50


def test_a_commit_after_the_log_start_passed_it_changes_nothing() -> None:
    partition = window_of(10)
    fetch(partition, "a", 6)
    staged = partition.acknowledge("a", [AcknowledgementBatch(0, 5, bytes((RELEASE,)))], SETTINGS)
    partition.move_start(4)
    partition.commit(staged, 0, SETTINGS)
    assert fetch(partition, "b", 10) == [(4, 5, 2), (6, 9, 1)]


def test_suspect_records_travel_with_half_the_company_and_at_last_alone() -> None:
    partition = window_of(100)
    for _ in range(3):
        assert fetch(partition, "a", 500)[0][:2] == (0, 99)
        answer(partition, "a", 0, 99, RELEASE)
    assert fetch(partition, "a", 500) == [(0, 49, 4)]
    answer(partition, "a", 0, 49, RELEASE)
    for offset in range(50):
        assert fetch(partition, "a", 500) == [(offset, offset, 5)]
        answer(partition, "a", offset, offset, RELEASE)
    assert partition.start_offset == 50
    assert fetch(partition, "a", 500) == [(50, 99, 4)]


def test_a_suspect_record_waits_when_others_come_before_it() -> None:
    partition = window_of(2)
    fetch(partition, "a", 1)
    for _ in range(4):
        fetch(partition, "b", 1)
        answer(partition, "b", 1, 1, RELEASE)
    answer(partition, "a", 0, 0, RELEASE)
    assert fetch(partition, "b", 2) == [(0, 0, 2)]
    assert fetch(partition, "b", 2) == [(1, 1, 5)]


def test_a_delivery_limit_of_two_knows_no_suspects() -> None:
    settings = ShareSettings(delivery_count_limit=2)
    partition = window_of(512)
    for _ in range(2):
        assert [acquired[:2] for acquired in fetch(partition, "a", 512, settings)] == [(0, 511)]
        answer(partition, "a", 0, 511, RELEASE, settings=settings)
    assert partition.start_offset == 512


def test_a_window_is_rebuilt_from_what_was_written() -> None:
    partition = SharePartition.restore(
        10, [StateBatch(12, 13, RecordState.ACKNOWLEDGED, 1), StateBatch(15, 16, RecordState.AVAILABLE, 2)]
    )
    assert partition.start_offset == 10
    assert partition.delivery_complete_count == 2
    assert fetch(partition, "a", 100) == [(10, 11, 1), (14, 14, 1), (15, 16, 3)]


def test_a_rebuilt_window_begins_after_what_is_done() -> None:
    partition = SharePartition.restore(10, [StateBatch(10, 13, RecordState.ARCHIVED, 1)])
    assert (partition.start_offset, partition.end_offset) == (14, 14)


def test_overlapping_state_is_not_guessed_at() -> None:
    with pytest.raises(ValueError, match="overlap"):
        SharePartition.restore(0, [StateBatch(0, 5, 2, 1), StateBatch(5, 6, 2, 1)])


def test_released_records_wait_out_their_retry_backoff() -> None:
    settings = ShareSettings(retry_backoff=RetryBackoff(100, 2.0, 300))
    partition = window_of(1)
    now_ms = 0
    for wait_ms in (100, 200, 300):
        fetch(partition, "a", 1, settings, now_ms)
        written = answer(partition, "a", 0, 0, RELEASE, settings=settings, now_ms=now_ms).write
        assert written.batches[0].delivery_state == RecordState.AVAILABLE
        assert partition.next_deadline_ms() == now_ms + wait_ms
        partition.tick(now_ms + wait_ms - 1, settings)
        assert fetch(partition, "a", 1, settings) == []
        now_ms += wait_ms
        partition.tick(now_ms, settings)
    assert fetch(partition, "a", 1, settings, now_ms) == [(0, 0, 4)]


def test_records_of_a_rebuilt_window_wait_their_backoff_anew() -> None:
    settings = ShareSettings(retry_backoff=RetryBackoff(100, 2.0, 300))
    assert settings.retry_backoff is not None
    states = [
        StateBatch(0, 0, RecordState.AVAILABLE, 1),
        StateBatch(2, 3, RecordState.AVAILABLE, 2),
        StateBatch(4, 4, RecordState.ACKNOWLEDGED, 1),
    ]
    partition = SharePartition.restore(0, states)
    partition.wait_anew(settings.retry_backoff, 1_000)
    assert fetch(partition, "a", 10, settings, 1_000) == [(1, 1, 1)], "only it was never delivered"
    partition.tick(1_100, settings)
    assert fetch(partition, "b", 10, settings, 1_100) == [(0, 0, 2)]
    partition.tick(1_200, settings)
    assert fetch(partition, "c", 10, settings, 1_200) == [(2, 3, 3)]


def test_a_record_with_a_delivery_time_is_not_acquired_before() -> None:
    partition = window_of(3)
    partition.delay_delivery(1, 1, 5_000)
    assert fetch(partition, "a", 3) == [(0, 0, 1), (2, 2, 1)]
    partition.tick(5_000, SETTINGS)
    assert fetch(partition, "a", 3) == [(1, 1, 1)]


def test_rejected_and_exhausted_records_wait_for_their_dead_letters() -> None:
    settings = ShareSettings(dead_letter_topic="dlq.jobs", delivery_count_limit=2)
    partition = window_of(3)
    fetch(partition, "a", 3, settings)
    rejected = answer(partition, "a", 0, 0, REJECT, settings=settings)
    assert rejected.dead_letters == [(0, 0, 1, DeadLetterCause.REJECTED)]
    assert rejected.write.batches == [StateBatch(0, 0, RecordState.ARCHIVING, 1)]
    assert partition.start_offset == 0
    answer(partition, "a", 1, 1, RELEASE, settings=settings)
    fetch(partition, "a", 1, settings)
    expired = partition.tick(60_000, settings)
    assert expired is not None
    assert expired.dead_letters == [(1, 1, 2, DeadLetterCause.EXHAUSTED)]
    assert [dead[:2] for dead in partition.archiving()] == [(0, 0), (1, 1)]
    done = partition.finish_archiving(0, 1)
    assert done is not None
    partition.commit(done, 0, settings)
    assert partition.start_offset == 2


def test_the_undelivered_end_of_the_window_can_be_looked_at_again() -> None:
    partition = window_of(10)
    fetch(partition, "a", 4)
    partition.forget_undelivered_tail()
    assert partition.end_offset == 4
    partition.extend(10, [(4, 8)])
    assert fetch(partition, "a", 10) == [(9, 9, 1)]


def test_the_view_names_holder_and_time_left_of_runs_of_records_that_are_alike() -> None:
    partition = window_of(9)
    fetch(partition, "worker-1", 4, now_ms=0)
    fetch(partition, "worker-1", 1, now_ms=0)
    answer(partition, "worker-1", 2, 3, ACCEPT)
    assert list(partition.view(10_000)) == [
        (0, 2, "ACQUIRED", 1, "worker-1", 20_000),
        (2, 2, "ACKNOWLEDGED", 1, "", 0),
        (4, 1, "ACQUIRED", 1, "worker-1", 20_000),
    ]
    assert sorted(partition.counts()) == [("ACKNOWLEDGED", 1, 2, None), ("ACQUIRED", 1, 3, None)]
    assert partition.next_lock_end_ms() == {"worker-1": 30_000}


def test_the_counts_say_when_the_next_record_backs_off_no_more() -> None:
    settings = ShareSettings(retry_backoff=RetryBackoff(1_000, 2.0, 60_000))
    partition = window_of(3)
    fetch(partition, "a", 3, settings)
    answer(partition, "a", 0, 0, RELEASE, settings=settings, now_ms=500)
    answer(partition, "a", 1, 1, RELEASE, settings=settings, now_ms=100)
    ready = min(run.remaining_ms for run in partition.view(0) if run.state == "DELAYED")
    assert sorted(partition.counts(), key=str) == [("ACQUIRED", 1, 1, None), ("DELAYED", 1, 2, ready)]
    assert 0 < ready < 100 + 60_000


def test_ten_thousand_holders_whose_locks_all_run_out_are_one_step() -> None:
    settings = ShareSettings(max_record_locks=10_000)
    partition = window_of(10_000)
    for member in range(10_000):
        assert fetch(partition, f"m{member}", 1, settings, now_ms=member % 7) == [(member, member, 1)]
    assert partition.locks == 10_000
    expired = partition.tick(40_000, settings)
    assert expired is not None
    assert expired.write.batches == [StateBatch(0, 9_999, RecordState.AVAILABLE, 1)]
    assert partition.locks == 0
    assert fetch(partition, "survivor", 10_000, settings) == [(0, 9_999, 2)]


def test_unreadable_records_are_archived_at_once_except_those_that_a_member_holds() -> None:
    partition = window_of(6)
    fetch(partition, "m", 2)
    answer(partition, "m", 0, 0, RELEASE)
    transition = partition.archive_unreadable(0, 3, SETTINGS)
    assert transition is not None
    assert transition.write.batches == [StateBatch(2, 3, RecordState.ARCHIVED, 0)]
    assert transition.write.start_offset == 1
    assert (partition.start_offset, transition.dead_letters) == (1, [])
    assert fetch(partition, "m2", 10) == [AcquiredRange(4, 5, 1)]
    assert partition.archive_unreadable(0, 3, SETTINGS) is None
    answer(partition, "m", 1, 1, RELEASE)
    assert partition.archive_unreadable(0, 3, SETTINGS) is not None
    assert partition.start_offset == 4


def test_unreadable_records_wait_for_their_dead_letters() -> None:
    settings = ShareSettings(dead_letter_topic="dlq.jobs")
    partition = window_of(3)
    transition = partition.archive_unreadable(-5, 10, settings)
    assert transition is not None
    assert transition.dead_letters == [(0, 2, 0, DeadLetterCause.UNREADABLE)]
    assert [dead[:2] for dead in partition.archiving()] == [(0, 2)]


def test_the_whole_state_is_what_the_writes_together_would_have_left() -> None:
    """What is held is stored as before it was acquired, what is gone from the log not at all."""
    partition = SharePartition(0)
    partition.extend(8, [(6, 6)])
    fetch(partition, "a", 5)
    answer(partition, "a", 0, 0, ACCEPT)
    answer(partition, "a", 1, 2, RELEASE)
    answer(partition, "a", 4, 4, REJECT)
    fetch(partition, "b", 1)
    whole = partition.whole_state()
    assert (whole.start_offset, whole.delivery_complete_count) == (1, 2)
    assert whole.batches == [
        StateBatch(1, 2, RecordState.AVAILABLE, 1),
        StateBatch(4, 4, RecordState.ARCHIVED, 1),
    ]
    restored = SharePartition.restore(whole.start_offset, whole.batches)
    assert states(restored) == [
        (1, "AVAILABLE", 1),
        (2, "AVAILABLE", 1),
        (3, "AVAILABLE", 0),
        (4, "ARCHIVED", 1),
    ]


def test_what_can_be_acquired_now_is_counted() -> None:
    partition = window_of(10, start=100)
    assert partition.available(SETTINGS) == 10
    assert partition.available(ShareSettings(max_record_locks=4)) == 4
    fetch(partition, "a", 3)
    assert partition.available(SETTINGS) == 7
    answer(partition, "a", 101, 101, RELEASE)
    assert partition.available(SETTINGS) == 8
    partition.extend(112, [(111, 111)])
    assert partition.available(SETTINGS) == 9
    assert SharePartition(100).available(SETTINGS) == 0


def test_a_window_of_which_nothing_was_acquired_forgets_all_of_it() -> None:
    partition = window_of(10, start=100)
    partition.forget_undelivered_tail()
    assert partition.end_offset == 100
    partition.extend(110)
    fetch(partition, "a", 3)
    partition.forget_undelivered_tail()
    assert (partition.end_offset, partition.acquired_end_offset) == (103, 103)


@pytest.mark.parametrize(
    ("first", "last", "acquirable"),
    [(103, 109, [(100, 102)]), (100, 101, [(102, 109)]), (105, 105, [(100, 104), (106, 109)])],
)
def test_a_delay_is_about_the_named_offsets(first: int, last: int, acquirable: list[tuple[int, int]]) -> None:
    partition = window_of(10, start=100)
    partition.delay_delivery(first, last, ready_ms=50)
    assert [chosen[:2] for chosen in partition.select(100, SETTINGS)] == acquirable
    assert partition.next_deadline_ms() == 50


@pytest.mark.parametrize(("first", "last"), [(99, 100), (109, 110), (105, 104), (100, 104)])
def test_what_is_held_or_outside_of_the_window_is_not_delayed(first: int, last: int) -> None:
    partition = window_of(10, start=100)
    fetch(partition, "a", 1, now_ms=1_000)
    partition.delay_delivery(first, last, ready_ms=50)
    assert partition.next_deadline_ms() == 31_000, "the only deadline is that of the lock"
    assert [chosen[:2] for chosen in partition.select(100, SETTINGS)] == [(101, 109)]


def test_a_window_that_waits_for_nothing_has_no_deadline() -> None:
    assert window_of(10).next_deadline_ms() is None


def test_the_end_of_one_dead_letter_leaves_the_records_beside_it_to_their_holders() -> None:
    settings = ShareSettings(dead_letter_topic="dead")
    partition = window_of(3, start=100)
    fetch(partition, "a", 3, settings)
    answer(partition, "a", 100, 101, REJECT, settings=settings)
    assert partition.archiving() == [DeadLetterRange(100, 101, 1, DeadLetterCause.EXHAUSTED)]
    done = partition.finish_archiving(101, 101)
    assert done is not None
    assert [(change.first_offset, change.last_offset) for change in done.changes] == [(101, 101)]
    assert done.write == StateWrite(100, 1, [StateBatch(101, 101, RecordState.ARCHIVED, 1)])
    partition.commit(done, 0, settings)
    assert states(partition) == [(100, "ARCHIVING", 1), (101, "ARCHIVED", 1), (102, "ACQUIRED", 1)]
    answer(partition, "a", 102, 102, ACCEPT, settings=settings)
    assert partition.finish_archiving(98, 99) is None


def test_the_transition_of_unreadable_records_says_what_changed() -> None:
    partition = window_of(4)
    done = partition.archive_unreadable(1, 2, SETTINGS)
    assert done is not None
    assert [(change.first_offset, change.last_offset) for change in done.changes] == [(1, 2)]
    assert done.write == StateWrite(0, 2, [StateBatch(1, 2, RecordState.ARCHIVED, 0)])


def test_a_session_that_ends_buries_what_was_delivered_too_often_and_skips_the_backoff() -> None:
    settings = ShareSettings(
        delivery_count_limit=2, dead_letter_topic="dead", retry_backoff=RetryBackoff(initial_ms=1_000)
    )
    partition = window_of(2)
    fetch(partition, "a", 1, settings)
    returned = partition.release_member("a", settings)
    assert returned is not None
    assert (returned.member_id, returned.renewals, returned.dead_letters) == ("a", [], [])
    partition.commit(returned, 0, settings)
    assert fetch(partition, "a", 1, settings) == [(0, 0, 2)]
    returned = partition.release_member("a", settings)
    assert returned is not None
    assert returned.dead_letters == [DeadLetterRange(0, 0, 2, DeadLetterCause.EXHAUSTED)]
    partition.commit(returned, 0, settings)
    assert states(partition)[0] == (0, "ARCHIVING", 2)


@pytest.mark.parametrize("times", [(30, 70), (70, 30)])
def test_the_counts_name_the_first_of_several_delays(times: tuple[int, int]) -> None:
    partition = window_of(3)
    fetch(partition, "a", 3)
    answer(partition, "a", 0, 2, RELEASE)
    for offset, ready_ms in enumerate(times):
        partition.delay_delivery(offset, offset, ready_ms)
    assert sorted(partition.counts()) == [("AVAILABLE", 1, 1, None), ("DELAYED", 1, 2, 30)]


def test_a_delayed_record_that_compaction_took_backs_off_no_more() -> None:
    partition = window_of(3)
    fetch(partition, "a", 3)
    answer(partition, "a", 0, 2, RELEASE)
    partition.delay_delivery(1, 1, 30)
    partition.mark_absent([(1, 1)])
    assert sorted(partition.counts()) == [("ARCHIVED", 1, 1, None), ("AVAILABLE", 1, 2, None)]


def test_the_last_attempt_of_three_is_made_alone() -> None:
    settings = ShareSettings(delivery_count_limit=3)
    partition = window_of(4)
    for _ in range(2):
        assert [chosen[:2] for chosen in fetch(partition, "a", 4, settings)] == [(0, 3)]
        answer(partition, "a", 0, 3, RELEASE, settings=settings)
    assert fetch(partition, "a", 4, settings) == [(0, 0, 3)]


@pytest.mark.parametrize(("records", "count", "taken"), [(8, 3, 4), (8, 4, 2), (3, 4, 1), (2, 4, 1)])
def test_suspects_of_before_a_restart_travel_in_parts_of_their_row(records: int, count: int, taken: int) -> None:
    """Who travelled with them is not stored."""
    settings = ShareSettings(delivery_count_limit=6)
    partition = SharePartition.restore(100, [StateBatch(100, 99 + records, RecordState.AVAILABLE, count)])
    assert partition.select(100, settings) == [(100, 99 + taken, count + 1)]


def test_two_suspects_travel_one_by_one() -> None:
    settings = ShareSettings(delivery_count_limit=8)
    partition = window_of(2)
    for _ in range(4):
        fetch(partition, "a", 2, settings)
        answer(partition, "a", 0, 1, RELEASE, settings=settings)
    assert partition.select(100, settings) == [(0, 0, 5)]


@pytest.mark.parametrize("ran_out", [False, True])
def test_a_write_that_fails_gives_back_what_the_log_still_has(ran_out: bool) -> None:
    partition = window_of(8, start=100)
    fetch(partition, "a", 6)
    fetch(partition, "b", 2)
    batches = [AcknowledgementBatch(100, 101, bytes((ACCEPT,))), AcknowledgementBatch(102, 105, bytes((RELEASE,)))]
    staged = partition.acknowledge("a", batches, SETTINGS)
    partition.move_start(103)
    if ran_out:
        partition.tick(30_000, SETTINGS)
    partition.rollback(staged, SETTINGS)
    state = "AVAILABLE" if ran_out else "ACQUIRED"
    assert states(partition) == [(offset, state, 1) for offset in range(103, 108)]
    assert partition.held_by_member() == ({} if ran_out else {"a": 3, "b": 2})


def test_a_renewed_lock_runs_out_too() -> None:
    partition = window_of(4, start=100)
    fetch(partition, "a", 4)
    answer(partition, "a", 101, 102, RENEW, now_ms=10_000)
    assert partition.tick(30_000, SETTINGS) is not None
    assert partition.held_by_member() == {"a": 2}
    ended = partition.tick(40_000, SETTINGS)
    assert ended is not None
    assert [(change.first_offset, change.last_offset) for change in ended.changes] == [(101, 102)]
    assert partition.held_by_member() == {}


def test_a_renewal_that_comes_too_late_takes_nothing_from_the_next_holder() -> None:
    partition = window_of(2)
    fetch(partition, "a", 2)
    staged = partition.acknowledge("a", [AcknowledgementBatch(0, 1, bytes((RENEW,)))], SETTINGS)
    partition.tick(30_000, SETTINGS)
    fetch(partition, "b", 2, now_ms=30_000)
    partition.commit(staged, 30_000, SETTINGS)
    assert partition.held_by_member() == {"b": 2}
    assert partition.next_deadline_ms() == 60_000
