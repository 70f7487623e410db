from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.engine import brokers
from tests.postgres import PostgresServer

# Shared machines pause at will: how long an example takes says nothing about it.
settings.register_profile("penstock", deadline=None)
settings.load_profile("penstock")
# For tests.mutation: that an example fails is all it wants to know, and the search for a smaller one takes minutes. It
# runs the same tests several times in one process.
settings.register_profile(
    "mutants",
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.differing_executors],
)

# Modules that cannot even be imported without Spark, which takes a gigabyte: `make spark` installs it and runs them.
# The default run leaves them out whether or not it is installed, so that it is the same everywhere.
ON_SPARK = [
    "cli/test_load.py",
    "cli/test_work.py",
    "spark/test_daemon.py",
    "spark/test_forking.py",
    "spark/test_full_disk.py",
    "spark/test_interpreter.py",
    "spark/test_load.py",
    "spark/test_neighbours.py",
    "spark/test_pipelines.py",
    "spark/test_secure.py",
    "spark/test_security.py",
    "spark/test_share_source.py",
    "spark/test_transactions.py",
]
collect_ignore = ON_SPARK if find_spec("pyspark") is None else []


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    modules = {Path(__file__).parent / name for name in ON_SPARK}
    for item in items:
        if item.path in modules:
            item.add_marker("spark")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line about what was skipped, and why."""
    reports = terminalreporter.stats.get("skipped", [])
    reasons = Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in reports)
    if reasons:
        reasons_text = "; ".join(f"{count} ({reason})" for reason, count in reasons.most_common())
        terminalreporter.write_line(f"skipped: {reasons_text}")


if sys.platform == "win32" or os.environ.get("PENSTOCK_TEST_WITHOUT") == "windows":

    class SelectorPolicy(asyncio.DefaultEventLoopPolicy):
        def new_event_loop(self) -> asyncio.AbstractEventLoop:
            return asyncio.SelectorEventLoop()

    @pytest.fixture(scope="session")
    def event_loop_policy() -> SelectorPolicy:
        """A broker in the loop of a test needs one that watches sockets, which the default loop there does not."""
        return SelectorPolicy()


@pytest.fixture(scope="session", autouse=True)
def _engine() -> Iterator[None]:
    """The engine that `python -m tests.engine` has chosen, if any."""
    with pytest.MonkeyPatch.context() as patch:
        brokers.use(patch)
        yield


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server for tests that leave it as it is."""
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def kafka_jars() -> Path:
    jars = Path(os.environ.get("KAFKA_JARS", Path.home() / ".cache" / "penstock" / "kafka-4.3.1"))
    if not jars.is_dir():
        pytest.skip(f"no Apache Kafka in {jars}; name the folder of its jars in KAFKA_JARS")
    return jars
