"""One byte per offset: the steps of a record's life as tables."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.queues import cells as c
from penstock.queues.cells import RecordState

STATES = list(RecordState)


@pytest.mark.parametrize("state", STATES)
def test_a_cell_holds_state_and_delivery_count(state: RecordState) -> None:
    for count in range(c.MAX_DELIVERY_COUNT + 1):
        value = c.cell(state, count)
        assert (c.state_of(value), c.count_of(value)) == (state, count)
    assert c.count_of(c.cell(state, 1_000)) == c.MAX_DELIVERY_COUNT


@pytest.mark.parametrize(
    ("table", "source", "target"),
    [
        (c.ACCEPT, RecordState.ACQUIRED, RecordState.ACKNOWLEDGED),
        (c.ARCHIVE, RecordState.ACQUIRED, RecordState.ARCHIVED),
        (c.BEGIN_ARCHIVING, RecordState.ACQUIRED, RecordState.ARCHIVING),
        (c.FINISH_ARCHIVING, RecordState.ARCHIVING, RecordState.ARCHIVED),
        (c.BECOME_AVAILABLE, RecordState.DELAYED, RecordState.AVAILABLE),
    ],
)
def test_a_step_moves_one_state_and_leaves_the_others(table: bytes, source: RecordState, target: RecordState) -> None:
    for state in STATES:
        before = bytes((c.cell(state, 3),))
        expected = c.cell(target if state is source else state, 3)
        assert before.translate(table) == bytes((expected,))


def test_a_class_of_cells_has_each_delivery_count_of_its_states() -> None:
    found = c.cells_in(RecordState.ACQUIRED, RecordState.DELAYED)
    assert sorted(found) == [value for value in range(256) if value & c.STATE_MASK in (1, 6)]


@pytest.mark.parametrize(
    ("table", "source", "target"),
    [
        (c.ARCHIVE, RecordState.ACQUIRED, RecordState.ARCHIVED),
        (c.BECOME_AVAILABLE, RecordState.DELAYED, RecordState.AVAILABLE),
    ],
)
def test_the_table_of_a_step_keeps_delivery_counts_and_every_other_byte(
    table: bytes, source: RecordState, target: RecordState
) -> None:
    moved = {c.cell(source, count): c.cell(target, count) for count in range(c.MAX_DELIVERY_COUNT + 1)}
    assert c._moves(source, target) == table == bytes(moved.get(value, value) for value in range(256))


def test_a_class_of_cells_is_searched_for_whatever_its_bytes_mean_in_a_pattern() -> None:
    """Each byte is one of a pattern's own signs too: brackets, a backslash, a hyphen."""
    for wanted in (b"]", b"\\", b"-", b"^", b"[", b"\n"):
        pattern = re.compile(c._one_of(b"a" + wanted + b"z"), re.DOTALL)
        assert [value for value in range(256) if pattern.fullmatch(bytes((value,)))] == sorted(b"az" + wanted)


def test_acquiring_counts_the_delivery() -> None:
    before = bytes((c.FRESH, c.cell(RecordState.AVAILABLE, 2), c.cell(RecordState.ACQUIRED, 2)))
    after = before.translate(c.ACQUIRE)
    assert [c.count_of(value) for value in after] == [1, 3, 2]
    assert c.only(after, c.ACQUIRED_CELLS)


@pytest.mark.parametrize(
    ("count", "dead_letters", "delayed", "expected"),
    [
        (4, False, False, RecordState.AVAILABLE),
        (4, False, True, RecordState.DELAYED),
        (5, False, True, RecordState.ARCHIVED),
        (5, True, False, RecordState.ARCHIVING),
        (6, False, False, RecordState.ARCHIVED),
    ],
)
def test_a_release_looks_at_the_delivery_limit(
    count: int, dead_letters: bool, delayed: bool, expected: RecordState
) -> None:
    table = c.release_table(5, dead_letters=dead_letters, delayed=delayed)
    after = bytes((c.cell(RecordState.ACQUIRED, count),)).translate(table)
    assert after == bytes((c.cell(expected, count),))


@given(st.binary(max_size=60))
def test_runs_cover_everything_and_are_as_long_as_they_can_be(values: bytes) -> None:
    found = list(c.runs(values))
    assert b"".join(bytes((value,)) * (past - first) for first, past, value in found) == values
    assert all(left[2] != right[2] for left, right in itertools.pairwise(found))
    for first, past, _ in found:
        assert c.run_length(bytearray(values), first, len(values)) == past - first


def test_looking_for_available_cells_stays_within_bounds() -> None:
    row = bytearray((c.cell(RecordState.ACQUIRED, 1), c.FRESH, c.cell(RecordState.AVAILABLE, 4)))
    assert [c.find_available(row, start, 3) for start in range(4)] == [1, 1, 2, -1]
    assert c.find_available(row, 0, 1) == -1
    assert c.number_in(row, c.AVAILABLE_CELLS) == 2


def test_only_what_is_done_at_the_front_is_a_terminal_prefix() -> None:
    done, open_ = c.cell(RecordState.ACKNOWLEDGED, 1), c.cell(RecordState.ARCHIVING, 1)
    assert c.terminal_prefix(bytes((done, c.ABSENT, open_, done))) == 2
    assert c.terminal_prefix(b"") == 0
