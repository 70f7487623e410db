"""An engine that keeps everything in memory, for tests and simulations: a broker without files.

A broker that starts again with the same `MemoryCatalog` finds what the one before it left.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from penstock.catalog.contract import (
    PRODUCER_ID_BLOCK_SIZE,
    SECRET_BYTES,
    CatalogError,
    CredentialRow,
    TopicExists,
    TopicRow,
    UnknownTopic,
)
from penstock.security.acls import AclBinding
from penstock.security.quotas import QuotaEntity
from penstock.wire.config_resources import ResourceType

_TOPIC_ID_BYTES = 16


class MemoryCatalog:
    """See `contract.Catalog`. Cluster id and secret are handed in, so that a simulation can be repeated."""

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
        self._failure: str | None = None

    def close(self) -> None:
        pass

    # Features

    def features(self) -> dict[str, int]:
        return dict(self._features)

    def features_epoch(self) -> int:
        return self._features_epoch

    def set_features(self, levels: Mapping[str, int]) -> int:
        self._check_writable()
        self._features.update(levels)
        self._features_epoch += 1
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

    def create_topic(self, name: str, topic_id: bytes, partitions: int, configs: Mapping[str, str]) -> None:
        self._check_writable()
        if topic_id in self._topics or any(row.name == name for row in self._topics.values()):
            raise TopicExists(f"topic {name!r} exists")
        if len(topic_id) != _TOPIC_ID_BYTES or partitions < 1:
            raise CatalogError(f"topic {name!r} needs an id of {_TOPIC_ID_BYTES} bytes and at least one partition")
        self._topics[topic_id] = TopicRow(name, topic_id, partitions, dict(configs))

    def set_partitions(self, topic_id: bytes, partitions: int) -> None:
        row = self._writable_topic(topic_id)
        if partitions < row.partitions:
            raise CatalogError(f"topic {row.name!r} has {row.partitions} partitions and cannot shrink to {partitions}")
        self._topics[topic_id] = replace(row, partitions=partitions)

    def set_topic_configs(self, topic_id: bytes, configs: Mapping[str, str]) -> None:
        self._topics[topic_id] = replace(self._writable_topic(topic_id), configs=dict(configs))

    def delete_topic(self, topic_id: bytes) -> None:
        del self._topics[self._writable_topic(topic_id).topic_id]

    # Configs set at run time, of all but topics

    def config_resources(self, resource_type: ResourceType) -> dict[str, dict[str, str]]:
        resources = self._configs.get(resource_type, {})
        return {name: _sorted(resources[name]) for name in sorted(resources)}

    def set_configs(self, resource_type: ResourceType, resource_name: str, configs: Mapping[str, str]) -> None:
        self._check_writable()
        resources = self._configs.setdefault(resource_type, {})
        if configs:
            resources[resource_name] = dict(configs)
        else:
            resources.pop(resource_name, None)

    # Security

    def secret(self) -> bytes:
        return self._secret

    def acls(self) -> list[AclBinding]:
        return sorted(self._acls)

    def change_acls(self, added: Collection[AclBinding], removed: Collection[AclBinding]) -> None:
        self._check_writable()
        self._acls.difference_update(removed)
        self._acls.update(added)

    def credentials(self) -> list[CredentialRow]:
        return [self._credentials[key] for key in sorted(self._credentials)]

    def change_credentials(self, upserted: Collection[CredentialRow], deleted: Collection[tuple[str, int]]) -> None:
        self._check_writable()
        for key in deleted:
            self._credentials.pop(key, None)
        self._credentials.update({(row.user, row.mechanism): row for row in upserted})

    def quotas(self) -> dict[QuotaEntity, dict[str, float]]:
        return {entity: dict(values) for entity, values in self._quotas.items()}

    def set_quotas(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        self._check_writable()
        for entity, values in quotas.items():
            if values:
                self._quotas[entity] = dict(values)
            else:
                self._quotas.pop(entity, None)

    # What a test can have happen

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
