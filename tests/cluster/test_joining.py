"""What a broker is, or is not, in common with: a clock that is far off keeps it out, and a bucket may be shared."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from penstock.client.sync import Admin, Consumer, Producer
from tests.cluster.members import SECONDS, Members, until
from tests.postgres import PostgresServer

AN_HOUR_AHEAD = """
import sys, time
clock, precise = time.time, time.time_ns
time.time, time.time_ns = lambda: clock() + 3600, lambda: precise() + 3600 * 10**9
from penstock.cli.main import main
main()
"""
RECORDS, RECORD_BYTES = 6, 600_000
"""Large enough for the object store: small ones are committed into PostgreSQL."""


def test_a_broker_whose_clock_is_an_hour_off_does_not_start(tmp_path: Path, postgres: PostgresServer) -> None:
    _, *arguments = Members(tmp_path, postgres, count=1).brokers[1].command()
    command = [sys.executable, "-c", AN_HOUR_AHEAD, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stderr
    said = " ".join(done.stderr.split())
    assert "The clock of this machine is 36" in said
    assert "seconds ahead of that of PostgreSQL" in said
    assert "Set both clocks, for example with NTP" in said


def test_two_clusters_on_one_prefix_never_touch_each_other(tmp_path: Path, postgres: PostgresServer) -> None:
    """Objects are kept below the id of the cluster."""
    eager = {"penstock_store_delete_delay_ms": 1000, "penstock_store_orphan_age_ms": 1000}
    one = Members(tmp_path / "one", postgres, 1, **eager)
    other = Members(tmp_path / "other", postgres, 1, **eager)
    other.store = other.brokers[1].store = one.store
    with one, other:
        for members, value in ((one, b"1"), (other, b"2")):
            with Admin(bootstrap_servers=members.bootstrap) as admin:
                admin.create_topic("t", 1)
            with Producer(bootstrap_servers=members.bootstrap) as producer:
                for _ in range(RECORDS):
                    producer.send("t", value * RECORD_BYTES).result()
        with Admin(bootstrap_servers=one.bootstrap) as admin:
            cluster_id = admin.describe_cluster().cluster_id
        everything = objects(tmp_path)
        of_one = {path for path in everything if cluster_id in path.parts}
        of_other = everything - of_one
        assert of_one
        assert of_other
        with Admin(bootstrap_servers=one.bootstrap) as admin:
            admin.delete_topic("t")
        until(lambda: [] if of_one & objects(tmp_path) else [1])
        assert of_other <= objects(tmp_path)
        other.brokers[1].kill()
        other.brokers[1].start()  # its cache is cleared: what it serves comes from the store
        with Consumer(bootstrap_servers=other.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([("t", 0)])
            consumer.seek_to_beginning(("t", 0))
            found: list[bytes | None] = []
            deadline = time.monotonic() + SECONDS
            while len(found) < RECORDS and time.monotonic() < deadline:
                found += [each.value for each in consumer.poll(500)]
        assert found == [b"2" * RECORD_BYTES] * RECORDS


def objects(folder: Path) -> set[Path]:
    """Those with records: what else a cluster keeps in its store is not the sweep's."""
    return {path for path in (folder / "one" / "store").rglob("*") if path.is_file() and "wal" in path.parts}
