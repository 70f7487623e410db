"""A broker whose process has a supervisor: what it reports, and that it ends when nobody holds its lifeline."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import cast

from tests.broker.process import WAIT_SECONDS

# Starts a broker as the only child, in this process, and lets go of it as soon as it is ready.
PROGRAM = """
import os, sys, threading
from pathlib import Path
from penstock.broker.foundation import Settings
from penstock.broker.listeners import bind, parse_address
from penstock.broker.logs import LogFormat
from penstock.broker.processes.child import Reports, run_child
from penstock.broker.processes.folder import prepare
from penstock.broker.processes.plan import plan

data, configs = Path(sys.argv[1]), dict(each.split("=", 1) for each in sys.argv[2:])
prepare(data, (1,))
(one,) = plan(Settings(data, ["127.0.0.1:0"], configs=configs), configs, 1, 1)
bound = [bind(parse_address("127.0.0.1:0")) for _ in one.settings.listen]
reading, writing = os.pipe()
lifeline, held = os.pipe()

def relay():
    said = b""
    while b"alive" not in said and b"failed" not in said:
        said += os.read(reading, 4096)
    os.write(1, said)
    os.close(held)

relaying = threading.Thread(target=relay)
relaying.start()
code = run_child(one, bound, Reports(writing), lifeline, LogFormat.TEXT)
relaying.join()
sys.exit(code)
"""


def run(data: Path, *configs: str) -> tuple[int, list[dict[str, object]], str]:
    """The exit code, the reports, and what went to stderr."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(data), *configs], capture_output=True, text=True, timeout=WAIT_SECONDS
    )
    return ran.returncode, [json.loads(line) for line in ran.stdout.splitlines()], ran.stderr


def test_it_says_where_it_serves_and_that_it_lives_and_ends_well_with_its_lifeline(tmp_path: Path) -> None:
    code, (report, alive, *_), complaints = run(tmp_path, "log.retention.hour=5")
    assert code == 0, complaints
    addresses = str(report["ready"])
    assert addresses.startswith("127.0.0.1:")
    assert "," not in addresses, "clients are not told of the listener between brokers"
    (remark,) = cast("list[str]", report["remarks"])
    assert "log.retention.hours" in remark
    assert alive == {"alive": True}
    assert (tmp_path / "brokers" / "1" / ".kafka_cleanshutdown").exists()


def test_it_says_why_it_could_not_start(tmp_path: Path) -> None:
    code, (report,), complaints = run(tmp_path, "penstock.metrics.listen=0.0.0.0:0")
    assert code == 1
    assert "needs a login over TLS" in str(report["failed"])
    assert "Traceback" not in complaints
