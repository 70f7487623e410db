"""A broker, clients and commands on what macOS and Windows have: the ways that Linux has are taken away."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os
import sys
from penstock import portable
from penstock.client.sync import Consumer, Producer, ShareConsumer
from penstock.testing import Broker

assert "uvloop" not in sys.modules or sys.modules["uvloop"] is None
taken = [name for name in ("RWF_NOWAIT", "fdatasync", "sendfile", "pread") if not hasattr(os, name)]
with Broker(tls=TLS, configs={"log.segment.bytes": 1 << 20, "penstock.acks.all.flush": "true"}) as broker:
    broker.create_topic("orders", partitions=2)
    with Producer(broker.client_settings()) as producer:
        for number in range(3000):
            producer.send("orders", b"%06d" % number + b"x" * 1000)
    broker.restart()
    seen = set()
    with Consumer(broker.client_settings(), group_id="g", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["orders"])
        while len(seen) < 3000:
            seen |= {record.value[:6] for record in consumer.poll(1000)}
print(len(seen), *taken)
"""


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize(
    ("system", "taken"),
    [("macos", "RWF_NOWAIT fdatasync"), ("windows", "RWF_NOWAIT fdatasync sendfile pread")],
)
def test_records_survive_a_restart_and_are_read(system: str, taken: str, tls: bool, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("TLS", str(tls))],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent), "PENSTOCK_TEST_WITHOUT": system},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"3000 {taken}"
