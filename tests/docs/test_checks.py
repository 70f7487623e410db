"""docs/reference/checks.md shows the operations as the module describes them, and names every check that can fire."""

from __future__ import annotations

import re
from pathlib import Path

import penstock.checks
import penstock.checks.history as history

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "checks.md").read_text()
SOURCES = [path.read_text() for path in Path(penstock.checks.__file__).parent.glob("*.py")]


def test_the_operations_are_those_of_the_module() -> None:
    assert history.__doc__ is not None
    described = history.__doc__[history.__doc__.index("Streams\n") :].rstrip()
    assert described in PAGE


def test_every_check_is_named() -> None:
    named = set(re.findall(r'"(?:Q|M)\d"|"G1\w"|"[a-z]+-(?:write|read|offsets)"', "".join(SOURCES)))
    assert len(named) > 14
    for check in named:
        assert f"`{check.strip(chr(34))}`" in PAGE
