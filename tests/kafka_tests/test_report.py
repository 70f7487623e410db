"""What counts as passed: one of two tries; and what did not run counts as failed."""

from __future__ import annotations

from pathlib import Path

from tests.kafka_tests.jvm import Outcome
from tests.kafka_tests.report import DID_NOT_RUN, verdicts
from tests.kafka_tests.runs import Results, results_file

METHOD = "ShareConsumerTest#testOne"
FIRST, SECOND = f"{METHOD}[1]", f"{METHOD}[2]"
ON_KAFKA = {FIRST, SECOND, "ShareConsumerTest#testTwo[1]"}


def results(tmp_path: Path, *, resume: bool = False) -> Results:
    return Results(tmp_path / "results.jsonl", resume=resume)


def test_a_test_that_passes_at_the_second_try_has_passed(tmp_path: Path) -> None:
    kept = results(tmp_path)
    kept.add(METHOD, 1, [Outcome(FIRST, "FAIL", 1.0, "timed out"), Outcome(SECOND, "PASS", 1.0)])
    kept.add(METHOD, 2, [Outcome(FIRST, "PASS", 2.0), Outcome(SECOND, "FAIL", 1.0, "timed out")])
    found = verdicts([METHOD], ON_KAFKA, kept.final([METHOD]))
    assert [(v.test, v.passed, v.tries) for v in found] == [(FIRST, True, 2), (SECOND, True, 1)]


def test_a_test_that_fails_twice_has_failed_for_the_last_reason(tmp_path: Path) -> None:
    kept = results(tmp_path)
    kept.add(METHOD, 1, [Outcome(FIRST, "FAIL", 1.0, "timed out"), Outcome(SECOND, "PASS", 1.0)])
    kept.add(METHOD, 2, [Outcome(FIRST, "FAIL", 1.0, "expected 3"), Outcome(SECOND, "PASS", 1.0)])
    failed = next(v for v in verdicts([METHOD], ON_KAFKA, kept.final([METHOD])) if not v.passed)
    assert (failed.test, failed.reason) == (FIRST, "expected 3")


def test_a_test_without_an_outcome_has_failed(tmp_path: Path) -> None:
    kept = results(tmp_path)
    kept.add(METHOD, 1, [Outcome(FIRST, "PASS", 1.0)])
    assert [v.reason for v in verdicts([METHOD], ON_KAFKA, kept.final([METHOD])) if not v.passed] == [DID_NOT_RUN]


def test_a_method_that_broke_off_says_why_for_each_of_its_tests(tmp_path: Path) -> None:
    kept = results(tmp_path)
    kept.add(METHOD, 1, [Outcome(METHOD, "FAIL", 0.0, "the JVM ended")])
    found = verdicts([METHOD], ON_KAFKA, kept.final([METHOD]))
    assert [(v.test, v.reason) for v in found] == [(FIRST, "the JVM ended"), (SECOND, "the JVM ended")]


def test_tests_that_pass_here_but_not_on_kafka_are_not_counted(tmp_path: Path) -> None:
    kept = results(tmp_path)
    kept.add(METHOD, 1, [Outcome(FIRST, "PASS", 1.0), Outcome(SECOND, "PASS", 1.0)])
    assert [v.test for v in verdicts([METHOD], {FIRST}, kept.final([METHOD]))] == [FIRST]


def test_a_resumed_run_knows_the_results_so_far_and_a_new_one_forgets_them(tmp_path: Path) -> None:
    outcomes = [Outcome(FIRST, "FAIL", 1.0, "timed out")]
    results(tmp_path).add(METHOD, 1, outcomes)
    assert results(tmp_path, resume=True).of(METHOD, 1) == outcomes
    assert results(tmp_path, resume=True).of(METHOD, 2) is None
    assert results(tmp_path).of(METHOD, 1) is None


def test_a_run_is_not_resumed_with_the_results_of_other_brokers() -> None:
    kinds = [{}, {"PENSTOCK_TEST_ENGINE": "objects"}, {"PENSTOCK_TEST_ENGINE": "cluster"}, {"PENSTOCK_BROKERS": "2"}]
    files = [results_file("penstock", environment) for environment in kinds]
    assert files[0] == "results-penstock.jsonl"
    assert len(set(files)) == len(kinds)
    assert {results_file("kafka", environment) for environment in kinds} == {"results-kafka.jsonl"}
