"""Measurements that stand beside the benchmark still run."""

from __future__ import annotations

from click.testing import CliRunner

from bench import scrapes, watching


def test_a_scrape_is_measured_in_slices() -> None:
    few = ["--partitions", "3", "--groups", "2", "--share-groups", "2", "--scrapes", "2"]
    done = CliRunner().invoke(scrapes.main, few)
    assert done.exit_code == 0, done.output
    assert "event-loop time of a scrape" in done.output


def test_what_watching_costs_is_measured_in_turns() -> None:
    done = CliRunner().invoke(watching.main, ["--requests", "20", "--rounds", "2"])
    assert done.exit_code == 0, done.output
    assert "produce" in done.output
    assert "us of CPU, watched" in done.output
