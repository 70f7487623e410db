"""A running broker's part in a backup: it answers a request once, with a whole moment or with the reason."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from penstock import portable
from penstock.broker.backups import Backups
from penstock.broker.foundation import BACKUP_FOLDER, BackupSource
from penstock.broker.world import LoopWorld
from penstock.catalog.contract import CatalogError
from penstock.catalog.sqlite import SqliteCatalog
from penstock.storage.moment import CATALOG_COPY, LOCK_FILE, MOMENT_FILE, MOMENT_FOLDER, REQUEST_FILE, linked_path
from tests.storage.test_moment import some_segments

WAIT_SECONDS = 30


def run(data: Path, work: Callable[[BackupSource, Backups], Awaitable[None]]) -> None:
    storage, _ = some_segments(data)
    catalog = SqliteCatalog.open(data / "catalog.sqlite")
    source = BackupSource(data, storage.fix_moment, storage.end_moment, catalog.pin)

    async def main() -> None:
        await work(source, Backups(source, LoopWorld(asyncio.get_running_loop())))

    asyncio.run(main())
    catalog.close()


async def until(backups: Backups, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        backups.look()
        await asyncio.sleep(0.01)


def request(data: Path, name: str) -> int:
    """As the command does. Returns its lock."""
    folder = data / BACKUP_FOLDER
    folder.mkdir(exist_ok=True)
    lock = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT)
    portable.lock_file(lock)
    (folder / REQUEST_FILE).write_text(name)
    return lock


def test_a_request_is_answered_with_second_names_of_all_files_and_a_copy_of_the_catalog(tmp_path: Path) -> None:
    moment = tmp_path / "data" / BACKUP_FOLDER / MOMENT_FOLDER

    async def work(source: BackupSource, backups: Backups) -> None:
        lock = request(tmp_path / "data", "one")
        await until(backups, (moment / MOMENT_FILE).exists)
        answer = json.loads((moment / MOMENT_FILE).read_text())
        assert answer["request"] == "one"
        (log,) = answer["logs"]
        assert all(linked_path(moment / "logs", "t-0", name).exists() for name, size in log["files"].items() if size)
        SqliteCatalog.open(moment / CATALOG_COPY).close()
        os.unlink(moment / MOMENT_FILE)
        await until(backups, lambda: backups._working is not None and backups._working.done())
        assert not (moment / MOMENT_FILE).exists()  # it is answered once
        os.close(lock)

    run(tmp_path / "data", work)


def test_what_a_command_that_was_killed_has_left_is_removed(tmp_path: Path) -> None:
    async def work(source: BackupSource, backups: Backups) -> None:
        os.close(request(tmp_path / "data", "abandoned"))
        (tmp_path / "data" / BACKUP_FOLDER / MOMENT_FOLDER).mkdir()
        await until(backups, lambda: not (tmp_path / "data" / BACKUP_FOLDER).exists())

    run(tmp_path / "data", work)


def test_the_command_is_told_why_there_is_no_moment(tmp_path: Path) -> None:
    answer = tmp_path / "data" / BACKUP_FOLDER / MOMENT_FOLDER / MOMENT_FILE

    async def work(source: BackupSource, backups: Backups) -> None:
        def refuse() -> None:
            raise CatalogError("the disk is gone")

        source.pin_catalog = refuse  # type: ignore[assignment]
        lock = request(tmp_path / "data", "one")
        await until(backups, answer.exists)
        assert json.loads(answer.read_text()) == {"request": "one", "failure": "the disk is gone"}
        os.close(lock)

    run(tmp_path / "data", work)
