"""Skipping aborted transactions and markers."""

from __future__ import annotations

from penstock.records.aborted import BatchFilter
from penstock.records.batch import HEADER_SIZE, iter_headers, patch_append, write_crc
from penstock.records.builder import build_batch
from penstock.records.control import ControlType, end_marker_batch


def _log(*batches: bytearray) -> bytes:
    offset = 0
    for batch in batches:
        patch_append(batch, 0, offset, 0)
        offset += int.from_bytes(batch[23:27], "big") + 1
    return b"".join(batches)


def _data(producer_id: int, count: int = 2, transactional: bool = True) -> bytearray:
    return build_batch(
        [(0, None, b"v", ())] * count,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=transactional,
    )


def _marker(kind: ControlType, producer_id: int) -> bytearray:
    return end_marker_batch(kind, producer_id, 0, 0, 0)


def _shown(log: bytes, aborted: list[tuple[int, int]]) -> list[int]:
    batch_filter = BatchFilter(aborted)
    return [header.base_offset for pos, header in iter_headers(log) if not batch_filter.skips(header, log, pos)]


def test_markers_are_never_shown() -> None:
    log = _log(_data(1), _marker(ControlType.COMMIT, 1), _data(2), _marker(ControlType.ABORT, 2))
    assert _shown(log, []) == [0, 3]


def test_a_producers_batches_are_skipped_from_its_first_aborted_offset_to_its_abort_marker() -> None:
    log = _log(
        _data(1),  # 0: committed
        _marker(ControlType.COMMIT, 1),  # 2
        _data(1),  # 3: aborted
        _data(2),  # 5: another producer's, committed
        _data(1),  # 7: aborted
        _marker(ControlType.COMMIT, 2),  # 9
        _marker(ControlType.ABORT, 1),  # 10
        _data(1),  # 11: the next transaction, committed
        _marker(ControlType.COMMIT, 1),  # 13
    )
    assert _shown(log, [(3, 1)]) == [0, 5, 11]


def test_two_aborted_transactions_of_one_producer_are_both_skipped() -> None:
    log = _log(_data(1), _marker(ControlType.ABORT, 1), _data(1), _marker(ControlType.ABORT, 1), _data(1))
    assert _shown(log, [(3, 1), (0, 1)]) == [6]


def test_a_fetch_may_begin_inside_an_aborted_transaction() -> None:
    log = _log(_data(1), _data(1), _marker(ControlType.ABORT, 1), _data(3, transactional=False))
    batches = list(iter_headers(log))
    batch_filter = BatchFilter([(0, 1)])
    assert [header.base_offset for pos, header in batches[1:] if not batch_filter.skips(header, log, pos)] == [5]


def test_batches_outside_transactions_are_shown_whoever_wrote_them() -> None:
    assert _shown(_log(_data(1, transactional=False), _data(-1, transactional=False)), [(0, 1)]) == [0, 2]


def test_a_marker_that_compaction_has_emptied_ends_nothing() -> None:
    emptied = _marker(ControlType.ABORT, 1)[:HEADER_SIZE]
    emptied[8:12] = (HEADER_SIZE - 12).to_bytes(4, "big")
    emptied[57:61] = bytes(4)
    write_crc(emptied, 0, len(emptied))
    assert _shown(_log(_data(1), emptied, _data(1), _data(2)), [(0, 1)]) == [5]
