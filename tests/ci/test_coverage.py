"""A module that hardly any test reaches fails `make coverage`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / ".ci" / "check-coverage"


def checked(folder: Path, **rates: float) -> subprocess.CompletedProcess[str]:
    classes = "".join(
        f'<class filename="penstock/{name.replace("__", "/")}.py" line-rate="{rate}"/>' for name, rate in rates.items()
    )
    report = folder / "coverage.xml"
    report.write_text(f"<coverage><packages><package><classes>{classes}</classes></package></packages></coverage>")
    return subprocess.run([sys.executable, SCRIPT, report], capture_output=True, text=True, timeout=60)


def test_modules_with_tests_pass_and_those_of_spark_are_tested_elsewhere(tmp_path: Path) -> None:
    passed = checked(tmp_path, guard=0.97, cli__main=0.5, spark__sink=0.0)
    assert (passed.returncode, passed.stdout) == (0, "")


def test_a_module_without_tests_is_named(tmp_path: Path) -> None:
    failed = checked(tmp_path, guard=0.97, cli__main=0.12)
    assert failed.returncode == 1
    assert "penstock/cli/main.py: 12 % of its lines" in failed.stdout
    assert "guard" not in failed.stdout
