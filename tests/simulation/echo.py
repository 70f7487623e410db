"""What a process of the tests computes."""

from __future__ import annotations

from penstock.log.cleaner.process import Answers, Lines


def serve(lines: Lines, answers: Answers, *clock_and_sleep: object) -> None:
    while line := lines.readline().strip():
        answers.write(f"echo of {line}")
        answers.flush()
