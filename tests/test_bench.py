"""Measurements that stand beside the benchmark still run."""

from __future__ import annotations

from click.testing import CliRunner

from bench.scrapes import main


def test_a_scrape_is_measured_in_slices() -> None:
    done = CliRunner().invoke(main, ["--partitions", "3", "--groups", "2", "--share-groups", "2", "--scrapes", "2"])
    assert done.exit_code == 0, done.output
    assert "event-loop time of a scrape" in done.output
