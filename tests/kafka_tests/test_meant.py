"""Which failures are meant, and what ends a run with an error."""

from __future__ import annotations

from tests.kafka_tests.catalog import passes_on_kafka
from tests.kafka_tests.meant import EVERYWHERE, Judgement, Meant, judge
from tests.kafka_tests.report import Verdict

TEST, OTHER = "ShareConsumerTest#testOne[1]", "ShareConsumerTest#testTwo[1]"
MEANT = {TEST: Meant("why")}


def verdict(test: str, *, passed: bool) -> Verdict:
    return Verdict(test, "share", passed, 1, 1.0, "" if passed else "expected 3")


def test_a_failure_that_is_meant_is_no_bug_and_any_other_is() -> None:
    failures = [verdict(TEST, passed=False), verdict(OTHER, passed=False)]
    assert judge(failures[:1], MEANT) == Judgement([], [(failures[0], "why")], [])
    assert judge(failures[:1], MEANT).is_good
    assert judge(failures, MEANT).bugs == failures[1:]
    assert not judge(failures, MEANT).is_good


def test_a_test_that_passes_is_taken_off_the_list_unless_it_passes_by_chance() -> None:
    passed = [verdict(TEST, passed=True), verdict(OTHER, passed=True)]
    assert judge(passed, MEANT).outlived == [TEST]
    assert not judge(passed, MEANT).is_good
    assert judge(passed, {TEST: Meant("why", by_chance=True)}).is_good


def test_what_is_meant_to_fail_passes_on_apache_kafka() -> None:
    assert set(EVERYWHERE) <= passes_on_kafka()
