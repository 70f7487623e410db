from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.client.share_acknowledgements import GAP, AckBatch, Acknowledgements


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


def test_what_has_run_out_is_known_by_the_latest_time_that_was_told() -> None:
    acks = Acknowledgements()
    acks.await_decision(0, 4)
    acks.locked(0, 4, until=10.0)
    acks.locked(2, 3, until=20.0)
    acks.locked(3, 3, until=15.0)
    assert acks.run_out(10.0) == set()
    assert acks.run_out(10.1) == {0, 1, 4}
    assert acks.run_out(19.9) == {0, 1, 4}
    assert acks.run_out(20.1) == {0, 1, 2, 3, 4}


def test_what_was_never_said_to_be_locked_until_some_time_does_not_run_out() -> None:
    acks = Acknowledgements()
    acks.add_run(0, 4, 1)
    acks.locked(3, 9, until=10.0)
    assert acks.run_out(11.0) == {3, 4}


def test_what_was_sent_has_no_lock_to_run_out_and_gets_a_new_one_when_it_comes_again() -> None:
    acks = Acknowledgements()
    acks.await_decision(0, 1)
    acks.locked(0, 1, until=10.0)
    acks.add(0, 2)
    acks.take()
    assert acks.run_out(11.0) == {1}
    acks.add(1, 1)
    acks.take()
    acks.await_decision(0, 1)
    acks.locked(0, 0, until=30.0)
    assert acks.run_out(20.0) == set()
    assert acks.run_out(31.0) == {0}


def test_locks_of_what_is_gone_are_forgotten_in_the_long_run() -> None:
    acks = Acknowledgements()
    acks.await_decision(0, 0)  # undecided all the time, so that nothing is ever forgotten at once
    for offset in range(1, 2000):
        acks.await_decision(offset, offset)
        acks.locked(offset, offset, until=float(offset))
        acks.add(offset, 1)
        acks.take()
    assert len(acks._locks) < 200


def test_some_can_be_split_off_whatever_way_they_were_decided() -> None:
    acks = Acknowledgements()
    acks.add_run(0, 5, 1)
    acks.add(3, 2)
    acks.add(9, 3)
    assert acks.split_off({2, 3, 7, 9}).batches() == [AckBatch(2, 3, [1, 2]), AckBatch(9, 9, [3])]
    assert acks.batches() == [AckBatch(0, 1, [1]), AckBatch(4, 5, [1])]
    acks.add_run(6, 7, GAP)
    assert acks.split_off({5, 6}).offsets() == {5}
    assert acks.offsets() == {0, 1, 4, 7}


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
