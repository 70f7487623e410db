"""`penstock mirror --spark`: a real Spark copies what is there, whatever happens to its tasks and brokers."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from bench.peers import PenstockPeer
from penstock.client import Admin
from penstock.client.sync import Producer
from tests.mirror.storm import read_all

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

RECORDS, PARTITIONS = 30_000, 3


def fill(bootstrap: str) -> None:
    value = os.urandom(500)
    with Producer(bootstrap_servers=bootstrap, batch_size=20_000) as producer:
        for partition in range(PARTITIONS):
            for first in range(0, RECORDS, 1000):
                values = [b"%d %d " % (partition, first + number) + value for number in range(1000)]
                producer.send_batch("t", values, partition=partition)
        producer.send("small", b"x")
        producer.flush()


def python_workers(mirror: int) -> list[int]:
    """The processes below a mirror that run tasks: those that were forked from a process which was forked itself."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,comm="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()]
    parents = {int(pid): int(parent) for pid, parent, _ in rows}
    return [int(pid) for pid, _, name in rows if "python" in name and depth(parents, int(pid), mirror) >= 3]


def depth(parents: dict[int, int], pid: int, above: int) -> int:
    steps = 0
    while pid in parents and pid != above:
        pid, steps = parents[pid], steps + 1
    return steps if pid == above else -1


@pytest.mark.parametrize("is_killing", [False, True], ids=["quietly", "with kills"])
def test_spark_copies_what_is_there(tmp_path: Path, is_killing: bool) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "target").mkdir()
    source, target = PenstockPeer({}, tmp_path / "source"), PenstockPeer({}, tmp_path / "target")
    with source, target:
        asyncio.run(create(source.bootstrap))
        fill(source.bootstrap)
        command = [sys.executable, "-m", "penstock.cli.main", "mirror", "--once", "--json", "--spark", "local[2,4]"]
        command += ["--from", source.bootstrap, "--to", target.bootstrap]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as mirror:
            ends = threading.Event()
            killed: list[int] = []
            killing = threading.Thread(target=kill_workers, args=(mirror.pid, killed, ends))
            assert mirror.stdout is not None
            shown = []
            for line in mirror.stdout:
                shown.append(json.loads(line))
                if is_killing and shown[-1]["lag"] > 0 and killing.ident is None:
                    killing.start()
            ends.set()
            if killing.ident is not None:
                killing.join()
        assert mirror.returncode == 0
        assert shown[-1]["lag"] == 0
        assert shown[-1]["problems"] == []
        if is_killing:
            assert killed
        else:
            assert shown[-1]["notes"] == []
            assert shown[-1]["records"] == RECORDS * PARTITIONS + 1
        assert read_all(target.bootstrap, "t", PARTITIONS) == read_all(source.bootstrap, "t", PARTITIONS)


async def create(bootstrap: str) -> None:
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.create_topic("t", PARTITIONS)
        await admin.create_topic("small", 1)


def kill_workers(mirror: int, killed: list[int], ends: threading.Event) -> None:
    """Two of the processes that run tasks, one after the other."""
    while len(killed) < 2 and not ends.wait(0.05):
        workers = [pid for pid in python_workers(mirror) if pid not in killed]
        if workers:
            with suppress(ProcessLookupError):
                os.kill(workers[0], signal.SIGKILL)
                killed.append(workers[0])
            ends.wait(0.5)
