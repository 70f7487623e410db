"""The trial of a cluster: what it concludes from the clients' notes, and the trial itself."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from examples.cluster.load import QUEUE, STREAM, Seen
from examples.cluster.verdict import Verdict

LEADERS = {STREAM: [1, 2], QUEUE: [1, 2]}


def notes() -> Seen:
    """Two partitions with three records each; broker 1 is killed at 10."""
    records = [[(9.0, 0), (12.5, 1), (13.0, 2)], [(9.9, 0), (10.1, 1), (10.2, 2)]]
    return Seen(
        acknowledged={STREAM: records, QUEUE: records},
        consumed=[{0: [0, 1], 1: []}, {0: [1, 2], 1: [0, 1, 1, 2]}],
        accepted=[[(0, 0), (1, 0), (1, 1)], [(0, 2), (1, 2)]],
        unsure=[[(0, 1)], []],
    )


def judged(seen: Seen) -> Verdict:
    return Verdict.of(seen, LEADERS, 1, 10.0)


def test_repetitions_and_unsure_acceptances_are_fine_and_the_pause_is_that_of_the_killed_broker() -> None:
    verdict = judged(notes())
    assert verdict.is_good
    assert (verdict.pause_seconds, round(verdict.others_pause_seconds, 1)) == (3.5, 0.2)
    assert (verdict.acknowledged, verdict.queued) == (6, 6)


def test_what_is_lost_reordered_forgotten_or_accepted_twice_is_found() -> None:
    lost = notes()
    lost.consumed[1][0] = [1]
    assert (judged(lost).lost, judged(lost).is_good) == (1, False)
    reordered = notes()
    reordered.consumed[1][1] = [0, 2, 1]
    assert (judged(reordered).reordered, judged(reordered).is_good) == (1, False)
    forgotten = notes()
    forgotten.unsure[0].clear()
    assert (judged(forgotten).forgotten, judged(forgotten).is_good) == (1, False)
    twice = notes()
    twice.accepted[1].append((1, 0))
    assert (judged(twice).accepted_twice, judged(twice).is_good) == (1, False)


@pytest.mark.long
def test_nothing_is_lost_when_one_of_three_brokers_is_killed() -> None:
    command = [sys.executable, "-m", "examples.cluster", "--seconds", "5"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "Nothing was lost." in ran.stdout
    assert re.search(r"Producers of its partitions paused +\d+\.\d s", ran.stdout)
