"""What a broker stands on: a catalog, a storage and listeners.

`local_foundation` is the real one: a locked data folder with segment files in it, the catalog in SQLite beside them or
in PostgreSQL, and sockets. A test may hand a broker another one, for example in memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from penstock.broker.cluster_folder import ClusterFolder, check_embedded
from penstock.broker.histogram import Histogram
from penstock.broker.listeners import Address, Listener, ListenError, SocketListener, resolve_addresses
from penstock.broker.placement import PlacePartitions
from penstock.catalog.contract import Catalog, CatalogError
from penstock.catalog.shared import SharedCatalog
from penstock.catalog.sqlite import SqliteCatalog
from penstock.log.files import FolderLock, make_data_folder
from penstock.portable import host_name
from penstock.security.protocols import SecurityProtocol
from penstock.storage.contract import LeasedStorage, Storage, StorageError
from penstock.storage.local import LocalStorage

if TYPE_CHECKING:
    import socket

    from penstock.broker.catalog_watch import CatalogWatch
    from penstock.broker.config import BrokerConfig
    from penstock.broker.membership import Membership
    from penstock.broker.tls import TlsServer
    from penstock.broker.world import World
    from penstock.storage.moment import Moment

CATALOG_FILE = "catalog.sqlite"
BACKUP_FOLDER = ".penstock_backup"
"""In a data folder, while a command makes a backup of it (`backups`)."""
BROKERS_FOLDER = "brokers"
"""In a data folder that several brokers share, a folder of each (`processes`)."""


@dataclass(slots=True)
class Settings:
    """What a broker is started with; `configs` are Kafka's names and string values."""

    data: Path = Path("penstock-data")
    listen: list[str] = field(default_factory=lambda: ["127.0.0.1:9092"])
    advertise: list[str] = field(default_factory=list)
    configs: dict[str, str] = field(default_factory=dict, repr=False)
    """May hold secrets."""
    cluster: str | None = field(default=None, repr=False)
    """The PostgreSQL database that holds the catalog, in place of the data folder. May hold a password."""
    store: str | None = None
    """The object store that holds the records, in place of the data folder; needs `cluster`."""
    unnamed: SecurityProtocol = SecurityProtocol.PLAINTEXT
    """The protocol of addresses that name none."""
    insecure: bool = False
    """Whether an address beyond this machine may be served without authentication though it names no protocol."""


@dataclass(slots=True)
class Shared:
    """What a broker that is one of several knows besides."""

    catalog: SharedCatalog
    place: PlacePartitions
    instance_id: str
    max_age_seconds: float | None = 0.0
    """How old what was read from the catalog may be when a request rests on it; 0 where looking costs nothing, None
    where a thread reads ahead."""
    membership: Membership | None = None
    """What holds the lease of this broker, where leaders move."""
    storage: LeasedStorage | None = None
    """The storage, where leaders move."""


class Pinned(Protocol):
    """A catalog as it was at one moment."""

    def copy(self, path: Path) -> None: ...

    def close(self) -> None: ...


@dataclass(slots=True)
class BackupSource:
    """What a backup is made of, where everything is in one data folder."""

    data: Path
    fix_moment: Callable[[], Moment]
    end_moment: Callable[[], None]
    pin_catalog: Callable[[], Pinned]


@dataclass(slots=True)
class Foundation:
    catalog: Catalog
    storage: Storage
    open_listeners: Callable[[], list[Listener]]
    """Called when everything else is ready: from then on clients can connect."""
    release: Callable[[], None] = lambda: None
    """Called last, when catalog and storage are closed."""
    flush_times: Histogram = field(default_factory=Histogram)
    """How long the rounds of syncing logs took."""
    ownership_confirmed: Callable[[], float] | None = None
    """When it was last confirmed that this broker owns its catalog, where others may take it over."""
    shared: Shared | None = None
    """For one of several brokers; its catalog is the `catalog` above."""
    backup: BackupSource | None = None


OnFailure: TypeAlias = Callable[[StorageError | CatalogError], None]
LayFoundation: TypeAlias = "Callable[[Settings, BrokerConfig, World, OnFailure], Foundation]"


def local_foundation(settings: Settings, config: BrokerConfig, world: World, on_failure: OnFailure) -> Foundation:
    """Files in `settings.data`, sockets at `settings.listen`.

    Raises StorageError, CatalogError or FolderInUse with what to do.
    """
    if settings.store is not None and settings.cluster is None:
        raise CatalogError("--store needs --cluster: which records count is agreed upon in PostgreSQL")
    make_data_folder(settings.data)
    with ExitStack() as undo:
        undo.callback(FolderLock(settings.data).release)
        if settings.store is not None:
            return _member_foundation(settings, settings.store, config, world, on_failure, undo)
        catalog: Catalog
        confirmed: Callable[[], float] | None = None
        flush_times = Histogram()
        if settings.cluster is None:
            check_embedded(settings.data)
            if (settings.data / BROKERS_FOLDER).is_dir():
                raise CatalogError(
                    f"{settings.data} is the data folder of several brokers: start it with --brokers auto"
                )
            catalog = SqliteCatalog.open(settings.data / CATALOG_FILE)
        else:
            catalog, watch = _cluster_catalog(settings.data, settings.cluster, world, on_failure, undo)
            confirmed = lambda: watch.confirmed  # noqa: E731
        with ExitStack() as unused:
            unused.callback(catalog.close)
            storage = LocalStorage(
                settings.data,
                world.now_ms,
                world.call_soon_threadsafe,
                on_failure,
                world.precise,
                flush_times.add,
                world.threads,
                world.new_id,
            )
            unused.pop_all()
        backup: BackupSource | None = None
        if isinstance(catalog, SqliteCatalog):
            backup = BackupSource(settings.data, storage.fix_moment, storage.end_moment, catalog.pin)
        return Foundation(
            catalog,
            storage,
            lambda: open_sockets(settings, config),
            undo.pop_all().close,
            flush_times,
            confirmed,
            backup=backup,
        )


def _member_foundation(
    settings: Settings, store: str, config: BrokerConfig, world: World, on_failure: OnFailure, undo: ExitStack
) -> Foundation:
    """One of the brokers of a cluster: the catalog and the commits in PostgreSQL, the records in an object store."""
    from penstock.broker.clock_check import check_clock
    from penstock.broker.cluster_address import ClusterAddress
    from penstock.broker.joining import Links, join
    from penstock.broker.object_engine import checked_keys, object_storage, open_commit_log, open_store

    assert settings.cluster is not None
    address = ClusterAddress.parse(settings.cluster)
    try:
        from penstock.catalog.postgres_membership import PostgresMembership
        from penstock.catalog.postgres_prefetched import PrefetchedCatalog, Prefetching
    except ImportError as error:
        raise CatalogError(f"--cluster needs psycopg ({error}): pip install 'penstock[cluster]'") from error
    _check_folder(settings.data)
    records = open_store(store)
    folder = ClusterFolder(settings.data)
    lease_seconds = config.broker_session_timeout_ms / 1000
    with ExitStack() as unused:
        catalog = PrefetchedCatalog.open_shared(
            address.conninfo,
            address.schema,
            address.shown,
            store=records.shown,
            cluster_id=folder.cluster_id,
            on_lost=on_failure,
            lease_seconds=lease_seconds,
        )
        unused.callback(catalog.close)
        check_clock(catalog.clock_seconds(), world.now_ms() / 1000, address.shown)
        keys = checked_keys(records, address, catalog.cluster_id, config.node_id)
        catalog.use_store(records.shown)
        leases = PostgresMembership(address.conninfo, address.schema, address.shown, lease_seconds)
        unused.callback(leases.close)
        reader = Prefetching(leases.session, lambda lost: None, lease_seconds)

        def open_storage(broker_epoch: int) -> LeasedStorage:
            folder.belong_to(catalog.lineage)
            commits = open_commit_log(address)
            return object_storage(
                settings.data, records, keys, commits, config, world, on_failure, broker_epoch=broker_epoch
            )

        foundation = join(
            Links(catalog, reader, leases),
            folder.folder_id,
            open_storage,
            lambda: open_sockets(settings, config),
            config,
            world,
            on_failure,
        )
        unused.pop_all()
    undo.callback(foundation.release)
    foundation.release = undo.pop_all().close
    return foundation


def _check_folder(data: Path) -> None:
    if (data / CATALOG_FILE).exists():
        raise CatalogError(
            f"{data} is the data folder of a broker without --cluster, whose topics are in {CATALOG_FILE}: "
            "name an empty folder in --data"
        )


def _cluster_catalog(
    data: Path, cluster: str, world: World, on_failure: OnFailure, undo: ExitStack
) -> tuple[Catalog, CatalogWatch]:
    """The catalog in PostgreSQL, owned by this broker, and checked to be so until `undo`."""
    from penstock.broker.catalog_watch import CatalogWatch
    from penstock.broker.cluster_address import ClusterAddress

    address = ClusterAddress.parse(cluster)
    try:
        from penstock.catalog.postgres import PostgresCatalog
        from penstock.catalog.postgres_ownership import Claim
    except ImportError as error:
        raise CatalogError(f"--cluster needs psycopg ({error}): pip install 'penstock[cluster]'") from error
    _check_folder(data)
    folder = ClusterFolder(data)
    owner = f"{host_name()}, process {os.getpid()}, data folder {data.resolve()}"
    claim = Claim(owner, folder.folder_id, folder.cluster_id)
    catalog = PostgresCatalog.open(address.conninfo, address.schema, address.shown, claim, on_failure)
    try:
        folder.belong_to(catalog.lineage)
        watch = CatalogWatch(world, catalog.ownership.check, on_failure)
        watch.start()
    except BaseException:
        catalog.close()
        raise
    undo.callback(watch.stop)
    return catalog, watch


@contextmanager
def open_catalog(data: Path) -> Iterator[Catalog]:
    """The catalog of a folder on which no broker runs, under the folder's lock. The folder is created if need be."""
    make_data_folder(data)
    lock = FolderLock(data)
    try:
        check_embedded(data)
        catalog = SqliteCatalog.open(data / CATALOG_FILE)
        try:
            yield catalog
        finally:
            catalog.close()
    finally:
        lock.release()


def open_sockets(settings: Settings, config: BrokerConfig, bound: Sequence[socket.socket] = ()) -> list[Listener]:
    """Listen at `settings.listen`; `bound` are sockets that have these addresses already."""
    listeners: list[Listener] = []
    sockets: Sequence[socket.socket | None]
    try:
        addresses = resolve_addresses(settings.listen, config, settings.unnamed.value)
        if not addresses:
            raise ListenError("no listener is left for clients: controller.listener.names names all of them")
        sockets = bound or [None] * len(addresses)
        for address, sock in zip(addresses, sockets, strict=True):
            opened = SocketListener(
                address,
                backlog=config.socket_listen_backlog_size,
                send_buffer_bytes=config.socket_send_buffer_bytes,
                receive_buffer_bytes=config.socket_receive_buffer_bytes,
                tls=_tls(address, config) if address.protocol.has_tls else None,
                bound=sock,
            )
            listeners.append(opened)
    except BaseException:
        for listener in listeners:
            listener.close()
        raise
    return listeners


def _tls(address: Address, config: BrokerConfig) -> TlsServer:
    from penstock.broker.tls import TlsServer

    return TlsServer(config.for_listener(address.name), address.name, address.protocol)
