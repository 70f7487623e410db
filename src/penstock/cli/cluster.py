"""`penstock cluster`: inspect and maintain a cluster in PostgreSQL and an object store."""

from __future__ import annotations

import click

from penstock.cli.options import CONTEXT_SETTINGS, TableGroup

# name -> (where the command is, one line of help)
COMMANDS: dict[str, tuple[str, str]] = {
    "check": ("penstock.cli.cluster_check:check", "Find records that are missing or damaged, and objects too many."),
    "status": ("penstock.cli.cluster_status:status", "Show brokers, leases, leaders, and where the records are."),
    "drain": ("penstock.cli.cluster_drain:drain", "Have a broker hand its partitions over and stop."),
    "adopt-backup": (
        "penstock.cli.cluster_adopt_backup:adopt_backup",
        "Make a restored backup a cluster of its own.",
    ),
    "import": ("penstock.cli.cluster_import:import_", "Bring a stopped broker's data folder into a new cluster."),
    "export": ("penstock.cli.cluster_export:export", "Bring a stopped cluster out into a data folder."),
}


@click.group(cls=TableGroup, table=COMMANDS, context_settings=CONTEXT_SETTINGS)
def cluster() -> None:
    """Look after the records of a cluster in PostgreSQL and an object store."""
