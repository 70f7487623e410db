"""The catalog in a SQLite file: cluster id, topics, dynamic configs, producer-id blocks.

Every method that changes something is one transaction that is on disk when it returns (write-ahead log, full
synchronisation), so that a topic which a client was told exists does exist after a power cut. Everything here is small
and changes rarely; nobody asks the catalog on the way of a record.

One thread at a time uses a catalog. Two processes never share one: the broker holds a lock on its data folder.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.catalog.schema import CatalogError, migrate

if TYPE_CHECKING:
    import sqlite3

PRODUCER_ID_BLOCK_SIZE = 1000
_BUSY_TIMEOUT_SECONDS = 5.0


class ResourceType(IntEnum):
    """Kafka's numbers for what a dynamic config belongs to. Topics keep theirs with the topic."""

    BROKER = 4
    CLIENT_METRICS = 16
    GROUP = 32


class TopicExists(CatalogError):
    """A topic of that name, or with that id, is there already."""


class UnknownTopic(CatalogError):
    """There is no topic with that id."""


@dataclass(frozen=True, slots=True)
class TopicRow:
    name: str
    topic_id: bytes
    partitions: int
    configs: dict[str, str]
    leader_epoch: int = 0


@dataclass(frozen=True, slots=True)
class BrokerRow:
    node_id: int
    epoch: int


class Catalog:
    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self._connection = connection
        self._path = path
        self.cluster_id: str = self._all("SELECT cluster_id FROM cluster")[0][0]

    @classmethod
    def open(cls, path: str | Path, cluster_id: str | None = None) -> Catalog:
        """Open or create the catalog; `cluster_id` names a new cluster and must match that of an existing one."""
        import sqlite3  # here, because most commands of the command line never open a catalog

        try:
            connection = sqlite3.connect(
                path, timeout=_BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise CatalogError(f"cannot open the catalog {path}: {error}") from error
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
            migrate(connection, str(path))
            connection.execute(
                "INSERT OR IGNORE INTO cluster (only_row, cluster_id, next_producer_id) VALUES (1, ?, 0)",
                (cluster_id if cluster_id else _new_cluster_id(),),
            )
            catalog = cls(connection, str(path))
        except sqlite3.Error as error:
            connection.close()
            raise CatalogError(f"cannot use the catalog {path}: {error}") from error
        except BaseException:
            connection.close()
            raise
        if cluster_id and cluster_id != catalog.cluster_id:
            catalog.close()
            raise CatalogError(f"{path} belongs to cluster {catalog.cluster_id}, not to {cluster_id}")
        return catalog

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Catalog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- features --------------------------------------------------------------------------------------------------

    def features(self) -> dict[str, int]:
        """The finalized levels that were changed since the cluster began."""
        return dict(self._all("SELECT name, level FROM feature"))

    def features_epoch(self) -> int:
        return int(self._all("SELECT features_epoch FROM cluster")[0][0])

    def set_features(self, levels: Mapping[str, int]) -> int:
        """Change finalized levels; returns the epoch that has risen with it."""
        with self._transaction() as connection:
            connection.executemany("INSERT OR REPLACE INTO feature VALUES (?, ?)", levels.items())
            connection.execute("UPDATE cluster SET features_epoch = features_epoch + 1")
            return int(connection.execute("SELECT features_epoch FROM cluster").fetchone()[0])

    # -- brokers ---------------------------------------------------------------------------------------------------

    def register_broker(self, node_id: int) -> BrokerRow:
        """Note that a broker starts; its epoch is one more than at its last start."""
        with self._transaction() as connection:
            connection.execute(
                "INSERT INTO broker VALUES (?, 1) ON CONFLICT (node_id) DO UPDATE SET epoch = epoch + 1", (node_id,)
            )
            row = connection.execute("SELECT epoch FROM broker WHERE node_id = ?", (node_id,)).fetchone()
        return BrokerRow(node_id, row[0])

    def brokers(self) -> list[BrokerRow]:
        return [BrokerRow(*row) for row in self._all("SELECT node_id, epoch FROM broker ORDER BY node_id")]

    # -- producer ids ----------------------------------------------------------------------------------------------

    def allocate_producer_id_block(self, size: int = PRODUCER_ID_BLOCK_SIZE) -> range:
        """Producer ids that nobody was given before and nobody will be given again."""
        if size < 1:
            raise ValueError("a block holds at least one producer id")
        with self._transaction() as connection:
            start: int = connection.execute("SELECT next_producer_id FROM cluster").fetchone()[0]
            connection.execute("UPDATE cluster SET next_producer_id = ?", (start + size,))
        return range(start, start + size)

    # -- topics ----------------------------------------------------------------------------------------------------

    def topics(self) -> list[TopicRow]:
        """All topics that are not being deleted, by name."""
        return self._topics("deleting = 0", ())

    def topic(self, name: str) -> TopicRow | None:
        return next(iter(self._topics("deleting = 0 AND topic.name = ?", (name,))), None)

    def topic_by_id(self, topic_id: bytes) -> TopicRow | None:
        return next(iter(self._topics("deleting = 0 AND topic_id = ?", (topic_id,))), None)

    def topics_marked_for_deletion(self) -> list[TopicRow]:
        """Topics that are gone for clients while their files are still being removed."""
        return self._topics("deleting = 1", ())

    def create_topic(self, name: str, topic_id: bytes, partitions: int, configs: Mapping[str, str]) -> TopicRow:
        with self._transaction() as connection:
            taken = connection.execute(
                "SELECT 1 FROM topic WHERE (name = ? AND deleting = 0) OR topic_id = ?", (name, topic_id)
            ).fetchone()
            if taken:
                raise TopicExists(f"topic {name!r} exists")
            connection.execute(
                "INSERT INTO topic (topic_id, name, partitions) VALUES (?, ?, ?)", (topic_id, name, partitions)
            )
            self._write_topic_configs(connection, topic_id, configs)
        return TopicRow(name, topic_id, partitions, dict(configs))

    def set_partitions(self, topic_id: bytes, partitions: int) -> None:
        """Let a topic grow. It never shrinks: records would be lost."""
        with self._transaction() as connection:
            changed = connection.execute(
                "UPDATE topic SET partitions = ?1 WHERE topic_id = ?2 AND deleting = 0 AND partitions <= ?1",
                (partitions, topic_id),
            ).rowcount
            if not changed:
                self._require_topic(connection, topic_id)
                raise ValueError(f"a topic cannot shrink to {partitions} partitions")

    def set_topic_configs(self, topic_id: bytes, configs: Mapping[str, str]) -> None:
        """Replace all of a topic's configs."""
        with self._transaction() as connection:
            self._require_topic(connection, topic_id)
            connection.execute("DELETE FROM topic_config WHERE topic_id = ?", (topic_id,))
            self._write_topic_configs(connection, topic_id, configs)

    def mark_topic_for_deletion(self, topic_id: bytes) -> None:
        """From now on the topic is gone for clients and its name is free; `delete_topic` forgets the rest."""
        with self._transaction() as connection:
            self._require_topic(connection, topic_id)
            connection.execute("UPDATE topic SET deleting = 1 WHERE topic_id = ?", (topic_id,))

    def delete_topic(self, topic_id: bytes) -> None:
        """Forget a topic and its configs, marked for deletion or not."""
        with self._transaction() as connection:
            if not connection.execute("DELETE FROM topic WHERE topic_id = ?", (topic_id,)).rowcount:
                raise UnknownTopic(f"there is no topic with id {topic_id.hex()}")

    # -- dynamic configs -------------------------------------------------------------------------------------------

    def configs(self, resource_type: int, resource_name: str) -> dict[str, str]:
        """Dynamic configs of one resource; the cluster-wide broker default has an empty name."""
        return dict(
            self._all(
                "SELECT name, value FROM config WHERE resource_type = ? AND resource_name = ? ORDER BY name",
                (resource_type, resource_name),
            )
        )

    def config_resources(self, resource_type: int) -> dict[str, dict[str, str]]:
        """All resources of a type that have dynamic configs, with these."""
        resources: dict[str, dict[str, str]] = {}
        for resource_name, name, value in self._all(
            "SELECT resource_name, name, value FROM config WHERE resource_type = ? ORDER BY resource_name, name",
            (resource_type,),
        ):
            resources.setdefault(resource_name, {})[name] = value
        return resources

    def set_configs(self, resource_type: int, resource_name: str, configs: Mapping[str, str]) -> None:
        """Replace all dynamic configs of one resource; none removes the resource."""
        with self._transaction() as connection:
            connection.execute(
                "DELETE FROM config WHERE resource_type = ? AND resource_name = ?", (resource_type, resource_name)
            )
            connection.executemany(
                "INSERT INTO config VALUES (?, ?, ?, ?)",
                [(resource_type, resource_name, name, value) for name, value in configs.items()],
            )

    # -- inside ----------------------------------------------------------------------------------------------------

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        import sqlite3

        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                # A failed COMMIT (a full disk) may have ended the transaction already.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise CatalogError(f"cannot change the catalog {self._path}: {error}") from error

    def _topics(self, where: str, parameters: tuple[object, ...]) -> list[TopicRow]:
        topics: dict[bytes, TopicRow] = {}
        for topic_id, name, partitions, leader_epoch, config, value in self._all(
            f"""
            SELECT topic.topic_id, topic.name, partitions, leader_epoch, topic_config.name, value
            FROM topic LEFT JOIN topic_config USING (topic_id)
            WHERE {where} ORDER BY topic.name, topic_config.name
            """,
            parameters,
        ):
            row = topics.get(topic_id)
            if row is None:
                row = topics[topic_id] = TopicRow(name, topic_id, partitions, {}, leader_epoch)
            if config is not None:
                row.configs[config] = value
        return list(topics.values())

    @staticmethod
    def _require_topic(connection: sqlite3.Connection, topic_id: bytes) -> None:
        if not connection.execute("SELECT 1 FROM topic WHERE topic_id = ? AND deleting = 0", (topic_id,)).fetchone():
            raise UnknownTopic(f"there is no topic with id {topic_id.hex()}")

    @staticmethod
    def _write_topic_configs(connection: sqlite3.Connection, topic_id: bytes, configs: Mapping[str, str]) -> None:
        connection.executemany(
            "INSERT INTO topic_config VALUES (?, ?, ?)", [(topic_id, name, value) for name, value in configs.items()]
        )

    def _all(self, sql: str, parameters: tuple[object, ...] = ()) -> list[Any]:
        import sqlite3

        try:
            return self._connection.execute(sql, parameters).fetchall()
        except sqlite3.Error as error:
            raise CatalogError(f"cannot read the catalog {self._path}: {error}") from error


def _new_cluster_id() -> str:
    """Kafka's form of a cluster id: a random UUID in URL-safe base64, and no leading dash for command lines' sake."""
    while True:
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not cluster_id.startswith("-"):
            return cluster_id
