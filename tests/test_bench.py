"""Measurements that stand beside the benchmark still run."""

from __future__ import annotations

from click.testing import CliRunner

from bench import scrapes, watching


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
