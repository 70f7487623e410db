"""Each check of queues fires on a history that was planted for it, and not on its healthy twin."""

from __future__ import annotations

import pytest

from penstock.checks import Operation
from tests.checks.histories import (
    SETTLED,
    acknowledge,
    archive,
    deliver,
    ended,
    fault,
    found_in,
    gone,
    settings,
    taken_over,
    unreadable,
    window,
)

KEY_ORDER = settings(key_order=True)


@pytest.mark.parametrize(
    "history",
    [
        (deliver(0), acknowledge(0), SETTLED),
        (deliver(0), acknowledge(0, "release"), deliver(0, "m2", 2), acknowledge(0, member="m2"), SETTLED),
        (deliver(0, until=50), deliver(0, "m2", 2, time=51), acknowledge(0, member="m2"), SETTLED),
        (deliver(0), acknowledge(0, "reject"), SETTLED),
        (deliver(0), archive(0), SETTLED),
        (unreadable(0), archive(0), SETTLED),
        (deliver(0), fault("kill"), deliver(0, "m2", 1, time=21), acknowledge(0, member="m2"), SETTLED),
        (deliver(0), acknowledge(0, result="unknown"), SETTLED),
        (deliver(0), acknowledge(0, txn="x"), ended("x"), SETTLED),
        (
            settings(flush_interval=100),
            deliver(0),
            acknowledge(0),
            fault("power-cut"),
            deliver(0, time=30),
            acknowledge(0),
        ),
        (KEY_ORDER, deliver(0, key="k"), acknowledge(0), deliver(1, key="k"), acknowledge(1), SETTLED),
        (deliver(0), acknowledge(0), window(1), window(1)),
    ],
)
def test_a_healthy_history_shows_nothing(history: tuple[Operation, ...]) -> None:
    assert found_in(*history) == []


class TestQ1:
    def test_two_holders_at_a_time(self) -> None:
        assert found_in(deliver(0, until=100), deliver(0, "m2", 2, time=50)) == ["Q1"]

    def test_a_renewed_lock_holds_longer(self) -> None:
        renewed = acknowledge(0, "renew", until=200)
        assert found_in(deliver(0, until=100), renewed, deliver(0, "m2", 2, time=150)) == ["Q1"]


class TestQ2:
    def test_two_ends(self) -> None:
        assert found_in(deliver(0), acknowledge(0), acknowledge(0, "reject")) == ["Q2"]

    def test_no_end(self) -> None:
        assert found_in(deliver(0), SETTLED) == ["Q2"]

    def test_a_delivery_of_what_was_archived(self) -> None:
        assert found_in(deliver(0), archive(0), deliver(0, count=2)) == ["Q2"]


class TestQ3:
    def test_a_count_that_does_not_grow(self) -> None:
        assert found_in(deliver(0), acknowledge(0, "release"), deliver(0, count=1)) == ["Q3"]

    def test_a_count_that_grows_by_two(self) -> None:
        assert found_in(deliver(0), acknowledge(0, "release"), deliver(0, count=3)) == ["Q3"]

    def test_a_count_past_the_limit(self) -> None:
        assert found_in(settings(delivery_limit=1), deliver(0), acknowledge(0, "release"), deliver(0, count=2)) == [
            "Q3"
        ]


class TestQ4:
    def test_a_delivery_after_a_confirmed_acceptance(self) -> None:
        assert found_in(deliver(0), acknowledge(0), fault("kill"), deliver(0, time=30)) == ["Q4", "Q3"]

    def test_after_a_power_cut_only_the_newest_may_come_again(self) -> None:
        history = (settings(flush_interval=5), deliver(0), acknowledge(0, time=10), fault("power-cut", 20))
        assert "Q4" in found_in(*history, deliver(0, count=2, time=30))


class TestQ5:
    def test_a_start_that_goes_back(self) -> None:
        assert found_in(window(5), window(4)) == ["Q5"]

    def test_a_start_that_passes_an_unfinished_record(self) -> None:
        assert found_in(deliver(0), window(1)) == ["Q5"]

    def test_too_many_in_flight(self) -> None:
        assert found_in(settings(max_in_flight=2), window(0, in_flight=3)) == ["Q5"]


class TestQ6:
    def test_a_released_record_that_never_comes_again(self) -> None:
        assert found_in(deliver(0), acknowledge(0, "release"), SETTLED) == ["Q6"]

    def test_one_that_comes_too_early(self) -> None:
        released = acknowledge(0, "release", not_before=50)
        assert found_in(deliver(0), released, deliver(0, count=2, time=40)) == ["Q6"]


class TestQ7:
    def test_two_records_of_a_key_in_flight(self) -> None:
        assert found_in(KEY_ORDER, deliver(0, key="k"), deliver(1, key="k")) == ["Q7"]

    def test_a_later_one_before_a_released_one(self) -> None:
        history = (deliver(0, key="k"), acknowledge(0, "release"), deliver(1, key="k"))
        assert found_in(KEY_ORDER, *history) == ["Q7"]

    def test_other_keys_do_not_wait(self) -> None:
        assert found_in(KEY_ORDER, deliver(0, key="k"), deliver(1, key="l")) == []


class TestQ8:
    def test_an_acknowledgement_of_an_aborted_transaction_does_not_count(self) -> None:
        assert found_in(deliver(0), acknowledge(0, txn="x"), ended("x", "aborted"), SETTLED) == ["Q6"]

    def test_a_record_that_ended_before_its_transaction_did(self) -> None:
        assert found_in(deliver(0), acknowledge(0, txn="x"), archive(0), ended("x")) == ["Q8"]


class TestQ9:
    def test_an_unreadable_record_that_is_not_archived(self) -> None:
        assert found_in(unreadable(0), SETTLED) == ["Q9"]


class TestTakeOverOfAPartition:
    """`fault` with a partition: another broker leads it, and the others go on."""

    def test_its_records_may_come_again_at_once_with_the_same_count(self) -> None:
        assert found_in(deliver(0), taken_over(), deliver(0, "m2", 1, time=21)) == []

    def test_records_of_other_partitions_stay_with_their_holders(self) -> None:
        assert found_in(deliver(0), taken_over(partition=1), deliver(0, "m2", 1, time=21)) == ["Q1", "Q3"]

    def test_it_lets_a_count_come_again_once(self) -> None:
        again = deliver(0, "m2", 1, time=21, until=50)
        assert found_in(deliver(0), taken_over(), again, deliver(0, "m3", 1, time=51)) == ["Q3"]

    def test_the_count_after_which_a_release_was_confirmed_does_not_come_again(self) -> None:
        once, twice = deliver(0, until=11), deliver(0, "m2", 2, time=11)
        assert found_in(once, twice, taken_over(), deliver(0, "m3", 1, time=21)) == []
        confirmed = acknowledge(0, "release")
        assert found_in(once, confirmed, twice, taken_over(), deliver(0, "m3", 1, time=21)) == ["Q3"]


class TestAnswersThatWereLost:
    """`gone` with a partition: records of it may have been on their way."""

    def test_each_may_have_counted_once(self) -> None:
        assert found_in(deliver(0, until=5), gone(), gone(), deliver(0, "m2", 4, time=6)) == []
        assert found_in(deliver(0, until=5), gone(), deliver(0, "m2", 4, time=6)) == ["Q3"]

    def test_they_count_once_only(self) -> None:
        again = deliver(0, "m2", 3, time=6, until=7)
        assert found_in(deliver(0, until=5), gone(), again, deliver(0, "m2", 5, time=8)) == ["Q3"]

    def test_they_count_for_records_that_nobody_has_seen_yet(self) -> None:
        assert found_in(gone(), deliver(0, count=2)) == []

    def test_those_of_another_partition_do_not_count(self) -> None:
        assert found_in(deliver(0, until=5), gone(partition=1), deliver(0, "m2", 3, time=6)) == ["Q3"]

    def test_a_record_is_not_taken_for_given_up_because_of_answers_lost_before_it(self) -> None:
        lost_earlier = [gone(partition=1)] * 5
        assert found_in(settings(delivery_limit=3), *lost_earlier, deliver(0), SETTLED) == ["Q2"]
