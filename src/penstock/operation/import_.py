"""Brings a stopped broker's data folder into a new cluster: every segment becomes an object, the catalog's rows follow.

A folder of several brokers (`--brokers`) is one catalog and a folder of logs for each broker. A partition is taken from
the folder of the broker that owns it.

The objects come first. They are where nothing looks for them until PostgreSQL names them, which happens in one
transaction together with the whole catalog. So the cluster is there as a whole or not at all, and a command that was
killed is repeated: it finds the objects that are stored already by their keys. Which incarnation those keys have is
noted in the folder; that note is all that changes in it.

Groups, transactions (open ones too) and queues are records of internal topics, and come along with them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from penstock.broker.cluster_folder import EMBEDDED_CATALOG, check_embedded
from penstock.broker.foundation import BROKERS_FOLDER
from penstock.catalog.contract import Catalog, CatalogError, TopicRow, replaced_by
from penstock.catalog.postgres_session import Session
from penstock.catalog.postgres_whole import NewCluster, find_cluster, new_cluster
from penstock.catalog.sqlite import SqliteCatalog
from penstock.log.errors import StorageError
from penstock.log.files import FolderLock, write_file
from penstock.operation.folder import PartitionFiles, SegmentFiles, StoppedFolder
from penstock.storage.objects.address_claim import claim_address
from penstock.storage.objects.commit_log import NOBODY, Layout, PartitionKey, PartitionState, SegmentEntry
from penstock.storage.objects.key_space import KeySpace
from penstock.storage.objects.postgres_layouts import write_layouts
from penstock.storage.objects.store import ObjectStore
from penstock.wire.config_resources import ResourceType

IMPORT_FILE = "cluster-import.json"
RESOURCES = (ResourceType.BROKER, ResourceType.CLIENT_METRICS, ResourceType.GROUP)
_UPLOADS = 4

OnProgress = Callable[[int, int], object]


@dataclass(slots=True)
class Import:
    """What is brought over."""

    cluster_id: str
    topics: list[TopicRow]
    partitions: dict[PartitionKey, PartitionFiles] = field(default_factory=dict)
    acls: int = 0
    users: int = 0
    quotas: int = 0
    uploaded: int = 0
    """Objects that were not in the store already."""
    was_there: bool = False
    """Whether an earlier attempt had finished."""

    @property
    def bytes(self) -> int:
        return sum(each.size for each in self.partitions.values())

    @property
    def segments(self) -> int:
        return sum(len(each.segments) for each in self.partitions.values())


@contextmanager
def stopped_folder(data: Path) -> Iterator[tuple[Import, SqliteCatalog]]:
    """What a folder holds, under its locks. Raises CatalogError, StorageError or FolderInUse with what to do."""
    if not (data / EMBEDDED_CATALOG).exists() and not data.exists():
        raise StorageError(f"there is no folder {data}")
    with ExitStack() as undo:
        undo.callback(FolderLock(data).release)
        check_embedded(data)
        if not (data / EMBEDDED_CATALOG).exists():
            raise StorageError(f"{data} is not the data folder of a broker: it has no {EMBEDDED_CATALOG}")
        catalog = SqliteCatalog.open(data / EMBEDDED_CATALOG)
        undo.callback(catalog.close)
        if (data / BROKERS_FOLDER).is_dir():
            yield _survey(_FoldersOfSeveral(data, catalog, undo), catalog), catalog
        else:
            yield _survey(StoppedFolder(data), catalog), catalog


class _FoldersOfSeveral:
    """The folders of the brokers that share a data folder, as far as they have partitions."""

    def __init__(self, data: Path, catalog: SqliteCatalog, undo: ExitStack) -> None:
        """Locks each folder until `undo`: a broker may still be stopping after its supervisor was killed."""
        names = {topic.topic_id: topic.name for topic in catalog.topics()}
        self._data = data
        self._rows = {(names[row.topic_id], row.partition_index): row for row in catalog.partitions()}
        self._folders: dict[int, StoppedFolder] = {}
        for node_id in sorted({row.leader for row in self._rows.values()}):
            folder = data / BROKERS_FOLDER / str(node_id)
            if not folder.is_dir():
                raise StorageError(
                    f"{folder} is missing, and broker {node_id} has partitions: restore it from a backup"
                )
            undo.callback(FolderLock(folder).release)
            self._folders[node_id] = StoppedFolder(folder, f"broker {node_id} of {data}")

    def partition(self, topic: str, index: int) -> PartitionFiles:
        row = self._rows.get((topic, index))
        if row is None:
            raise StorageError(
                f"{topic}-{index} has no owner yet among the brokers of {self._data}: start them once more with "
                "--brokers, and stop them"
            )
        found = self._folders[row.leader].partition(topic, index)
        found.leader_epoch = max(found.leader_epoch, row.leader_epoch)
        return found


def _survey(folder: StoppedFolder | _FoldersOfSeveral, catalog: SqliteCatalog) -> Import:
    found = Import(catalog.cluster_id, catalog.topics())
    for topic in found.topics:
        for index in range(topic.partitions):
            found.partitions[PartitionKey(topic.topic_id, index)] = folder.partition(topic.name, index)
    found.acls = len(catalog.acls())
    found.users = len({row.user for row in catalog.credentials()})
    found.quotas = len(catalog.quotas())
    return found


def import_folder(
    data: Path, session: Session, store: ObjectStore, on_progress: OnProgress, *, dry_run: bool = False
) -> Import:
    """Raises CatalogError, StorageError or FolderInUse with what to do; then no cluster has come into being."""
    with stopped_folder(data) as (found, catalog):
        note = _Note(data, session, store)
        present = find_cluster(session)
        if present is not None and present == (found.cluster_id, note.incarnation) and not note.is_new:
            found.was_there = True
            note.finish()
            return found
        if present is not None:
            raise CatalogError(
                f"the schema {session.schema!r} at {session.shown} holds the cluster {present[0]}: name an empty "
                "schema (?schema=NAME), or remove that cluster first with DROP SCHEMA … CASCADE"
            )
        if dry_run:
            for partition in found.partitions.values():
                for segment in partition.segments:
                    segment.check()
            return found
        keys = KeySpace.of(found.cluster_id, note.incarnation, [])
        store.check(f"{keys.prefix}/check/import")
        claim_address(store, found.cluster_id)
        note.keep()
        layouts = _upload(found, store, keys, on_progress)
        _write(catalog, found, layouts, session, note.incarnation, store.shown)
        note.finish()
    return found


class _Note:
    """Which incarnation an attempt has chosen, so that the next one finds its objects. Another target, another one."""

    def __init__(self, data: Path, session: Session, store: ObjectStore) -> None:
        self._path = data / IMPORT_FILE
        self._target = {"cluster": session.shown, "store": store.shown}
        self.incarnation = os.urandom(6).hex()
        self.is_new = True
        try:
            read = json.loads(self._path.read_text())
        except (OSError, ValueError):
            return
        if {name: read.get(name) for name in self._target} == self._target and read.get("incarnation"):
            self.incarnation, self.is_new = read["incarnation"], False

    def keep(self) -> None:
        self._write(finished=False)

    def finish(self) -> None:
        self._write(finished=True)

    def _write(self, *, finished: bool) -> None:
        text = json.dumps({**self._target, "incarnation": self.incarnation, "finished": finished})
        write_file(str(self._path), text.encode(), sync=True)


def _upload(found: Import, store: ObjectStore, keys: KeySpace, on_progress: OnProgress) -> dict[PartitionKey, Layout]:
    below = f"{keys.prefix}/segment/import"
    stored = {each.key: each.size for each in store.list(below + "/")}
    layouts: dict[PartitionKey, Layout] = {}
    copies: list[tuple[SegmentFiles, str]] = []
    for key, partition in found.partitions.items():
        state = PartitionState(NOBODY, partition.leader_epoch, partition.log_start_offset, partition.end_offset)
        layout = layouts[key] = Layout(state, partition.epochs)
        for segment in partition.segments:
            entry = _entry(segment, f"{below}/{key.topic_id.hex()}-{key.partition}-{_name(segment)}")
            layout.segments.append(entry)
            copies.append((segment, entry.object_key))
    done, total = 0, found.bytes
    on_progress(0, total)
    with ThreadPoolExecutor(_UPLOADS, "penstock-import") as pool:
        try:
            for size, was_stored in pool.map(lambda each: _store(each[0], each[1], store, stored), copies):
                done += size
                found.uploaded += not was_stored
                on_progress(done, total)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    store.delete(sorted(stored.keys() - {key for _, key in copies}))  # of an attempt before the folder was used again
    return layouts


def _store(segment: SegmentFiles, key: str, store: ObjectStore, stored: dict[str, int]) -> tuple[int, bool]:
    segment.check()
    if stored.get(key) == segment.size:
        return segment.size, True
    store.put_stream(key, segment.size, segment.parts())
    return segment.size, False


def _name(segment: SegmentFiles) -> str:
    """Of the object. A file that was written to since has another."""
    return f"{segment.base_offset:020d}-{segment.end_offset}-{segment.modified_ns:x}"


def _entry(segment: SegmentFiles, key: str) -> SegmentEntry:
    return SegmentEntry(
        segment.base_offset, segment.end_offset, key, segment.log_size, *segment.sizes, *segment.timestamps()
    )


def _write(
    source: SqliteCatalog,
    found: Import,
    layouts: dict[PartitionKey, Layout],
    session: Session,
    incarnation: str,
    store: str,
) -> None:
    made = NewCluster(
        found.cluster_id,
        incarnation,
        source.secret(),
        source.next_producer_id(),
        source.features(),
        source.features_epoch(),
        store.rstrip("/"),
    )
    with new_cluster(session, made) as target:
        copy_catalog(source, target, found.topics)
        write_layouts(target.connection, layouts)


def copy_catalog(source: Catalog, target: Catalog, topics: list[TopicRow]) -> None:
    """All but features, ids and the secret."""
    for topic in topics:
        target.create_topic(topic.name, topic.topic_id, topic.partitions, topic.configs)
    for kind in RESOURCES:
        for name, configs in source.config_resources(kind).items():
            target.change_configs(kind, name, replaced_by(configs))
    target.change_acls(source.acls(), [])
    target.change_credentials(source.credentials(), [])
    target.change_quotas({entity: replaced_by(values) for entity, values in source.quotas().items()})
