"""Measurements that stand beside the benchmark still run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from click.testing import CliRunner
from rich.progress import Progress

from bench import scrapes, watching
from bench.harness import Bench, Measurement, Row
from bench.peers import Peer, PenstockPeer
from bench.run import measure_rows


@contextmanager
def not_started(kind: type[Peer]) -> Iterator[Peer]:
    yield PenstockPeer(folder=Path("never-made"))


def five(bench: Bench, peer: Peer) -> Measurement:
    return Measurement(5.0)


def interrupted(bench: Bench, peer: Peer) -> Measurement:
    raise KeyboardInterrupt


def test_an_interrupted_run_keeps_the_rows_that_it_has_ended() -> None:
    rows = [Row("five", "", "", five, on=not_started), Row("never", "", "", interrupted, on=not_started)]
    medians, failures = measure_rows(rows, ["penstock"], Bench(), 1, Progress(disable=True))
    assert medians == {"five": {"penstock": Measurement(5.0)}}
    assert failures == {"not all rows": "the run was interrupted"}


def test_a_scrape_is_measured_in_slices() -> None:
    few = ["--partitions", "3", "--groups", "2", "--share-groups", "2", "--queue-partitions", "3", "--locks", "80"]
    done = CliRunner().invoke(scrapes.main, [*few, "--looks", "2"])
    assert done.exit_code == 0, done.output
    assert [line.partition(":")[0] for line in done.output.splitlines()] == [
        "a scrape",
        "a page of windows",
        "a page of windows at worst",
        "all windows at worst",
    ]
    assert done.output.count("ms of the event loop") == 4


def test_what_watching_costs_is_measured_in_turns() -> None:
    done = CliRunner().invoke(watching.main, ["--requests", "20", "--rounds", "2", "--rest", "0.5"])
    assert done.exit_code == 0, done.output
    assert "produce" in done.output
    assert "us of CPU, watched" in done.output
    assert "% of a core" in done.output
