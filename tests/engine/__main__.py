"""Run a command whose brokers keep everything in PostgreSQL and an S3 server, which are started for it.

`python -m tests.engine objects COMMAND ...`: each broker that the command starts, as `penstock serve` or inside a test,
is the only one of a cluster of its own. `python -m tests.engine cluster COMMAND ...`: each `penstock serve` is three
brokers, at its port and the next two, which have to be free as well, so now and then a test has to be repeated.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import psycopg

from tests.engine.brokers import ENGINE, ENGINES, POSTGRES
from tests.postgres import PostgresServer
from tests.seaweedfs import SeaweedServer

PROJECT = Path(__file__).parents[2]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.engine", description=__doc__)
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if not options.command:
        parser.error("name the command to run")
    servers = PostgresServer("-c max_connections=500", "-c shared_buffers=128MB"), SeaweedServer()
    with servers[0] as postgres, servers[1] as s3, tempfile.TemporaryDirectory(prefix="penstock-engine-") as folder:
        program = Path(folder) / "penstock"
        program.write_text(f"#!{sys.executable}\nfrom tests.engine.serve import main\n\nmain()\n")
        program.chmod(0o755)
        path = os.pathsep.join([str(PROJECT), *filter(None, [os.environ.get("PYTHONPATH")])])
        ours = {ENGINE: options.engine, POSTGRES: postgres.url(), "PENSTOCK": str(program), "PYTHONPATH": path}
        status = subprocess.call(options.command, env={**os.environ, **s3.environment, **ours})
        print(f"{_clusters(postgres)} clusters were made in PostgreSQL and the object store", file=sys.stderr)
        sys.exit(status)


def _clusters(postgres: PostgresServer) -> int:
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        row = connection.execute("SELECT count(*) FROM pg_tables WHERE tablename = 'extent'").fetchone()
    return 0 if row is None else int(row[0])


if __name__ == "__main__":
    main()
