"""Gives a folder that was taken over back to Apache Kafka.

Kafka starts from a snapshot of its metadata log. One is written that says what Penstock's catalog says now, and it ends
behind the log that Kafka has left: a controller that finds such a snapshot drops the older log and goes on from there.
Who the voters of the quorum are, and how the broker registered itself last, is taken from that older log.

Every step can be repeated. The catalog is set aside before Kafka's metadata log gets its name back, so that never both
can start on the folder.
"""

from __future__ import annotations

import struct
import uuid
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.adoption.image import FRAME_VERSION
from penstock.adoption.kafka_folder import AdoptionError, KafkaFolder, locked
from penstock.adoption.metadata_log import METADATA_FOLDER, MetadataEnd, UnreadableMetadata, read_end, read_image
from penstock.adoption.plan import CATALOG_FILE, SET_ASIDE
from penstock.broker.foundation import BROKERS_FOLDER
from penstock.catalog.contract import Catalog
from penstock.catalog.sqlite import SqliteCatalog
from penstock.log.files import sync_path, write_file
from penstock.log.leader_epochs import LeaderEpochs
from penstock.records.batch import CONTROL, write_crc
from penstock.records.builder import build_batch
from penstock.records.control import ControlType
from penstock.storage.checkpoint import LEADER_EPOCH
from penstock.wire import messages as m
from penstock.wire.codec import encode
from penstock.wire.config_resources import ResourceType

RELEASED_CATALOG = CATALOG_FILE + ".released"
_RECORDS_PER_BATCH = 500
_ATTRIBUTES = slice(21, 23)
_HAS_DIRECTORIES, _HAS_ELIGIBLE_LEADERS = 17, 23  # levels of metadata.version
_OWN_FEATURES = frozenset({"kraft.version"})  # kept in control records


@dataclass(frozen=True, slots=True)
class Released:
    topics: int
    partitions: int


def release(data: Path, now_ms: int) -> Released:
    """Make the folder Kafka's. Raises AdoptionError with what to do if that cannot be done."""
    if (data / BROKERS_FOLDER).is_dir():
        raise AdoptionError(f"{data} is the folder of several brokers (--brokers), which Apache Kafka cannot start on")
    folder = KafkaFolder.open(data)
    metadata = data / SET_ASIDE
    catalog_file = data / CATALOG_FILE
    if not catalog_file.exists():
        catalog_file = data / RELEASED_CATALOG
    if not catalog_file.exists() or not metadata.is_dir():
        raise AdoptionError(f"{data} was not taken over from Apache Kafka, or is Kafka's again already")
    with locked([folder]):
        if not folder.was_stopped_cleanly:
            raise AdoptionError(
                f"the broker on {data} was killed: start it once more and stop it with Ctrl-C or SIGTERM"
            )
        try:
            end = read_end(metadata)
            image = read_image(metadata)
        except UnreadableMetadata as error:
            raise AdoptionError(f"the metadata log that Kafka has left cannot be read: {error}") from error
        catalog = SqliteCatalog.open(catalog_file)
        try:
            topics = catalog.topics()
            features = image.features | {
                name: level for name, level in catalog.features().items() if name not in _OWN_FEATURES
            }
            registration = image.brokers.get(folder.node_id)
            records = list(_records(folder, catalog, features, registration))
        finally:
            catalog.close()
        _write_snapshot(metadata, end, records, now_ms)
        catalog_file.replace(data / RELEASED_CATALOG)
        metadata.rename(data / METADATA_FOLDER)
        sync_path(str(data))
    return Released(len(topics), sum(topic.partitions for topic in topics))


def _records(
    folder: KafkaFolder, catalog: Catalog, features: dict[str, int], registration: bytes | None
) -> Iterator[bytes]:
    """The cluster's metadata as records, in an order in which each rests on those before it."""
    level = features.pop("metadata.version")
    yield _framed(m.FeatureLevelRecord(name="metadata.version", feature_level=level))
    for name, feature_level in sorted(features.items()):
        yield _framed(m.FeatureLevelRecord(name=name, feature_level=feature_level))
    if registration is not None:
        yield registration
    yield from _topics(folder, catalog, level)
    for kind in (ResourceType.BROKER, ResourceType.CLIENT_METRICS, ResourceType.GROUP):
        for name, configs in catalog.config_resources(kind).items():
            yield from _configs(kind, name, configs)
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


def _topics(folder: KafkaFolder, catalog: Catalog, level: int) -> Iterator[bytes]:
    version = 2 if level >= _HAS_ELIGIBLE_LEADERS else 1 if level >= _HAS_DIRECTORIES else 0
    directory = urlsafe_b64decode(folder.directory_id + "==") if folder.directory_id else b""
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
                record.directories = [directory]
            yield _framed(record, version)
        yield from _configs(ResourceType.TOPIC, topic.name, topic.configs)


def _folder_epoch(data: Path) -> int:
    """No log of the folder was led under a higher epoch, but for what its own checkpoint says."""
    try:
        return int((data / LEADER_EPOCH).read_text())
    except (OSError, ValueError):
        return 0


def _configs(kind: ResourceType, resource: str, configs: dict[str, str]) -> Iterator[bytes]:
    for name, value in configs.items():
        yield _framed(m.ConfigRecord(resource_type=int(kind), resource_name=resource, name=name, value=value))


def _framed(record: m.Message, version: int = 0) -> bytes:
    return bytes((FRAME_VERSION, type(record).RECORD_TYPE, version)) + encode(record, version)


# -- the snapshot ------------------------------------------------------------------------------------------------------


def _write_snapshot(metadata: Path, end: MetadataEnd, records: list[bytes], now_ms: int) -> None:
    opening = [(_key(ControlType.SNAPSHOT_HEADER), struct.pack(">hqB", 0, now_ms, 0)), *end.quorum]
    batches = [_control(opening, 0, end.epoch, now_ms)]
    offset = len(opening)
    for first in range(0, len(records), _RECORDS_PER_BATCH):
        part = records[first : first + _RECORDS_PER_BATCH]
        batches.append(
            build_batch([(now_ms, None, value, []) for value in part], base_offset=offset, leader_epoch=end.epoch)
        )
        offset += len(part)
    closing = [(_key(ControlType.SNAPSHOT_FOOTER), struct.pack(">hB", 0, 0))]
    batches.append(_control(closing, offset, end.epoch, now_ms))
    name = f"{end.offset + 1:020d}-{end.epoch:010d}.checkpoint"
    write_file(str(metadata / name), b"".join(batches), sync=True)
    sync_path(str(metadata))


def _control(records: list[tuple[bytes, bytes]], offset: int, epoch: int, now_ms: int) -> bytearray:
    batch = build_batch([(now_ms, key, value, []) for key, value in records], base_offset=offset, leader_epoch=epoch)
    batch[_ATTRIBUTES] = struct.pack(">h", CONTROL)
    write_crc(batch, 0, len(batch))
    return batch


def _key(kind: ControlType) -> bytes:
    return struct.pack(">hh", 0, kind)
