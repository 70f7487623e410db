"""Open files, kept few and closed only when nobody reads from them any more, and reads that do not wait.

A segment's file is opened when it is first needed. A `SegmentFile` closes itself when its last holder lets it go, so a
slow `sendfile` or a running `fdatasync` keeps working while the segment behind it is deleted, compacted away or evicted
from the cache of open files: no lock and no bookkeeping of readers is needed.

The event loop must not wait for the disk. Once a storage has opened its logs, a read of bytes that are not in the page
cache raises `ColdRead` (`DiskReader`); a thread fetches them, and whoever wanted them tries again.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from penstock import guard, portable
from penstock.log.errors import ColdRead, FolderInUse, StorageError
from penstock.portable import OPEN_FLAGS, CannotTell

DEFAULT_OPEN_FILES_MAX = 512
DELETED_SUFFIX = ".deleted"

_FETCH_BYTES = 64 << 10
_FETCHED_BYTES_MAX = 4 << 20


class SegmentFile:
    """An open file descriptor that lives as long as someone holds this object."""

    __slots__ = ("fd",)

    def __init__(self, path: str, flags: int = os.O_RDWR) -> None:
        self.fd = -1
        self.fd = os.open(path, flags | OPEN_FLAGS, 0o644)

    def fileno(self) -> int:
        return self.fd

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)


class DiskReader:
    """Reads from files without waiting for the disk, unless `may_wait`.

    What a thread has fetched is kept until other fetches displace it: a reader that comes back gets it even if the
    kernel has dropped it in the meantime, so each attempt gets further than the one before.
    """

    __slots__ = ("_fetched", "_lock", "may_wait")

    def __init__(self) -> None:
        self.may_wait = True
        """As while logs are opened; and for ever on a file system that cannot tell what is in memory."""
        self._fetched: dict[tuple[int, ...], bytes] = {}
        self._lock = threading.Lock()

    def read(self, file: SegmentFile, size: int, position: int) -> bytes:
        """Read exactly `size` bytes, or fewer only where the file ends. Raises ColdRead."""
        if self.may_wait:
            return pread_all(file, size, position)
        buffer = bytearray(size)
        try:
            got = portable.read_cached(file.fd, buffer, position)
            while got < size:
                # The end of the file, or of what is in memory.
                more = portable.read_cached(file.fd, memoryview(buffer)[got:], position + got)
                if not more:
                    return bytes(buffer[:got])
                got += more
        except BlockingIOError:
            return self._fetched_bytes(file, size, position)
        except CannotTell:
            self.may_wait = True
            return pread_all(file, size, position)
        return bytes(buffer)

    def read_file(self, path: str) -> bytes:
        """Read a whole file. Raises OSError and ColdRead."""
        file = SegmentFile(path, os.O_RDONLY)
        return self.read(file, os.fstat(file.fd).st_size, 0)

    def _fetched_bytes(self, file: SegmentFile, size: int, position: int) -> bytes:
        status = os.fstat(file.fd)
        # The time of change is part of the key because another file may get the number of a deleted one.
        key = (status.st_dev, status.st_ino, status.st_ctime_ns, position, size)
        fetched = self._fetched.get(key)
        if fetched is not None:
            return fetched

        def fetch() -> None:
            data = pread_all(file, max(size, _FETCH_BYTES), position)[:size]
            with self._lock:
                self._fetched[key] = data
                while len(self._fetched) > 1 and sum(map(len, self._fetched.values())) > _FETCHED_BYTES_MAX:
                    del self._fetched[next(iter(self._fetched))]

        raise ColdRead(fetch)


class FileOwner(Protocol):
    """What the cache of open files needs to know of a segment."""

    file: SegmentFile | None
    file_used: bool


class Hold:
    """Keeps the files of all logs under their names, while a backup takes note of them.

    What would rename or remove a file meanwhile waits until the hold ends.
    """

    __slots__ = ("_waiting", "is_on")

    def __init__(self) -> None:
        self.is_on = False
        self._waiting: list[Callable[[], object]] = []

    def begin(self) -> None:
        self.is_on = True

    def run_afterwards(self, work: Callable[[], object]) -> None:
        self._waiting.append(work)

    def end(self) -> None:
        self.is_on = False
        waiting, self._waiting = self._waiting, []
        for work in waiting:
            guard.attempt("what had waited for a backup", work)


class OpenFiles:
    """Bounds how many segments keep their file open: the first one not used since the last look lets go of it."""

    __slots__ = ("_limit", "_owners", "hold", "reader")

    def __init__(self, limit: int = DEFAULT_OPEN_FILES_MAX) -> None:
        self.reader = DiskReader()
        self.hold = Hold()
        self._limit = limit
        self._owners: deque[FileOwner] = deque()

    def opened(self, owner: FileOwner) -> None:
        while len(self._owners) >= self._limit:
            candidate = self._owners.popleft()
            if candidate.file_used:
                candidate.file_used = False
                self._owners.append(candidate)
            else:
                candidate.file = None
        self._owners.append(owner)

    def forget(self, owner: FileOwner) -> None:
        if owner.file is not None:
            owner.file = None
            self._owners.remove(owner)

    def __len__(self) -> int:
        return len(self._owners)


class RetiredFiles:
    """Files that are out of use but stay for a while, because a reader may be about to open one by its name."""

    __slots__ = ("_hold", "_waiting")

    def __init__(self, hold: Hold) -> None:
        self._hold = hold
        self._waiting: list[tuple[int, str]] = []

    def add(self, paths: Sequence[str], due_ms: int) -> None:
        """Rename the files that exist, so that a restart knows to remove them."""
        if self._hold.is_on:
            self._hold.run_afterwards(partial(self.add, paths, due_ms))
            return
        for path in paths:
            try:
                os.rename(path, path + DELETED_SUFFIX)
            except FileNotFoundError:
                continue
            self._waiting.append((due_ms, path + DELETED_SUFFIX))

    def purge(self, now_ms: int) -> int:
        """Remove the files whose time has come. Returns how many."""
        due = [path for due_ms, path in self._waiting if due_ms <= now_ms]
        if due:
            self._waiting = [waiting for waiting in self._waiting if waiting[0] > now_ms]
        for path in due:
            remove_if_there(path)
        return len(due)


def write_file(path: str, data: bytes | bytearray | memoryview, *, sync: bool = False) -> None:
    """Replace a small file as a whole: a crash leaves the old one or the new one, never a mixture."""
    temporary = path + ".tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | OPEN_FLAGS, 0o644)
    try:
        write_all(fd, data)
        if sync:
            portable.datasync(fd)
    finally:
        os.close(fd)
    os.replace(temporary, path)
    if sync:
        portable.sync_folder(os.path.dirname(path) or ".")


def write_all(fd: int, data: bytes | bytearray | memoryview) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def pwrite_all(fd: int, data: bytes | bytearray | memoryview, position: int) -> None:
    """One `pwrite` in nearly all cases; the kernel may still take less than it was given."""
    written = portable.write_at(fd, data, position)
    if written != len(data):
        view = memoryview(data)
        while written < len(view):
            written += portable.write_at(fd, view[written:], position + written)


def pread_all(file: SegmentFile, size: int, position: int) -> bytes:
    """Read exactly `size` bytes, or fewer only where the file ends."""
    data = portable.read_at(file.fd, size, position)
    if len(data) == size or not data:
        return data
    parts = [data]
    got = len(data)
    while got < size:
        data = portable.read_at(file.fd, size - got, position + got)
        if not data:
            break
        parts.append(data)
        got += len(data)
    return b"".join(parts)


def sync_path(path: str) -> None:
    """Make a file's contents, or a folder's entries, survive a power cut."""
    if os.path.isdir(path):
        portable.sync_folder(path)
        return
    fd = os.open(path, os.O_RDWR | OPEN_FLAGS)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def remove_if_there(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def make_data_folder(folder: Path, mode: int = 0o777) -> None:
    """Create a data folder unless it is there. Raises StorageError with what to do."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=mode)
    except OSError as error:
        raise StorageError(
            f"cannot create the data folder {folder}: {error.strerror}; name another one with --data, or let the user "
            "who runs the broker write there"
        ) from error


class FolderLock:
    """An exclusive `flock` on a data folder: a second broker on the same data is refused, a crash releases it."""

    __slots__ = ("_fd", "path")

    def __init__(self, folder: Path) -> None:
        self.path = folder / ".lock"
        try:
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | OPEN_FLAGS, 0o644)
        except OSError as error:
            raise StorageError(
                f"cannot lock the data folder {folder} ({self.path.name}: {error.strerror}); it has to belong to the "
                "user who runs the broker"
            ) from error
        try:
            portable.lock_file(self._fd)
        except OSError as error:
            os.close(self._fd)
            self._fd = -1
            raise FolderInUse(f"{folder} is in use by another process (it holds the lock on {self.path})") from error

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
