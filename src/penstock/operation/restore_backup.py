"""Makes a data folder from a backup, which stays as it is.

The catalog gets its name last. Until then a mark says that the folder is not whole, and no broker starts on it; a
command that was killed is repeated and begins anew.

The clients have seen more than the backup holds, because the original went on after it. So the folder is left as a
power cut would leave it: its broker aborts open transactions and fences their producers, begins a new leader epoch in
every log, and consumers that had read further notice. Whatever counts up jumps ahead of what the original may have
reached meanwhile: leader epochs and producer ids.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from penstock import portable
from penstock.broker.cluster_folder import EMBEDDED_CATALOG, RESTORE_FILE
from penstock.broker.foundation import BROKERS_FOLDER
from penstock.catalog.identity import new_cluster_id
from penstock.catalog.sqlite import SqliteCatalog
from penstock.log.checkpoints import LOG_START_OFFSETS, RECOVERY_POINTS, write_checkpoint
from penstock.log.errors import FolderInUse, StorageError
from penstock.log.files import FolderLock, remove_if_there, sync_path, write_file
from penstock.log.folder import claim_folder
from penstock.log.leader_epochs import LeaderEpochs
from penstock.log.partition import LEADER_EPOCHS_FILE
from penstock.operation.backup_folder import (
    CATALOG,
    LOGS,
    OTHER,
    BrokerLogs,
    FileEntry,
    Manifest,
    OnProgress,
    check_space,
    copy_file,
    read_manifest,
    sync_folders,
)
from penstock.operation.make_backup import cluster_id_of
from penstock.operation.target_folder import claim_target
from penstock.storage.checkpoint import LEADER_EPOCH

LEADER_EPOCHS_AHEAD = 1000
_PRODUCER_IDS_AHEAD = 1_000_000
_RESTORING = EMBEDDED_CATALOG + ".restoring"


@dataclass(frozen=True, slots=True)
class Restored:
    manifest: Manifest
    cluster_id: str
    was_there: bool
    """Whether an earlier attempt had finished."""


def restore_backup(backup: Path, data: Path, on_progress: OnProgress, *, new_cluster: bool = False) -> Restored:
    """With `new_cluster` the copy gets a cluster id of its own. Raises StorageError, CatalogError or FolderInUse."""
    manifest = read_manifest(backup)
    if not new_cluster:
        _check_original(manifest)
    inside, outside = data.resolve(), backup.resolve()
    if inside == outside or outside in inside.parents:
        raise StorageError(f"{data} is inside of the backup {backup}, which must not change: name another folder")
    lock = claim_target(data, RESTORE_FILE, {"backup": str(outside)})
    try:
        if (data / EMBEDDED_CATALOG).exists():
            os.unlink(data / RESTORE_FILE)
            return Restored(manifest, cluster_id_of(data / EMBEDDED_CATALOG), was_there=True)
        check_space(data, manifest.bytes, portable.disk_space(data).usable_bytes)
        cluster_id = new_cluster_id() if new_cluster else manifest.cluster_id
        _Restoring(backup, data, manifest, on_progress).run(cluster_id)
        return Restored(manifest, cluster_id, was_there=False)
    except OSError as error:
        raise StorageError(f"cannot write to {data}: {error.strerror}; free some space, and repeat it") from error
    finally:
        lock.release()


def _check_original(manifest: Manifest) -> None:
    """That the broker whose copy this is does not run, as far as that can be seen from here."""
    original = Path(manifest.data)
    if manifest.host != portable.host_name() or not (original / EMBEDDED_CATALOG).exists():
        return
    try:
        FolderLock(original).release()
    except FolderInUse:
        if cluster_id_of(original / EMBEDDED_CATALOG) == manifest.cluster_id:
            raise StorageError(
                f"the broker whose backup this is runs on {original}, and clients would take the copy for it: stop it "
                "first, or give the copy an identity of its own with --new-cluster"
            ) from None
    except StorageError:
        return  # it belongs to another user; whether it runs cannot be told


class _Restoring:
    def __init__(self, backup: Path, data: Path, manifest: Manifest, on_progress: OnProgress) -> None:
        self._backup = backup
        self._data = data
        self._manifest = manifest
        self._on_progress = on_progress
        self._done = 0

    def run(self, cluster_id: str) -> None:
        data, manifest = self._data, self._manifest
        folders: dict[str, Path] = {}
        for broker in manifest.brokers:
            folder = data if broker.node_id is None else data / BROKERS_FOLDER / str(broker.node_id)
            folder.mkdir(parents=True, exist_ok=True)
            folders |= {log.folder: folder for log in broker.logs}
            for log in broker.logs:
                claim_folder(folder / log.folder, bytes.fromhex(log.topic_id))
                for name, size in log.files.items():
                    if not size:
                        (folder / log.folder / name).touch()
        for name, entry in manifest.files.items():
            kind, _, rest = name.partition("/")
            if kind == LOGS:
                self._copy(name, entry, folders[rest.partition("/")[0]] / rest)
            elif kind == OTHER:
                self._copy(name, entry, data / rest)
        for broker in manifest.brokers:
            self._write_state(broker, data if broker.node_id is None else data / BROKERS_FOLDER / str(broker.node_id))
        sync_folders(data)
        self._place_catalog(cluster_id)

    def _copy(self, name: str, entry: FileEntry, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        source = self._backup / name
        try:
            crc = copy_file(source, target, entry.size, self._advance)
        except FileNotFoundError as error:
            raise StorageError(f"{source} is missing: use another backup") from error
        if crc != entry.crc:
            raise StorageError(f"{source} is damaged: use another backup, and see 'penstock backup check'")
        if name.startswith(OTHER):
            os.chmod(target, os.stat(source).st_mode & 0o777)

    def _advance(self, count: int) -> None:
        self._done += count
        self._on_progress(self._done, self._manifest.bytes)

    def _write_state(self, broker: BrokerLogs, folder: Path) -> None:
        """What a broker remembers between runs, but no mark of a clean stop, and not which machine it ran on."""
        for log in broker.logs:
            epochs = LeaderEpochs(str(folder / log.folder / LEADER_EPOCHS_FILE))
            with epochs.written_once():
                for epoch, start in log.epochs:
                    epochs.assign(epoch, start)
        points = {(log.topic, log.partition): log.recovery_point for log in broker.logs}
        starts = {(log.topic, log.partition): log.log_start_offset for log in broker.logs if log.log_start_offset}
        write_checkpoint(folder / RECOVERY_POINTS, points)
        write_checkpoint(folder / LOG_START_OFFSETS, starts)
        latest = max([broker.leader_epoch, *(log.leader_epoch for log in broker.logs)])
        write_file(str(folder / LEADER_EPOCH), b"%d" % (latest + LEADER_EPOCHS_AHEAD), sync=True)

    def _place_catalog(self, cluster_id: str) -> None:
        data, entry = self._data, self._manifest.files[CATALOG]
        unfinished = data / _RESTORING
        self._copy(CATALOG, entry, unfinished)
        catalog = SqliteCatalog.open(unfinished)
        try:
            catalog.become(cluster_id, catalog.next_producer_id() + _PRODUCER_IDS_AHEAD)
        finally:
            catalog.close()
        for suffix in ("-wal", "-shm"):
            remove_if_there(f"{unfinished}{suffix}")
        sync_path(str(unfinished))
        unfinished.rename(data / EMBEDDED_CATALOG)
        sync_path(str(data))
        remove_if_there(str(data / RESTORE_FILE))
