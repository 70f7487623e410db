"""An engine that keeps everything in memory, for tests and simulations: a broker without files.

A broker that starts again with the same `MemoryCatalog` finds what the one before it left. Several brokers of one
process may share one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from penstock.catalog.contract import (
    PRODUCER_ID_BLOCK_SIZE,
    SECRET_BYTES,
    AclChoice,
    CatalogError,
    ConfigChange,
    CredentialRow,
    FeatureChange,
    QuotaChange,
    TopicExists,
    TopicRow,
    UnknownTopic,
)
from penstock.catalog.shared import (
    FIRST_LEADER_EPOCH,
    BrokerRow,
    Changes,
    Direction,
    HostAndPort,
    Kind,
    LeaderEpoch,
    Move,
    PartitionRow,
    Placement,
    check_placements,
)
from penstock.security.acls import AclBinding
from penstock.security.quotas import QuotaEntity
from penstock.wire.config_resources import ResourceType

_TOPIC_ID_BYTES = 16


class MemoryCatalog:
    """See `contract.Catalog` and `shared.SharedCatalog`. Cluster id and secret are handed in, so that a simulation can
    be repeated."""

    def __init__(self, cluster_id: str = "cluster-kept-in-memory", secret: bytes = bytes(SECRET_BYTES)) -> None:
        self.cluster_id = cluster_id
        self._secret = secret
        self._acls: set[AclBinding] = set()
        self._credentials: dict[tuple[str, int], CredentialRow] = {}
        self._quotas: dict[QuotaEntity, dict[str, float]] = {}
        self._features: dict[str, int] = {}
        self._features_epoch = 1
        self._next_producer_id = 0
        self._topics: dict[bytes, TopicRow] = {}
        self._configs: dict[ResourceType, dict[str, dict[str, str]]] = {}
        self._brokers: dict[int, BrokerRow] = {}
        self._partitions: dict[tuple[bytes, int], PartitionRow] = {}
        self._changed_at: dict[Kind, int] = {}
        self._failure: str | None = None

    def close(self) -> None:
        pass

    # Features

    def features(self) -> dict[str, int]:
        return dict(self._features)

    def features_epoch(self) -> int:
        return self._features_epoch

    def change_features(self, change: FeatureChange) -> int:
        self._check_writable()
        levels = {**self._features, **change(self.features())}
        if levels != self._features:
            self._features = levels
            self._features_epoch += 1
            self._changed(Kind.FEATURES)
        return self._features_epoch

    # Producer ids

    def allocate_producer_id_block(self) -> range:
        self._check_writable()
        start = self._next_producer_id
        self._next_producer_id += PRODUCER_ID_BLOCK_SIZE
        return range(start, self._next_producer_id)

    # Topics

    def topics(self) -> list[TopicRow]:
        rows = sorted(self._topics.values(), key=lambda row: row.name)
        return [replace(row, configs=_sorted(row.configs)) for row in rows]

    def create_topic(
        self,
        name: str,
        topic_id: bytes,
        partitions: int,
        configs: Mapping[str, str],
        placements: Sequence[Placement] = (),
    ) -> None:
        self._check_writable()
        if topic_id in self._topics or any(row.name == name for row in self._topics.values()):
            raise TopicExists(f"topic {name!r} exists")
        if len(topic_id) != _TOPIC_ID_BYTES or partitions < 1:
            raise CatalogError(f"topic {name!r} needs an id of {_TOPIC_ID_BYTES} bytes and at least one partition")
        check_placements(partitions, placements)
        self._topics[topic_id] = TopicRow(name, topic_id, partitions, dict(configs))
        self._place(topic_id, 0, placements)
        self._changed(Kind.TOPICS)

    def set_partitions(self, topic_id: bytes, partitions: int, placements: Sequence[Placement] = ()) -> None:
        row = self._writable_topic(topic_id)
        if partitions < row.partitions:
            raise CatalogError(f"topic {row.name!r} has {row.partitions} partitions and cannot shrink to {partitions}")
        check_placements(partitions - row.partitions, placements)
        self._topics[topic_id] = replace(row, partitions=partitions)
        self._place(topic_id, row.partitions, placements)
        self._changed(Kind.TOPICS)

    def _place(self, topic_id: bytes, first: int, placements: Sequence[Placement]) -> None:
        for index, (leader, replicas) in enumerate(placements, first):
            row = PartitionRow(topic_id, index, leader, FIRST_LEADER_EPOCH, replicas)
            self._partitions[topic_id, index] = row
        if placements:
            self._changed(Kind.PARTITIONS)

    def change_topic_configs(self, topic_id: bytes, change: ConfigChange) -> dict[str, str]:
        row = self._writable_topic(topic_id)
        configs = dict(change(dict(row.configs)))
        self._topics[topic_id] = replace(row, configs=configs)
        self._changed(Kind.TOPICS)
        return _sorted(configs)

    def delete_topic(self, topic_id: bytes) -> None:
        del self._topics[self._writable_topic(topic_id).topic_id]
        self._partitions = {key: row for key, row in self._partitions.items() if row.topic_id != topic_id}
        self._changed(Kind.TOPICS, Kind.PARTITIONS)

    # Configs set at run time, of all but topics

    def config_resources(self, resource_type: ResourceType) -> dict[str, dict[str, str]]:
        resources = self._configs.get(resource_type, {})
        return {name: _sorted(resources[name]) for name in sorted(resources)}

    def change_configs(self, resource_type: ResourceType, resource_name: str, change: ConfigChange) -> dict[str, str]:
        self._check_writable()
        resources = self._configs.setdefault(resource_type, {})
        configs = dict(change(dict(resources.get(resource_name, {}))))
        if configs:
            resources[resource_name] = configs
        else:
            resources.pop(resource_name, None)
        self._changed(Kind.CONFIGS)
        return _sorted(configs)

    # Security

    def secret(self) -> bytes:
        return self._secret

    def acls(self) -> list[AclBinding]:
        return sorted(self._acls)

    def change_acls(self, added: Collection[AclBinding], removed: Collection[AclBinding]) -> None:
        self._check_writable()
        self._acls.difference_update(removed)
        self._acls.update(added)
        self._changed(Kind.ACLS)

    def delete_acls(self, choose: AclChoice) -> None:
        self._check_writable()
        self._acls.difference_update(choose(self.acls()))
        self._changed(Kind.ACLS)

    def credentials(self) -> list[CredentialRow]:
        return [self._credentials[key] for key in sorted(self._credentials)]

    def change_credentials(
        self, upserted: Collection[CredentialRow], deleted: Collection[tuple[str, int]]
    ) -> frozenset[tuple[str, int]]:
        self._check_writable()
        found = frozenset(key for key in deleted if self._credentials.pop(key, None) is not None)
        self._credentials.update({(row.user, row.mechanism): row for row in upserted})
        self._changed(Kind.CREDENTIALS)
        return found

    def quotas(self) -> dict[QuotaEntity, dict[str, float]]:
        return {entity: dict(values) for entity, values in self._quotas.items()}

    def change_quotas(self, changes: Mapping[QuotaEntity, QuotaChange]) -> None:
        self._check_writable()
        quotas = self.quotas()
        changed = {entity: dict(change(quotas.get(entity, {}))) for entity, change in changes.items()}
        self._quotas = {entity: values for entity, values in {**quotas, **changed}.items() if values}
        self._changed(Kind.QUOTAS)

    # Brokers that share the catalog

    def version(self) -> int:
        return max(self._changed_at.values(), default=0)

    def changes_since(self, version: int) -> Changes:
        kinds = frozenset(kind for kind, changed_at in self._changed_at.items() if changed_at > version)
        return Changes(max(version, self.version()), kinds)

    def brokers(self) -> list[BrokerRow]:
        return [self._brokers[node_id] for node_id in sorted(self._brokers)]

    def register_broker(
        self, node_id: int, instance_id: str, rack: str | None, endpoints: Mapping[str, HostAndPort]
    ) -> int:
        self._check_writable()
        epoch = 1 + max((row.epoch for row in self._brokers.values()), default=0)
        self._brokers[node_id] = BrokerRow(node_id, epoch, instance_id, rack, dict(endpoints), is_live=True)
        self._changed(Kind.BROKERS)
        return epoch

    def unregister_broker(self, node_id: int, epoch: int) -> None:
        self._check_writable()
        row = self._brokers.get(node_id)
        if row is not None and row.epoch == epoch:
            self._brokers[node_id] = replace(row, is_live=False)
            self._changed(Kind.BROKERS)

    def partitions(self) -> list[PartitionRow]:
        return [self._partitions[key] for key in sorted(self._partitions)]

    def direct_partitions(self, directions: Collection[Direction]) -> None:
        self._check_writable()
        for topic_id, index, replicas, replaced, elected in directions:
            row = self._partitions.get((topic_id, index))
            if row is not None:
                self._partitions[topic_id, index] = row._replace(
                    replicas=row.replicas if replicas is None else replicas,
                    replaced=row.replaced if replaced is None else replaced,
                    elected=elected,
                )
        self._changed(Kind.PARTITIONS)

    def raise_leader_epochs(self, node_id: int, epochs: Collection[LeaderEpoch]) -> None:
        self._check_writable()
        for topic_id, index, epoch in epochs:
            row = self._partitions.get((topic_id, index))
            if row is not None and row.leader == node_id and row.leader_epoch < epoch:
                self._partitions[topic_id, index] = row._replace(leader_epoch=epoch)
        self._changed(Kind.PARTITIONS)

    def _changed(self, *kinds: Kind) -> None:
        for kind in kinds:
            self._changed_at[kind] = 1 + self.version()

    # What a test can have happen

    def move_partitions(self, moves: Collection[Move]) -> None:
        """Give partitions other leaders, under higher epochs."""
        self._check_writable()
        for topic_id, index, (leader, replicas) in moves:
            row = self._partitions.get((topic_id, index))
            if row is not None:
                epoch = row.leader_epoch + (leader != row.leader)
                replaced = () if leader in replicas else row.replaced
                moved = PartitionRow(topic_id, index, leader, epoch, replicas, replaced=replaced)
                self._partitions[topic_id, index] = moved
        self._changed(Kind.PARTITIONS)

    def refuse_changes(self, reason: str) -> None:
        """From now on every change fails, as on a full disk."""
        self._failure = reason

    def accept_changes(self) -> None:
        self._failure = None

    def _check_writable(self) -> None:
        if self._failure is not None:
            raise CatalogError(f"cannot change the catalog: {self._failure}")

    def _writable_topic(self, topic_id: bytes) -> TopicRow:
        self._check_writable()
        row = self._topics.get(topic_id)
        if row is None:
            raise UnknownTopic(f"there is no topic with id {topic_id.hex()}")
        return row


def _sorted(configs: Mapping[str, str]) -> dict[str, str]:
    return dict(sorted(configs.items()))
