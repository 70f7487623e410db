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
taken = [name for name in NAMES if not hasattr(os, name)]
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


def run(program: str, system: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent), "PENSTOCK_TEST_WITHOUT": system},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize(
    ("system", "taken"),
    [("macos", ["RWF_NOWAIT", "fdatasync"]), ("windows", ["RWF_NOWAIT", "fdatasync", "sendfile", "pread", "fork"])],
)
def test_records_survive_a_restart_and_are_read(system: str, taken: list[str], tls: bool, tmp_path: Path) -> None:
    done = run(PROGRAM.replace("TLS", str(tls)).replace("NAMES", str(taken)), system, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == " ".join(["3000", *taken])


IN_THE_LOOP = """
import asyncio
from penstock.testing import AsyncBroker

async def main():
    async with AsyncBroker():
        pass

asyncio.run(main())
"""


def test_a_broker_in_a_loop_that_watches_no_sockets_says_what_to_do(tmp_path: Path) -> None:
    done = run(IN_THE_LOOP, "windows", tmp_path)
    assert "RuntimeError: this event loop cannot say when a socket is readable" in done.stderr
