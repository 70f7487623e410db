"""The README and the programs of docs/how-to/connect.md, run exactly as written except for the port."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.testing import Broker
from tests.docs.reader import Reader, follow

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
CLIENTS = (ROOT / "docs" / "how-to" / "connect.md").read_text("utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", CLIENTS, re.S)


def name_of(program: str) -> str:
    return program.splitlines()[0].removeprefix("# ")


@pytest.mark.parametrize("program", PROGRAMS, ids=name_of)
def test_the_client_examples_read_back_what_they_sent(program: str, penstock_broker: Broker) -> None:
    program = program.replace("127.0.0.1:9092", penstock_broker.bootstrap_servers)
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "b'hello, stream'"


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path)
    yield reader
    reader.close()


def test_the_readme_does_what_it_says(reader: Reader) -> None:
    assert follow(reader, README) == 3
