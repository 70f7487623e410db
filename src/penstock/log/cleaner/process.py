"""The cleaner process: reads jobs, cleans, reports. `python -m penstock.log.cleaner.process`

Standard input brings the path of a job file per line, and a line "next" after each group of segments that was reported
(the broker has then put it in place, so the disk never holds more than one group twice). Standard output carries one
outcome per line. The process ends when its input does, which is also what happens when the broker dies.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Protocol

from penstock import portable
from penstock.log.cleaner.background import move_to_background
from penstock.log.cleaner.jobs import CleanedGroup, CleanJob, FailedRound, Outcome, outcome_to_json
from penstock.log.cleaner.rounds import CorruptSegment, clean_round

_PR_SET_PDEATHSIG = 1
_SLEEP_MAX_SECONDS = 0.25


class BrokerGone(Exception):
    """Nobody waits for the results any more."""


class RateLimit:
    """Keeps the average of bytes read and written below a rate, looking back over about a second."""

    def __init__(
        self,
        bytes_per_second: float,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._rate = bytes_per_second
        self._clock = clock
        self._sleep = sleep
        self._window_start = clock()
        self._bytes = 0

    def __call__(self, count: int) -> None:
        self._bytes += count
        elapsed = self._clock() - self._window_start
        ahead = self._bytes / self._rate - elapsed
        while ahead > 0.01:
            self._sleep(min(ahead, _SLEEP_MAX_SECONDS))
            ahead = self._bytes / self._rate - (self._clock() - self._window_start)
        if elapsed > 1:
            self._window_start = self._clock()
            self._bytes = 0


def die_with_parent() -> None:
    """Have the kernel end this process with the broker. A cleaner that outlives it could write into its successor's."""
    prctl = portable.c_function("prctl")
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Lines(Protocol):
    def readline(self) -> str: ...


class Answers(Protocol):
    def write(self, text: str, /) -> object: ...

    def flush(self) -> object: ...


def serve(
    lines: Lines,
    answers: Answers,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Work through jobs until the input ends."""

    def answer(outcome: Outcome) -> None:
        answers.write(outcome_to_json(outcome) + "\n")
        answers.flush()

    while path := lines.readline().strip():
        try:
            with open(path, encoding="utf-8") as file:
                job = CleanJob.from_json(file.read())
            for outcome in clean_round(job, RateLimit(job.io_max_bytes_per_second, clock, sleep)):
                answer(outcome)
                if isinstance(outcome, CleanedGroup) and lines.readline().strip() != "next":
                    raise BrokerGone
        except CorruptSegment as error:
            answer(FailedRound(message=str(error), corrupt=True))
        except (OSError, ValueError, KeyError, MemoryError) as error:
            answer(FailedRound(message=f"{type(error).__name__}: {error}", corrupt=False))


def main() -> None:
    parent = os.getppid()
    die_with_parent()
    if os.getppid() != parent:
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    move_to_background()
    try:
        serve(sys.stdin, sys.stdout)
    except (BrokerGone, BrokenPipeError):
        return


if __name__ == "__main__":
    main()
