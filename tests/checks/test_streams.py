"""Each check of streams fires on a history that was planted for it, and not on its healthy twin."""

from __future__ import annotations

from tests.checks.histories import DRAINED, ended, findings, found_in, poll, send

MOVED: dict[str, object] = {"op": "moved", "process": "c"}


def test_a_healthy_history_shows_nothing() -> None:
    assert found_in(send("a", 0), send("b", 1), poll((0, "a")), poll((1, "b")), DRAINED) == []


def test_a_value_at_two_offsets_is_a_duplicate() -> None:
    assert found_in(send("a", 0), poll((0, "a"), (1, "a"))) == ["duplicate"]


def test_the_same_value_in_two_partitions_is_none() -> None:
    assert found_in(send("a", 0), send("a", 0, partition=1)) == []


def test_two_values_at_one_offset_are_inconsistent() -> None:
    assert found_in(poll((0, "a")), poll((0, "b"), process="d")) == ["inconsistent-offsets"]


def test_an_acknowledged_value_that_polls_passed_over_is_lost() -> None:
    assert found_in(send("a", 0), send("b", 1), poll((1, "b"))) == ["lost-write"]


def test_what_was_never_polled_is_unseen_once_readers_have_read_everything() -> None:
    assert found_in(send("a", 0)) == []
    assert found_in(send("a", 0), DRAINED) == ["unseen"]


def test_what_only_uncommitted_readers_saw_is_unseen_once_committed_ones_have_read_everything() -> None:
    seen = (send("a", 0), poll((0, "a"), isolation="read_uncommitted"))
    drained: dict[str, object] = {"op": "drained", "isolation": "read_committed"}
    assert found_in(*seen, DRAINED) == []
    assert found_in(*seen, drained) == ["unseen"]
    assert found_in(*seen, poll((0, "a"), process="d"), drained) == []


def test_a_send_that_failed_or_may_have_failed_may_be_missing() -> None:
    assert found_in(send("a", result="failed"), send("b", result="unknown"), DRAINED) == []


def test_a_transaction_that_was_not_committed_may_be_missing() -> None:
    for result in ("aborted", "unknown"):
        assert found_in(send("a", 0, txn="x"), ended("x", result), DRAINED) == []
    assert found_in(send("a", 0, txn="x"), ended("x"), DRAINED) == ["unseen"]


def test_a_committed_reader_must_not_see_what_was_aborted() -> None:
    assert found_in(send("a", 0, txn="x"), ended("x", "aborted"), poll((0, "a"))) == ["G1a"]
    assert found_in(send("a", result="failed"), poll((0, "a"))) == ["G1a"]


def test_an_uncommitted_reader_may() -> None:
    history = (send("a", 0, txn="x"), ended("x", "aborted"), poll((0, "a"), isolation="read_uncommitted"))
    assert found_in(*history) == []


def test_a_transaction_must_not_see_its_own_writes() -> None:
    assert found_in(send("a", 0, txn="x"), poll((0, "a"), txn="x"), ended("x")) == ["precommitted-read"]


def test_polls_of_an_assigned_reader_neither_skip_nor_go_back() -> None:
    writes = [send(value, offset) for offset, value in enumerate("abc")]
    whole = poll((0, "a"), (1, "b"), (2, "c"), process="other")
    assert found_in(*writes, whole, poll((0, "a")), poll((2, "c"))) == ["poll-skip"]
    assert found_in(*writes, whole, poll((1, "b")), poll((0, "a"))) == ["nonmonotonic-poll"]


def test_they_may_after_a_seek_and_with_a_subscription() -> None:
    writes = [send(value, offset) for offset, value in enumerate("abc")]
    whole = poll((0, "a"), (1, "b"), (2, "c"), process="other")
    assert found_in(*writes, whole, poll((1, "b")), MOVED, poll((0, "a"))) == []
    assert found_in(*writes, whole, poll((1, "b")), poll((0, "a"), how="subscribe")) == []


def test_offsets_without_a_visible_record_are_not_skipped() -> None:
    aborted = (send("b", 1, txn="x"), ended("x", "aborted"))
    assert found_in(send("a", 0), *aborted, send("d", 5), poll((0, "a")), poll((5, "d"))) == []


def test_polls_inside_a_transaction_neither_skip_nor_go_back_even_with_a_subscription() -> None:
    writes = [send(value, offset) for offset, value in enumerate("abc")]
    whole = poll((0, "a"), (1, "b"), (2, "c"), process="other")
    inside = {"how": "subscribe", "txn": "x"}
    assert found_in(*writes, whole, poll((0, "a"), **inside), poll((2, "c"), **inside)) == ["int-poll-skip"]
    assert found_in(*writes, whole, poll((1, "b"), **inside), poll((0, "a"), **inside)) == ["int-nonmonotonic-poll"]


def test_sends_of_one_process_do_not_go_back() -> None:
    assert found_in(send("a", 1), send("b", 0)) == ["nonmonotonic-send"]


def test_sends_of_one_transaction_do_not_go_back() -> None:
    history = (send("a", 1, process="p", txn="x"), send("b", 0, process="q", txn="x"))
    assert found_in(*history) == ["int-nonmonotonic-send"]


def test_transactions_that_read_each_other_are_a_cycle() -> None:
    history = (
        send("a", 0, process="p", txn="x"),
        send("b", 0, process="q", txn="y", partition=1),
        poll((0, "a"), process="q", txn="y", isolation="read_uncommitted"),
        {**poll(process="p", txn="x"), "records": [["t", 1, 0, "b"]]},
        ended("x"),
        ended("y"),
    )
    assert found_in(*history) == ["G1c"]


def test_a_finding_names_the_line_at_which_it_became_clear() -> None:
    (finding,) = findings(send("a", 0), poll((0, "a")), poll((1, "a")))
    assert (finding.line, str(finding)) == (3, "duplicate: t-0 has 'a' at offsets 0 and 1 (line 3)")


def test_values_may_be_lists() -> None:
    assert found_in(send(["k", 1], 0), poll((0, ["k", 1])), DRAINED) == []


def test_what_only_read_uncommitted_readers_were_shown_is_not_skipped_by_the_others() -> None:
    shown = poll((0, "a"), (1, "aborted"), (2, "c"), process="u", isolation="read_uncommitted")
    assert found_in(shown, poll((0, "a"), (2, "c"))) == []
    assert found_in(shown, poll((1, "aborted"), process="d"), poll((0, "a"), (2, "c"))) == ["poll-skip"]
