"""`make demo` tells its whole story, and finds everything right."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_demo_runs_to_its_end_and_every_count_is_right(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "examples.demo", "--keep", str(tmp_path)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=590)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""  # neither Spark's greetings nor what its workers say when they are killed
    assert result.stdout.count("✓") == 8
    assert (tmp_path / "lake" / "orders" / "_delta_log").is_dir()
