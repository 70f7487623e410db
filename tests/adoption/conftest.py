from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.adoption.folders import Recorded
from tests.adoption.record import LATEST


@pytest.fixture
def kafka(tmp_path: Path) -> Recorded:
    return Recorded(tmp_path / "kafka", LATEST)


@pytest.fixture
def other_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on another file system than `tmp_path`."""
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system")
    with TemporaryDirectory(dir=memory, prefix="penstock-") as folder:
        yield Path(folder)
