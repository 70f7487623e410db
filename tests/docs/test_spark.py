"""The programs of docs/how-to/spark.md, run as they stand (but for the port)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from penstock.client.sync import Producer
from penstock.testing import Broker

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "spark.md").read_text("utf-8")
PROGRAMS = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.S) if "spark = " in block]


@pytest.fixture
def records(penstock_broker: Broker) -> str:
    with Producer(bootstrap_servers=penstock_broker.bootstrap_servers) as producer:
        for number in range(30):
            producer.send("orders", f"{number}")
    return penstock_broker.bootstrap_servers


@pytest.mark.spark
@pytest.mark.timeout(300)
@pytest.mark.parametrize("program", PROGRAMS[:2], ids=["penstock's session", "a session of one's own"])
def test_a_program_reads_a_topic_though_another_python_is_on_the_path(
    program: str, records: str, tmp_path: Path
) -> None:
    venv.create(tmp_path / "other", with_pip=False)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    environment["PATH"] = f"{tmp_path}/other/bin:/usr/bin:/bin"
    done = subprocess.run(
        [sys.executable, "-c", program.replace("127.0.0.1:9092", records)],
        capture_output=True,
        text=True,
        timeout=280,
        env=environment,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "30" in done.stdout
