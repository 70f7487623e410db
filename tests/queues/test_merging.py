"""State batches laid over one another, against one entry per offset."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from penstock.queues.merging import merge_batches
from penstock.queues.transitions import StateBatch

batches = st.lists(
    st.builds(
        lambda first, span, state, count: StateBatch(first, first + span, state, count),
        st.integers(0, 40),
        st.integers(0, 10),
        st.sampled_from([0, 2, 4]),
        st.integers(1, 4),
    ),
    max_size=8,
)


def by_offset(known: list[StateBatch], start: int) -> dict[int, tuple[int, int]]:
    table: dict[int, tuple[int, int]] = {}
    for batch in known:
        for offset in range(max(start, batch.first_offset), batch.last_offset + 1):
            table[offset] = max(table.get(offset, (-1, -1)), (batch.delivery_count, batch.delivery_state))
    return table


@given(batches, batches, st.integers(0, 50))
def test_the_stronger_state_of_each_offset_holds(first: list[StateBatch], second: list[StateBatch], start: int) -> None:
    known = merge_batches(0, [], first)
    merged = merge_batches(start, known, second)
    assert by_offset(merged, start) == by_offset(known + second, start)
    for left, right in itertools.pairwise(merged):
        assert left.last_offset < right.first_offset, "merged batches are in order and apart"
        assert left.last_offset + 1 < right.first_offset or left[2:] != right[2:], "alike neighbours are joined"
