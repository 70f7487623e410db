"""Gives a data folder to Apache Kafka: one that was taken over, or one that was Penstock's from the beginning.

Kafka starts from a snapshot of its metadata log. One is written that says what Penstock's catalog says now, and it ends
behind the log that Kafka has left: a controller that finds such a snapshot drops the older log and goes on from there.
Who the voters of the quorum are, and how the broker registered itself last, is taken from that older log. A folder that
Kafka never had gets a metadata log that begins with the snapshot, and its voters are those of `server.properties`.

Every step can be repeated. The catalog is set aside before Kafka's files get their names back, so that never both can
start on the folder.
"""

from __future__ import annotations

import shutil
import struct
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from penstock.adoption.adopt import ADOPTED_FROM
from penstock.adoption.image import FRAME_VERSION, UnknownMetadata
from penstock.adoption.kafka_folder import (
    CLEAN_SHUTDOWN,
    META_PROPERTIES,
    META_PROPERTIES_SET_ASIDE,
    AdoptionError,
    KafkaFolder,
    encoded_id,
    locked,
)
from penstock.adoption.metadata_log import METADATA_FOLDER, MetadataLog, UnreadableMetadata, read_metadata
from penstock.adoption.plan import CATALOG_FILE, SET_ASIDE
from penstock.broker.features import SUPPORTED
from penstock.broker.foundation import BACKUP_FOLDER, BROKERS_FOLDER
from penstock.catalog.contract import Catalog
from penstock.catalog.sqlite import SqliteCatalog
from penstock.log.files import sync_path, write_file
from penstock.log.leader_epochs import LeaderEpochs
from penstock.records.batch import CONTROL, write_crc
from penstock.records.builder import build_batch
from penstock.records.control import ControlType
from penstock.storage.checkpoint import LEADER_EPOCH
from penstock.wire import messages as m
from penstock.wire.codec import decode, encode
from penstock.wire.config_resources import ResourceType

RELEASED_CATALOG = CATALOG_FILE + ".released"
_UNFINISHED = ".releasing"
_OWN_CONFIGS = "penstock."
_RECORDS_PER_BATCH = 500
_ATTRIBUTES = slice(21, 23)
_HAS_DIRECTORIES, _HAS_ELIGIBLE_LEADERS = 17, 23  # levels of metadata.version
_OWN_FEATURES = frozenset({"kraft.version"})  # kept in control records


@dataclass(slots=True)
class Released:
    topics: int
    partitions: int
    node_id: int
    metadata: Path
    """The folder whose metadata log says what the cluster holds: the data folder, or that of a controller."""
    is_new: bool
    """Whether the folder was never Kafka's before."""
    notes: list[str] = field(default_factory=list)


def release(data: Path, now_ms: int, *, controller: Path | None = None, node_id: int = 1) -> Released:
    """Make the folder Kafka's. Raises AdoptionError with what to do if that cannot be done.

    `controller` is the metadata.log.dir of a controller apart from the folder, as given when it was taken over.
    `node_id` is that of a folder which was never Kafka's.
    """
    if (data / BROKERS_FOLDER).is_dir():
        raise AdoptionError(
            f"{data} is the folder of several brokers (--brokers), which Apache Kafka cannot start on: copy its topics "
            "to a Kafka that runs, with penstock mirror"
        )
    catalog_file = data / CATALOG_FILE
    if not catalog_file.exists():
        catalog_file = data / RELEASED_CATALOG
        if not catalog_file.exists():
            raise AdoptionError(f"{data} is not a data folder of Penstock: it has no {CATALOG_FILE}")
        if not (data / SET_ASIDE).is_dir() and not (data / META_PROPERTIES_SET_ASIDE).exists():
            raise AdoptionError(f"{data} is Kafka's already: start Kafka with log.dirs={data}")
    if controller is None:
        controller = _adopted_from(data)
    if controller is not None and not (controller / METADATA_FOLDER).is_dir():
        raise AdoptionError(
            f"{data} was taken over together with the metadata of the controller in {controller}, where there is none "
            "any more: name its metadata.log.dir with --metadata"
        )
    with locked([data] if controller is None else [data, controller]):
        shutil.rmtree(data / BACKUP_FOLDER, ignore_errors=True)  # of a backup whose command was killed
        if not (data / CLEAN_SHUTDOWN).exists():
            raise AdoptionError(
                f"the broker on {data} was killed: start it once more and stop it with Ctrl-C or SIGTERM"
            )
        catalog = SqliteCatalog.open(catalog_file)
        try:
            return _release(data, catalog, catalog_file, now_ms, controller, node_id)
        finally:
            catalog.close()


def _adopted_from(data: Path) -> Path | None:
    try:
        return Path((data / SET_ASIDE / ADOPTED_FROM).read_text())
    except FileNotFoundError:
        return None


def _release(
    data: Path, catalog: SqliteCatalog, catalog_file: Path, now_ms: int, controller: Path | None, node_id: int
) -> Released:
    topics = catalog.topics()
    metadata = data if controller is None else controller
    released = Released(len(topics), sum(topic.partitions for topic in topics), node_id, metadata, is_new=False)
    if not any((data / name).exists() for name in (META_PROPERTIES, META_PROPERTIES_SET_ASIDE)):
        released.is_new = True
        _make_metadata(data, catalog, node_id, now_ms, released.notes)
    folder = KafkaFolder.open(data)
    released.node_id = folder.node_id
    aside = data / SET_ASIDE
    if aside.is_dir() and not released.is_new:
        log_folder = aside if controller is None else controller / METADATA_FOLDER
        log = _read(log_folder, controller)
        if controller is None:
            _name_voter(log, folder)
        records = list(_records(folder, catalog, _features(log, catalog), log, released.notes))
        _write_snapshot(log_folder, log, records, now_ms)
    catalog_file.replace(data / RELEASED_CATALOG)
    if aside.is_dir() and controller is None:
        aside.rename(data / METADATA_FOLDER)
    sync_path(str(data))
    folder.let_kafka_in()
    shutil.rmtree(aside, ignore_errors=True)  # a copy of what the controller has
    return released


def _read(folder: Path, controller: Path | None) -> MetadataLog:
    try:
        return read_metadata(folder, was_stopped_cleanly=controller is None)
    except (UnreadableMetadata, UnknownMetadata) as error:
        raise AdoptionError(f"the metadata log that Kafka has left cannot be read: {error}") from error


def _make_metadata(data: Path, catalog: SqliteCatalog, node_id: int, now_ms: int, notes: list[str]) -> None:
    """What `kafka-storage format` would make, with the cluster's metadata as its first snapshot."""
    folder = KafkaFolder(data, catalog.cluster_id, node_id, encoded_id(uuid.uuid4().bytes))
    unfinished = data / (SET_ASIDE + _UNFINISHED)
    for path in (unfinished, data / SET_ASIDE):
        shutil.rmtree(path, ignore_errors=True)
    unfinished.mkdir()
    log = MetadataLog(epoch=1)
    log.image.features = {name: feature.initial for name, feature in SUPPORTED.items() if name not in _OWN_FEATURES}
    _write_snapshot(unfinished, log, list(_records(folder, catalog, _features(log, catalog), log, notes)), now_ms)
    unfinished.rename(data / SET_ASIDE)
    folder.write_meta_properties()


def _features(log: MetadataLog, catalog: Catalog) -> dict[str, int]:
    changed = {name: level for name, level in catalog.features().items() if name not in _OWN_FEATURES}
    return log.image.features | changed


def _name_voter(log: MetadataLog, folder: KafkaFolder) -> None:
    """The metadata log is in this folder now, and may have been in another one of the same broker before."""
    for key, value in log.quorum.items():
        if key != _key(ControlType.KRAFT_VOTERS):
            continue
        record = decode(m.VotersRecord, value, 0)
        for voter in record.voters:
            if voter.voter_id == folder.node_id:
                voter.voter_directory_id = folder.directory_bytes
        log.quorum[key] = encode(record, 0)


def _records(
    folder: KafkaFolder, catalog: Catalog, features: dict[str, int], log: MetadataLog, notes: list[str]
) -> Iterator[bytes]:
    """The cluster's metadata as records, in an order in which each rests on those before it."""
    level = features.pop("metadata.version")
    yield _framed(m.FeatureLevelRecord(name="metadata.version", feature_level=level))
    for name, feature_level in sorted(features.items()):
        yield _framed(m.FeatureLevelRecord(name=name, feature_level=feature_level))
    registration = log.image.brokers.get(folder.node_id)
    if registration is not None:
        yield registration
    yield from _topics(folder, catalog, level, notes)
    for kind in (ResourceType.BROKER, ResourceType.CLIENT_METRICS, ResourceType.GROUP):
        for name, configs in catalog.config_resources(kind).items():
            yield from _configs(kind, name, configs, notes)
    for rule in catalog.acls():
        yield _framed(
            m.AccessControlEntryRecord(
                id=uuid.uuid4().bytes,
                resource_type=int(rule.resource_type),
                resource_name=rule.resource_name,
                pattern_type=int(rule.pattern_type),
                principal=rule.principal,
                host=rule.host,
                operation=int(rule.operation),
                permission_type=int(rule.permission),
            )
        )
    for credential in catalog.credentials():
        yield _framed(
            m.UserScramCredentialRecord(
                name=credential.user,
                mechanism=credential.mechanism,
                salt=credential.salt,
                stored_key=credential.stored_key,
                server_key=credential.server_key,
                iterations=credential.iterations,
            )
        )
    for entity, limits in catalog.quotas().items():
        parts = [m.ClientQuotaRecord.EntityData(entity_type=kind, entity_name=of) for kind, of in entity]
        for key, value in limits.items():
            yield _framed(m.ClientQuotaRecord(entity=parts, key=key, value=value))
    next_id = catalog.allocate_producer_id_block().stop
    yield _framed(m.ProducerIdsRecord(broker_id=folder.node_id, broker_epoch=-1, next_producer_id=next_id))


def _topics(folder: KafkaFolder, catalog: Catalog, level: int, notes: list[str]) -> Iterator[bytes]:
    version = 2 if level >= _HAS_ELIGIBLE_LEADERS else 1 if level >= _HAS_DIRECTORIES else 0
    node = [folder.node_id]
    epoch = _folder_epoch(folder.path)
    for topic in catalog.topics():
        yield _framed(m.TopicRecord(name=topic.name, topic_id=topic.topic_id))
        for index in range(topic.partitions):
            checkpoint = folder.path / f"{topic.name}-{index}" / "leader-epoch-checkpoint"
            record = m.PartitionRecord(
                partition_id=index,
                topic_id=topic.topic_id,
                replicas=node,
                isr=node,
                leader=folder.node_id,
                leader_epoch=1 + max(epoch, LeaderEpochs(str(checkpoint)).latest),
                partition_epoch=0,
            )
            if version:
                record.directories = [folder.directory_bytes]
            yield _framed(record, version)
        yield from _configs(ResourceType.TOPIC, topic.name, topic.configs, notes)


def _folder_epoch(data: Path) -> int:
    """No log of the folder was led under a higher epoch, but for what its own checkpoint says."""
    try:
        return int((data / LEADER_EPOCH).read_text())
    except (OSError, ValueError):
        return 0


def _configs(kind: ResourceType, resource: str, configs: dict[str, str], notes: list[str]) -> Iterator[bytes]:
    for name, value in configs.items():
        if name.startswith(_OWN_CONFIGS):
            notes.append(f"{name}={value} of {kind.name.lower()} {resource!r} is left out: Kafka does not know it")
            continue
        yield _framed(m.ConfigRecord(resource_type=int(kind), resource_name=resource, name=name, value=value))


def _framed(record: m.Message, version: int = 0) -> bytes:
    return bytes((FRAME_VERSION, type(record).RECORD_TYPE, version)) + encode(record, version)


# -- the snapshot ------------------------------------------------------------------------------------------------------


def _write_snapshot(metadata: Path, log: MetadataLog, records: list[bytes], now_ms: int) -> None:
    opening = [(_key(ControlType.SNAPSHOT_HEADER), struct.pack(">hqB", 0, now_ms, 0)), *sorted(log.quorum.items())]
    batches = [_control(opening, 0, log.epoch, now_ms)]
    offset = len(opening)
    for first in range(0, len(records), _RECORDS_PER_BATCH):
        part = records[first : first + _RECORDS_PER_BATCH]
        batches.append(
            build_batch([(now_ms, None, value, []) for value in part], base_offset=offset, leader_epoch=log.epoch)
        )
        offset += len(part)
    closing = [(_key(ControlType.SNAPSHOT_FOOTER), struct.pack(">hB", 0, 0))]
    batches.append(_control(closing, offset, log.epoch, now_ms))
    name = f"{log.end_offset + 1:020d}-{log.epoch:010d}.checkpoint"
    write_file(str(metadata / name), b"".join(batches), sync=True)
    sync_path(str(metadata))


def _control(records: list[tuple[bytes, bytes]], offset: int, epoch: int, now_ms: int) -> bytearray:
    batch = build_batch([(now_ms, key, value, []) for key, value in records], base_offset=offset, leader_epoch=epoch)
    batch[_ATTRIBUTES] = struct.pack(">h", CONTROL)
    write_crc(batch, 0, len(batch))
    return batch


def _key(kind: ControlType) -> bytes:
    return struct.pack(">hh", 0, kind)
