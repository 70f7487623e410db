"""The examples run as they stand."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_FOLDER = Path(__file__).parents[2] / "examples" / "client"
_EXPECTED = {
    "produce.py": "offset",
    "consume.py": "k -> event 4",
    "transform.py": "20 records doubled",
    "worker.py": "image 3 done at delivery 2",
    "columns.py": f"50000 readings, sum {sum(range(50_000))}",
    "administer.py": "end of partition 0: 10",
    "without_asyncio.py": "b'line 4'",
}


def test_every_example_is_listed_and_tested() -> None:
    files = {path.name for path in _FOLDER.glob("*.py")}
    assert files == set(_EXPECTED)
    assert all(f"`{name}`" in (_FOLDER / "README.md").read_text() for name in files)


@pytest.mark.parametrize("name", list(_EXPECTED))
def test_the_example_runs(bootstrap: str, name: str) -> None:
    ran = subprocess.run(
        [sys.executable, str(_FOLDER / name)],
        capture_output=True,
        text=True,
        timeout=90,
        env={**os.environ, "PENSTOCK_BOOTSTRAP": bootstrap},
    )
    assert ran.returncode == 0, ran.stderr
    assert _EXPECTED[name] in ran.stdout
