"""The default run: what it leaves out, it says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import ON_SPARK

TESTS = Path(__file__).parent


def test_what_was_skipped_is_said_in_one_line_with_its_reasons(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('n', range(3))\n"
        "def test_a(n): pytest.skip('the moon is full')\n"
        "def test_b(): pytest.skip('the sun is low')\n"
        "def test_c(): pass\n"
    )
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, "-p", "tests.conftest", "-q", str(tmp_path)]
    done = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True, timeout=60)
    assert "skipped: 3 (the moon is full); 1 (the sun is low)" in done.stdout.splitlines(), done.stdout


def test_the_modules_that_need_spark_exist() -> None:
    assert [name for name in ON_SPARK if not (TESTS / name).is_file()] == []
