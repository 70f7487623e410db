"""A running broker's part in a backup: it fixes a moment, and gives the files of that moment a second name.

A command on the same machine requests it, through files in the folder `.penstock_backup` of the data folder, so whoever
may write to the data folder may back it up, and nothing listens for that:

    lock         locked by the command for as long as it works
    request      the name of a request; the broker sees it within a second
    moment/      the broker's answer: second names of all files, a copy of the catalog, and, written last, `moment.json`

When the lock is free the folder is what a command that was killed has left, and the broker removes it.

Only noting what each log holds happens in the event loop, and holds it up for about a microsecond for each partition.
A thread does the rest. Meanwhile no file of a log is removed or replaced; if the thread does not get ahead, that ends
after a minute, and the backup fails.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from penstock import portable
from penstock.broker.foundation import BACKUP_FOLDER
from penstock.catalog.contract import CatalogError
from penstock.storage.contract import StorageError
from penstock.storage.moment import CATALOG_COPY, LOCK_FILE, LOGS_FOLDER, MOMENT_FILE, MOMENT_FOLDER, REQUEST_FILE

if TYPE_CHECKING:
    import asyncio

    from penstock.broker.foundation import BackupSource, Pinned
    from penstock.broker.world import World
    from penstock.storage.moment import Moment

log = logging.getLogger("penstock.broker")

_HELD_SECONDS_MAX = 60.0


class _Taken(NamedTuple):
    request: str
    moment: Moment
    catalog: Pinned
    time_ms: int
    until: float
    """When the files may go, by the clock that never goes back."""


class Backups:
    def __init__(self, source: BackupSource, world: World) -> None:
        self._source = source
        self._world = world
        self._folder = source.data / BACKUP_FOLDER
        self._answered = ""
        self._working: asyncio.Future[str] | asyncio.Future[None] | None = None

    def look(self) -> None:
        """Called every second while there is a folder for a backup."""
        if self._working is not None and not self._working.done():
            return
        looking = self._world.in_thread(self._find_request)
        self._working = looking
        looking.add_done_callback(self._looked)

    def _find_request(self) -> str:
        """The name of a request that is not answered yet; without a command, remove what one has left."""
        if _is_abandoned(self._folder):
            return ""
        try:
            request = (self._folder / REQUEST_FILE).read_text()
        except OSError:
            return ""
        return "" if request == self._answered else request

    def _looked(self, looking: asyncio.Future[str]) -> None:
        if looking.cancelled():
            return
        failure = looking.exception()
        if failure is not None:
            log.error("cannot look for requests of backups: %s", failure)
        elif request := looking.result():
            self._answered = request
            self._take(request)

    def _take(self, request: str) -> None:
        began = self._world.precise()
        try:
            catalog = self._source.pin_catalog()
        except CatalogError as error:
            log.error("a backup could not be made: %s", error)
            answer: dict[str, object] = {"request": request, "failure": str(error)}
            self._working = self._world.in_thread(lambda: self._write(answer))
            return
        moment = self._source.fix_moment()
        held_up = self._world.precise() - began
        log.info("a backup begins; noting what it holds took %.1f ms", held_up * 1000)
        until = self._world.monotonic() + _HELD_SECONDS_MAX
        taken = _Taken(request, moment, catalog, self._world.now_ms(), until)
        linking = self._world.in_thread(lambda: self._answer(taken))
        self._working = linking
        too_late = self._world.call_later(_HELD_SECONDS_MAX, self._source.end_moment)

        def done(linked: asyncio.Future[None]) -> None:
            too_late.cancel()
            self._source.end_moment()
            if not linked.cancelled() and (failure := linked.exception()) is not None:
                log.error("a backup could not be made: %s", failure)

        linking.add_done_callback(done)

    def _answer(self, taken: _Taken) -> None:
        """In a thread. The command sees either all of the moment or why there is none."""
        answer: dict[str, object] = {"request": taken.request, "time_ms": taken.time_ms}
        target = self._folder / MOMENT_FOLDER
        try:
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir()
            taken.catalog.copy(target / CATALOG_COPY)
            states = taken.moment.link(target / LOGS_FOLDER, lambda: self._world.monotonic() < taken.until)
            answer["leader_epoch"] = taken.moment.leader_epoch
            answer["logs"] = [state.to_json() for state in states]
        except (StorageError, CatalogError, OSError) as error:
            log.error("a backup could not be made: %s", error)
            answer["failure"] = str(error)
        finally:
            taken.catalog.close()
        self._write(answer)

    def _write(self, answer: dict[str, object]) -> None:
        target = self._folder / MOMENT_FOLDER
        target.mkdir(exist_ok=True)
        unfinished = target / f"{MOMENT_FILE}.tmp"
        unfinished.write_text(json.dumps(answer))
        unfinished.rename(target / MOMENT_FILE)


def _is_abandoned(folder: Path) -> bool:
    """Whether no command works in the folder; then it is removed."""
    try:
        lock = os.open(folder / LOCK_FILE, os.O_RDWR | portable.OPEN_FLAGS)
    except FileNotFoundError:
        return True  # a command is about to begin, or to end
    try:
        portable.lock_file(lock)
    except OSError:
        return False
    else:
        shutil.rmtree(folder, ignore_errors=True)
        return True
    finally:
        os.close(lock)
