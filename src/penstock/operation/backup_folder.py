"""The folder of a backup, and the manifest that makes it one.

    backup.json            the manifest: what the moment was, and the size and checksum of every file. Written last
    catalog                the catalog's SQLite file
    logs/TOPIC-PARTITION/  segments, producer snapshots
    other/                 what else was in the data folder, such as certificates

A folder without the manifest is not a backup, whatever is in it. A backup is no data folder either, and is never
changed: `restore` makes a data folder from it. So backups can share files with each other.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from penstock.broker.cluster_folder import BACKUP_MANIFEST
from penstock.log.errors import StorageError
from penstock.log.files import sync_path, write_file
from penstock.storage.moment import LogState

CATALOG = "catalog"
LOGS = "logs"
OTHER = "other"
UNFINISHED_FILE = "backup-unfinished"
"""In the folder of a backup that is being made, so that the command can be repeated after it was killed."""
FORMAT = 1

_CHUNK_BYTES = 1 << 20

OnProgress = Callable[[int, int], object]


class FileEntry(NamedTuple):
    size: int
    crc: int
    origin: str
    """Which file it was copied from, as the file system knew it: the same one again has the same contents."""


@dataclass(slots=True)
class BrokerLogs:
    """The logs of one broker; its node id where several share the data folder."""

    node_id: int | None
    leader_epoch: int
    logs: list[LogState] = field(default_factory=list)


@dataclass(slots=True)
class Manifest:
    version: str
    """Of Penstock."""
    time_ms: int
    cluster_id: str
    host: str
    data: str
    """The data folder on that host."""
    brokers: list[BrokerLogs]
    files: dict[str, FileEntry]

    @property
    def bytes(self) -> int:
        return sum(each.size for each in self.files.values())

    @property
    def partitions(self) -> int:
        return sum(len(each.logs) for each in self.brokers)

    def write(self, folder: Path) -> None:
        text = json.dumps(
            {
                "format": FORMAT,
                "version": self.version,
                "time_ms": self.time_ms,
                "cluster_id": self.cluster_id,
                "host": self.host,
                "data": self.data,
                "brokers": [
                    {
                        "node_id": each.node_id,
                        "leader_epoch": each.leader_epoch,
                        "logs": [log.to_json() for log in each.logs],
                    }
                    for each in self.brokers
                ],
                "files": self.files,
            }
        )
        write_file(str(folder / BACKUP_MANIFEST), text.encode(), sync=True)


def read_manifest(folder: Path) -> Manifest:
    """Raises StorageError with what to do."""
    try:
        found: dict[str, Any] = json.loads((folder / BACKUP_MANIFEST).read_text())
        if found["format"] > FORMAT:
            raise StorageError(
                f"the backup {folder} was made by Penstock {found['version']}, which is newer than this one: restore "
                "it with that version or a later one"
            )
        return Manifest(
            found["version"],
            found["time_ms"],
            found["cluster_id"],
            found["host"],
            found["data"],
            [
                BrokerLogs(each["node_id"], each["leader_epoch"], [LogState.from_json(log) for log in each["logs"]])
                for each in found["brokers"]
            ],
            {name: FileEntry(*entry) for name, entry in found["files"].items()},
        )
    except FileNotFoundError:
        if (folder / UNFINISHED_FILE).exists():
            raise StorageError(
                f"{folder} is a backup that was not finished: make it again, with the same command, or remove it"
            ) from None
        raise StorageError(f"{folder} is not a backup: it has no {BACKUP_MANIFEST}") from None
    except OSError as error:
        raise StorageError(f"cannot read {folder / BACKUP_MANIFEST}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise StorageError(f"{folder / BACKUP_MANIFEST} is damaged: use another backup") from error


def copy_file(source: Path, target: Path, size: int, on_bytes: Callable[[int], object]) -> int:
    """Copy the first `size` bytes, and have them on disk. Returns their checksum."""
    crc = left = 0
    left = size
    with open(source, "rb", buffering=0) as read, open(target, "xb", buffering=0) as written:
        while left:
            chunk = read.read(min(_CHUNK_BYTES, left))
            if not chunk:
                raise StorageError(f"{source} is shorter than it should be: {left} bytes are missing")
            view = memoryview(chunk)
            while view:
                view = view[written.write(view) :]
            crc = zlib.crc32(chunk, crc)
            left -= len(chunk)
            on_bytes(len(chunk))
        os.fsync(written.fileno())
    return crc


def checksum(path: Path, on_bytes: Callable[[int], object]) -> tuple[int, int]:
    """The size and checksum of a file."""
    crc = size = 0
    with open(path, "rb", buffering=0) as file:
        while chunk := file.read(_CHUNK_BYTES):
            crc = zlib.crc32(chunk, crc)
            size += len(chunk)
            on_bytes(len(chunk))
    return size, crc


def sync_folders(root: Path) -> None:
    for folder, _, _ in os.walk(root):
        sync_path(folder)


def check_space(folder: Path, needed: int, usable: int) -> None:
    """Raise StorageError if that many bytes, and a little for their names, will not fit."""
    wanted = needed + (needed >> 6)
    if wanted > usable:
        raise StorageError(
            f"{wanted:,} bytes are needed in {folder}, and {usable:,} are free there: name a folder on a larger disk, "
            "or free some space"
        )


def verify(folder: Path, on_progress: OnProgress) -> tuple[Manifest, list[str]]:
    """Read a whole backup. Returns what is wrong with it, file by file. Raises StorageError if it is none."""
    manifest = read_manifest(folder)
    damage = []
    done, total = 0, manifest.bytes

    def note(count: int) -> None:
        nonlocal done
        done += count
        on_progress(done, total)

    for name, entry in manifest.files.items():
        try:
            size, crc = checksum(folder / name, note)
        except OSError as error:
            damage.append(f"{name}: {error.strerror}")
            continue
        if size != entry.size:
            damage.append(f"{name}: has {size:,} bytes and should have {entry.size:,}")
        elif crc != entry.crc:
            damage.append(f"{name}: its contents are not what was copied")
    return manifest, damage
