"""The `penstock` command as a user runs it: a process of its own, against a broker of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def broker_address() -> Iterator[str]:
    from penstock.testing.broker import Broker

    with Broker({"auto.create.topics.enable": "false"}) as broker:
        yield broker.bootstrap_servers


def command(arguments: tuple[str, ...]) -> list[str]:
    return [sys.executable, "-m", "penstock.cli.main", *arguments]


def environment(**extra: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    return {**kept, "COLUMNS": "100", **extra}


@pytest.fixture
def penstock(broker_address: str, tmp_path: Path) -> Run:
    """Run a command line in an empty folder; standard input is `input`."""

    def run(*arguments: str, input: str = "", env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command(arguments),
            input=input,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment(**{"PENSTOCK_BOOTSTRAP": broker_address, **(env or {})}),
            timeout=60,
        )

    return run
