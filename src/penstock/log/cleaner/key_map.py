"""Where the last record of each key is.

Besides answering for a single key, the map knows in the order of offsets which records of the mapped range survive.
Most batches of a dirty log are thereby settled by two binary searches and never decoded a second time: nothing of them
survives, or all of them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

from penstock.log.cleaner.keys import map_keys
from penstock.records.batch import DELETE_HORIZON, BatchHeader


class KeyMap:
    """Covers the offsets from `first_offset` to `latest_offset`. `complete` is called when it has been filled."""

    __slots__ = ("_survivors", "_with_tombstones", "first_offset", "latest_offset", "offsets")

    def __init__(self, first_offset: int) -> None:
        self.first_offset = first_offset
        self.latest_offset = first_offset - 1
        self.offsets: dict[bytes, int] = {}
        """Key (or its digest, if it is long) -> offset of its last record."""
        self._survivors: array[int] = array("q")
        self._with_tombstones: set[int] = set()

    def add(self, header: BatchHeader, section: bytes) -> None:
        """Take in the records of a batch, in the order of the log."""
        if map_keys(section, header.records_count, header.base_offset, self.first_offset, self.offsets):
            self._with_tombstones.add(header.base_offset)

    def complete(self) -> None:
        self._survivors = array("q", sorted(self.offsets.values()))

    def survivors(self, header: BatchHeader) -> array[int] | None:
        """Offsets of the batch's records that survive; None if the records must be looked at to tell.

        That is so outside the mapped range, and where tombstones need or have a delete horizon.
        """
        base_offset = header.base_offset
        if (
            base_offset < self.first_offset
            or header.last_offset > self.latest_offset
            or header.attributes & DELETE_HORIZON
            or base_offset in self._with_tombstones
        ):
            return None
        survivors = self._survivors
        start = bisect_left(survivors, base_offset)
        return survivors[start : bisect_right(survivors, header.last_offset, start)]
