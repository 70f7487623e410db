"""What keeps a broker out of a cluster. What is wrong with its addresses: tests/broker/test_object_engine.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.cluster.members import SECONDS, Members
from tests.postgres import PostgresServer

AN_HOUR_AHEAD = """
import sys, time
clock, precise = time.time, time.time_ns
time.time, time.time_ns = lambda: clock() + 3600, lambda: precise() + 3600 * 10**9
from penstock.cli.main import main
main()
"""


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
