"""Catalogs in schemas of a PostgreSQL server."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from penstock.catalog.contract import CatalogLost
from penstock.catalog.postgres import PostgresCatalog
from penstock.catalog.postgres_ownership import Claim
from penstock.catalog.postgres_shared import SharedPostgresCatalog
from tests.postgres import PostgresServer

OnLost = Callable[[CatalogLost], None]

CLAIM = Claim("a test", "folder-1")


def new_schema() -> str:
    """A name that needs quoting."""
    return f'Of "a" test; {uuid.uuid4().hex[:12]}'


def never_lost(error: CatalogLost) -> None:
    raise AssertionError(error)


def open_postgres(
    server: PostgresServer, schema: str, claim: Claim = CLAIM, *, port: int | None = None, on_lost: OnLost = never_lost
) -> PostgresCatalog:
    return PostgresCatalog.open(server.url(port=port), schema, "the test's server", claim, on_lost)


def open_shared(
    server: PostgresServer,
    schema: str,
    *,
    store: str = "memory://",
    port: int | None = None,
    cluster_id: str | None = None,
    on_lost: OnLost = never_lost,
    lease_seconds: float = 8.0,
) -> SharedPostgresCatalog:
    catalog = SharedPostgresCatalog.open_shared(
        server.url(port=port),
        schema,
        "the test's server",
        store=store,
        cluster_id=cluster_id,
        on_lost=on_lost,
        lease_seconds=lease_seconds,
    )
    catalog.use_store(store)
    return catalog
