"""`python newer_version.py N COMMAND...`: the `penstock` of a version to come, which has N more migrations.

The first one expands the schema, the second one takes away what the first has added.
"""

from __future__ import annotations

import sys

from penstock.catalog import postgres_schema
from penstock.catalog.postgres_schema import MIGRATIONS, Migration

EXPAND = Migration(1, ["ALTER TABLE topic ADD COLUMN colour text", "CREATE TABLE palette (name text)"])
CONTRACT = Migration(len(MIGRATIONS) + 1, ["DROP TABLE palette", "ALTER TABLE topic DROP COLUMN colour"])
TO_COME = (EXPAND, CONTRACT)

if __name__ == "__main__":
    postgres_schema.MIGRATIONS = (*MIGRATIONS, *TO_COME[: int(sys.argv.pop(1))])  # before anything else imports it
    from penstock.cli.main import main

    main()
