"""Every check fires on the history that was planted for it and not on its healthy twin, in Python and on the command
line, and the page about the checks shows them all.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from penstock.cli.main import run
from tests.checks.histories import found_in
from tests.checks.planted import PAGE, PLANTED, Planted, lines, renewed


@pytest.mark.parametrize("planted", PLANTED, ids=lambda each: each.check)
def test_a_planted_anomaly_is_found_and_its_healthy_twin_passes(planted: Planted) -> None:
    assert planted.check in found_in(*planted.history)
    assert found_in(*planted.twin) == []


@pytest.mark.parametrize("planted", PLANTED, ids=lambda each: each.check)
def test_the_command_finds_it_in_a_file(planted: Planted, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(lines(planted.history))
    assert run(["check", "--json", str(path)]) == 1
    assert planted.check in {found["check"] for found in json.loads(capsys.readouterr().out)}
    path.write_text(lines(planted.twin))
    assert run(["check", str(path)]) == 0


def test_every_check_of_the_page_has_a_planted_history() -> None:
    tables = re.findall(r"^\| ((?:`[\w-]+`(?:, )?)+) \|", PAGE.read_text(), re.MULTILINE)
    named = [name for row in tables for name in re.findall(r"`([\w-]+)`", row)]
    assert sorted(named) == sorted(each.check for each in PLANTED)


def test_the_page_shows_them() -> None:
    page = PAGE.read_text()
    assert renewed(page) == page, "write them anew with python -m tests.checks.planted"
