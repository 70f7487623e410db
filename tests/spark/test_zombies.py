"""A driver that is stopped in the middle of its batch and wakes when another one has taken its place."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.testing.broker import Broker
from tests.spark.topics import places_in, read_committed, send_to_each

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def descendants(root: int) -> list[int]:
    """A process and all that it started: the driver, its JVM and their Python workers."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue  # it has just ended
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


@contextmanager
def driver(program: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        yield process
    finally:
        for pid in reversed(descendants(process.pid)):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        process.wait()


def run_through_a_pause(program: str, folder: Path) -> tuple[str, str]:
    """Start a driver, stop it where it says, let a second one do everything, wake the first: what both printed."""
    reached, go = folder / "reached", folder / "go"
    with driver(program, "pause") as first:
        deadline = time.monotonic() + 250
        while not reached.exists():
            assert first.poll() is None, first.communicate()[0]
            assert time.monotonic() < deadline, "the first driver never got to its batch"
            time.sleep(0.05)
        stopped = descendants(first.pid)
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        second = subprocess.run([sys.executable, "-c", program, "run"], capture_output=True, text=True, timeout=250)
        assert second.returncode == 0, second.stderr[-3000:]
        go.touch()
        for pid in reversed(stopped):
            os.kill(pid, signal.SIGCONT)
        output, _ = first.communicate(timeout=250)
        return output, second.stdout


def pausing(folder: Path) -> str:
    """Source of a function that says that it was reached and waits to be let go, in the first driver only."""
    return textwrap.dedent(f"""
        import pathlib, sys, time
        def pause():
            if not pathlib.Path({str(folder / "reached")!r}).exists():
                pathlib.Path({str(folder / "reached")!r}).touch()
                while not pathlib.Path({str(folder / "go")!r}).exists():
                    time.sleep(0.05)
    """)


def test_a_load_that_wakes_before_its_commit_commits_nothing(penstock_broker: Broker, tmp_path: Path) -> None:
    penstock_broker.create_topic("t", 2)
    root = tmp_path / "lake"
    send_to_each(penstock_broker, "t", [range(500)] * 2)
    program = pausing(tmp_path) + textwrap.dedent(f"""
        from penstock.spark import delta
        from penstock.spark.load import load
        from penstock.spark.session import session
        commit = delta.DeltaTarget.commit
        def late(self, *arguments):
            if sys.argv[1] == "pause":
                pause()
            commit(self, *arguments)
        delta.DeltaTarget.commit = late
        spark = session("load", "local[2]", log_level="OFF")
        servers = {penstock_broker.bootstrap_servers!r}
        print("rows", load("t", {str(root)!r}, bootstrap_servers=servers, spark=spark).rows)
    """)
    zombie, alive = run_through_a_pause(program, tmp_path)
    assert "rows 1000" in alive
    assert "ConcurrentLoad" in zombie
    assert "rows 1000" not in zombie
    assert places_in(root) == {(partition, offset): 1 for partition in range(2) for offset in range(500)}


def test_a_stream_that_wakes_in_its_batch_writes_nothing_twice(penstock_broker: Broker, tmp_path: Path) -> None:
    for topic in ("in", "out"):
        penstock_broker.create_topic(topic, 2)
    send_to_each(penstock_broker, "in", [range(first, 1000, 2) for first in range(2)])
    program = pausing(tmp_path) + textwrap.dedent(f"""
        from penstock.spark.session import session

        def work(batches):
            for batch in batches:
                yield batch
            pause()  # the records of the task have been handed to the sink

        spark = session("copy", "local[2]", log_level="OFF")
        servers = {penstock_broker.bootstrap_servers!r}
        reader = spark.readStream.format("penstock").option("subscribe", "in").option("startingOffsets", "earliest")
        rows = reader.option("kafka.bootstrap.servers", servers).option("maxOffsetsPerTrigger", 600).load()
        rows = rows.select("value").mapInArrow(work, "value binary")
        writer = rows.writeStream.format("penstock").option("topic", "out").option("kafka.bootstrap.servers", servers)
        writer = writer.option("checkpointLocation", {str(tmp_path / "checkpoint")!r})
        writer.trigger(availableNow=True).start().awaitTermination()
        print("finished", sys.argv[1])
    """)
    zombie, alive = run_through_a_pause(program, tmp_path)
    assert "finished run" in alive
    assert "finished pause" not in zombie
    assert Counter(map(int, read_committed(penstock_broker, "out"))) == dict.fromkeys(range(1000), 1)
