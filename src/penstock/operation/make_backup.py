"""Makes a backup of a data folder, whether its broker runs or not.

From a running broker it requests the files of one moment (`penstock.broker.backups`), and copies them at leisure. Of a
folder on which no broker runs it holds the lock, so that nothing changes.

An earlier backup saves most of the copying: a file that it has from the same origin gets a second name. The manifest is
written last, when everything is on disk; before that the folder is marked as unfinished, and is no backup.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from penstock import __version__, portable
from penstock.broker.cluster_folder import BACKUP_MANIFEST, CLUSTER_FILE, EMBEDDED_CATALOG, check_embedded
from penstock.broker.foundation import BACKUP_FOLDER, BROKERS_FOLDER
from penstock.catalog.contract import CatalogError
from penstock.catalog.sqlite import SqliteCatalog
from penstock.log.errors import FolderInUse, StorageError
from penstock.log.files import FolderLock
from penstock.operation.backup_folder import (
    CATALOG,
    LOGS,
    OTHER,
    UNFINISHED_FILE,
    BrokerLogs,
    FileEntry,
    Manifest,
    OnProgress,
    check_space,
    checksum,
    copy_file,
    read_manifest,
    sync_folders,
)
from penstock.storage.moment import (
    CATALOG_COPY,
    LOCK_FILE,
    LOGS_FOLDER,
    MOMENT_FILE,
    MOMENT_FOLDER,
    REQUEST_FILE,
    LogState,
    linked_path,
    stopped_moment,
)

ANSWER_SECONDS = 90.0
_LOOK_SECONDS = 0.05
_LOCK_SECONDS = 3.0
# Beside the logs: these are made anew at a restore, or belong to a running process.
_NOT_COPIED = frozenset({".lock", CLUSTER_FILE, BROKERS_FOLDER, BACKUP_FOLDER})


@dataclass(frozen=True, slots=True)
class Made:
    manifest: Manifest
    copied_bytes: int
    shared_bytes: int
    """Of files that an earlier backup has too."""
    was_running: bool


class _Source(NamedTuple):
    """Where the files of a moment are."""

    time_ms: int
    catalog: Path
    brokers: list[tuple[BrokerLogs, Path]]
    was_running: bool


def make_backup(data: Path, target: Path, since: Path | None, on_progress: OnProgress) -> Made:
    """Raises StorageError, CatalogError or FolderInUse with what to do; then there is no backup."""
    _check(data, target)
    earlier = read_manifest(since) if since is not None else None
    with _moment_of(data, target) as source:
        return _Copying(data, target, source, since, earlier, on_progress).run()


def _check(data: Path, target: Path) -> None:
    if not data.is_dir():
        raise StorageError(f"there is no data folder {data}: name it with --data")
    if (data / CLUSTER_FILE).exists():
        raise CatalogError(
            f"{data} belongs to a cluster whose catalog is in PostgreSQL: back up PostgreSQL, and with it the object "
            "store or the folder of the stopped broker"
        )
    if not (data / EMBEDDED_CATALOG).exists():
        check_embedded(data)
        raise StorageError(f"{data} is not the data folder of a broker: it has no {EMBEDDED_CATALOG}")
    inside, outside = target.resolve(), data.resolve()
    if inside == outside or outside in inside.parents:
        raise StorageError(
            f"{target} is inside of the data folder {data}: name a folder elsewhere, best on another disk"
        )
    try:
        target.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = {entry.name for entry in os.scandir(target)}
    except OSError as error:
        raise StorageError(f"cannot make the folder {target}: {error.strerror}") from error
    if BACKUP_MANIFEST in found:
        raise StorageError(f"{target} holds a backup already: name a folder that does not exist yet")
    if found and UNFINISHED_FILE not in found:
        raise StorageError(f"{target} is not empty: name a folder that does not exist yet")


@contextmanager
def _moment_of(data: Path, target: Path) -> Iterator[_Source]:
    try:
        lock = FolderLock(data)
    except FolderInUse:
        if (data / BROKERS_FOLDER).is_dir():
            raise StorageError(
                f"{data} is served by several brokers (--brokers), of which no single moment can be had while they "
                "run: stop them for the backup, or have the file system make a snapshot"
            ) from None
        with _running(data) as source:
            yield source
        return
    try:
        check_embedded(data)
        yield _stopped(data, target)
    finally:
        lock.release()


# -- a stopped broker --------------------------------------------------------------------------------------------------


def _stopped(data: Path, target: Path) -> _Source:
    folders: list[tuple[int | None, Path]] = [(None, data)]
    if (data / BROKERS_FOLDER).is_dir():
        folders = sorted((int(each.name), each) for each in (data / BROKERS_FOLDER).iterdir() if each.name.isdigit())
    brokers = []
    for node_id, folder in folders:
        leader_epoch, logs = stopped_moment(folder)
        brokers.append((BrokerLogs(node_id, leader_epoch, logs), folder))
    _begin(target)
    catalog = SqliteCatalog.open(data / EMBEDDED_CATALOG)
    try:
        pinned = catalog.pin()
        try:
            pinned.copy(target / CATALOG)
        finally:
            pinned.close()
    finally:
        catalog.close()
    return _Source(time.time_ns() // 1_000_000, target / CATALOG, brokers, was_running=False)


# -- a running broker --------------------------------------------------------------------------------------------------


@contextmanager
def _running(data: Path) -> Iterator[_Source]:
    folder = data / BACKUP_FOLDER
    lock = _lock(folder)
    try:
        shutil.rmtree(folder / MOMENT_FOLDER, ignore_errors=True)
        answer = _request(data, folder)
        if "failure" in answer:
            raise StorageError(f"the broker could not make a backup: {answer['failure']}")
        logs = [LogState.from_json(each) for each in answer["logs"]]
        moment = folder / MOMENT_FOLDER
        broker = BrokerLogs(None, answer["leader_epoch"], logs)
        yield _Source(answer["time_ms"], moment / CATALOG_COPY, [(broker, moment / LOGS_FOLDER)], was_running=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _lock(folder: Path) -> int:
    """Lock the folder of a backup. Nobody else makes one at the same time."""
    until = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            folder.mkdir(exist_ok=True, mode=0o700)
            lock = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | portable.OPEN_FLAGS, 0o600)
        except FileNotFoundError:
            continue  # the broker has removed what another command had left
        except OSError as error:
            raise StorageError(
                f"cannot write to {folder}: {error.strerror}; run this as the user who runs the broker"
            ) from error
        with suppress(OSError):
            portable.lock_file(lock)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(lock), os.stat(folder / LOCK_FILE)):
                    return lock
        os.close(lock)
        if time.monotonic() > until:
            raise StorageError(f"another backup of {folder.parent} is being made: wait until it has ended")
        time.sleep(_LOOK_SECONDS)


def _request(data: Path, folder: Path) -> dict[str, Any]:
    name = uuid.uuid4().hex
    unfinished = folder / f"{REQUEST_FILE}.tmp"
    unfinished.write_text(name)
    unfinished.rename(folder / REQUEST_FILE)
    until = time.monotonic() + ANSWER_SECONDS
    while time.monotonic() < until:
        try:
            answer: dict[str, Any] = json.loads((folder / MOMENT_FOLDER / MOMENT_FILE).read_text())
        except FileNotFoundError:
            time.sleep(_LOOK_SECONDS)
            continue
        if answer["request"] == name:
            return answer
        time.sleep(_LOOK_SECONDS)
    raise StorageError(
        f"the broker on {data} has not answered for {ANSWER_SECONDS:.0f} seconds: see its log, and whether it is of a "
        "version that knows backups"
    )


# -- copying -----------------------------------------------------------------------------------------------------------


def _begin(target: Path) -> None:
    """Mark the folder as one that is being written, and empty it if an earlier attempt has left something."""
    mark = target / UNFINISHED_FILE
    mark.touch()
    for entry in list(os.scandir(target)):
        if entry.name == UNFINISHED_FILE:
            continue
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)


class _Copying:
    def __init__(
        self,
        data: Path,
        target: Path,
        source: _Source,
        since: Path | None,
        earlier: Manifest | None,
        on_progress: OnProgress,
    ) -> None:
        self._data = data
        self._target = target
        self._source = source
        self._since = since
        self._earlier = earlier.files if earlier is not None else {}
        self._on_progress = on_progress
        self._files: dict[str, FileEntry] = {}
        self._done = self._total = self._copied = self._shared = 0

    def run(self) -> Made:
        target, source = self._target, self._source
        try:
            if source.was_running:
                _begin(target)
            wanted = list(self._wanted())
            self._check_space(wanted)
            for name, path, size in wanted:
                self._copy(name, path, size)
            manifest = self._manifest()
            sync_folders(target)
            manifest.write(target)
            os.unlink(target / UNFINISHED_FILE)
        except OSError as error:
            raise StorageError(
                f"cannot write the backup {target}: {error.strerror} ({error.filename}); it is no backup yet: free some "
                "space or name another folder, and make it again"
            ) from error
        return Made(manifest, self._copied, self._shared, source.was_running)

    def _wanted(self) -> Iterator[tuple[str, Path, int]]:
        """The name in the backup, the file to copy, and how much of it."""
        is_linked = self._source.was_running
        if is_linked:
            yield CATALOG, self._source.catalog, self._source.catalog.stat().st_size
        for broker, folder in self._source.brokers:
            for log in broker.logs:
                for name, size in log.files.items():
                    if size:  # the others are made from the manifest
                        path = linked_path(folder, log.folder, name) if is_linked else folder / log.folder / name
                        yield f"{LOGS}/{log.folder}/{name}", path, size
        for path in self._others():
            yield f"{OTHER}/{path.relative_to(self._data).as_posix()}", path, path.stat().st_size

    def _others(self) -> Iterator[Path]:
        """What is in the data folder besides: certificates that `serve --secure` has made, Kafka's metadata log."""
        for entry in sorted(self._data.iterdir()):
            name = entry.name
            if (
                name in _NOT_COPIED
                or name.startswith(EMBEDDED_CATALOG)
                or name.startswith((".penstock", ".kafka", "cluster-"))
            ):
                continue
            if name.endswith(("-checkpoint", ".tmp", "-stray", "-delete", ".adopted")) and name not in _KEPT:
                continue
            if entry.is_dir() and not _is_log(name):
                yield from (each for each in sorted(entry.rglob("*")) if each.is_file())
            elif entry.is_file():
                yield entry

    def _check_space(self, wanted: list[tuple[str, Path, int]]) -> None:
        self._total = sum(size for _, _, size in wanted)
        needed = sum(size for name, path, size in wanted if self._known(name, path, size) is None)
        check_space(self._target, needed, portable.disk_space(self._target).usable_bytes)

    def _known(self, name: str, path: Path, size: int) -> FileEntry | None:
        """The same file in the earlier backup."""
        entry = self._earlier.get(name)
        return entry if entry is not None and entry.size == size and entry.origin == _origin(path) else None

    def _copy(self, name: str, path: Path, size: int) -> None:
        into = self._target / name
        into.parent.mkdir(parents=True, exist_ok=True)
        known = self._known(name, path, size)
        if known is not None and self._link_earlier(name, into):
            self._files[name] = known
            self._shared += size
            self._advance(size)
            return
        # Looked at before it is copied: a file that is appended to meanwhile is another one the next time.
        origin = _origin(path)
        self._files[name] = FileEntry(size, copy_file(path, into, size, self._advance), origin)
        self._copied += size

    def _link_earlier(self, name: str, into: Path) -> bool:
        assert self._since is not None
        try:
            os.link(self._since / name, into)
        except OSError:  # the earlier backup is on another file system, or that has no hard links
            return False
        return True

    def _advance(self, count: int) -> None:
        self._done += count
        self._on_progress(self._done, self._total)

    def _manifest(self) -> Manifest:
        catalog = self._target / CATALOG
        if CATALOG not in self._files:
            size, crc = checksum(catalog, lambda count: None)
            self._files[CATALOG] = FileEntry(size, crc, "")
        return Manifest(
            __version__,
            self._source.time_ms,
            cluster_id_of(catalog),
            portable.host_name(),
            str(self._data.resolve()),
            [broker for broker, _ in self._source.brokers],
            self._files,
        )


_KEPT = frozenset({"meta.properties.adopted"})


def _is_log(name: str) -> bool:
    topic, dash, index = name.rpartition("-")
    return bool(topic and dash) and index.isdigit()


def _origin(path: Path) -> str:
    """What tells a file from any other that had its name: one that compaction has put in its place is another one."""
    status = os.stat(path)
    return f"{status.st_ino}:{status.st_mtime_ns}"


def cluster_id_of(catalog: Path) -> str:
    """Reads the copy of a catalog without changing it."""
    import sqlite3

    try:
        connection = sqlite3.connect(f"file:{catalog}?mode=ro", uri=True)
        try:
            return str(connection.execute("SELECT cluster_id FROM cluster").fetchone()[0])
        finally:
            connection.close()
    except (sqlite3.Error, TypeError) as error:
        raise CatalogError(f"cannot read the catalog {catalog}: {error}") from error
