"""The job for macOS and Windows, as far as Linux can show it: its own commands, with the ways of Linux taken away."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ci.test_workflows import ROOT

JOB = re.compile(r"^  elsewhere:\n(.*?)(?=^  \w+:\n)", re.MULTILINE | re.DOTALL)


def steps() -> list[list[str]]:
    """What the job runs with Python."""
    found = JOB.search((ROOT / ".github" / "workflows" / "checks.yml").read_text())
    assert found is not None
    return [line.split() for line in re.findall(r"- run: python (.*)", found[1])]


def test_the_job_installs_and_tests() -> None:
    install, test = steps()
    assert install[:3] == ["-m", "pip", "install"]
    assert test[:2] == ["-m", "pytest"]
    assert all((ROOT / folder).is_dir() for folder in test[2:])


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("system", ["macos", "windows"])
def test_the_job_passes_in_an_empty_environment(system: str, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    install, test = steps()
    subprocess.run([python, *install], cwd=ROOT, check=True)
    hook = {"PYTHONPATH": "tests/portability", "PENSTOCK_TEST_WITHOUT": system}
    done = subprocess.run([python, *test], cwd=ROOT, env={**os.environ, **hook}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
