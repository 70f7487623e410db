"""The cleaner process by itself."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.log.cleaner.jobs import (
    CleanedGroup,
    CleanedRound,
    CleanJob,
    FailedRound,
    Outcome,
    outcome_from_json,
    outcome_to_json,
)
from penstock.log.cleaner.process import BrokerGone, RateLimit, serve
from penstock.log.config import LogConfig
from tests.log.cleaner.clean_helpers import plan, write
from tests.log.log_helpers import NOW, open_log


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_the_rate_is_kept_on_average() -> None:
    clock = Clock()
    limit = RateLimit(1000, clock, clock.sleep)
    for _ in range(100):
        limit(100)
    assert 9.5 < clock.now - 100 < 11


def test_without_a_limit_it_never_waits() -> None:
    clock = Clock()
    limit = RateLimit(1.7976931348623157e308, clock, clock.sleep)
    for _ in range(100):
        limit(1 << 30)
    assert clock.now == 100


def job_file(folder: Path) -> Path:
    log = open_log(folder, LogConfig(cleanup_policy="compact"))
    write(log, ("a", "1"), ("a", "2"))
    log.roll(NOW)
    path = folder / "job"
    path.write_text(plan(log).to_json())
    return path


def test_a_job_is_answered_group_by_group(tmp_path: Path) -> None:
    answers = io.StringIO()
    serve(io.StringIO(f"{job_file(tmp_path)}\nnext\n"), answers)
    group, done = [outcome_from_json(line) for line in answers.getvalue().splitlines()]
    assert isinstance(group, CleanedGroup)
    assert group.base_offsets == [0]
    assert isinstance(done, CleanedRound)
    assert (done.end_offset, done.keys) == (2, 1)


def test_it_stops_when_nobody_answers(tmp_path: Path) -> None:
    with pytest.raises(BrokerGone):
        serve(io.StringIO(f"{job_file(tmp_path)}\n"), io.StringIO())


@pytest.mark.parametrize("content", [None, "{}", "garbage"])
def test_a_bad_job_is_a_failure_and_not_the_end(tmp_path: Path, content: str | None) -> None:
    bad = tmp_path / "bad"
    if content is not None:
        bad.write_text(content)
    answers = io.StringIO()
    serve(io.StringIO(f"{bad}\n{job_file(tmp_path)}\nnext\n"), answers)
    outcomes = [outcome_from_json(line) for line in answers.getvalue().splitlines()]
    assert [type(outcome) for outcome in outcomes] == [FailedRound, CleanedGroup, CleanedRound]


def test_the_process_ends_with_its_input() -> None:
    command = [sys.executable, "-m", "penstock.log.cleaner.process"]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")


def test_it_imports_neither_the_broker_nor_an_event_loop() -> None:
    script = (
        "import sys, penstock.log.cleaner.process; "
        "print([name for name in sys.modules if name.startswith(('asyncio', 'uvloop', 'penstock.broker'))])"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout == "[]\n"


@pytest.mark.parametrize(
    "outcome",
    [
        CleanedGroup(base_offsets=[0, 5], size=10),
        CleanedRound(end_offset=7, bytes_read=1, bytes_written=2, keys=3),
        FailedRound(message="ü", corrupt=True),
    ],
)
def test_outcomes_travel_as_json(outcome: Outcome) -> None:
    assert outcome_from_json(outcome_to_json(outcome)) == outcome


def test_jobs_travel_as_json(tmp_path: Path) -> None:
    job = CleanJob.from_json(job_file(tmp_path).read_text())
    assert CleanJob.from_json(job.to_json()) == job
