"""`penstock cluster status`: brokers and their leases, leaders, and where the records are."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from penstock.cli.cluster_options import cluster_option, records_of, session_of, store_option
from penstock.cli.failures import Failure
from penstock.cli.monitoring import read_samples
from penstock.cli.options import CONTEXT_SETTINGS, Command, json_option, login_options
from penstock.cli.output import Cell, note, print_json, print_table
from penstock.cli.top import duration, size
from penstock.cli.watching import again_and_again, watch_option

if TYPE_CHECKING:
    from penstock.operation.status import ClusterStatus, Orphans

_LIST_SECONDS = 60.0
_FIGURES = {
    "waiting_bytes": "penstock_store_backlog_bytes",
    "uploads": "penstock_store_uploads_under_way",
    "segments_waiting": "penstock_store_chores_waiting",
    "cache_bytes": "penstock_store_cache_bytes",
    "cache_hits": "penstock_store_cache_hits_total",
    "cache_misses": "penstock_store_cache_misses_total",
    "commit_age_seconds": "penstock_store_commit_age_seconds",
}

Figures = dict[str, float | str | None]


@click.command(cls=Command, context_settings=CONTEXT_SETTINGS)
@cluster_option
@store_option
@click.option(
    "--metrics",
    metavar="HOST:PORT",
    multiple=True,
    help="The penstock.metrics.listen of a broker: what waits there and its cache are shown too. May be repeated.",
)
@watch_option
@json_option
@login_options
def status(cluster: str, store: str | None, metrics: tuple[str, ...], watch: float | None, as_json: bool) -> None:
    """Show brokers with their leases, who leads how much, and where the records are.

    All of it is read from PostgreSQL and the store, whether brokers run or not. What only brokers know (what waits to
    be committed, segments that wait to be stored, their cache) comes from the addresses in --metrics. Those of other
    machines are read over TLS; --user and --ca-file are for them. The store is listed for orphans: objects that nothing
    names, older than ten minutes; with --watch once a minute.

    Examples:

    \b
      penstock cluster status --cluster postgresql://penstock@db.example/penstock
      penstock cluster status --cluster postgresql://penstock@db.example/penstock --watch \\
          --metrics broker-1:9644 --metrics broker-2:9644
    """
    listed: list[tuple[float, Orphans]] = []
    with records_of(cluster, store) as records, session_of(cluster) as session:
        from penstock.operation.status import find_orphans, read_status

        def show() -> None:
            found = read_status(session, records.store.shown)
            if not listed or time.monotonic() - listed[0][0] >= _LIST_SECONDS:
                listed[:] = [(time.monotonic(), find_orphans(records.commits, records.store, records.keys))]
            found.orphans = listed[0][1]
            figures = [_figures(address) for address in metrics]
            if as_json:
                print_json({**asdict(found), "figures": figures})
            else:
                _show(found, figures)
            sys.stdout.flush()

        again_and_again(show, watch)


def _figures(address: str) -> Figures:
    """What one broker says of itself; `failure` if it does not answer, or not to this user."""
    try:
        samples = read_samples(address)
    except Failure as failure:
        return {"address": address, "failure": str(failure).splitlines()[0]}
    found: Figures = {"address": address}
    for name, metric in _FIGURES.items():
        values = samples.get(metric)
        found[name] = sum(values.values()) if values else None
    return found


def _show(found: ClusterStatus, figures: list[Figures]) -> None:
    incarnation = f", incarnation {found.incarnation}" if found.incarnation else ""
    click.echo(f"Cluster {found.cluster_id}{incarnation}, store {found.store}\n")
    if found.brokers:
        rows: list[list[Cell]] = [
            [
                each.node_id,
                each.state,
                duration(each.lease_seconds),
                each.leads,
                ", ".join(each.addresses),
                each.rack,
                each.epoch,
            ]
            for each in found.brokers
        ]
        print_table(["BROKER", "STATE", "LEASE", "LEADS", "ADDRESS", "RACK", "EPOCH"], rows)
    else:
        click.echo("No broker has registered.")
    click.echo("")
    assert found.orphans is not None
    facts: list[list[Cell]] = [
        ["topics", f"{found.topics:,}", f"{found.partitions:,} partitions, {found.leaderless:,} without a leader"],
        ["segments", f"{found.segments:,}", size(found.segment_bytes)],
        [
            "extents",
            f"{found.extents:,}",
            f"{size(found.extent_bytes)} not in segments yet, {size(found.inline_bytes)} of it in PostgreSQL; "
            f"at most {found.extents_max:,} of one partition",
        ],
        ["objects", f"{found.objects:,}", f"{size(found.object_bytes)}; {found.marked:,} to be removed"],
        ["orphans", f"{found.orphans.objects:,}", size(found.orphans.bytes)],
    ]
    print_table(["RECORDS", "COUNT", "WHAT"], facts)
    click.echo("")
    if not figures:
        note("What waits in the brokers and their caches is left out: name their metrics endpoints with --metrics.")
        return
    print_table(
        ["METRICS", "WAITING", "UPLOADS", "SEGMENTS WAITING", "CACHE", "HITS", "LAST COMMIT"],
        [_figures_row(each) for each in figures],
    )
    for each in figures:
        if "failure" in each:
            note(str(each["failure"]))


def _figures_row(each: Figures) -> list[Cell]:
    if "failure" in each:
        return [str(each["address"]), "not read", "", "", "", "", ""]

    def number(name: str) -> float:
        value = each.get(name)
        return float(value) if value is not None else 0.0

    hits, misses = number("cache_hits"), number("cache_misses")
    age = number("commit_age_seconds")
    return [
        str(each["address"]),
        size(number("waiting_bytes")),
        int(number("uploads")),
        int(number("segments_waiting")),
        size(number("cache_bytes")),
        f"{hits / (hits + misses):.0%}" if hits + misses else "-",
        f"{duration(age)} ago" if age >= 0 else "never",
    ]
