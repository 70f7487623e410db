"""What Apache Kafka's metadata log says: topics, partitions, configs, features, rules, users, quotas.

`MetadataImage` is built by applying the log's records in order, as a KRaft broker builds its own. Records of kinds that
do not matter to a single broker (who was fenced, which controller was registered) are passed over. A record of a kind
that nobody here knows, or of a version that came later, is an `UnknownMetadata`: what it means cannot be guessed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from penstock.security.acls import AclBinding
from penstock.security.quotas import QuotaEntity
from penstock.wire import messages as m
from penstock.wire.acls import AclOperation, AclPermission, AclResource, PatternType
from penstock.wire.codec import decode
from penstock.wire.config_resources import ResourceType

FRAME_VERSION = 1

# Kinds that change nothing that is kept here: leases of brokers, controllers, delegation tokens that run out by
# themselves, the migration from ZooKeeper, and replicas that were eligible to lead.
_PASSED_OVER = frozenset({1, 7, 8, 10, 17, 20, 21, 26, 27, 28})
_REGISTER_BROKER = 0


class UnknownMetadata(Exception):
    """The metadata log holds what this version of Penstock does not understand."""


@dataclass(slots=True)
class PartitionImage:
    replicas: list[int]
    isr: list[int]
    eligible: list[int]
    """Replicas that have left the in-sync ones without being behind, as in a controlled shutdown (KIP-966)."""
    leader: int
    leader_epoch: int


@dataclass(slots=True)
class TopicImage:
    name: str
    topic_id: bytes
    partitions: dict[int, PartitionImage] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Credential:
    user: str
    mechanism: int
    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes


@dataclass(slots=True)
class MetadataImage:
    features: dict[str, int] = field(default_factory=dict)
    topics: dict[bytes, TopicImage] = field(default_factory=dict)
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    acls: dict[bytes, AclBinding] = field(default_factory=dict)
    credentials: dict[tuple[str, int], Credential] = field(default_factory=dict)
    quotas: dict[QuotaEntity, dict[str, float]] = field(default_factory=dict)
    next_producer_id: int = 0
    brokers: dict[int, bytes] = field(default_factory=dict)
    """The latest registration record of each broker, as it is in the log."""
    _transaction: list[bytes] | None = None

    def apply(self, value: bytes) -> None:
        """Apply one record of the log. Records inside a metadata transaction count when it ends (KIP-868)."""
        kind, version, body = _split(value)
        if kind == m.BeginTransactionRecord.RECORD_TYPE:
            self._transaction = []
        elif kind == m.AbortTransactionRecord.RECORD_TYPE:
            self._transaction = None
        elif kind == m.EndTransactionRecord.RECORD_TYPE:
            records, self._transaction = self._transaction or [], None
            for record in records:
                self.apply(record)
        elif self._transaction is not None:
            self._transaction.append(value)
        elif kind == _REGISTER_BROKER:
            self.brokers[decode_registration(value).broker_id] = value
        elif kind not in _PASSED_OVER:
            self._apply(kind, version, body)

    def topics_by_name(self) -> list[TopicImage]:
        return sorted(self.topics.values(), key=lambda topic: topic.name)

    def topic_configs(self, name: str) -> dict[str, str]:
        return self.configs.get((ResourceType.TOPIC, name), {})

    def _apply(self, kind: int, version: int, body: memoryview) -> None:
        record_class = _BY_KIND.get(kind)
        if record_class is None:
            raise UnknownMetadata(f"a metadata record of type {kind}")
        record = _decoded(record_class, version, body)
        match record:
            case m.TopicRecord():
                self.topics[record.topic_id] = TopicImage(record.name, record.topic_id)
            case m.PartitionRecord():
                self.topics[record.topic_id].partitions[record.partition_id] = PartitionImage(
                    record.replicas,
                    record.isr,
                    record.eligible_leader_replicas or [],
                    record.leader,
                    record.leader_epoch,
                )
            case m.PartitionChangeRecord():
                self._change(self.topics[record.topic_id].partitions[record.partition_id], record)
            case m.RemoveTopicRecord():
                removed = self.topics.pop(record.topic_id)
                self.configs.pop((ResourceType.TOPIC, removed.name), None)
            case m.ConfigRecord():
                self._configure(record)
            case m.FeatureLevelRecord():
                self.features[record.name] = record.feature_level
            case m.AccessControlEntryRecord():
                self.acls[record.id] = _binding(record)
            case m.RemoveAccessControlEntryRecord():
                self.acls.pop(record.id, None)
            case m.UserScramCredentialRecord():
                self.credentials[record.name, record.mechanism] = Credential(
                    record.name,
                    record.mechanism,
                    record.iterations,
                    bytes(record.salt),
                    bytes(record.stored_key),
                    bytes(record.server_key),
                )
            case m.RemoveUserScramCredentialRecord():
                self.credentials.pop((record.name, record.mechanism), None)
            case m.ClientQuotaRecord():
                self._limit(record)
            case m.ProducerIdsRecord():
                self.next_producer_id = record.next_producer_id

    def _change(self, partition: PartitionImage, record: m.PartitionChangeRecord) -> None:
        unchanged = -2
        if record.isr is not None:
            partition.isr = record.isr
        if record.eligible_leader_replicas is not None:
            partition.eligible = record.eligible_leader_replicas
        if record.replicas is not None:
            partition.replicas = record.replicas
        if record.leader != unchanged:
            partition.leader = record.leader
            partition.leader_epoch += 1

    def _configure(self, record: m.ConfigRecord) -> None:
        resource = record.resource_type, record.resource_name
        configs = self.configs.setdefault(resource, {})
        if record.value is None:
            configs.pop(record.name, None)
        else:
            configs[record.name] = record.value
        if not configs:
            del self.configs[resource]

    def _limit(self, record: m.ClientQuotaRecord) -> None:
        entity = tuple(sorted((part.entity_type, part.entity_name) for part in record.entity))
        limits = self.quotas.setdefault(entity, {})
        if record.remove:
            limits.pop(record.key, None)
        else:
            limits[record.key] = record.value
        if not limits:
            del self.quotas[entity]


_BY_KIND: dict[int, type[m.Message]] = {
    record.RECORD_TYPE: record
    for record in (
        m.TopicRecord,
        m.PartitionRecord,
        m.PartitionChangeRecord,
        m.RemoveTopicRecord,
        m.ConfigRecord,
        m.FeatureLevelRecord,
        m.AccessControlEntryRecord,
        m.RemoveAccessControlEntryRecord,
        m.UserScramCredentialRecord,
        m.RemoveUserScramCredentialRecord,
        m.ClientQuotaRecord,
        m.ProducerIdsRecord,
    )
}


R = TypeVar("R", bound=m.Message)


def _decoded(record_class: type[R], version: int, body: memoryview) -> R:
    versions = record_class.SCHEMA.versions
    if version not in versions:
        raise UnknownMetadata(f"version {version} of {record_class.__name__}")
    return decode(record_class, body, version)


def decode_registration(value: bytes) -> m.RegisterBrokerRecord:
    """What a broker said of itself when it last came to the cluster."""
    _, version, body = _split(value)
    return _decoded(m.RegisterBrokerRecord, version, body)


def _binding(record: m.AccessControlEntryRecord) -> AclBinding:
    return AclBinding(
        AclResource(record.resource_type),
        record.resource_name,
        record.principal,
        AclOperation(record.operation),
        AclPermission(record.permission_type),
        record.host,
        PatternType(record.pattern_type),
    )


def _split(value: bytes) -> tuple[int, int, memoryview]:
    """The kind, the version and the body of a record: each number an unsigned varint before the body."""
    position = 0
    numbers = []
    for _ in range(3):
        number, position = _unsigned(value, position)
        numbers.append(number)
    frame, kind, version = numbers
    if frame != FRAME_VERSION:
        raise UnknownMetadata(f"a metadata record in frame version {frame}")
    return kind, version, memoryview(value)[position:]


def _unsigned(data: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
        shift += 7
