"""Which batches a reader of committed records must skip.

A fetch with `read_committed` comes with a list of aborted transactions (first offset, producer id) that reach into the
bytes returned. A producer's batches are aborted from its first offset on until its ABORT marker; markers themselves are
never shown. The batches must be asked about in the order of their offsets.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.records.batch import BatchHeader, Buffer
from penstock.records.control import ControlType, parse_control
from penstock.records.record import decode_records


class BatchFilter:
    """Tells batches to show from batches to skip. Without aborted transactions it skips control batches only."""

    __slots__ = ("_aborting", "_pending")

    def __init__(self, aborted: Iterable[tuple[int, int]] = ()) -> None:
        self._pending = sorted(aborted, reverse=True)
        self._aborting: set[int] = set()

    def skips(self, header: BatchHeader, buf: Buffer, pos: int) -> bool:
        """Whether the batch at `pos` holds nothing for the reader."""
        while self._pending and self._pending[-1][0] <= header.last_offset:
            self._aborting.add(self._pending.pop()[1])
        if header.is_control:
            if header.producer_id in self._aborting and _is_abort_marker(header, buf, pos):
                self._aborting.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._aborting


def _is_abort_marker(header: BatchHeader, buf: Buffer, pos: int) -> bool:
    records = decode_records(buf, pos, header)
    return bool(records) and parse_control(records[0]).kind is ControlType.ABORT
