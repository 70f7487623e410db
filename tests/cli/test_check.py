"""`penstock check`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.cli.main import run
from tests.checks.histories import DRAINED, poll, send


def written(tmp_path: Path, *operations: object) -> str:
    path = tmp_path / "history.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in operations))
    return str(path)


def test_a_healthy_history_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", written(tmp_path, send("a", 0), poll((0, "a")), DRAINED)]) == 0
    assert "Every check passed" in capsys.readouterr().err


def test_a_finding_is_shown_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", written(tmp_path, send("a", 0), DRAINED)]) == 1
    shown = capsys.readouterr()
    assert "unseen  1     'a', acknowledged for t-0, was never polled" in shown.out
    assert "unseen 1" in shown.err


def test_findings_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--json", written(tmp_path, send("a", 0), DRAINED)]) == 1
    (finding,) = json.loads(capsys.readouterr().out)
    assert (finding["check"], finding["line"]) == ("unseen", 1)


def test_a_file_that_is_no_history_is_refused_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", written(tmp_path, {"op": "sned"})]) == 1
    assert "line 1: 'sned' is no operation" in capsys.readouterr().err
