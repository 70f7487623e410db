"""The embedded engine: a SQLite file in the data folder.

Every change is one transaction that is on disk when it returns (write-ahead log, full synchronisation). The tables, and
how a file of an earlier version becomes one of this version, are in `schema`. Several processes may share the file, as
`shared` says: SQLite locks it for a change, and each change notes what it was about.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from penstock.catalog.identity import new_cluster_id
from penstock.catalog.schema import migrate
from penstock.catalog.shared import (
    FIRST_LEADER_EPOCH,
    BrokerRow,
    Changes,
    HostAndPort,
    Kind,
    LeaderEpoch,
    PartitionRow,
    Placement,
    check_placements,
)
from penstock.portable import OPEN_FLAGS
from penstock.security.acls import AclBinding
from penstock.security.quotas import QuotaEntity
from penstock.wire.acls import AclOperation, AclPermission, AclResource, PatternType
from penstock.wire.config_resources import ResourceType

if TYPE_CHECKING:
    import sqlite3

_BUSY_TIMEOUT_SECONDS = 5.0
_PRIVATE = 0o600
_DELETE_ACL = """
    DELETE FROM acl WHERE resource_type = ? AND resource_name = ? AND principal = ? AND operation = ?
    AND permission = ? AND host = ? AND pattern_type = ?
    """


class SqliteCatalog:
    """See `contract.Catalog` and `shared.SharedCatalog`. The caller holds the lock of the folder that the file is in,
    or shares the file with brokers that know of each other."""

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self._connection = connection
        self._path = path
        self.cluster_id: str = self._all("SELECT cluster_id FROM cluster")[0][0]

    @classmethod
    def open(cls, path: str | Path) -> SqliteCatalog:
        """Open or create the catalog. Raises CatalogError for a file that is damaged, not ours or newer than we are."""
        import sqlite3  # here, because most commands of the command line never open a catalog

        try:
            _keep_private(path)
            connection = sqlite3.connect(
                path, timeout=_BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False
            )
        except (sqlite3.Error, OSError) as error:
            raise CatalogError(f"cannot open the catalog {path}: {error}") from error
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            migrate(connection, str(path))
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute(
                "INSERT OR IGNORE INTO cluster (only_row, cluster_id, next_producer_id) VALUES (1, ?, 0)",
                (new_cluster_id(),),
            )
            connection.execute("UPDATE cluster SET secret = ? WHERE secret = x''", (os.urandom(SECRET_BYTES),))
            return cls(connection, str(path))
        except sqlite3.Error as error:
            connection.close()
            raise CatalogError(f"cannot use the catalog {path}: {error}") from error
        except BaseException:
            connection.close()
            raise

    def close(self) -> None:
        self._connection.close()

    def pin(self) -> PinnedCatalog:
        """The catalog as it is now, whatever changes afterwards."""
        import sqlite3

        try:
            connection = sqlite3.connect(
                self._path, timeout=_BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False
            )
            connection.execute("BEGIN")
            connection.execute("SELECT cluster_id FROM cluster").fetchone()  # from here on it sees nothing newer
        except sqlite3.Error as error:
            raise CatalogError(f"cannot read the catalog {self._path}: {error}") from error
        return PinnedCatalog(connection, self._path)

    def become(
        self,
        cluster_id: str,
        next_producer_id: int,
        *,
        secret: bytes | None = None,
        features_epoch: int | None = None,
    ) -> None:
        """Make a new catalog that of a cluster which existed before it."""
        with self._transaction() as connection:
            connection.execute(
                """
                UPDATE cluster SET cluster_id = ?, next_producer_id = ?, secret = coalesce(?, secret),
                    features_epoch = coalesce(?, features_epoch)
                """,
                (cluster_id, next_producer_id, secret, features_epoch),
            )
        self.cluster_id = cluster_id

    # -- features --------------------------------------------------------------------------------------------------

    def features(self) -> dict[str, int]:
        return dict(self._all("SELECT name, level FROM feature"))

    def features_epoch(self) -> int:
        return int(self._all("SELECT features_epoch FROM cluster")[0][0])

    def change_features(self, change: FeatureChange) -> int:
        with self._transaction(Kind.FEATURES) as connection:
            found = self.features()
            levels = {**found, **change(found)}
            if levels != found:
                connection.executemany("INSERT OR REPLACE INTO feature VALUES (?, ?)", levels.items())
                connection.execute("UPDATE cluster SET features_epoch = features_epoch + 1")
            return self.features_epoch()

    # -- producer ids ----------------------------------------------------------------------------------------------

    def next_producer_id(self) -> int:
        """The first that nobody was given yet."""
        return int(self._all("SELECT next_producer_id FROM cluster")[0][0])

    def allocate_producer_id_block(self) -> range:
        with self._transaction() as connection:
            start: int = connection.execute("SELECT next_producer_id FROM cluster").fetchone()[0]
            end = start + PRODUCER_ID_BLOCK_SIZE
            connection.execute("UPDATE cluster SET next_producer_id = ?", (end,))
        return range(start, end)

    # -- topics ----------------------------------------------------------------------------------------------------

    def topics(self) -> list[TopicRow]:
        topics: dict[bytes, TopicRow] = {}
        for topic_id, name, partitions, config, value in self._all(
            """
            SELECT topic.topic_id, topic.name, partitions, topic_config.name, value
            FROM topic LEFT JOIN topic_config USING (topic_id)
            ORDER BY topic.name, topic_config.name
            """
        ):
            row = topics.get(topic_id)
            if row is None:
                row = topics[topic_id] = TopicRow(name, topic_id, partitions, {})
            if config is not None:
                row.configs[config] = value
        return list(topics.values())

    def create_topic(
        self,
        name: str,
        topic_id: bytes,
        partitions: int,
        configs: Mapping[str, str],
        placements: Sequence[Placement] = (),
    ) -> None:
        with self._transaction(*_kinds_of(placements)) as connection:
            if connection.execute("SELECT 1 FROM topic WHERE name = ? OR topic_id = ?", (name, topic_id)).fetchone():
                raise TopicExists(f"topic {name!r} exists")
            connection.execute(
                "INSERT INTO topic (topic_id, name, partitions) VALUES (?, ?, ?)", (topic_id, name, partitions)
            )
            self._write_topic_configs(connection, topic_id, configs)
            self._place(connection, topic_id, 0, partitions, placements)

    def set_partitions(self, topic_id: bytes, partitions: int, placements: Sequence[Placement] = ()) -> None:
        with self._transaction(*_kinds_of(placements)) as connection:
            row = connection.execute("SELECT name, partitions FROM topic WHERE topic_id = ?", (topic_id,)).fetchone()
            if row is None:
                raise _unknown(topic_id)
            if partitions < row[1]:
                raise CatalogError(f"topic {row[0]!r} has {row[1]} partitions and cannot shrink to {partitions}")
            connection.execute("UPDATE topic SET partitions = ? WHERE topic_id = ?", (partitions, topic_id))
            self._place(connection, topic_id, row[1], partitions, placements)

    def change_topic_configs(self, topic_id: bytes, change: ConfigChange) -> dict[str, str]:
        with self._transaction(Kind.TOPICS) as connection:
            if not connection.execute("SELECT 1 FROM topic WHERE topic_id = ?", (topic_id,)).fetchone():
                raise _unknown(topic_id)
            rows = connection.execute("SELECT name, value FROM topic_config WHERE topic_id = ?", (topic_id,))
            configs = dict(change(dict(rows.fetchall())))
            connection.execute("DELETE FROM topic_config WHERE topic_id = ?", (topic_id,))
            self._write_topic_configs(connection, topic_id, configs)
        return configs

    def delete_topic(self, topic_id: bytes) -> None:
        with self._transaction(Kind.TOPICS, Kind.PARTITIONS) as connection:
            if not connection.execute("DELETE FROM topic WHERE topic_id = ?", (topic_id,)).rowcount:
                raise _unknown(topic_id)

    @staticmethod
    def _write_topic_configs(connection: sqlite3.Connection, topic_id: bytes, configs: Mapping[str, str]) -> None:
        connection.executemany(
            "INSERT INTO topic_config VALUES (?, ?, ?)", [(topic_id, name, value) for name, value in configs.items()]
        )

    @staticmethod
    def _place(
        connection: sqlite3.Connection, topic_id: bytes, first: int, end: int, placements: Sequence[Placement]
    ) -> None:
        check_placements(end - first, placements)
        connection.executemany(
            "INSERT INTO partition VALUES (?, ?, ?, ?, ?)",
            [
                (topic_id, index, placement.leader, FIRST_LEADER_EPOCH, json.dumps(placement.replicas))
                for index, placement in enumerate(placements, first)
            ],
        )

    # -- configs set at run time, of all but topics ----------------------------------------------------------------

    def config_resources(self, resource_type: ResourceType) -> dict[str, dict[str, str]]:
        resources: dict[str, dict[str, str]] = {}
        for resource_name, name, value in self._all(
            "SELECT resource_name, name, value FROM config WHERE resource_type = ? ORDER BY resource_name, name",
            (resource_type,),
        ):
            resources.setdefault(resource_name, {})[name] = value
        return resources

    def change_configs(self, resource_type: ResourceType, resource_name: str, change: ConfigChange) -> dict[str, str]:
        resource = resource_type, resource_name
        with self._transaction(Kind.CONFIGS) as connection:
            rows = connection.execute(
                "SELECT name, value FROM config WHERE resource_type = ? AND resource_name = ?", resource
            )
            configs = dict(change(dict(rows.fetchall())))
            connection.execute("DELETE FROM config WHERE resource_type = ? AND resource_name = ?", resource)
            connection.executemany(
                "INSERT INTO config VALUES (?, ?, ?, ?)",
                [(*resource, name, value) for name, value in configs.items()],
            )
        return configs

    # -- security --------------------------------------------------------------------------------------------------

    def secret(self) -> bytes:
        return bytes(self._all("SELECT secret FROM cluster")[0][0])

    def acls(self) -> list[AclBinding]:
        return [
            AclBinding(
                AclResource(resource_type),
                resource_name,
                principal,
                AclOperation(operation),
                AclPermission(permission),
                host,
                PatternType(pattern_type),
            )
            for resource_type, resource_name, principal, operation, permission, host, pattern_type in self._all(
                """
                SELECT resource_type, resource_name, principal, operation, permission, host, pattern_type FROM acl
                ORDER BY resource_type, resource_name, principal, operation, permission, host, pattern_type
                """
            )
        ]

    def change_acls(self, added: Collection[AclBinding], removed: Collection[AclBinding]) -> None:
        with self._transaction(Kind.ACLS) as connection:
            connection.executemany(_DELETE_ACL, removed)
            connection.executemany("INSERT OR IGNORE INTO acl VALUES (?, ?, ?, ?, ?, ?, ?)", added)

    def delete_acls(self, choose: AclChoice) -> None:
        with self._transaction(Kind.ACLS) as connection:
            connection.executemany(_DELETE_ACL, choose(self.acls()))

    def credentials(self) -> list[CredentialRow]:
        return [
            CredentialRow(*row)
            for row in self._all(
                """
                SELECT user, mechanism, iterations, salt, stored_key, server_key FROM credential
                ORDER BY user, mechanism
                """
            )
        ]

    def change_credentials(
        self, upserted: Collection[CredentialRow], deleted: Collection[tuple[str, int]]
    ) -> frozenset[tuple[str, int]]:
        delete = "DELETE FROM credential WHERE user = ? AND mechanism = ?"
        with self._transaction(Kind.CREDENTIALS) as connection:
            found = frozenset(key for key in deleted if connection.execute(delete, key).rowcount)
            connection.executemany("INSERT OR REPLACE INTO credential VALUES (?, ?, ?, ?, ?, ?)", upserted)
        return found

    def quotas(self) -> dict[QuotaEntity, dict[str, float]]:
        quotas: dict[QuotaEntity, dict[str, float]] = {}
        for text, name, value in self._all("SELECT entity, name, value FROM quota ORDER BY entity, name"):
            entity = tuple((kind, of) for kind, of in json.loads(text))
            quotas.setdefault(entity, {})[name] = value
        return quotas

    def change_quotas(self, changes: Mapping[QuotaEntity, QuotaChange]) -> None:
        with self._transaction(Kind.QUOTAS) as connection:
            for entity, change in changes.items():
                text = json.dumps(entity)
                rows = connection.execute("SELECT name, value FROM quota WHERE entity = ? ORDER BY name", (text,))
                values = change(dict(rows.fetchall()))
                connection.execute("DELETE FROM quota WHERE entity = ?", (text,))
                connection.executemany(
                    "INSERT INTO quota VALUES (?, ?, ?)", [(text, name, value) for name, value in values.items()]
                )

    # -- brokers that share the file -------------------------------------------------------------------------------

    def version(self) -> int:
        return int(self._all("SELECT coalesce(max(version), 0) FROM change")[0][0])

    def changes_since(self, version: int) -> Changes:
        found = self._all("SELECT kind, version FROM change WHERE version > ?", (version,))
        return Changes(max((at for _, at in found), default=version), frozenset(Kind(kind) for kind, _ in found))

    def brokers(self) -> list[BrokerRow]:
        return [
            BrokerRow(node_id, epoch, instance_id, rack, _endpoints(endpoints), bool(is_live))
            for node_id, epoch, instance_id, rack, endpoints, is_live in self._all(
                "SELECT node_id, epoch, instance_id, rack, endpoints, is_live FROM broker ORDER BY node_id"
            )
        ]

    def register_broker(
        self, node_id: int, instance_id: str, rack: str | None, endpoints: Mapping[str, HostAndPort]
    ) -> int:
        with self._transaction(Kind.BROKERS) as connection:
            connection.execute(
                """
                INSERT OR REPLACE INTO broker (node_id, epoch, instance_id, rack, endpoints, is_live)
                SELECT ?, 1 + coalesce(max(epoch), 0), ?, ?, ?, 1 FROM broker
                """,
                (node_id, instance_id, rack, json.dumps(dict(endpoints))),
            )
            return int(connection.execute("SELECT epoch FROM broker WHERE node_id = ?", (node_id,)).fetchone()[0])

    def unregister_broker(self, node_id: int, epoch: int) -> None:
        with self._transaction(Kind.BROKERS) as connection:
            connection.execute("UPDATE broker SET is_live = 0 WHERE node_id = ? AND epoch = ?", (node_id, epoch))

    def partitions(self) -> list[PartitionRow]:
        return [
            PartitionRow(topic_id, index, leader, leader_epoch, tuple(json.loads(replicas)))
            for topic_id, index, leader, leader_epoch, replicas in self._all(
                """
                SELECT topic_id, partition_index, leader, leader_epoch, replicas FROM partition
                ORDER BY topic_id, partition_index
                """
            )
        ]

    def give_unowned_partitions(self, node_id: int) -> None:
        """Have a broker lead the partitions that have no row, because there was only one broker so far."""
        with self._transaction(Kind.PARTITIONS) as connection:
            kept = connection.execute("SELECT topic_id, count(*) FROM partition GROUP BY topic_id").fetchall()
            counts = dict(kept)
            placement = Placement(node_id, (node_id,))
            for topic_id, partitions in connection.execute("SELECT topic_id, partitions FROM topic").fetchall():
                first = counts.get(topic_id, 0)
                self._place(connection, topic_id, first, partitions, [placement] * (partitions - first))

    def raise_leader_epochs(self, node_id: int, epochs: Collection[LeaderEpoch]) -> None:
        with self._transaction(Kind.PARTITIONS) as connection:
            connection.executemany(
                """
                UPDATE partition SET leader_epoch = ?1
                WHERE topic_id = ?2 AND partition_index = ?3 AND leader = ?4 AND leader_epoch < ?1
                """,
                [(each.epoch, each.topic_id, each.partition_index, node_id) for each in epochs],
            )

    # -- inside ----------------------------------------------------------------------------------------------------

    @contextmanager
    def _transaction(self, *kinds: Kind) -> Iterator[sqlite3.Connection]:
        """A change, and what it is about."""
        import sqlite3

        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                for kind in kinds:
                    connection.execute(
                        "INSERT OR REPLACE INTO change SELECT ?, 1 + coalesce(max(version), 0) FROM change", (kind,)
                    )
                connection.execute("COMMIT")
            except BaseException:
                # A failed COMMIT (a full disk) may have ended the transaction already.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise CatalogError(f"cannot change the catalog {self._path}: {error}") from error

    def _all(self, sql: str, parameters: tuple[object, ...] = ()) -> list[Any]:
        import sqlite3

        try:
            return self._connection.execute(sql, parameters).fetchall()
        except sqlite3.Error as error:
            raise CatalogError(f"cannot read the catalog {self._path}: {error}") from error


class PinnedCatalog:
    """A moment of a catalog, made by `SqliteCatalog.pin`. It may be used, and closed, in another thread."""

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self._connection = connection
        self._path = path

    def copy(self, path: Path) -> None:
        """Write it to a file of its own, which must not exist."""
        import sqlite3

        try:
            _keep_private(path)
            target = sqlite3.connect(path)
            try:
                self._connection.backup(target)
                target.execute("PRAGMA journal_mode = DELETE")  # so that it is one file, without a log beside it
            finally:
                target.close()
        except (sqlite3.Error, OSError) as error:
            raise CatalogError(f"cannot copy the catalog {self._path} to {path}: {error}") from error

    def close(self) -> None:
        self._connection.close()


def _kinds_of(placements: Sequence[Placement]) -> list[Kind]:
    return [Kind.TOPICS, Kind.PARTITIONS] if placements else [Kind.TOPICS]


def _endpoints(text: str) -> dict[str, HostAndPort]:
    return {name: HostAndPort(*address) for name, address in json.loads(text).items()}


def _unknown(topic_id: bytes) -> UnknownTopic:
    return UnknownTopic(f"there is no topic with id {topic_id.hex()}")


def _keep_private(path: str | Path) -> None:
    """Only the owner reads what passwords are checked against; SQLite gives the files beside it the same mode."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | OPEN_FLAGS, _PRIVATE))
    if stat.S_IMODE(os.stat(path).st_mode) & 0o077:
        os.chmod(path, _PRIVATE)
