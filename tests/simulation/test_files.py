"""The disk of a machine as files: what a power cut leaves, and what a disk that is full or fails answers."""

from __future__ import annotations

import asyncio
import os
import random
from contextlib import suppress
from pathlib import Path

import pytest

from penstock import portable
from penstock.client.producer import Producer
from penstock.log.errors import StorageError
from penstock.log.files import sync_path, write_file
from penstock.simulation.files import FileDisk
from penstock.simulation.loop import SimulatedLoop
from penstock.simulation.machine import MachineSimulation


def disk_in(folder: Path, seed: int = 1) -> FileDisk:
    chance = random.Random(seed)
    return FileDisk(SimulatedLoop(chance), chance, folder)


def append(path: Path, data: bytes, *, syncs: bool) -> None:
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        portable.write_at(fd, data, os.fstat(fd).st_size)
        if syncs:
            portable.datasync(fd)
    finally:
        os.close(fd)


def test_what_was_synced_survives_and_of_the_rest_a_part_does(tmp_path: Path) -> None:
    left = set()
    for seed in range(60):
        folder = tmp_path / str(seed)
        folder.mkdir()
        disk = disk_in(folder, seed)
        with disk.installed():
            append(folder / "a.log", b"synced", syncs=True)
            sync_path(str(folder))
            append(folder / "a.log", b"lost", syncs=False)
            disk.power_cut()
        left.add((folder / "a.log").read_bytes())
    assert all(each.startswith(b"synced") for each in left)
    assert b"synced" in left
    assert b"syncedlost" in left
    assert b"syncedlo" in left, "torn"
    assert b"syncedlo\0\0" in left, "its length got there, its contents did not"


def test_a_name_that_nobody_has_synced_may_be_gone(tmp_path: Path) -> None:
    left = set()
    for seed in range(20):
        folder = tmp_path / str(seed)
        folder.mkdir()
        disk = disk_in(folder, seed)
        with disk.installed():
            write_file(str(folder / "file"), b"old", sync=True)
            write_file(str(folder / "file"), b"new")
            disk.power_cut()
        left.add((folder / "file").read_bytes())
    assert b"old" in left
    assert b"new" in left


def test_a_full_disk_takes_no_more_and_says_so(tmp_path: Path) -> None:
    disk = disk_in(tmp_path)
    with disk.installed():
        append(tmp_path / "a.log", b"first", syncs=True)
        disk.is_full = True
        assert portable.disk_space(tmp_path).usable_bytes == 0
        for _ in range(10):
            with suppress(OSError):
                append(tmp_path / "a.log", b"second", syncs=False)
        with pytest.raises(OSError, match="No space left"):
            append(tmp_path / "b.log", b"new", syncs=False)
        disk.is_full = False
        append(tmp_path / "b.log", b"new", syncs=True)
    assert disk.counts["writes refused"]
    assert disk.counts["writes cut short"]


def test_after_a_failed_sync_what_it_was_to_write_is_there_until_the_power_goes(tmp_path: Path) -> None:
    disk = disk_in(tmp_path)
    with disk.installed():
        append(tmp_path / "a.log", b"first", syncs=True)
        sync_path(str(tmp_path))
        disk.failing_syncs = 1
        with pytest.raises(OSError, match="Input/output error"):
            append(tmp_path / "a.log", b"second", syncs=True)
        append(tmp_path / "a.log", b"", syncs=True)
        assert (tmp_path / "a.log").read_bytes() == b"firstsecond"
        disk.power_cut()
    assert (tmp_path / "a.log").read_bytes() == b"first"


def test_a_rotten_bit_stays_rotten(tmp_path: Path) -> None:
    disk = disk_in(tmp_path)
    with disk.installed():
        append(tmp_path / "a.log", b"\0\0\0", syncs=True)
        sync_path(str(tmp_path))
        disk.rot("a.log", 1)
        assert (tmp_path / "a.log").read_bytes() == b"\0\1\0"
        disk.power_cut()
    assert (tmp_path / "a.log").read_bytes() == b"\0\1\0"


def test_the_calls_are_those_of_the_system_afterwards(tmp_path: Path) -> None:
    before = os.open, portable.datasync, portable.write_at
    with disk_in(tmp_path).installed():
        assert os.open != before[0]
        assert portable.datasync != before[1]
    assert (os.open, portable.datasync, portable.write_at) == before


def test_a_broker_on_files_stops_when_a_sync_fails_and_keeps_what_it_has_promised() -> None:
    world = MachineSimulation(3)
    promised: list[str] = []

    async def produce() -> None:
        async with Producer(bootstrap_servers=world.bootstrap, delivery_timeout_ms=120_000) as producer:
            for number in range(30):
                await producer.send_and_wait("t", str(number), partition=0)
                promised.append(str(number))

    async def main() -> None:
        await world.start()
        world.broker.parts.topics.create("t", 1, {})
        program = world.spawn("producer", produce)
        await asyncio.sleep(0.1)
        world.disk.failing_syncs = 1
        assert await world.nodes[0].has_ended(60)
        assert [type(each) for each in world.broker_failures] == [StorageError]
        world.nodes[0].cut_power()
        await world.start_broker()
        await program.task
        [log] = [each for each in world.broker.parts.storage.logs() if each.topic == "t"]
        assert log.log_end_offset >= len(promised) == 30

    world.run(main())
    assert world.disk.counts["syncs failed"] == 1
    assert not world.folder.exists()
