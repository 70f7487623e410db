"""The programs and commands of the README and of the page for clients, run as they stand (but for the port)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.testing import Broker

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


COMMANDS = re.findall(r"```sh\n(penstock topic create.*?)```", README, re.S)


@pytest.mark.parametrize(
    ("commands", "printed"),
    [(COMMANDS[0], "hello, stream"), (COMMANDS[1], "thumbnails  images  3          0")],
    ids=["a stream", "a queue"],
)
def test_the_first_commands_do_what_they_promise(
    commands: str, printed: str, penstock_broker: Broker, tmp_path: Path
) -> None:
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "PENSTOCK_BOOTSTRAP": penstock_broker.bootstrap_servers,
        "HOME": str(tmp_path),
    }
    result = subprocess.run(
        ["bash", "-euc", commands], capture_output=True, text=True, timeout=60, env=environment, cwd=tmp_path
    )
    assert result.returncode == 0, result.stderr
    assert printed in result.stdout
