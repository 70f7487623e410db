"""Records what a broker does to the files of a folder, so that the folder can be rebuilt as a power cut leaves it.

The calls of `os` with which the logs, their indexes and the checkpoints are written are replaced by ones that take note
of what they do. SQLite writes the catalog by itself, in C: what its files hold is noted after each change.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from penstock.broker.foundation import CATALOG_FILE
from penstock.catalog.sqlite import SqliteCatalog

if TYPE_CHECKING:
    import sqlite3

    from penstock.catalog.shared import Kind


class Create(NamedTuple):
    path: str
    file: int


class Write(NamedTuple):
    file: int
    position: int
    data: bytes


class Truncate(NamedTuple):
    file: int
    size: int


class Rename(NamedTuple):
    path: str
    target: str


class Unlink(NamedTuple):
    path: str


class Sync(NamedTuple):
    """The contents of a file are on disk, as far as they were written before a step."""

    file: int
    before: int


class SyncFolder(NamedTuple):
    """The names in a folder are on disk, as they were before a step."""

    path: str
    before: int


class Commit(NamedTuple):
    """A change of the catalog is on disk: what its files hold, by name."""

    files: dict[str, bytes]


Step = Create | Write | Truncate | Rename | Unlink | Sync | SyncFolder | Commit


class Recording:
    """What a folder was like at the beginning, and every step since."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: dict[str, int] = {}
        """The files of the beginning: by path, relative to the folder, with a number."""
        self.contents: dict[int, bytes] = {}
        self.steps: list[Step] = []
        self.catalog = self.catalog_now()
        for path in sorted(each for each in folder.rglob("*") if each.is_file() and CATALOG_FILE not in each.name):
            number = self.files[str(path.relative_to(folder))] = len(self.files)
            self.contents[number] = path.read_bytes()

    def catalog_now(self) -> dict[str, bytes]:
        """The database and its write-ahead log. What they share in memory is made anew."""
        paths = [self.folder / (CATALOG_FILE + suffix) for suffix in ("", "-wal")]
        return {path.name: path.read_bytes() for path in paths if path.exists()}


class _Recorder:
    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._prefix = str(recording.folder) + os.sep
        self._names = dict(recording.files)
        self._count = len(self._names)
        self._open: dict[int, int | str] = {}
        """What a descriptor stands for: a file, or a folder."""
        self._inodes: dict[int, int] = {}
        for name, number in self._names.items():
            self._inodes[os.stat(recording.folder / name).st_ino] = number
        self._lock = threading.Lock()
        self._saved: dict[str, Callable[..., Any]] = {}

    def _relative(self, path: object) -> str | None:
        text = os.fspath(path) if isinstance(path, str | os.PathLike) else ""
        if text + os.sep == self._prefix:
            return ""
        return text.removeprefix(self._prefix) if isinstance(text, str) and text.startswith(self._prefix) else None

    def _of(self, fd: int) -> int | None:
        """The file that a descriptor stands for; files that were open before are known by their inode."""
        known = self._open.get(fd)
        if isinstance(known, str):
            return None
        return known if known is not None else self._inodes.get(os.fstat(fd).st_ino)

    # -- the calls -----------------------------------------------------------------------------------------------------

    def open(self, path: Any, flags: int, *args: Any, **options: Any) -> int:
        name = self._relative(path)
        with self._lock:
            fd: int = self._saved["open"](path, flags, *args, **options)
            self._open.pop(fd, None)
            if name is None:
                return fd
            if os.path.isdir(path):
                self._open[fd] = name
            elif name in self._names:
                self._open[fd] = self._names[name]
                if flags & os.O_TRUNC:
                    self._recording.steps.append(Truncate(self._names[name], 0))
            elif flags & os.O_CREAT:
                number, self._count = self._count, self._count + 1
                self._names[name] = self._open[fd] = number
                self._inodes[os.fstat(fd).st_ino] = number
                self._recording.steps.append(Create(name, number))
            return fd

    def pwrite(self, fd: int, data: Any, position: int) -> int:
        with self._lock:
            written: int = self._saved["pwrite"](fd, data, position)
            file = self._of(fd)
            if file is not None:
                self._recording.steps.append(Write(file, position, bytes(data)[:written]))
            return written

    def write(self, fd: int, data: Any) -> int:
        with self._lock:
            file = self._of(fd) if fd in self._open else None
            position = os.lseek(fd, 0, os.SEEK_CUR) if file is not None else 0
            written: int = self._saved["write"](fd, data)
            if file is not None:
                self._recording.steps.append(Write(file, position, bytes(data)[:written]))
            return written

    def ftruncate(self, fd: int, size: int) -> None:
        with self._lock:
            self._saved["ftruncate"](fd, size)
            file = self._of(fd)
            if file is not None:
                self._recording.steps.append(Truncate(file, size))

    def truncate(self, path: Any, size: int) -> None:
        with self._lock:
            self._saved["truncate"](path, size)
            name = self._relative(path)
            if name is not None:
                self._recording.steps.append(Truncate(self._names[name], size))

    def rename(self, path: Any, target: Any, **options: Any) -> None:
        self._renamed("rename", path, target)

    def replace(self, path: Any, target: Any, **options: Any) -> None:
        self._renamed("replace", path, target)

    def _renamed(self, call: str, path: Any, target: Any) -> None:
        with self._lock:
            self._saved[call](path, target)
            name, new_name = self._relative(path), self._relative(target)
            if name is not None and new_name is not None:
                rename(self._names, name, new_name)
                self._recording.steps.append(Rename(name, new_name))

    def unlink(self, path: Any, **options: Any) -> None:
        with self._lock:
            self._saved["unlink"](path, **options)
            name = self._relative(path)
            if name is not None and not options:
                self._names.pop(name, None)
                self._recording.steps.append(Unlink(name))

    def fsync(self, fd: int) -> None:
        self._synced("fsync", fd)

    def fdatasync(self, fd: int) -> None:
        self._synced("fdatasync", fd)

    def _synced(self, call: str, fd: int) -> None:
        """What is written while it runs need not be on disk when it ends."""
        with self._lock:
            known = self._open.get(fd)
            file = self._of(fd)
            before = len(self._recording.steps)
        self._saved[call](fd)
        with self._lock:
            if isinstance(known, str):
                self._recording.steps.append(SyncFolder(known, before))
            elif file is not None:
                self._recording.steps.append(Sync(file, before))

    # -- the catalog ---------------------------------------------------------------------------------------------------

    def transaction(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """That of `SqliteCatalog`, which takes note of what it has left."""

        @contextmanager
        def transaction(catalog: SqliteCatalog, *kinds: Kind) -> Iterator[sqlite3.Connection]:
            with original(catalog, *kinds) as connection:
                yield connection
            with self._lock:
                self._recording.steps.append(Commit(self._recording.catalog_now()))

        return transaction

    # -- replacing them ------------------------------------------------------------------------------------------------

    CALLS = (
        "open",
        "pwrite",
        "write",
        "ftruncate",
        "truncate",
        "rename",
        "replace",
        "unlink",
        "fsync",
        "fdatasync",
    )

    @contextmanager
    def replaced(self) -> Iterator[None]:
        originals = {name: getattr(os, name) for name in self.CALLS}
        self._saved = originals
        # Some modules keep the function that they have chosen for this operating system.
        places = [(vars(os), name, name) for name in self.CALLS]
        for module in [each for name, each in sys.modules.items() if name.startswith("penstock.")]:
            for attribute, value in vars(module).items():
                places += [(vars(module), attribute, name) for name in self.CALLS if value is originals[name]]
        for owner, attribute, name in places:
            owner[attribute] = getattr(self, name)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SqliteCatalog, "_transaction", self.transaction(SqliteCatalog._transaction))
            try:
                yield
            finally:
                for owner, attribute, name in places:
                    owner[attribute] = originals[name]


def rename(names: dict[str, int], path: str, target: str) -> None:
    """Of a file, or of a folder with all that is in it."""
    if path in names:
        names[target] = names.pop(path)
        return
    inside = path + os.sep
    for name in [each for each in names if each.startswith(inside)]:
        names[target + os.sep + name.removeprefix(inside)] = names.pop(name)


@contextmanager
def recorded(folder: Path) -> Iterator[Recording]:
    """Take note of every step in a folder, by all threads of this process."""
    recording = Recording(folder)
    with _Recorder(recording).replaced():
        yield recording
