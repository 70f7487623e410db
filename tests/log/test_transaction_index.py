"""The index of aborted transactions."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.log.transaction_index import (
    ENTRY_SIZE,
    AbortedTransaction,
    TransactionIndex,
    read_transaction_index,
    transaction_index_bytes,
)

FIRST = AbortedTransaction(1, 10, 20, 15)
SECOND = AbortedTransaction(2, 15, 30, 31)


def test_an_entry_is_34_bytes_as_in_kafka() -> None:
    data = transaction_index_bytes([FIRST])
    assert len(data) == ENTRY_SIZE == 34
    assert data.hex() == "0000" + "".join(f"{number:016x}" for number in (1, 10, 20, 15))


def test_entries_are_written_at_once(tmp_path: Path) -> None:
    path = str(tmp_path / "x.txnindex")
    index = TransactionIndex(path, [])
    index.append(FIRST)
    assert read_transaction_index(path) == [FIRST]
    TransactionIndex(path).append(SECOND)
    assert TransactionIndex(path).entries == [FIRST, SECOND]


def test_an_entry_that_could_not_be_written_is_written_later(tmp_path: Path) -> None:
    folder = tmp_path / "not there yet"
    index = TransactionIndex(str(folder / "x.txnindex"), [])
    index.append(FIRST)
    assert index.entries == [FIRST]
    with pytest.raises(FileNotFoundError):
        index.save(sync=True)
    folder.mkdir()
    index.append(SECOND)
    assert read_transaction_index(index.path) == [FIRST, SECOND]


def test_overlapping_transactions_are_collected() -> None:
    index = TransactionIndex("unused", [FIRST, SECOND])
    for fetch_offset, upper, expected, complete in (
        (0, 10, [], True),
        (0, 11, [FIRST], True),
        (20, 31, [FIRST, SECOND], True),
        (21, 40, [SECOND], False),
        (31, 40, [], False),
    ):
        found: list[AbortedTransaction] = []
        assert index.collect(fetch_offset, upper, found) is complete
        assert found == expected


def test_a_torn_tail_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "x.txnindex"
    data = transaction_index_bytes([FIRST, SECOND])
    for size in range(len(data)):
        path.write_bytes(data[:size])
        assert read_transaction_index(str(path)) == [FIRST, SECOND][: size // ENTRY_SIZE]
    path.write_bytes(data[:ENTRY_SIZE] + bytes(ENTRY_SIZE))
    assert read_transaction_index(str(path)) == [FIRST]
