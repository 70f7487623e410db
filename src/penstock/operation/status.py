"""How a cluster stands, by what PostgreSQL and the store say. Changes nothing; brokers may run or not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import psycopg

from penstock.catalog.postgres_session import Session, describe
from penstock.storage.objects.commit_log import CommitLog
from penstock.storage.objects.inspection import YOUNG_SECONDS
from penstock.storage.objects.key_space import KeySpace
from penstock.storage.objects.store import ObjectStore


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    node_id: int
    state: str
    """running, draining, lease over (nobody has taken over yet) or stopped."""
    lease_seconds: float | None
    """What is left of the lease, by PostgreSQL's clock."""
    addresses: list[str]
    rack: str | None
    epoch: int
    leads: int


@dataclass(frozen=True, slots=True)
class Orphans:
    objects: int
    bytes: int


@dataclass(slots=True)
class ClusterStatus:
    cluster_id: str
    incarnation: str
    store: str
    topics: int
    partitions: int
    leaderless: int
    """Partitions whose leader is nobody, or a broker without a lease."""
    objects: int
    object_bytes: int
    segments: int
    segment_bytes: int
    extents: int
    """Committed pieces that are not in a segment yet."""
    extent_bytes: int
    inline_bytes: int
    """Of the extents, what is in PostgreSQL itself."""
    extents_max: int
    """Of one partition: what a take-over has to read."""
    marked: int
    """Objects that nothing names any more, whose removal is due."""
    brokers: list[BrokerStatus] = field(default_factory=list)
    orphans: Orphans | None = None
    """None if the store was not listed."""


def read_status(session: Session, store_shown: str) -> ClusterStatus:
    """Raises CatalogError."""
    try:
        connection = session.connection()
        brokers = [_broker(row) for row in connection.execute(_BROKERS).fetchall()]
        row = connection.execute(_CLUSTER).fetchone()
    except psycopg.Error as error:
        raise describe("read the cluster", session, error) from error
    cluster_id, incarnation, *counts = row
    found = ClusterStatus(cluster_id, incarnation, store_shown, *counts)
    found.brokers = brokers
    return found


def find_orphans(commits: CommitLog, store: ObjectStore, keys: KeySpace) -> Orphans:
    """Objects that nothing names and that are older than any upload that may still be committed. Lists the store."""
    listed = {each.key: each for prefix in keys.prefixes for each in store.list(prefix + "/") if keys.owns(each.key)}
    known = commits.known_objects()
    left = [each for key, each in listed.items() if key not in known and each.age_seconds >= YOUNG_SECONDS]
    return Orphans(len(left), sum(each.size for each in left))


def _broker(row: Any) -> BrokerStatus:
    node_id, is_live, is_draining, lease, endpoints, rack, epoch, leads = row
    state = "stopped"
    if is_live:
        state = "lease over" if lease < 0 else "draining" if is_draining else "running"
    addresses = [f"{host}:{port}" for host, port in endpoints.values()]
    return BrokerStatus(node_id, state, round(lease, 1) if is_live else None, addresses, rack, epoch, leads)


_BROKERS = """
SELECT node_id, is_live, is_draining, extract(epoch FROM lease_until - now())::float8, endpoints, rack, epoch,
    (SELECT count(*) FROM partition WHERE leader = node_id)
FROM broker ORDER BY node_id
"""

_CLUSTER = """
SELECT cluster_id, incarnation,
    (SELECT count(*) FROM topic), (SELECT coalesce(sum(partitions), 0)::bigint FROM topic),
    (SELECT count(*) FROM partition WHERE NOT EXISTS (
        SELECT FROM broker WHERE node_id = leader AND is_live AND lease_until > now())),
    (SELECT count(*) FROM stored_object), (SELECT coalesce(sum(size), 0)::bigint FROM stored_object),
    (SELECT count(*) FROM segment), (SELECT coalesce(sum(log_size), 0)::bigint FROM segment),
    (SELECT count(*) FROM extent), (SELECT coalesce(sum(size), 0)::bigint FROM extent),
    (SELECT coalesce(sum(length(data)), 0)::bigint FROM extent),
    (SELECT coalesce(max(found), 0) FROM (
        SELECT count(*) AS found FROM extent GROUP BY topic_id, partition_index) AS counted),
    (SELECT count(*) FROM stored_object WHERE marked_at IS NOT NULL)
FROM cluster
"""
