"""The history of leader epochs: at which offset each epoch began.

Consumers use it to notice that the log was truncated behind their back (KIP-320). Kept in Kafka's text file
`leader-epoch-checkpoint`: a line with version 0, a line with the number of entries, then "epoch startOffset" lines.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

from penstock.log.errors import StorageError
from penstock.log.files import write_file

UNDEFINED = (-1, -1)


class LeaderEpochs:
    __slots__ = ("_entries", "_is_held", "_path")

    def __init__(self, path: str | None) -> None:
        """Without a path the epochs are kept in memory only."""
        self._path = path
        self._is_held = False
        self._entries: list[tuple[int, int]] = _read(path) if path is not None else []

    @property
    def latest(self) -> int:
        """The newest epoch that has written something, -1 if none has."""
        return self._entries[-1][0] if self._entries else -1

    @property
    def entries(self) -> list[tuple[int, int]]:
        return list(self._entries)

    def assign(self, epoch: int, start_offset: int) -> None:
        """The first append under a new epoch: remember where it starts."""
        if epoch > self.latest:
            self._entries.append((epoch, start_offset))
            self._write()

    def epoch_at(self, offset: int) -> int:
        """The epoch that wrote `offset`, -1 if unknown."""
        slot = bisect_right(self._entries, offset, key=lambda entry: entry[1]) - 1
        return self._entries[slot][0] if slot >= 0 else -1

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(largest known epoch not above `epoch`, where it ends); (-1, -1) if nothing can be said (KIP-279)."""
        entries = self._entries
        if not entries or epoch == -1 or epoch > entries[-1][0]:
            return UNDEFINED
        if epoch == entries[-1][0]:
            return epoch, log_end_offset
        slot = bisect_right(entries, epoch, key=lambda entry: entry[0])
        return (entries[slot - 1][0] if slot else epoch), entries[slot][1]

    def truncate_end(self, end_offset: int) -> None:
        """Forget the epochs that began at or after a new log end."""
        kept = [entry for entry in self._entries if entry[1] < end_offset]
        if len(kept) != len(self._entries):
            self._entries = kept
            self._write()

    def truncate_start(self, start_offset: int) -> None:
        """Forget the epochs that ended before a new log start; the one that spans it begins there now.

        That a first epoch begins later is not worth a write: the log start offset says the same after a restart.
        """
        entries = self._entries
        first = bisect_right(entries, start_offset, key=lambda entry: entry[1]) - 1
        if first < 0 or (first == 0 and entries[0][1] == start_offset):
            return
        self._entries = [(entries[first][0], max(entries[first][1], start_offset)), *entries[first + 1 :]]
        if first:
            self._write()

    @contextmanager
    def written_once(self) -> Iterator[None]:
        """Write what has become of the history at the end, and only if it is not the one from before."""
        before, self._is_held = self._entries.copy(), True
        try:
            yield
        finally:
            self._is_held = False
        if self._entries != before:
            self._write()

    def _write(self) -> None:
        if self._path is None or self._is_held:
            return
        lines = ["0", str(len(self._entries)), *(f"{epoch} {start}" for epoch, start in self._entries), ""]
        try:
            write_file(self._path, "\n".join(lines).encode())
        except OSError as error:
            raise StorageError(f"cannot write {self._path}: {error.strerror}") from error


def _read(path: str) -> list[tuple[int, int]]:
    """The entries of the file; an unreadable one counts as empty, because recovery writes it anew from the batches."""
    try:
        with open(path, encoding="ascii") as file:
            lines = file.read().split("\n")
        if lines[0].strip() != "0":
            return []
        count = int(lines[1])
        entries = [(int(epoch), int(start)) for epoch, start in (line.split() for line in lines[2 : 2 + count])]
    except (FileNotFoundError, UnicodeDecodeError, ValueError, IndexError):
        return []
    ordered = len(entries) == count and all(a[0] < b[0] and a[1] <= b[1] for a, b in pairwise(entries))
    return entries if ordered else []
