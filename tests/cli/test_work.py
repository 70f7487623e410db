"""`penstock work`, as far as it goes without Spark."""

from __future__ import annotations

import pytest

from penstock.cli.main import run

COMMAND = ["work", "jobs", "--group", "workers", "--handler"]


@pytest.mark.parametrize(
    ("handler", "message"),
    [
        ("nowhere.py:handle", "There is no file 'nowhere.py'"),
        ("handle", "must look like file.py:function"),
        ("json:dump_s", "did you mean 'dumps'"),
    ],
)
def test_a_handler_that_is_not_there_is_named(handler: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*COMMAND, handler]) == 1
    assert message in capsys.readouterr().err


def test_a_handler_must_be_callable(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*COMMAND, "math:pi"]) == 2
    assert "cannot be called" in capsys.readouterr().err
