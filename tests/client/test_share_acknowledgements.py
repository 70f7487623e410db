from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.client.share_acknowledgements import AckBatch, Acknowledgements


def test_neighbours_that_agree_share_one_type() -> None:
    acks = Acknowledgements()
    for offset in (3, 1, 2):
        acks.add(offset, 1)
    acks.add(7, 2)
    assert acks.batches() == [AckBatch(1, 3, [1]), AckBatch(7, 7, [2])]


def test_neighbours_that_differ_have_one_type_each() -> None:
    acks = Acknowledgements()
    acks.add_run(0, 3, 1)
    acks.add(2, 3)
    assert acks.batches() == [AckBatch(0, 3, [1, 1, 3, 1])]


def test_what_is_undecided_is_neither_sent_nor_forgotten() -> None:
    acks = Acknowledgements()
    acks.await_decision(0, 4)
    assert not acks
    acks.add(1, 1)
    acks.add(2, 3)
    assert acks
    assert acks.take().batches() == [AckBatch(1, 2, [1, 3])]
    assert acks.has_undecided
    assert acks.offsets() == {0, 3, 4}
    for offset in (0, 3, 4):
        acks.add(offset, 1)
    assert not acks.has_undecided
    assert acks.take().count() == 3
    assert acks.offsets() == set()


def test_runs_alone_stay_runs() -> None:
    acks = Acknowledgements()
    acks.add_run(10, 509, 1)
    acks.add_run(0, 4, 0)
    assert acks.batches() == [AckBatch(0, 4, [0]), AckBatch(10, 509, [1])]
    assert acks.count() == 505


@given(st.dictionaries(st.integers(0, 60), st.integers(0, 3), min_size=1))
def test_every_offset_is_named_once_with_its_type(types: dict[int, int]) -> None:
    acks = Acknowledgements()
    for offset, kind in types.items():
        acks.add(offset, kind)
    read: dict[int, int] = {}
    for first, last, kinds in acks.batches():
        spread = kinds * (last - first + 1) if len(kinds) == 1 else kinds
        assert len(spread) == last - first + 1
        for offset, kind in zip(range(first, last + 1), spread, strict=True):
            assert offset not in read
            read[offset] = kind
    assert read == types
    assert acks.offsets() == set(types)
