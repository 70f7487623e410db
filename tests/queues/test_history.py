"""The checker finds each fault that it is there to find."""

from __future__ import annotations

from tests.queues.history import Answer, Delivery, History


def history() -> History:
    return History(lock_seconds=1.0, delivery_count_limit=5)


def test_a_clean_history_has_no_faults() -> None:
    clean = history()
    clean.deliveries = [Delivery(0, "a", 0.0, 0.1, 1), Delivery(0, "b", 0.3, 0.4, 2)]
    clean.answers = [
        Answer(0, "a", "release", 0.2, 0.25, True),
        Answer(0, "b", "accept", 0.5, 0.6, True),
    ]
    clean.start_offsets = [0, 0, 1]
    assert clean.faults(1) == []


def test_a_delivery_after_the_end_is_a_fault() -> None:
    bad = history()
    bad.deliveries = [Delivery(0, "a", 0.0, 0.1, 1), Delivery(0, "b", 2.0, 2.1, 2)]
    bad.answers = [Answer(0, "a", "accept", 0.2, 0.3, True)]
    assert "after its end" in bad.faults(1)[0]


def test_two_ends_are_a_fault() -> None:
    bad = history()
    bad.deliveries = [Delivery(0, "a", 0.0, 0.1, 1), Delivery(0, "b", 0.0, 0.1, 1)]
    bad.answers = [Answer(0, "a", "accept", 0.2, 0.3, True), Answer(0, "b", "reject", 0.2, 0.3, True)]
    assert "ended 2 times" in bad.faults(1)[0]


def test_an_answer_that_came_too_late_may_find_the_record_done() -> None:
    fine = history()
    fine.deliveries = [Delivery(0, "a", 0.0, 0.1, 1), Delivery(0, "b", 1.2, 1.3, 2)]
    fine.answers = [Answer(0, "b", "accept", 1.4, 1.5, True), Answer(0, "a", "accept", 1.6, 1.7, True)]
    assert fine.faults(1) == []


def test_two_holders_at_a_time_are_a_fault_unless_the_first_had_ended() -> None:
    bad = history()
    bad.deliveries = [Delivery(0, "a", 0.0, 0.1, 1), Delivery(0, "b", 0.5, 0.6, 2)]
    bad.answers = [Answer(0, "b", "accept", 0.7, 0.8, True)]
    assert "held twice" in bad.faults(1)[0]
    bad.ends = [("a", 0.4)]
    assert bad.faults(1) == []
    bad.ends, bad.kills = [], [0.3]
    assert bad.faults(1) == []


def test_too_many_deliveries_a_lost_record_and_a_retreat_are_faults() -> None:
    bad = history()
    bad.deliveries = [Delivery(0, "a", 0.0, 0.1, 6)]
    bad.start_offsets = [3, 2]
    faults = bad.faults(2)
    assert any("delivered 6 times" in fault for fault in faults)
    assert any("offset 1 was lost" in fault for fault in faults)
    assert any("moved back" in fault for fault in faults)
