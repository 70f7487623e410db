"""The disk of a simulated machine: real files in a folder, and the calls of the operating system that reach them.

The storage engine is the one of production. While a world runs, the functions of `os` with which it writes, syncs,
renames and reads are replaced: files below the folder of a `FileDisk` are its own, all others are left alone.

The page cache is the folder itself. What would survive a power cut is kept apart. Of a file that is what was synced; of
what was written since, a part, as chance decides: the first so many writes, and of the next one some bytes, or zeros in
their place, since the length of a file may reach the disk before its contents. Names reach the disk in the order of a
journal: all up to the last change in a folder that was synced, and some more.

A disk is slow, stands still, is full, refuses to be read, and fails to sync. After a failed sync the kernel has dropped
what it was to write: it is still to be read, until the power goes, and a later sync says that all is well. That a file
was made shorter is in the journal, and is kept.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from penstock.simulation.loop import SimulatedLoop
from penstock.simulation.strands import CannotWait, Wait

_SYNC_SECONDS = (0.0005, 0.012)
_STEP_SECONDS = (0.00005, 0.002)
_STALLED_SECONDS = 0.01
_TOTAL_BYTES = 1 << 40
_COLD = 0.02
"""How often what is read is not in memory."""
_CALLS = (
    "open",
    "close",
    "write",
    "pwrite",
    "ftruncate",
    "rename",
    "replace",
    "unlink",
    "mkdir",
    "fsync",
    "fdatasync",
    "pread",
    "preadv",
    "statvfs",
)


_Place = tuple[dict[str, Any], str, str]
"""The attributes of a module, one of them, and the call that it is."""

_kept: dict[str, list[_Place]] = {}
"""Some modules keep the function that they have chosen for this operating system: which do, by their names."""


class Synced(NamedTuple):
    """A file that was synced."""

    topic: str
    """Of whose log it is a part, or the file's name."""
    path: str


class _Write(NamedTuple):
    position: int
    data: bytes

    def apply(self, contents: bytearray) -> None:
        if self.position > len(contents):
            contents += bytes(self.position - len(contents))
        contents[self.position : self.position + len(self.data)] = self.data

    def torn(self, chance: random.Random, length: int) -> _Write:
        """A part of it, for a file that had some `length`: zeros may follow where there was nothing before."""
        part = self.data[: chance.randrange(len(self.data) + 1)]
        if chance.random() < 0.3 and self.position + len(part) >= length:
            part += bytes(len(self.data) - len(part))
        return _Write(self.position, part)


class _Truncate(NamedTuple):
    size: int

    def apply(self, contents: bytearray) -> None:
        contents[self.size :] = bytes(max(0, self.size - len(contents)))

    def torn(self, chance: random.Random, length: int) -> _Truncate | None:
        return None


class _File:
    def __init__(self, contents: bytes = b"") -> None:
        self.durable = bytearray(contents)
        self.pending: list[_Write | _Truncate] = []
        """Changes since the last sync."""

    def synced(self, count: int) -> None:
        for change in self.pending[:count]:
            change.apply(self.durable)
        del self.pending[:count]

    def after_power_cut(self, chance: random.Random, counts: Counter[str]) -> bytes:
        kept = chance.randint(0, len(self.pending))
        rest = self.pending[kept:]
        self.synced(kept)
        torn = rest[0].torn(chance, len(self.durable)) if rest else None
        if torn is not None:
            torn.apply(self.durable)
            counts["writes torn"] += 1
        counts["writes lost"] += len(rest)
        self.pending.clear()
        return bytes(self.durable)


class _Renamed(NamedTuple):
    """A file was created or renamed, a folder was renamed, or (without a target) a file was removed."""

    path: str | None
    target: str | None
    file: _File | None = None

    def apply(self, names: dict[str, _File]) -> None:
        if self.path is None:
            assert self.target is not None
            assert self.file is not None
            names[self.target] = self.file
        elif self.target is None:
            names.pop(self.path, None)
        elif self.path in names:
            names[self.target] = names.pop(self.path)
        else:
            inside = self.path + os.sep
            for name in [name for name in names if name.startswith(inside)]:
                names[self.target + os.sep + name.removeprefix(inside)] = names.pop(name)

    @property
    def folder(self) -> str:
        return os.path.dirname(self.target if self.target is not None else self.path or "")


class FileDisk:
    def __init__(self, loop: SimulatedLoop, chance: random.Random, folder: Path) -> None:
        self.folder = folder
        self.syncs = 0
        self.on_synced: Callable[[Synced], object] | None = None
        """Called with each file that has been synced, before anybody else hears of it."""
        self.is_stalled = False
        """While it is, no sync comes to its end."""
        self.is_full = False
        self.is_unreadable = False
        self.failing_syncs = 0
        """How many of the next syncs of segments fail."""
        self.counts: Counter[str] = Counter()
        """What happened to calls and to files, by kind."""
        self.boots = 1
        self._loop = loop
        self._chance = chance
        self._prefix = str(folder) + os.sep
        self._names: dict[str, _File] = {}
        self._durable_names: dict[str, _File] = {}
        self._journal: list[_Renamed] = []
        self._open: dict[int, _File | str] = {}
        """What a descriptor stands for: a file, or the path of a folder."""
        self._system: dict[str, Callable[..., Any]] = {name: getattr(os, name) for name in _CALLS}
        self._is_aside = False

    # -- what happens to it --------------------------------------------------------------------------------------------

    def power_cut(self) -> None:
        """What is in the folder now is what the disk has."""
        names = dict(self._durable_names)
        kept = self._chance.randint(0, len(self._journal))
        for change in self._journal[:kept]:
            change.apply(names)
        self.counts["names lost"] += len(self._journal) - kept
        with self._left_alone():
            for entry in list(os.scandir(self.folder)):
                shutil.rmtree(entry.path) if entry.is_dir() else os.unlink(entry.path)
            for name, file in names.items():
                path = self.folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(file.after_power_cut(self._chance, self.counts))
        self._names, self._durable_names = names, dict(names)
        self._journal.clear()
        self._open.clear()
        self.boots += 1

    def adopt(self, data: Path, is_left_out: Callable[[str], bool]) -> None:
        """Begin with the files of another folder, all of which are on the disk."""
        for path in sorted(data.rglob("*")):
            name = str(path.relative_to(data))
            if path.is_file() and not is_left_out(name):
                target = self.folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
                self._names[name] = self._durable_names[name] = _File(path.read_bytes())

    def rot(self, path: str, position: int) -> None:
        """One bit of a file flips, on the disk and in the page cache."""
        self.counts["bits rotten"] += 1
        file = self._names[path]
        if position < len(file.durable):
            file.durable[position] ^= 1
        for number, change in enumerate(file.pending):
            if isinstance(change, _Write) and change.position <= position < change.position + len(change.data):
                data = bytearray(change.data)
                data[position - change.position] ^= 1
                file.pending[number] = _Write(change.position, bytes(data))
        with self._left_alone(), open(self.folder / path, "r+b") as contents:
            contents.seek(position)
            [byte] = contents.read(1)
            contents.seek(position)
            contents.write(bytes([byte ^ 1]))

    def files(self) -> list[str]:
        """The paths of all files there are, relative to the folder."""
        return sorted(self._names)

    # -- calls ---------------------------------------------------------------------------------------------------------

    def open(self, path: Any, flags: int, *args: Any, dir_fd: int | None = None, **options: Any) -> int:
        name = self._relative(path, dir_fd)
        is_new = name is not None and bool(flags & os.O_CREAT) and name not in self._names
        if is_new and self.is_full:
            self._refuse("files refused", errno.ENOSPC)
        fd: int = self._system["open"](path, flags, *args, dir_fd=dir_fd, **options)
        self._open.pop(fd, None)
        if name is None:
            return fd
        if is_new:
            self._change(_Renamed(None, name, _File()))
        if name in self._names:
            self._open[fd] = self._names[name]
            if flags & os.O_TRUNC and not is_new:
                self._names[name].pending.append(_Truncate(0))
        else:
            self._open[fd] = name
        return fd

    def close(self, fd: int) -> None:
        self._open.pop(fd, None)
        self._system["close"](fd)

    def write(self, fd: int, data: Any) -> int:
        file = self._file(fd)
        if file is None:
            return int(self._system["write"](fd, data))
        return self._written(fd, file, bytes(data), os.lseek(fd, 0, os.SEEK_CUR), is_at_position=False)

    def pwrite(self, fd: int, data: Any, position: int) -> int:
        file = self._file(fd)
        if file is None:
            return int(self._system["pwrite"](fd, data, position))
        return self._written(fd, file, bytes(data), position, is_at_position=True)

    def _written(self, fd: int, file: _File, data: bytes, position: int, *, is_at_position: bool) -> int:
        if self.is_full and position + len(data) > os.fstat(fd).st_size:
            data = data[: self._chance.choice([0, 0, len(data) // 2])]
            if not data:
                self._refuse("writes refused", errno.ENOSPC)
            self.counts["writes cut short"] += 1
        call = self._system["pwrite"] if is_at_position else self._system["write"]
        written: int = call(fd, data, position) if is_at_position else call(fd, data)
        if written:
            file.pending.append(_Write(position, data[:written]))
        return written

    def ftruncate(self, fd: int, size: int) -> None:
        self._system["ftruncate"](fd, size)
        file = self._file(fd)
        if file is not None:
            file.pending.append(_Truncate(size))

    def rename(self, path: Any, target: Any, **options: Any) -> None:
        self._move("rename", path, target, options)

    def replace(self, path: Any, target: Any, **options: Any) -> None:
        self._move("replace", path, target, options)

    def _move(self, call: str, path: Any, target: Any, options: dict[str, Any]) -> None:
        name, new_name = self._relative(path, None), self._relative(target, None)
        if name is not None:
            self._step()
        self._system[call](path, target, **options)
        if name is not None and new_name is not None:
            self._change(_Renamed(name, new_name))

    def unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        name = self._relative(path, dir_fd)
        if name is not None:
            self._step()
        self._system["unlink"](path, dir_fd=dir_fd)
        if name is not None:
            self._change(_Renamed(name, None))

    def mkdir(self, path: Any, *args: Any, **options: Any) -> None:
        if self.is_full and self._relative(path, None) is not None and not os.path.isdir(path):
            self._refuse("files refused", errno.ENOSPC)
        self._system["mkdir"](path, *args, **options)

    def fsync(self, fd: int) -> None:
        self._sync(fd)

    def fdatasync(self, fd: int) -> None:
        self._sync(fd)

    def _sync(self, fd: int) -> None:
        """What is written while it runs need not be on disk when it ends."""
        known = self._open.get(fd)
        if known is None or self._is_aside:
            return
        count = len(known.pending) if isinstance(known, _File) else len(self._journal)
        journal = self._journal
        self._wait(_SYNC_SECONDS)
        while self.is_stalled and self._wait((_STALLED_SECONDS, 2 * _STALLED_SECONDS)):
            pass
        self.syncs += 1
        if isinstance(known, str):
            self._folder_synced(known, journal, count)
        elif self.failing_syncs > 0 and self._named(known).path.endswith(".log"):
            self.failing_syncs -= 1
            known.pending[:count] = [each for each in known.pending[:count] if isinstance(each, _Truncate)]
            self._refuse("syncs failed", errno.EIO)
        else:
            known.synced(count)
            if self.on_synced is not None:
                self.on_synced(self._named(known))

    def _folder_synced(self, folder: str, journal: list[_Renamed], count: int) -> None:
        if journal is not self._journal:
            return
        inside = [at for at, change in enumerate(journal[:count], 1) if change.folder == folder]
        certain = inside[-1] if inside else 0
        for change in journal[:certain]:
            change.apply(self._durable_names)
        del journal[:certain]

    def _named(self, file: _File) -> Synced:
        path = next((name for name, each in self._names.items() if each is file), "")
        return Synced((os.path.dirname(path) or path).rpartition("-")[0], path)

    def pread(self, fd: int, size: int, position: int) -> bytes:
        self._look(fd)
        return bytes(self._system["pread"](fd, size, position))

    def preadv(self, fd: int, buffers: Any, position: int, flags: int = 0) -> int:
        if self._file(fd) is not None and flags:
            if self._chance.random() < _COLD:
                self.counts["reads cold"] += 1
                raise BlockingIOError(errno.EAGAIN, "not in memory")
            return int(self._system["preadv"](fd, buffers, position))
        self._look(fd)
        return int(self._system["preadv"](fd, buffers, position, flags))

    def _look(self, fd: int) -> None:
        if self.is_unreadable and self._file(fd) is not None:
            self._refuse("reads refused", errno.EIO)

    def statvfs(self, path: Any) -> Any:
        if isinstance(path, int) or not f"{os.fspath(path)}{os.sep}".startswith(self._prefix):
            return self._system["statvfs"](path)
        blocks = _TOTAL_BYTES >> 12
        free = 0 if self.is_full else blocks // 2
        return os.statvfs_result((4096, 4096, blocks, free, free, 0, 0, 0, 0, 255))

    # -- inside --------------------------------------------------------------------------------------------------------

    def _relative(self, path: Any, dir_fd: int | None) -> str | None:
        if self._is_aside or not isinstance(path, str | os.PathLike):
            return None
        text = os.fspath(path)
        if dir_fd is not None:
            folder = self._open.get(dir_fd)
            return os.path.join(folder, text) if isinstance(folder, str) else None
        if text + os.sep == self._prefix:
            return ""
        return text.removeprefix(self._prefix) if text.startswith(self._prefix) else None

    def _file(self, fd: int) -> _File | None:
        known = self._open.get(fd)
        return known if isinstance(known, _File) and not self._is_aside else None

    def _change(self, change: _Renamed) -> None:
        change.apply(self._names)
        self._journal.append(change)

    def _refuse(self, counted: str, code: int) -> None:
        self.counts[counted] += 1
        raise OSError(code, os.strerror(code))

    def _step(self) -> None:
        """Between two steps of whoever changes names its process may be killed, or the power be cut."""
        self._wait(_STEP_SECONDS)

    def _wait(self, seconds: tuple[float, float]) -> bool:
        """Let time pass for the thread that waits. False if whoever calls is none."""
        try:
            wait = Wait(self._loop.strands)
        except CannotWait:
            return False
        wait.until_ended(self._chance.uniform(*seconds))
        return True

    @contextmanager
    def _left_alone(self) -> Iterator[None]:
        self._is_aside = True
        try:
            yield
        finally:
            self._is_aside = False

    # -- in place of the system's --------------------------------------------------------------------------------------

    def _kept_by(self, module: str) -> list[_Place]:
        names = {id(call): name for name, call in self._system.items()}
        attributes = vars(sys.modules[module])
        return [(attributes, each, names[id(value)]) for each, value in attributes.items() if id(value) in names]

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Until then the calls of this process go to the operating system."""
        places = [(vars(os), name, name) for name in _CALLS]
        for name in [each for each in sys.modules if each.startswith("penstock.")]:
            if name not in _kept:
                _kept[name] = self._kept_by(name)
            places += _kept[name]
        for owner, attribute, name in places:
            owner[attribute] = getattr(self, name)
        try:
            yield
        finally:
            for owner, attribute, name in places:
                owner[attribute] = self._system[name]
