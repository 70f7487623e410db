"""The inspection finds what is missing, damaged, left over or never was, and nothing in a sound cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.log.config import LogConfig
from penstock.storage.objects import inspection
from penstock.storage.objects.commit_log import Extent, Layout, PartitionState
from penstock.storage.objects.committer import CommitSettings
from penstock.storage.objects.inspection import Inspection, Trouble, damage, damage_in_pieces, holes, inspect
from penstock.storage.objects.key_space import KeySpace
from tests.storage.objects.test_storage import KEY, World, segments, until
from tests.storage.test_contract import TOPIC_ID, append, plain

PREFIX = "penstock"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Four segments and an extent, each in an object of its own."""
    world = World(tmp_path / "cache")
    one_batch = LogConfig(segment_bytes=len(plain("a" * 200)))
    log = world.start(CommitSettings(window_ms=1, inline_bytes=0)).open_log("t", 0, TOPIC_ID, one_batch)
    for value in "abcde":
        append(log, plain(value * 200))
    until(lambda: len(segments(world)) == 4)
    for storage in world.started:
        storage.close()
    world.started.clear()
    return world


def inspected(world: World, *, reads: bool = True) -> Inspection:
    seen: list[tuple[int, int]] = []
    keys = KeySpace(PREFIX)
    found = inspect(world.commits, world.store, keys, lambda done, total: seen.append((done, total)), reads=reads)
    assert seen == sorted(seen)
    return found


def troubles(found: Inspection) -> list[tuple[Trouble, str | None]]:
    return [(each.trouble, each.object_key) for each in found.findings]


def extent_key(world: World) -> str:
    (extent,) = world.commits.layouts([KEY])[KEY].extents
    assert extent.object_key is not None
    return extent.object_key


def test_a_sound_cluster_has_no_findings(world: World) -> None:
    found = inspected(world)
    assert found.findings == []
    assert (found.partitions, found.segments, found.extents) == (1, 4, 1)
    assert inspected(world, reads=False).findings == []


@pytest.mark.parametrize("reads", [True, False])
def test_a_missing_object_is_found(world: World, reads: bool) -> None:
    gone = [segments(world)[1], extent_key(world)]
    world.store.delete(gone)
    assert troubles(inspected(world, reads=reads)) == [(Trouble.MISSING, key) for key in gone]


def test_a_damaged_byte_is_found(world: World) -> None:
    key = extent_key(world)
    size = world.commits.known_objects()[key]
    data = bytearray(world.store.get(key, 0, size))
    data[-20] ^= 1
    world.store.put(key, [bytes(data)])
    found = inspected(world)
    assert troubles(found) == [(Trouble.DAMAGED, key)]
    assert "wrong checksum" in found.findings[0].text


def test_an_object_that_was_cut_short_is_found_without_reading(world: World) -> None:
    key = segments(world)[0]
    world.store.put(key, [world.store.get(key, 0, 30)])
    assert (Trouble.DAMAGED, key) in troubles(inspected(world, reads=False))


def test_an_orphan_is_found_once_it_is_old(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    orphan = f"{PREFIX}/wal/9-1-x/000"
    world.store.put(orphan, [b"x"])
    world.store.put(f"{PREFIX}-of-another-cluster/wal/9-1-x/000", [b"x"])
    found = inspected(world)
    assert (found.findings, found.young) == ([], 1)
    monkeypatch.setattr(inspection, "YOUNG_SECONDS", -1.0)
    found = inspected(world)
    assert troubles(found) == [(Trouble.ORPHAN, orphan)]


def test_what_a_running_broker_has_replaced_meanwhile_is_no_finding(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = world.commits.layouts([KEY])
    epoch = before[KEY].state.leader_epoch
    removed = segments(world)[0]
    world.commits.move_start(KEY, epoch, 1)
    world.store.delete([removed])
    answers = [before]
    now = world.commits.layouts
    monkeypatch.setattr(world.commits, "layouts", lambda keys: answers.pop() if answers else now(keys))
    assert inspected(world).findings == []


def layout(start: int, end: int, *ranges: tuple[int, int]) -> Layout:
    extents = [Extent(base, until_, None, 0, 1) for base, until_ in ranges]
    return Layout(PartitionState(1, 0, start, end), extents=extents)


def test_holes_and_overlaps_are_named() -> None:
    assert holes(layout(0, 0)) == holes(layout(2, 9, (0, 4), (4, 9))) == []
    assert holes(layout(0, 9, (0, 4), (6, 9))) == ["nothing holds the offsets 4 to 5"]
    assert holes(layout(0, 9, (0, 4))) == ["nothing holds the offsets 4 to 8"]
    assert holes(layout(0, 9, (1, 9))) == ["nothing holds the offsets 0 to 0"]
    assert holes(layout(0, 9, (0, 4), (3, 9))) == ["two extents hold the offsets 3 to 3"]
    assert holes(layout(0, 4, (0, 9))) == ["the log is committed up to 4, and what is stored goes to 9"]


def test_batches_that_are_not_those_of_their_offsets_are_damage() -> None:
    batch = bytes(plain("a", "b"))
    assert damage(batch, 0, 2, is_dense=True) is None
    assert damage(batch, 0, 5, is_dense=False) is None
    assert "end at offset 2 rather than 3" in str(damage(batch, 0, 3, is_dense=True))
    assert "begins at offset 0" in str(damage(batch, 1, 2, is_dense=False))
    assert "are no batch" in str(damage(batch + b"rest", 0, 2, is_dense=True))
    assert "cannot be read" in str(damage(batch[:16] + b"\x07" + batch[17:], 0, 2, is_dense=True))


def test_batches_are_checked_piece_by_piece_wherever_they_are_cut() -> None:
    whole = b"".join(bytes(at_offset(number, "x" * (10 * number))) for number in range(5))
    for size in (1, 7, 100, len(whole)):
        pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
        assert damage_in_pieces(pieces, len(whole), 0, 5, is_dense=True) is None
        torn = damage_in_pieces([*pieces[:-1], pieces[-1][:-1]], len(whole) - 1, 0, 5, is_dense=True)
        assert "are no batch" in str(torn)
        spoilt = [*pieces[:-1], pieces[-1][:-1] + b"?"]
        assert "wrong checksum" in str(damage_in_pieces(spoilt, len(whole), 0, 5, is_dense=True))


def at_offset(offset: int, value: str) -> bytearray:
    batch = plain(value)
    batch[:8] = offset.to_bytes(8, "big")
    return batch
