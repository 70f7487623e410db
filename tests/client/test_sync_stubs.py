from __future__ import annotations

from pathlib import Path

from penstock.client import sync
from penstock.client.sync_stubs import stub


def test_the_types_are_those_of_the_asyncio_client() -> None:
    written = Path(sync.__file__ or "").with_suffix(".pyi").read_text()
    assert written == stub(), "run python -m penstock.client.sync_stubs"
