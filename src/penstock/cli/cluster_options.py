"""What the commands of `penstock cluster` share: the address of the cluster, its store, and what can go wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from penstock.cli.failures import Failure, sentence
from penstock.cli.options import option

if TYPE_CHECKING:
    from penstock.broker.cluster_address import ClusterAddress
    from penstock.broker.object_engine import ClusterRecords
    from penstock.catalog.postgres_session import Session
    from penstock.storage.objects.store import ObjectStore

cluster_option = option(
    "--cluster",
    metavar="URL",
    required=True,
    help="PostgreSQL database of the cluster, as postgresql://USER@HOST/NAME?schema=S. Passwords come from libpq's "
    "files or PGPASSWORD.",
)
store_option = option(
    "--store",
    metavar="URL",
    help="Object store of the records, if it is not the one that the cluster was started with.",
)


def cluster_address(url: str) -> ClusterAddress:
    from penstock.broker.cluster_address import ClusterAddress

    address = ClusterAddress.parse(url)
    source = click.get_current_context().get_parameter_source("cluster")
    if address.has_password and source is ParameterSource.COMMANDLINE:
        raise Failure(
            "--cluster holds a password, and shows it to everybody on this machine (ps) and to the shell's history.\n"
            "  In a file:            ~/.pgpass, or the file that PGPASSFILE names\n"
            "  In the environment:   PGPASSWORD"
        )
    return address


@contextmanager
def explained() -> Iterator[None]:
    """Errors of the catalog and the store say themselves what to do."""
    from penstock.catalog.contract import CatalogError
    from penstock.log.errors import FolderInUse, StorageError

    try:
        yield
    except (CatalogError, FolderInUse, StorageError) as error:
        raise Failure(sentence(str(error))) from error


@contextmanager
def records_of(cluster: str, store: str | None) -> Iterator[ClusterRecords]:
    from penstock.broker.object_engine import open_records

    with explained():
        records = open_records(cluster_address(cluster), store)
        try:
            yield records
        finally:
            records.close()


@contextmanager
def session_of(cluster: str) -> Iterator[Session]:
    from penstock.broker.object_engine import open_session

    with explained():
        session = open_session(cluster_address(cluster))
        try:
            yield session
        finally:
            session.close()


def drain_broker(cluster: str, node_id: int, *, even_the_last: bool) -> None:
    """Raises Failure if no such broker is running, or no other one is."""
    from penstock.broker.object_engine import open_leases

    with explained():
        leases = open_leases(cluster_address(cluster))
        try:
            leases.drain(node_id, even_the_last=even_the_last)
        finally:
            leases.close()


def store_at(url: str) -> ObjectStore:
    from penstock.broker.object_engine import open_store

    return open_store(url)


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int], object]]:
    """Bytes done, on a terminal; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(title, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)
