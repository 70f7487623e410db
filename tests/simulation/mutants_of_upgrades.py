"""Mutants of the catalog in SQLite, and of how one of an earlier version becomes one of today."""

from __future__ import annotations

from penstock.catalog import sqlite
from penstock.catalog.sqlite import SqliteCatalog
from tests.simulation.mutant import Mutant
from tests.simulation.upgrades import FileUpgrades
from tests.simulation.whole_machines import FileConfigs

UPGRADES = [
    Mutant(
        "migrated-before-it-is",
        "the catalog says that it has been migrated before it is",
        FileUpgrades,
        sqlite,
        "migrate",
        'connection.execute("BEGIN IMMEDIATE")',
        'connection.execute(f"PRAGMA user_version = {len(migrations)}"); connection.execute("BEGIN IMMEDIATE")',
    ),
    Mutant(
        "migrated-in-pieces",
        "each migration is committed by itself, and the catalog does not say how far it has come",
        FileUpgrades,
        sqlite,
        "migrate",
        "for statement in migration:",
        'for statement in ("COMMIT", "BEGIN IMMEDIATE", *migration):',
    ),
    Mutant(
        "part-not-migrated",
        "a migration leaves out what was in a table",
        FileUpgrades,
        sqlite,
        "migrate",
        "for statement in migration:",
        'for statement in (each for each in migration if not each.startswith("INSERT")):',
    ),
    Mutant(
        "changes-not-synced",
        "a change of the catalog is confirmed before it is on disk",
        FileConfigs,
        SqliteCatalog,
        "open",
        "PRAGMA synchronous = FULL",
        "PRAGMA synchronous = NORMAL",
    ),
]
