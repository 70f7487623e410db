"""Where the brokers of a test keep what they have: in one PostgreSQL and one bucket, apart by their data folders."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

    from penstock.broker.foundation import Settings
    from penstock.catalog.contract import Catalog

ENGINE = "PENSTOCK_TEST_ENGINE"
POSTGRES = "PENSTOCK_TEST_POSTGRES"
ENGINES = ("objects", "cluster")
BROKERS = {"objects": 1, "cluster": 3}


def address_of(data: Path) -> tuple[str, str]:
    """The cluster and the store of the broker, or brokers, whose data folder this is."""
    name = "t" + hashlib.sha256(str(data.absolute()).encode()).hexdigest()[:20]
    return f"{os.environ[POSTGRES]}?schema={name}", f"s3://bucket/{name}"


def use(patch: pytest.MonkeyPatch) -> None:
    """Have brokers of `penstock.testing` use the engine that was chosen; without one nothing changes."""
    if ENGINE not in os.environ:
        return
    from penstock.broker import foundation
    from penstock.testing import broker as testing

    def settings(data: Path, *arguments: Any, **named: Any) -> Settings:
        cluster, store = address_of(data)
        return foundation.Settings(data, *arguments, **{**named, "cluster": cluster, "store": store})

    patch.setattr(testing, "Settings", settings)
    for module in (foundation, testing):
        patch.setattr(module, "open_catalog", open_catalog)


@contextmanager
def open_catalog(data: Path) -> Iterator[Catalog]:
    """The catalog in PostgreSQL of a broker that does not run."""
    from penstock.broker.cluster_address import ClusterAddress
    from penstock.catalog.postgres_prefetched import PrefetchedCatalog

    cluster, store = address_of(data)
    address = ClusterAddress.parse(cluster)
    catalog = PrefetchedCatalog.open_shared(
        address.conninfo,
        address.schema,
        address.shown,
        store=store,
        cluster_id=None,
        on_lost=lambda lost: None,
        lease_seconds=9.0,
    )
    try:
        yield catalog
    finally:
        catalog.close()
