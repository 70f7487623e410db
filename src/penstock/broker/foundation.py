"""What a broker stands on: a catalog, a storage and listeners.

`local_foundation` is the embedded one: a locked data folder with SQLite and segment files in it, and plain sockets. A
test may hand a broker another one, for example in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from penstock.broker.listeners import Address, Listener, ListenError, SocketListener, resolve_addresses
from penstock.catalog.contract import Catalog
from penstock.catalog.sqlite import SqliteCatalog
from penstock.log.files import FolderLock
from penstock.security.protocols import SecurityProtocol
from penstock.storage.contract import Storage, StorageError
from penstock.storage.local import LocalStorage

if TYPE_CHECKING:
    from penstock.broker.config import BrokerConfig
    from penstock.broker.tls import TlsServer
    from penstock.broker.world import World

CATALOG_FILE = "catalog.sqlite"


@dataclass(slots=True)
class Settings:
    """What a broker is started with; `configs` are Kafka's names and string values."""

    data: Path = Path("penstock-data")
    listen: list[str] = field(default_factory=lambda: ["127.0.0.1:9092"])
    advertise: list[str] = field(default_factory=list)
    configs: dict[str, str] = field(default_factory=dict, repr=False)
    """May hold secrets."""
    unnamed: SecurityProtocol = SecurityProtocol.PLAINTEXT
    """The protocol of addresses that name none."""
    insecure: bool = False
    """Whether an address beyond this machine may be served without authentication though it names no protocol."""


@dataclass(slots=True)
class Foundation:
    catalog: Catalog
    storage: Storage
    open_listeners: Callable[[], list[Listener]]
    """Called when everything else is ready: from then on clients can connect."""
    release: Callable[[], None] = lambda: None
    """Called last, when catalog and storage are closed."""


OnFailure: TypeAlias = Callable[[StorageError], None]
LayFoundation: TypeAlias = "Callable[[Settings, BrokerConfig, World, OnFailure], Foundation]"


def local_foundation(settings: Settings, config: BrokerConfig, world: World, on_failure: OnFailure) -> Foundation:
    """Files in `settings.data`, sockets at `settings.listen`. Raises StorageError or FolderInUse with what to do."""
    settings.data.mkdir(parents=True, exist_ok=True)
    lock = FolderLock(settings.data)
    try:
        catalog = SqliteCatalog.open(settings.data / CATALOG_FILE)
        storage = LocalStorage(settings.data, world.now_ms, world.call_soon_threadsafe, on_failure)
    except BaseException:
        lock.release()
        raise
    return Foundation(catalog, storage, lambda: _sockets(settings, config), lock.release)


@contextmanager
def open_catalog(data: Path) -> Iterator[Catalog]:
    """The catalog of a folder on which no broker runs, under the folder's lock. The folder is created if need be."""
    data.mkdir(parents=True, exist_ok=True)
    lock = FolderLock(data)
    try:
        catalog = SqliteCatalog.open(data / CATALOG_FILE)
        try:
            yield catalog
        finally:
            catalog.close()
    finally:
        lock.release()


def _sockets(settings: Settings, config: BrokerConfig) -> list[Listener]:
    listeners: list[Listener] = []
    try:
        addresses = resolve_addresses(settings.listen, config, settings.unnamed.value)
        if not addresses:
            raise ListenError("no listener is left for clients: controller.listener.names names all of them")
        for address in addresses:
            opened = SocketListener(
                address,
                backlog=config.socket_listen_backlog_size,
                send_buffer_bytes=config.socket_send_buffer_bytes,
                receive_buffer_bytes=config.socket_receive_buffer_bytes,
                tls=_tls(address, config) if address.protocol.has_tls else None,
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
