"""docs/how-to/queues.md: its worker works, its commands set what they say, its trigger names a metric that exists."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path

import yaml

from penstock.cli.share_advice import explain
from penstock.client.queue_advice import Advice
from tests.docs.blocks import Block, Blocks, carries_out
from tests.docs.monitoring import metrics_of, sample_names
from tests.docs.reader import WAIT_SECONDS, Reader, follow


class Worker(Reader):
    """Somebody with a broker, a topic of images, and another of jobs."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.brokers.append(self.serve("penstock serve"))
        self.run("penstock topic create images; penstock topic create jobs")

    def other(self, block: Block) -> bool:
        if block.language == "yaml":
            self.check_trigger(yaml.safe_load(block.text))
            return True
        if block.language == "text":
            self.printed = "\n".join(explain(ADVICE))
        return False

    def check_trigger(self, scaled: dict[str, object]) -> None:
        assert scaled["kind"] == "ScaledObject"
        (trigger,) = scaled["spec"]["triggers"]  # type: ignore[index]
        assert trigger["type"] == "prometheus"
        assert metrics_of(trigger["metadata"]["query"]) == {"penstock_share_group_lag_records_sum"}
        assert metrics_of(trigger["metadata"]["query"]) <= sample_names()


ADVICE = Advice(
    group="resize",
    topics=["images"],
    workers=10,
    lag=4_500,
    oldest_seconds=180,
    arrivals_per_second=40,
    done_per_second=25,
    handling_seconds=0.4,
    workers_to_keep_up=20,
    workers_to_catch_up=28,
    catch_up_seconds=300,
)
"""What the page shows as an example."""


@carries_out("how-to/queues.md")
def test_a_queue_is_set_up_and_worked_on(tmp_path: Path, blocks: Blocks) -> None:
    reader = Worker(tmp_path)
    try:
        follow(reader, blocks)
        shown = reader.run("penstock config get group workers --all")
        assert re.search(r"share\.delivery\.count\.limit\s.*\b10\b", shown), shown
        assert resized(reader) == 3
    finally:
        reader.close()


def resized(reader: Reader) -> int:
    """How many records the page's worker handles, all of which it accepts."""
    reader.run("penstock share create resize-images images --from beginning; seq 3 | penstock produce images")
    worker = subprocess.Popen(
        ["python", "-u", "resize.py"], cwd=reader.folder, env=reader.environment, stdout=subprocess.PIPE, text=True
    )
    assert worker.stdout is not None
    try:
        handled = [worker.stdout.readline() for _ in range(3)]
    finally:
        worker.send_signal(signal.SIGINT)
        worker.wait(WAIT_SECONDS)
    return sum(line.startswith("resizing") for line in handled)
