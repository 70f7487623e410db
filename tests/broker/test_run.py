"""The broker as a process: what it prints, and how it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.broker.process import WAIT_SECONDS, BrokerProcess
from tests.broker.raw import is_alive


@contextmanager
def serving(data: Path, **configs: Any) -> Iterator[tuple[subprocess.Popen[str], str, int]]:
    """A broker that is ready, the line that says so, and its port."""
    broker = BrokerProcess(data, **configs)
    pipe = subprocess.PIPE
    with subprocess.Popen(broker.command(), stdout=pipe, stderr=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline(), broker.port
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_serves_once_it_does_and_ends_well_when_it_is_told_to(
    tmp_path: Path, number: signal.Signals
) -> None:
    with serving(tmp_path) as (process, line, port):
        assert f"serves 127.0.0.1:{port} from {tmp_path} (ready in" in line
        assert is_alive(port)
        process.send_signal(number)
        rest, errors = process.communicate(timeout=WAIT_SECONDS)
        assert (process.returncode, rest, errors) == (0, "", "")


def test_settings_without_a_use_and_those_that_nobody_knows_are_named(tmp_path: Path) -> None:
    with serving(tmp_path, num_network_threads=3, log_retention_hour=5) as (process, _, _):
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=WAIT_SECONDS)
    assert "note: num.network.threads is set" in errors
    assert "log.retention.hours" in errors, "the nearest name that there is"


def test_it_serves_without_uvloop_too(tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
sys.modules["uvloop"] = None  # as if it were not installed
from penstock.broker.run import run
from penstock.broker.server import Settings
run(Settings(data=Path(sys.argv[1]), listen=["127.0.0.1:0"]))
"""
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert "serves 127.0.0.1:" in process.stdout.readline()
            process.send_signal(signal.SIGTERM)
            assert process.wait(WAIT_SECONDS) == 0
        finally:
            process.kill()
