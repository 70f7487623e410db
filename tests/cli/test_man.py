"""The manual page names every command and can be set."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from penstock.cli.main import COMMANDS
from penstock.cli.man import page


def test_every_command_is_in_it() -> None:
    text = page()
    for name in COMMANDS:
        assert f'.SH "PENSTOCK {name.upper()}'.replace("-", "\\-") in text


@pytest.mark.skipif(shutil.which("groff") is None, reason="needs groff")
def test_it_is_set_without_warnings() -> None:
    made = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-K", "utf8"], input=page(), capture_output=True, text=True, timeout=60
    )
    assert made.returncode == 0
    assert "warning" not in made.stderr
    assert "--bootstrap HOST:PORT" in made.stdout
