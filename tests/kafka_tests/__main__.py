"""`python -m tests.kafka_tests WHAT ...`: Apache Kafka's own integration tests, each on a fresh broker.

WHAT is a group (requests, consumer, share, rest, security), a class (ShareConsumerTest) or CLASS#METHOD; without it,
all groups.
The tests come from Maven Central, as published with Apache Kafka 4.3.1. Tests that do not pass on Apache Kafka through
this harness (on-kafka.json), most of which look inside the broker object, are left out unless they are named or --all
is given. Needs java, javac and mvn. Ends with 1 if a test fails that passes on Apache Kafka, unless it is meant to.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import asdict

import click
from rich.console import Console

from bench.peers import PeerError

from .catalog import GROUPS, Choice, TestMethod, UnknownTestError, choose, method_of, passes_on_kafka, record
from .jvm import BUILD, Outcome, build, find_tests
from .meant import EVERYWHERE, Judgement, judge
from .report import Verdict, table, verdicts
from .runs import Results, Run, results_file

err = Console(stderr=True, soft_wrap=True, highlight=False)


def wanted(choice: Choice, class_path: str, *, everything: bool) -> list[TestMethod]:
    """The test methods to run; an unknown name is an error."""
    found = [test for test in find_tests(class_path, list(choice.classes)) if choice.holds(test)]
    for class_name, methods in choice.classes.items():
        known = {test.method for test in found if test.class_name == class_name}
        for method in (methods or frozenset()) - known:
            raise UnknownTestError(f"{class_name} has no test {method}")
    counted = {method_of(test) for test in passes_on_kafka()}
    return [test for test in found if everything or choice.by_name(test) or test.name in counted]


def say(test: TestMethod, outcomes: list[Outcome], attempt: int, done: int, total: int) -> None:
    """A line for each test that has ended."""
    second = ", second try" if attempt == 2 else ""
    for outcome in outcomes or [Outcome(test.name, "SKIP", 0.0, "JUnit invoked nothing")]:
        line = f"[{done}/{total}{second}] {outcome.status} {outcome.test} {outcome.seconds:.1f} s {outcome.reason}"
        err.print(line.rstrip(), markup=False)


def run(tests: list[TestMethod], class_path: str, server: str, results: Results, workers: int) -> None:
    session = Run(class_path, server, results, say)

    async def tries() -> None:
        await session.first_try(tests, workers)
        await session.second_try(tests, passes_on_kafka())

    asyncio.run(tries())


def show(found: list[Verdict], judgement: Judgement, server: str, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"server": server, "tests": [asdict(verdict) for verdict in found]}, indent=1))
        return
    console = Console(soft_wrap=True, highlight=False)
    for verdict, reason in judgement.meant:
        console.print(f"FAILED {verdict.test}, as it is meant to: {reason}", markup=False)
    for verdict in judgement.bugs:
        console.print(f"FAILED {verdict.test}: {verdict.reason}", markup=False)
    for test in judgement.outlived:
        console.print(f"PASSED {test}: take it off the list of those that are meant to fail", markup=False)
    console.print(table(found, server))


@click.command(help=__doc__)
@click.option("--server", type=click.Choice(["penstock", "kafka"]), default="penstock", help="The broker to test.")
@click.option("--workers", type=click.IntRange(1), default=1, show_default=True, help="Tests run at the same time.")
@click.option("--resume", is_flag=True, help="Keep the results of the last run and run only what is missing.")
@click.option("--all", "everything", is_flag=True, help="Also run tests that do not pass on Apache Kafka.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
@click.option("--record", "recording", is_flag=True, help="Run on Apache Kafka and write what passes to on-kafka.json.")
@click.argument("what", nargs=-1)
def main(
    server: str, workers: int, resume: bool, everything: bool, as_json: bool, recording: bool, what: tuple[str, ...]
) -> None:
    server = "kafka" if recording else server
    try:
        class_path = build()
        tests = wanted(choose(what or GROUPS), class_path, everything=everything or recording)
        results = Results(BUILD / results_file(server, os.environ), resume=resume)
        run(tests, class_path, server, results, workers)
    except (PeerError, UnknownTestError) as error:
        raise click.ClickException(str(error)) from error
    names = [test.name for test in tests]
    final = results.final(names)
    if recording:
        record(names, (test for test, (outcome, _) in final.items() if outcome.status == "PASS"))
    found = verdicts(names, passes_on_kafka(), final)
    judgement = judge(found, EVERYWHERE if server == "penstock" else {})
    show(found, judgement, server, as_json=as_json)
    sys.exit(0 if judgement.is_good else 1)


if __name__ == "__main__":
    main()
