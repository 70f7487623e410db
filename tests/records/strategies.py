"""Random records for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from penstock.records.builder import NewRecord

NOW_MS = 1_700_000_000_000

headers = st.lists(st.tuples(st.text(max_size=10), st.none() | st.binary(max_size=20)), max_size=3)
timestamps = st.integers(-1, 2**45) | st.integers(NOW_MS - 100, NOW_MS + 10_000)
keys = st.none() | st.binary(max_size=150)
values = st.none() | st.binary(max_size=300)
new_records: st.SearchStrategy[list[NewRecord]] = st.lists(
    st.tuples(timestamps, keys, values, headers), min_size=1, max_size=20
)
