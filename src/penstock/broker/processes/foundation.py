"""What one of several brokers on a machine stands on: logs in a folder of its own, and the catalog that all share."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from penstock.broker.foundation import CATALOG_FILE, Foundation, OnFailure, Settings, Shared, open_sockets
from penstock.broker.histogram import Histogram
from penstock.broker.placement import among_fixed_owners
from penstock.broker.processes.folder import folder_of
from penstock.catalog.sqlite import SqliteCatalog
from penstock.log.files import FolderLock
from penstock.storage.local import LocalStorage
from penstock.storage.relocation import mark_new

if TYPE_CHECKING:
    import socket

    from penstock.broker.config import BrokerConfig
    from penstock.broker.world import World


def foundation_among(
    node_ids: Sequence[int],
    bound: Sequence[socket.socket],
    settings: Settings,
    config: BrokerConfig,
    world: World,
    on_failure: OnFailure,
) -> Foundation:
    """For the broker `config.node_id` of these; `bound` are the sockets of its listeners.

    Raises StorageError, CatalogError or FolderInUse with what to do.
    """
    folder = folder_of(settings.data, config.node_id)
    is_new = not folder.exists() or not any(folder.iterdir())
    folder.mkdir(parents=True, exist_ok=True)
    flush_times = Histogram()
    with ExitStack() as undo:
        undo.callback(FolderLock(folder).release)
        catalog = SqliteCatalog.open(settings.data / CATALOG_FILE)
        with ExitStack() as unused:
            unused.callback(catalog.close)
            if is_new and all(row.leader != config.node_id for row in catalog.partitions()):
                mark_new(folder)
            storage = LocalStorage(
                folder,
                world.now_ms,
                world.call_soon_threadsafe,
                on_failure,
                world.precise,
                flush_times.add,
                world.threads,
                world.new_id,
            )
            unused.pop_all()
        return Foundation(
            catalog,
            storage,
            lambda: open_sockets(settings, config, bound),
            undo.pop_all().close,
            flush_times,
            shared=Shared(catalog, among_fixed_owners(node_ids), uuid.uuid4().hex),
        )
