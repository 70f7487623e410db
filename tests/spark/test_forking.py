"""The process that is forked where Spark starts a Python of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from penstock.spark import forking
from penstock.spark.interpreter import choose_interpreter, installed_spark

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks only on Linux")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """What a session hands to Spark, with a process that is ready to be forked."""
    found = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "PYTHON_WORKER_FACTORY_SECRET": "secret"}
    found.pop(forking.VARIABLE, None)
    forking.start(found)
    return found


@contextmanager
def started_by_spark(environment: dict[str, str], worker: str = "pyspark.worker") -> Iterator[subprocess.Popen[bytes]]:
    """A process as Spark starts it: with its zip in front of the path, and waiting for the port that it tells."""
    script = choose_interpreter(environment, local=True)
    given = {**environment, "PYTHONPATH": f"{installed_spark()}/python/lib/pyspark.zip", "PYTHONUNBUFFERED": "YES"}
    with subprocess.Popen(
        [script, "-m", "pyspark.daemon", worker], env=given, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert int.from_bytes(process.stdout.read(4), "big") > 0
        yield process
        process.stdin.close()
        process.wait(20)


def forks() -> list[psutil.Process]:
    assert forking._running is not None
    return [child for child in psutil.Process(forking._running.pid).children() if child.status() != "zombie"]


def test_what_spark_starts_is_a_fork_and_both_end_together(environment: dict[str, str]) -> None:
    with started_by_spark(environment), started_by_spark(environment, "pyspark.sql.worker.plan_data_source_read"):
        running = forks()
        assert len(running) == 2
        assert [child.num_threads() for child in running] == [1, 1]
    psutil.wait_procs(running, 20)
    assert not forks()


@pytest.mark.parametrize("setting", [{"PYTHONHASHSEED": "7"}, {"OMP_NUM_THREADS": "4"}])
def test_an_interpreter_with_other_settings_is_started_as_usual(
    environment: dict[str, str], setting: dict[str, str]
) -> None:
    with started_by_spark({**environment, **setting}) as process:
        assert not forks()
        assert psutil.Process(process.pid).cmdline()[1:3] == ["-m", "pyspark.daemon"]


def test_an_interpreter_is_started_as_usual_when_nobody_forks(environment: dict[str, str], tmp_path: Path) -> None:
    with started_by_spark({**environment, forking.VARIABLE: str(tmp_path / "nobody")}) as process:
        assert psutil.Process(process.pid).cmdline()[1:3] == ["-m", "pyspark.daemon"]


def test_a_module_path_given_twice_is_the_same_path() -> None:
    once, twice = {"PYTHONPATH": "/a:/b"}, {"PYTHONPATH": "/a:/b::/a", "PYTHONHASHSEED": "0", "PYTHON_OF_SPARK": "x"}
    assert forking.interpreter_settings(once) == forking.interpreter_settings(twice)
    assert forking.interpreter_settings(once) != forking.interpreter_settings({"PYTHONPATH": "/b:/a"})


@pytest.mark.parametrize("end", ["pass", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"])
def test_it_ends_with_the_program_that_started_it(end: str) -> None:
    program = f"""
        import os
        from penstock.spark import forking
        forking.start(os.environ)
        print(forking._running.pid, os.environ[forking.VARIABLE], flush=True)
        {end}
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    output = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.split()
    try:
        psutil.Process(int(output[0])).wait(30)
    except psutil.NoSuchProcess:
        pass
    assert not Path(output[1]).parent.exists()
