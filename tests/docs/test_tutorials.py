"""The tutorials, done from top to bottom as they stand (but for ports)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.reader import Reader, follow

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"
_SPARK = {"first-pipeline.md"}


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path)
    yield reader
    reader.close()


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.stem, marks=[pytest.mark.spark] if page.name in _SPARK else [])
        for page in sorted(TUTORIALS.glob("*.md"))
    ],
)
def test_a_tutorial_does_what_it_says(page: Path, reader: Reader) -> None:
    assert follow(reader, page.read_text("utf-8")) >= 4
