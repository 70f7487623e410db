"""Images: the folder as a power cut may leave it, at any step of a recording.

What was synced before is there. Of what was written to a file since, a part is: the first so many writes, and of the
next one some bytes, or zeros where it should be, because a file's length may reach the disk before its contents. Names
(created, renamed, removed files) reach the disk in the order of the steps, as a journal writes them; all up to the last
one whose folder was synced, and some more. Changes of the catalog are on disk when they end; of the one that was being
made, the end of the write-ahead log may be.
"""

from __future__ import annotations

import random
from pathlib import Path, PurePath

from penstock.broker.foundation import CATALOG_FILE
from tests.images.recorder import (
    Commit,
    Create,
    Recording,
    Rename,
    Step,
    Sync,
    SyncFolder,
    Truncate,
    Unlink,
    Write,
    rename,
)

Names = Create | Rename | Unlink


class Images:
    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def write(self, folder: Path, end: int, chance: random.Random) -> None:
        """The folder after a power cut before step `end`."""
        steps = self._recording.steps[:end]
        contents = self._contents(steps, chance)
        for name, file in self._names(steps, chance).items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(contents[file])
        for name, data in self._catalog(end, chance).items():
            (folder / name).write_bytes(data)

    def _catalog(self, end: int, chance: random.Random) -> dict[str, bytes]:
        commits = [(at, step.files) for at, step in enumerate(self._recording.steps) if isinstance(step, Commit)]
        files = dict(next((files for at, files in reversed(commits) if at < end), self._recording.catalog))
        following = next((files for at, files in commits if at >= end), None)
        before, after = ({} if each is None else each for each in (files, following))
        log = CATALOG_FILE + "-wal"
        if len(after.get(log, b"")) > len(before.get(log, b"")) and after[CATALOG_FILE] == before[CATALOG_FILE]:
            written = bytearray(before.get(log, b""))
            at = len(written)
            _tear(written, Write(0, at, after[log][at:]), chance)
            files[log] = bytes(written)
        return files

    def _names(self, steps: list[Step], chance: random.Random) -> dict[str, int]:
        changes = [(at, step) for at, step in enumerate(steps) if isinstance(step, Names)]
        certain = 0
        for step in steps:
            if isinstance(step, SyncFolder):
                for number, (at, change) in enumerate(changes[certain:], certain + 1):
                    if at < step.before and _is_in(change, step):
                        certain = number
        names = dict(self._recording.files)
        for _, change in changes[: chance.randint(certain, len(changes))]:
            if isinstance(change, Create):
                names[change.path] = change.file
            elif isinstance(change, Rename):
                rename(names, change.path, change.target)
            else:
                names.pop(change.path, None)
        return names

    def _contents(self, steps: list[Step], chance: random.Random) -> dict[int, bytes]:
        of_file: dict[int, list[tuple[int, Write | Truncate]]] = {}
        synced: dict[int, int] = {}
        contents = {file: bytearray(data) for file, data in self._recording.contents.items()}
        for at, step in enumerate(steps):
            if isinstance(step, Create):
                contents[step.file] = bytearray()
            elif isinstance(step, Write | Truncate):
                of_file.setdefault(step.file, []).append((at, step))
            elif isinstance(step, Sync):
                synced[step.file] = step.before
        for file, changes in of_file.items():
            data = contents[file]
            certain = sum(at < synced.get(file, 0) for at, _ in changes)
            kept = chance.randint(certain, len(changes))
            for _, change in changes[:kept]:
                _apply(data, change)
            if kept < len(changes):
                _tear(data, changes[kept][1], chance)
        return {file: bytes(data) for file, data in contents.items()}


def _is_in(change: Names, synced: SyncFolder) -> bool:
    path = change.target if isinstance(change, Rename) else change.path
    parent = str(PurePath(path).parent)
    return parent == (synced.path or ".")


def _apply(data: bytearray, change: Write | Truncate) -> None:
    if isinstance(change, Truncate):
        data[change.size :] = bytes(max(0, change.size - len(data)))
        return
    if change.position > len(data):
        data += bytes(change.position - len(data))
    data[change.position : change.position + len(change.data)] = change.data


def _tear(data: bytearray, change: Write | Truncate, chance: random.Random) -> None:
    if isinstance(change, Truncate):
        return
    part = change.data[: chance.randrange(len(change.data) + 1)]
    if chance.random() < 0.3 and change.position + len(part) >= len(data):
        part = part + bytes(len(change.data) - len(part))
    _apply(data, Write(change.file, change.position, part))
