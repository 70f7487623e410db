"""Builds the object engine of a broker that is started with `--store`: records there, commits in PostgreSQL.

The data folder holds the cache alone, so a broker may be started with an empty one. Which store a cluster's records are
in is remembered with the cluster: another store, or none, is refused. A store is remembered once it was found to work,
so that a mistake in the first address can be corrected.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.broker.topics import INTERNAL_TOPICS
from penstock.catalog.contract import CatalogError
from penstock.storage.contract import StorageError

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.broker.cluster_address import ClusterAddress
    from penstock.broker.config import BrokerConfig
    from penstock.broker.foundation import OnFailure
    from penstock.broker.world import World
    from penstock.catalog.postgres_membership import PostgresMembership
    from penstock.catalog.postgres_session import Session
    from penstock.storage.contract import LeasedStorage
    from penstock.storage.objects.commit_log import CommitLog
    from penstock.storage.objects.key_space import KeySpace
    from penstock.storage.objects.store import ObjectStore

CACHE_FOLDER = "cache"
_CLAIM = "store "  # with which a broker that was alone with its store named it


def open_commit_log(address: ClusterAddress) -> CommitLog:
    from penstock.catalog.postgres_session import Session
    from penstock.storage.objects.postgres_commit_log import PostgresCommitLog

    return PostgresCommitLog(lambda: Session(address.conninfo, address.schema, address.shown))


def open_session(address: ClusterAddress) -> Session:
    """Of a command that is no broker. Raises CatalogError with what to do, also for a schema that is too new."""
    try:
        from penstock.catalog.postgres_summary import open_usable
    except ImportError as error:
        raise CatalogError(f"this needs psycopg ({error}): pip install 'penstock[cluster]'") from error
    return open_usable(address.conninfo, address.schema, address.shown)


def open_leases(address: ClusterAddress) -> PostgresMembership:
    """Of a command that is no broker, and has no lease."""
    from penstock.catalog.postgres_membership import PostgresMembership
    from penstock.catalog.postgres_shared import LEASE_SECONDS

    return PostgresMembership(address.conninfo, address.schema, address.shown, LEASE_SECONDS)


def open_store(url: str) -> ObjectStore:
    """One that outlives this process. Raises StorageError with what to do."""
    from penstock.storage.objects.store import ObjectStore

    store = ObjectStore.open(url)
    if store.is_forgetful:
        raise StorageError(f"--store {url} keeps records in memory and forgets them: name a bucket or a folder")
    return store


@dataclass(frozen=True, slots=True)
class ClusterRecords:
    """What a command that is no broker sees of a cluster's records."""

    cluster_id: str
    topics: dict[bytes, str]
    """Names by id."""
    commits: CommitLog
    store: ObjectStore
    keys: KeySpace

    def close(self) -> None:
        self.commits.close()


def open_records(address: ClusterAddress, store_url: str | None = None) -> ClusterRecords:
    """The records of a cluster, whether or not brokers run. The store is the one that the cluster remembers.

    Raises CatalogError or StorageError with what to do.
    """
    try:
        from penstock.catalog.postgres_summary import read_summary
        from penstock.storage.objects.key_space import KeySpace
        from penstock.storage.objects.store import ObjectStore
    except ImportError as error:
        raise CatalogError(f"this needs psycopg and obstore ({error}): pip install 'penstock[cluster]'") from error
    summary = read_summary(open_session(address))
    url = store_url or summary.store or (summary.claim or "").removeprefix(_CLAIM)
    if not (store_url or summary.store or (summary.claim or "").startswith(_CLAIM)):
        raise CatalogError(
            f"the cluster at {address.shown} keeps its records in the data folder of its broker, not in an object store"
        )
    keys = KeySpace.of(summary.cluster_id, summary.incarnation, summary.owned_incarnations)
    return ClusterRecords(summary.cluster_id, summary.topics, open_commit_log(address), ObjectStore.open(url), keys)


def checked_keys(store: ObjectStore, address: ClusterAddress, cluster_id: str, node_id: int) -> KeySpace:
    """Where a broker keeps its objects, which were found to be readable and writable there.

    A new cluster claims the address of the store. Raises StorageError with what to do.
    """
    from penstock.catalog.postgres_session import Session
    from penstock.catalog.postgres_summary import read_summary
    from penstock.storage.objects.address_claim import claim_address
    from penstock.storage.objects.key_space import KeySpace

    summary = read_summary(Session(address.conninfo, address.schema, address.shown))
    keys = KeySpace.of(cluster_id, summary.incarnation, summary.owned_incarnations)
    store.check(f"{keys.prefix}/check/{node_id}")
    if summary.store is None:
        claim_address(store, cluster_id)
    return keys


def object_storage(
    data: Path,
    store: ObjectStore,
    keys: KeySpace,
    commits: CommitLog,
    config: BrokerConfig,
    world: World,
    on_failure: OnFailure,
    *,
    broker_epoch: int,
) -> LeasedStorage:
    """`broker_epoch` is that of this broker's registration; leaders are those that the catalog names."""
    from penstock.storage.objects.committer import CommitSettings
    from penstock.storage.objects.storage import EngineSettings, ObjectStorage
    from penstock.storage.objects.sweep import SweepSettings
    from penstock.storage.objects.tails import TailSettings

    folder = data / CACHE_FOLDER
    folder.mkdir(exist_ok=True)
    orphan_seconds = config.penstock_store_orphan_age_ms / 1000
    sweep = SweepSettings()
    settings = EngineSettings(
        node_id=config.node_id,
        broker_epoch=broker_epoch,
        keys=keys,
        is_alone=False,
        commit=CommitSettings(window_ms=config.penstock_store_window_ms, quiet_ms=config.penstock_store_quiet_ms),
        sweep=SweepSettings(
            grace_seconds=config.penstock_store_delete_delay_ms / 1000,
            orphan_seconds=orphan_seconds,
            list_seconds=min(sweep.list_seconds, orphan_seconds / 2),
            round_seconds=min(sweep.round_seconds, orphan_seconds / 2),
            idle_seconds=min(sweep.idle_seconds, orphan_seconds),
        ),
        tails=TailSettings(
            bytes=config.penstock_store_tail_bytes,
            extents=config.penstock_store_tail_extents,
            seconds=config.penstock_store_tail_age_ms / 1000,
            all_bytes=config.penstock_store_tails_bytes,
            inline_bytes=2 * config.penstock_store_tails_bytes,
        ),
        cache_bytes=config.penstock_store_cache_bytes,
    )
    return ObjectStorage(
        folder,
        world.now_ms,
        world.call_soon_threadsafe,
        on_failure,
        commits,
        store,
        settings,
        INTERNAL_TOPICS,
        world.threads,
        world.new_id,
    )
