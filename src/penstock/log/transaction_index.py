"""The aborted transactions of a segment, which a `read_committed` fetch sends along with the data.

An entry is written when an ABORT marker closes a transaction that has data, into the segment that holds the marker. On
disk (`.txnindex`) it is 34 bytes: int16 version 0, int64 producer id, int64 first offset of the transaction, int64
offset of the marker, int64 last stable offset once the transaction was closed. Entries are in order of their markers.
"""

from __future__ import annotations

import os
import struct
from typing import NamedTuple

from penstock import portable
from penstock.log.files import DiskReader, write_all
from penstock.portable import OPEN_FLAGS

_ENTRY = struct.Struct(">hqqqq")
ENTRY_SIZE = _ENTRY.size


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    """The offset of the ABORT marker."""
    last_stable_offset: int


class TransactionIndex:
    """Written through at once: aborts are rare, and a fetch must never miss one.

    A full disk does not lose an entry: it stays in memory and is written with the next one or at `save`, and a log
    whose `save` fails is not closed properly, so the next start makes the index anew.
    """

    __slots__ = ("_entries", "_reader", "_saved", "_synced", "path")

    def __init__(
        self, path: str, entries: list[AbortedTransaction] | None = None, reader: DiskReader | None = None
    ) -> None:
        self.path = path
        self._reader = reader if reader is not None else DiskReader()
        self._entries = entries
        self._saved = self._synced = len(entries) if entries is not None else 0

    @classmethod
    def rebuilt(cls, path: str, entries: list[AbortedTransaction]) -> TransactionIndex:
        """An index in the place of what is in the file. The file stays, even empty: it marks a cleaned segment."""
        if os.path.exists(path):
            os.truncate(path, 0)
        index = cls(path, [])
        index._entries = entries
        index.save()
        return index

    @property
    def may_have_entries(self) -> bool:
        """False if it is known to be empty. Reads nothing."""
        return self._entries is None or bool(self._entries)

    @property
    def entries(self) -> list[AbortedTransaction]:
        """Read from the file when they are first needed. Raises ColdRead."""
        return self.load()

    def load(self) -> list[AbortedTransaction]:
        """Have the entries in memory, so that `append` reads nothing."""
        if self._entries is None:
            self._entries = read_transaction_index(self.path, self._reader)
            self._saved = self._synced = len(self._entries)
        return self._entries

    def append(self, aborted: AbortedTransaction) -> None:
        self.entries.append(aborted)
        try:
            self.save()
        except OSError:
            return

    def save(self, *, sync: bool = False) -> None:
        """Write the entries that are not in the file yet."""
        entries = self._entries
        count = len(entries) if entries is not None else 0
        if entries is None or self._synced == count or (self._saved == count and not sync):
            return
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | OPEN_FLAGS, 0o644)
        try:
            os.lseek(fd, self._saved * ENTRY_SIZE, os.SEEK_SET)
            write_all(fd, transaction_index_bytes(entries[self._saved : count]))
            self._saved = count
            if sync:
                portable.datasync(fd)
                self._synced = count
        finally:
            os.close(fd)

    @property
    def is_saved(self) -> bool:
        """Whether a killed process would leave every entry in the file."""
        return self._entries is None or self._saved == len(self._entries)

    @property
    def is_synced(self) -> bool:
        """Whether every entry would survive a power cut."""
        return self._entries is None or self._synced == len(self._entries)

    def collect(self, fetch_offset: int, upper_offset: int, found: list[AbortedTransaction]) -> bool:
        """Add the transactions that overlap [fetch_offset, upper_offset). True if later segments can hold no more."""
        for aborted in self.entries:
            if aborted.last_offset >= fetch_offset and aborted.first_offset < upper_offset:
                found.append(aborted)
            if aborted.last_stable_offset >= upper_offset:
                return True
        return False


def read_transaction_index(path: str, reader: DiskReader | None = None) -> list[AbortedTransaction]:
    """The whole entries of a file in order; a torn or senseless tail is left out."""
    try:
        data = (reader if reader is not None else DiskReader()).read_file(path)
    except FileNotFoundError:
        return []
    entries: list[AbortedTransaction] = []
    for position in range(0, len(data) - ENTRY_SIZE + 1, ENTRY_SIZE):
        version, *values = _ENTRY.unpack_from(data, position)
        entry = AbortedTransaction(*values)
        if version != 0 or entry.last_offset < entry.first_offset:
            break
        if entries and entry.last_offset <= entries[-1].last_offset:
            break
        entries.append(entry)
    return entries


def transaction_index_bytes(entries: list[AbortedTransaction]) -> bytes:
    return b"".join([_ENTRY.pack(0, *entry) for entry in entries])
