"""What is known of the members of a share group that work on one share-partition."""

from __future__ import annotations

from penstock.broker.share.workers import MEMBERS_MAX, Workers
from penstock.queues.transitions import AcknowledgeType

ACCEPT, RELEASE, RENEW = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.RENEW


def test_deliveries_and_answers_are_counted_by_member() -> None:
    workers = Workers()
    workers.delivered("a", 100, 0.0)
    workers.delivered("b", 10, 0.0)
    workers.acknowledged("a", {ACCEPT: 60, RELEASE: 30}, 10.0)
    known = workers.known((), 20.0)
    assert {member: (each.delivered, each.acknowledged) for member, each in known.items()} == {
        "a": (100, 90),
        "b": (10, 0),
    }
    assert (known["a"].delivering.rate(20.0), known["a"].acknowledging.rate(20.0)) == (5.0, 4.5)
    assert (known["a"].acknowledged_at, known["b"].acknowledged_at) == (10.0, None)


def test_a_renewal_keeps_a_member_known_and_is_no_answer() -> None:
    workers = Workers()
    workers.delivered("a", 1, 0.0)
    workers.acknowledged("a", {RENEW: 1}, 500.0)
    (worker,) = workers.known((), 700.0).values()
    assert (worker.acknowledged, worker.acknowledged_at) == (0, None)


def test_a_member_that_holds_records_is_not_forgotten_however_long_it_is_silent() -> None:
    workers = Workers()
    workers.delivered("hanging", 1, 0.0)
    workers.delivered("gone", 1, 0.0)
    assert list(workers.known({"hanging"}, 10_000.0)) == ["hanging"]


def test_the_member_that_was_silent_for_longest_makes_room_for_a_new_one() -> None:
    workers = Workers()
    for number in range(MEMBERS_MAX):
        workers.delivered(f"m{number}", 1, float(number) / 100)
    workers.delivered("m0", 1, 11.0)
    workers.delivered("new", 1, 12.0)
    known = workers.known((), 12.0)
    assert len(known) == MEMBERS_MAX
    assert "m0" in known
    assert "m1" not in known
