"""The engine for a cluster: a schema of a PostgreSQL database.

**Changes.** Each is one transaction. Its first statement moves `cluster.last_change` from the change that this broker
made last to a new name, if the broker still owns the cluster. That locks the row, so changes follow each other, and a
change that others made, a restored backup or a replica that lagged behind is noticed before anything is overwritten.

**Unknown outcomes.** When the connection is lost while COMMIT is under way, the change is repeated under its name. The
row is locked until the first attempt has ended, so the repetition finds either its own name, and the change was made,
or the one before it, and makes the change now. If PostgreSQL stays away for too long, the change is refused, and the
next use of the catalog settles it the same way. Should it have been made after all, the broker has said that it was
not: it stops with CatalogLost, and reads what is true when it starts again.

**Time.** Calls block. A change takes five or six round trips. While PostgreSQL is away a call fails at once or after
some seconds, see `postgres_session`; settling an unknown outcome takes at most `SETTLE_SECONDS` more.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import psycopg

from penstock.catalog.contract import (
    PRODUCER_ID_BLOCK_SIZE,
    SECRET_BYTES,
    AclChoice,
    CatalogError,
    CatalogLost,
    ConfigChange,
    CredentialRow,
    FeatureChange,
    QuotaChange,
    TopicExists,
    TopicRow,
    UnknownTopic,
)
from penstock.catalog.identity import new_cluster_id
from penstock.catalog.postgres_ownership import Claim, Ownership
from penstock.catalog.postgres_schema import migrate
from penstock.catalog.postgres_session import Session, one_line
from penstock.catalog.shared import FIRST_LEADER_EPOCH, Kind, Placement, check_placements
from penstock.security.acls import AclBinding
from penstock.security.quotas import QuotaEntity
from penstock.wire.acls import AclOperation, AclPermission, AclResource, PatternType
from penstock.wire.config_resources import ResourceType

SETTLE_SECONDS = 5.0
_PAUSE_SECONDS = 0.1

# Waiting for synchronous standbys is part of COMMIT, and a statement's timeout would end it as if they had confirmed.
_COMMIT = "SET LOCAL statement_timeout = 0; COMMIT"

T = TypeVar("T")


def nothing(connection: Any) -> Any:
    return None


class PostgresCatalog:
    """See `contract.Catalog`. `on_lost` is called with CatalogLost, which every call raises from then on."""

    def __init__(self, session: Session, ownership: Ownership, on_lost: Callable[[CatalogLost], None]) -> None:
        self.ownership = ownership
        self.cluster_id = ownership.cluster_id
        self.lineage = ownership.lineage
        self._session = session
        self._shown = session.shown
        self._on_lost = on_lost
        self._last_change = ownership.last_change
        self._unsettled: str | None = None
        self._lost: CatalogLost | None = None

    @classmethod
    def open(
        cls, conninfo: str, schema: str, shown: str, claim: Claim, on_lost: Callable[[CatalogLost], None]
    ) -> PostgresCatalog:
        """Open or create the cluster in a schema, and own it. Raises CatalogError with what to do."""
        # The lock has a connection of its own: whatever happens to the other one, it is kept.
        ownership = Ownership(Session(conninfo, schema, shown), claim)
        session = Session(conninfo, schema, shown)
        try:
            ownership.lock()
            connection = session.connection()
            migrate(connection, schema, shown)
            connection.execute(
                "INSERT INTO cluster (cluster_id, secret) VALUES (%s, %s) ON CONFLICT DO NOTHING",
                (new_cluster_id(), os.urandom(SECRET_BYTES)),
            )
            ownership.take()
            return cls(session, ownership, on_lost)
        except psycopg.Error as error:
            session.close()
            ownership.close()
            raise CatalogError(f"cannot use the schema {schema!r} at {shown}: {one_line(error)}") from error
        except BaseException:
            session.close()
            ownership.close()
            raise

    def close(self) -> None:
        self._session.close()
        self.ownership.close()

    # -- features --------------------------------------------------------------------------------------------------

    def features(self) -> dict[str, int]:
        return dict(self._all("SELECT name, level FROM feature"))

    def features_epoch(self) -> int:
        return int(self._all("SELECT features_epoch FROM cluster")[0][0])

    def change_features(self, change: FeatureChange) -> int:
        def apply(connection: Any) -> None:
            found = dict(connection.execute("SELECT name, level FROM feature"))
            levels = {**found, **change(found)}
            if levels == found:
                return
            _each(
                connection,
                """
                INSERT INTO feature (name, level) VALUES (%s, %s)
                ON CONFLICT (name) DO UPDATE SET level = excluded.level
                """,
                list(levels.items()),
            )
            connection.execute("UPDATE cluster SET features_epoch = features_epoch + 1")

        return self._change(
            apply, lambda connection: _value(connection, "SELECT features_epoch FROM cluster"), Kind.FEATURES
        )

    # -- producer ids ----------------------------------------------------------------------------------------------

    def allocate_producer_id_block(self) -> range:
        def apply(connection: Any) -> None:
            connection.execute("UPDATE cluster SET next_producer_id = next_producer_id + %s", (PRODUCER_ID_BLOCK_SIZE,))

        end = self._change(apply, lambda connection: _value(connection, "SELECT next_producer_id FROM cluster"))
        return range(end - PRODUCER_ID_BLOCK_SIZE, end)

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
        def apply(connection: Any) -> None:
            if _row(connection, "SELECT 1 FROM topic WHERE name = %s OR topic_id = %s", (name, topic_id)):
                raise TopicExists(f"topic {name!r} exists")
            connection.execute(
                "INSERT INTO topic (topic_id, name, partitions) VALUES (%s, %s, %s)", (topic_id, name, partitions)
            )
            _write_topic_configs(connection, topic_id, configs)
            _write_placements(connection, topic_id, 0, placements)

        check_placements(partitions, placements)
        self._change(apply, nothing, *_kinds_of(placements))

    def set_partitions(self, topic_id: bytes, partitions: int, placements: Sequence[Placement] = ()) -> None:
        def apply(connection: Any) -> None:
            row = _row(connection, "SELECT name, partitions FROM topic WHERE topic_id = %s", (topic_id,))
            if row is None:
                raise _unknown(topic_id)
            if partitions < row[1]:
                raise CatalogError(f"topic {row[0]!r} has {row[1]} partitions and cannot shrink to {partitions}")
            check_placements(partitions - row[1], placements)
            connection.execute("UPDATE topic SET partitions = %s WHERE topic_id = %s", (partitions, topic_id))
            _write_placements(connection, topic_id, row[1], placements)

        self._change(apply, nothing, *_kinds_of(placements))

    def change_topic_configs(self, topic_id: bytes, change: ConfigChange) -> dict[str, str]:
        def read(connection: Any) -> dict[str, str]:
            return dict(connection.execute("SELECT name, value FROM topic_config WHERE topic_id = %s", (topic_id,)))

        def apply(connection: Any) -> None:
            if _row(connection, "SELECT 1 FROM topic WHERE topic_id = %s", (topic_id,)) is None:
                raise _unknown(topic_id)
            configs = change(read(connection))
            connection.execute("DELETE FROM topic_config WHERE topic_id = %s", (topic_id,))
            _write_topic_configs(connection, topic_id, configs)

        return self._change(apply, read, Kind.TOPICS)

    def delete_topic(self, topic_id: bytes) -> None:
        def apply(connection: Any) -> None:
            if not connection.execute("DELETE FROM topic WHERE topic_id = %s", (topic_id,)).rowcount:
                raise _unknown(topic_id)

        self._change(apply, nothing, Kind.TOPICS, Kind.PARTITIONS)

    # -- configs set at run time, of all but topics ----------------------------------------------------------------

    def config_resources(self, resource_type: ResourceType) -> dict[str, dict[str, str]]:
        resources: dict[str, dict[str, str]] = {}
        for resource_name, name, value in self._all(
            "SELECT resource_name, name, value FROM config WHERE resource_type = %s ORDER BY resource_name, name",
            (int(resource_type),),
        ):
            resources.setdefault(resource_name, {})[name] = value
        return resources

    def change_configs(self, resource_type: ResourceType, resource_name: str, change: ConfigChange) -> dict[str, str]:
        resource = int(resource_type), resource_name

        def read(connection: Any) -> dict[str, str]:
            query = "SELECT name, value FROM config WHERE resource_type = %s AND resource_name = %s"
            return dict(connection.execute(query, resource))

        def apply(connection: Any) -> None:
            configs = change(read(connection))
            connection.execute("DELETE FROM config WHERE resource_type = %s AND resource_name = %s", resource)
            _each(
                connection,
                "INSERT INTO config (resource_type, resource_name, name, value) VALUES (%s, %s, %s, %s)",
                [(*resource, name, value) for name, value in configs.items()],
            )

        return self._change(apply, read, Kind.CONFIGS)

    # -- security --------------------------------------------------------------------------------------------------

    def secret(self) -> bytes:
        return bytes(self._all("SELECT secret FROM cluster")[0][0])

    def acls(self) -> list[AclBinding]:
        return _rules(self._all(_ACLS))

    def change_acls(self, added: Collection[AclBinding], removed: Collection[AclBinding]) -> None:
        def apply(connection: Any) -> None:
            _delete_rules(connection, removed)
            _each(
                connection,
                """
                INSERT INTO acl (resource_type, resource_name, principal, operation, permission, host, pattern_type)
                VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING
                """,
                [_plain(rule) for rule in added],
            )

        self._change(apply, nothing, Kind.ACLS)

    def delete_acls(self, choose: AclChoice) -> None:
        def apply(connection: Any) -> None:
            _delete_rules(connection, choose(_rules(connection.execute(_ACLS))))

        self._change(apply, nothing, Kind.ACLS)

    def credentials(self) -> list[CredentialRow]:
        return [
            CredentialRow(*row)
            for row in self._all(
                """
                SELECT user_name, mechanism, iterations, salt, stored_key, server_key FROM credential
                ORDER BY user_name, mechanism
                """
            )
        ]

    def change_credentials(
        self, upserted: Collection[CredentialRow], deleted: Collection[tuple[str, int]]
    ) -> frozenset[tuple[str, int]]:
        delete = "DELETE FROM credential WHERE user_name = %s AND mechanism = %s"
        found: set[tuple[str, int]] = set()

        def apply(connection: Any) -> None:
            found.clear()
            found.update(key for key in deleted if connection.execute(delete, (key[0], int(key[1]))).rowcount)
            _each(connection, delete, [(row.user, int(row.mechanism)) for row in upserted])
            _each(
                connection,
                """
                INSERT INTO credential (user_name, mechanism, iterations, salt, stored_key, server_key)
                VALUES (%s, %s, %s, %s, %s, %s)
                """,
                [(row.user, int(row.mechanism), *row[2:]) for row in upserted],
            )

        self._change(apply, nothing, Kind.CREDENTIALS)
        return frozenset(found)

    def quotas(self) -> dict[QuotaEntity, dict[str, float]]:
        quotas: dict[QuotaEntity, dict[str, float]] = {}
        for text, name, value in self._all("SELECT entity, name, value FROM quota ORDER BY entity, name"):
            entity = tuple((kind, of) for kind, of in json.loads(text))
            quotas.setdefault(entity, {})[name] = value
        return quotas

    def change_quotas(self, changes: Mapping[QuotaEntity, QuotaChange]) -> None:
        def apply(connection: Any) -> None:
            for entity, change in changes.items():
                text = json.dumps(entity)
                query = "SELECT name, value FROM quota WHERE entity = %s ORDER BY name"
                values = change(dict(connection.execute(query, (text,))))
                connection.execute("DELETE FROM quota WHERE entity = %s", (text,))
                _each(
                    connection,
                    "INSERT INTO quota (entity, name, value) VALUES (%s, %s, %s)",
                    [(text, name, value) for name, value in values.items()],
                )

        self._change(apply, nothing, Kind.QUOTAS)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _all(self, query: str, parameters: tuple[object, ...] = ()) -> list[Any]:
        self._check_usable()
        return self._read(query, parameters)

    def _read(self, query: str, parameters: tuple[object, ...] = ()) -> list[Any]:
        """Ask once more on a new connection if the one there was is lost, as after a restart of PostgreSQL."""
        is_repetition = False
        while True:
            connection = self._session.connection()
            try:
                found: list[Any] = connection.execute(query, parameters).fetchall()
                return found
            except psycopg.Error as error:
                if is_repetition or not self._session.is_lost:
                    raise CatalogError(f"cannot read the catalog at {self._shown}: {one_line(error)}") from error
            is_repetition = True

    def _change(self, apply: Callable[[Any], None], result: Callable[[Any], T] = nothing, *kinds: Kind) -> T:
        """Make a change and compute the answer to it. Both functions run again if the connection is lost."""
        self._check_usable()
        change = uuid.uuid4().hex
        is_repetition = False
        settle_until: float | None = None
        while True:
            try:
                return self._attempt(change, apply, result, kinds)
            except CatalogLost:
                raise
            except CatalogError as error:
                if self._unsettled is None and (is_repetition or not isinstance(error, _Interrupted)):
                    raise
                if self._unsettled is not None:
                    settle_until = settle_until or time.monotonic() + SETTLE_SECONDS
                    if time.monotonic() >= settle_until:
                        raise
                    time.sleep(_PAUSE_SECONDS)
            is_repetition = True

    def _attempt(
        self, change: str, apply: Callable[[Any], None], result: Callable[[Any], T], kinds: Collection[Kind]
    ) -> T:
        connection = self._session.connection()
        try:
            connection.execute("BEGIN")
            if self._advance(connection, change):
                self._unsettled = None
                apply(connection)
                self._note(connection, kinds)
            answer = result(connection)
        except psycopg.Error as error:
            self._roll_back(connection)
            raise self._refusal(error) from error
        except BaseException:
            self._roll_back(connection)
            raise
        try:
            connection.execute(_COMMIT)
        except psycopg.Error as error:
            if self._session.is_lost:
                self._unsettled = change
            raise self._refusal(error) from error
        self._unsettled = None
        self._last_change = change
        return answer

    def _advance(self, connection: Any, change: str) -> bool:
        """Move on to a change, under the lock on the row; False if it was made by an attempt before this one."""
        moved = connection.execute(
            "UPDATE cluster SET last_change = %s WHERE last_change = %s AND owner_epoch = %s",
            (change, self._last_change, self.ownership.epoch),
        )
        if moved.rowcount:
            return True
        found = _row(connection, "SELECT owner_epoch, last_change, owner FROM cluster")
        self._check_owner(found)
        if found[1] == change:
            return False
        raise self._lose(
            CatalogLost(
                f"the catalog at {self._shown} is not as this broker left it: it was changed by others, restored from "
                "a backup, or PostgreSQL failed over to a replica that lagged behind. Start the broker again if what "
                "is there now is right"
            )
        )

    def _note(self, connection: Any, kinds: Collection[Kind]) -> None:
        """Tell other brokers what a change is about: here there are none."""

    def _check_usable(self) -> None:
        if self._lost is not None:
            raise self._lost
        if self._unsettled is None:
            return
        # The lock is free only when the attempt whose outcome is unknown has ended.
        found = self._read("SELECT owner_epoch, last_change, owner FROM cluster FOR UPDATE")
        self._check_owner(found[0] if found else None)
        if found[0][1] == self._unsettled:
            raise self._lose(
                CatalogLost(
                    f"a change that was refused, because PostgreSQL at {self._shown} went away while it was made, has "
                    "been made after all. Start the broker again: it reads what is there"
                )
            )
        self._unsettled = None

    def _check_owner(self, found: Any) -> None:
        if found is None or found[0] != self.ownership.epoch:
            raise self._lose(self.ownership.lost(found[2] if found else "nobody"))

    def _lose(self, lost: CatalogLost) -> CatalogLost:
        self._lost = lost
        self._on_lost(lost)
        return lost

    def _roll_back(self, connection: Any) -> None:
        try:
            connection.execute("ROLLBACK")
        except psycopg.Error:
            connection.close()

    def _refusal(self, error: psycopg.Error) -> CatalogError:
        kind = _Interrupted if self._session.is_lost else CatalogError
        return kind(f"cannot change the catalog at {self._shown}: {one_line(error)}")


class _Interrupted(CatalogError):
    """The connection was lost."""


def _row(connection: Any, query: str, parameters: tuple[object, ...] = ()) -> Any:
    return connection.execute(query, parameters).fetchone()


def _value(connection: Any, query: str) -> int:
    return int(connection.execute(query).fetchone()[0])


def _each(connection: Any, statement: str, rows: list[tuple[Any, ...]]) -> None:
    if rows:
        connection.cursor().executemany(statement, rows)


def _write_topic_configs(connection: Any, topic_id: bytes, configs: Mapping[str, str]) -> None:
    _each(
        connection,
        "INSERT INTO topic_config (topic_id, name, value) VALUES (%s, %s, %s)",
        [(topic_id, name, value) for name, value in configs.items()],
    )


def _write_placements(connection: Any, topic_id: bytes, first: int, placements: Sequence[Placement]) -> None:
    _each(
        connection,
        """
        INSERT INTO partition (topic_id, partition_index, leader, leader_epoch, replicas) VALUES (%s, %s, %s, %s, %s)
        """,
        [
            (topic_id, index, placement.leader, FIRST_LEADER_EPOCH, list(placement.replicas))
            for index, placement in enumerate(placements, first)
        ],
    )


def _kinds_of(placements: Sequence[Placement]) -> tuple[Kind, ...]:
    return (Kind.TOPICS, Kind.PARTITIONS) if placements else (Kind.TOPICS,)


_ACLS = """
    SELECT resource_type, resource_name, principal, operation, permission, host, pattern_type FROM acl
    ORDER BY resource_type, resource_name, principal, operation, permission, host, pattern_type
    """


def _rules(rows: Iterable[Any]) -> list[AclBinding]:
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
        for resource_type, resource_name, principal, operation, permission, host, pattern_type in rows
    ]


def _delete_rules(connection: Any, rules: Iterable[AclBinding]) -> None:
    _each(
        connection,
        """
        DELETE FROM acl WHERE resource_type = %s AND resource_name = %s AND principal = %s AND operation = %s
        AND permission = %s AND host = %s AND pattern_type = %s
        """,
        [_plain(rule) for rule in rules],
    )


def _plain(rule: AclBinding) -> tuple[Any, ...]:
    """The columns of a rule, with numbers for what is an enumeration."""
    return tuple(value if isinstance(value, str) else int(value) for value in rule)


def _unknown(topic_id: bytes) -> UnknownTopic:
    return UnknownTopic(f"there is no topic with id {topic_id.hex()}")
