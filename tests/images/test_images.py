"""After a power cut at any step, whatever part of the unsynced it takes, every promise is kept.

`make images IMAGES=10000` opens as many as you have time for.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.images.load import Loaded, record_a_load
from tests.images.opening import Opener
from tests.images.recorder import Commit, Rename, Step, Sync, SyncFolder

IMAGES = int(os.environ.get("PENSTOCK_IMAGES", "10000"))
_A_BROKER_EVERY = 100


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return record_a_load(tmp_path_factory.mktemp("data"), rounds=90)


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A folder in memory, where there is one: opening an image syncs it, and nobody needs that on disk."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        yield Path(folder)


def without(loaded: Loaded, *kinds: type[Step]) -> Iterator[Loaded]:
    """The same load on a machine on which some calls do nothing."""
    steps = loaded.recording.steps
    # They stay as what changes nothing, so that promises keep their places.
    loaded.recording.steps = [SyncFolder("nowhere", 0) if isinstance(step, kinds) else step for step in steps]
    try:
        yield loaded
    finally:
        loaded.recording.steps = steps


def test_a_load_is_recorded_with_all_that_it_does_and_promises(loaded: Loaded) -> None:
    kinds = Counter(type(step) for step in loaded.recording.steps)
    kinds_of_promises = Counter(each.kind for each in loaded.promises)
    assert kinds[Sync] > 50
    assert kinds[SyncFolder] > 3
    assert kinds[Rename] > 3
    assert kinds[Commit] >= 2 * kinds_of_promises["deleted"] > 0
    assert kinds_of_promises.keys() == {"record", "transaction", "commit", "accept", "created", "deleted"}


def test_every_image_has_all_records_that_were_acknowledged(loaded: Loaded, scratch: Path) -> None:
    opener = Opener(loaded, scratch)
    assert [text for seed in range(300) for text in opener.broken_promises(seed)] == []


def test_a_broker_on_an_image_keeps_its_promises(loaded: Loaded, scratch: Path) -> None:
    opener = Opener(loaded, scratch)
    assert [text for seed in range(3) for text in opener.broken_promises_of_a_broker(seed)] == []


@pytest.mark.parametrize("kind", [Sync, SyncFolder, Commit])
def test_a_missing_sync_breaks_promises(loaded: Loaded, scratch: Path, kind: type[Step]) -> None:
    for unsynced in without(loaded, kind):
        opener = Opener(unsynced, scratch)
        assert any(opener.broken_promises(seed) for seed in range(100))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_many_images_keep_every_promise(scratch: Path) -> None:
    broken: list[str] = []
    for load in range(10):
        data, images = scratch / f"data-{load}", scratch / f"images-{load}"
        images.mkdir()
        opener = Opener(record_a_load(data, rounds=120, seed=load), images)
        for seed in range(max(1, IMAGES // 10)):
            broken += opener.broken_promises(seed)
            if seed % _A_BROKER_EVERY == 0:
                broken += opener.broken_promises_of_a_broker(seed)
    assert broken == []
