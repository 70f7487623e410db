"""A run: test methods handed to worker JVMs, results kept in a file as they come, so that a run can be resumed.

What fails although it passes on Apache Kafka gets a second try, alone: a few tests depend on timing, and workers
compete for the machine.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.engine.brokers import ENGINE

from .catalog import TestMethod, method_of
from .jvm import Outcome, WorkerJvm

Progress = Callable[[TestMethod, list[Outcome], int, int, int], None]
"""Called after each method: the method, its outcomes, which try, how many methods are done, of how many."""


def results_file(server: str, environment: Mapping[str, str]) -> str:
    """Each kind of broker has a file of its own: what one has passed says nothing about another."""
    kinds = [environment[name] for name in (ENGINE, "PENSTOCK_BROKERS") if environment.get(name)]
    return "-".join(["results", server, *(kinds if server == "penstock" else [])]) + ".jsonl"


class Results:
    """The outcomes of each method's first and second try, in memory and in a file of one JSON object per line."""

    def __init__(self, file: Path, *, resume: bool) -> None:
        self._file = file
        self._outcomes: dict[tuple[str, int], list[Outcome]] = {}
        file.parent.mkdir(parents=True, exist_ok=True)
        if resume and file.exists():
            for line in file.read_text().splitlines():
                entry = json.loads(line)
                outcomes = [Outcome(**outcome) for outcome in entry["outcomes"]]
                self._outcomes[entry["method"], entry["try"]] = outcomes
        else:
            file.write_text("")

    def add(self, method: str, attempt: int, outcomes: list[Outcome]) -> None:
        self._outcomes[method, attempt] = outcomes
        entry = {"method": method, "try": attempt, "outcomes": [asdict(outcome) for outcome in outcomes]}
        with self._file.open("a") as file:
            file.write(json.dumps(entry) + "\n")

    def of(self, method: str, attempt: int) -> list[Outcome] | None:
        return self._outcomes.get((method, attempt))

    def final(self, methods: Iterable[str]) -> dict[str, tuple[Outcome, int]]:
        """By test: the outcome that counts and the try it is from. A test that passes once has passed."""
        final: dict[str, tuple[Outcome, int]] = {}
        for method in methods:
            for attempt in (1, 2):
                for outcome in self.of(method, attempt) or []:
                    if outcome.test not in final or final[outcome.test][0].status != "PASS":
                        final[outcome.test] = (outcome, attempt)
        return final


@dataclass(frozen=True, slots=True)
class Run:
    """Where and how tests are run."""

    class_path: str
    server: str
    results: Results
    progress: Progress

    async def first_try(self, tests: list[TestMethod], workers: int) -> None:
        await self._all(tests, 1, workers)

    async def second_try(self, tests: list[TestMethod], on_kafka: frozenset[str]) -> None:
        """Repeats each method of which a test failed, or did not run, that passes on Apache Kafka."""
        unsettled = [test for test in tests if unmet(test, self.results, on_kafka)]
        await self._all(unsettled, 2, 1)

    async def _all(self, tests: list[TestMethod], attempt: int, workers: int) -> None:
        queue = deque(test for test in tests if self.results.of(test.name, attempt) is None)
        total = len(tests)
        done = total - len(queue)

        async def work() -> None:
            nonlocal done
            with tempfile.TemporaryDirectory(prefix="kafka-tests-", ignore_cleanup_errors=True) as folder:
                async with WorkerJvm(self.class_path, self.server, Path(folder)) as jvm:
                    while queue:
                        test = queue.popleft()
                        outcomes = await jvm.run(test)
                        self.results.add(test.name, attempt, outcomes)
                        done += 1
                        self.progress(test, outcomes, attempt, done, total)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(workers, len(queue))):
                group.create_task(work())


def unmet(test: TestMethod, results: Results, on_kafka: frozenset[str]) -> bool:
    passed = {outcome.test for outcome in results.of(test.name, 1) or [] if outcome.status == "PASS"}
    return any(method_of(name) == test.name for name in on_kafka - passed)
