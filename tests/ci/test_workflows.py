"""The workflows of the forge call make targets that exist, so that everybody can run the same checks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_every_target_exists(workflow: Path) -> None:
    text = workflow.read_text()
    called = {word for line in re.findall(r"run: make ([^|\n]*)", text, re.MULTILINE) for word in line.split()}
    called |= {target for listed in re.findall(r"target: \[(.*)\]", text) for target in listed.split(", ")}
    words = {word for word in called if re.fullmatch(r"[a-z-]+", word)}
    assert words <= TARGETS


def test_every_python_that_is_claimed_is_tested() -> None:
    claimed = set(re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text()))
    tested = set(re.findall(r'"(3\.\d+)"', (ROOT / ".github" / "workflows" / "checks.yml").read_text()))
    assert claimed <= tested
