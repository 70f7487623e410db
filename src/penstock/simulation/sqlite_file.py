"""The catalog of a simulated machine: a SQLite file, written by SQLite, whose statements take time.

Between two statements the broker may be killed or the power be cut, in the middle of a change or of a migration. What
SQLite does with its files then is its own affair, and covered elsewhere (`tests/images`); here it keeps what it
promises. Whoever is killed leaves the last change that was committed. After a power cut the change under way is there
or not, as chance decides, and those before it are there: unless the catalog has told SQLite not to sync each of them.
"""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from penstock.catalog.sqlite import SqliteCatalog
from penstock.simulation.loop import SimulatedLoop
from penstock.simulation.strands import CannotWait, Wait

T = TypeVar("T")

_STEP_SECONDS = (0.00005, 0.004)
_SYNC_SECONDS = (0.0005, 0.012)
_LOST = 0.5
"""How often a power cut takes a change whose sync has not ended."""
_BESIDE = ("-wal", "-shm")


class CatalogFile:
    def __init__(self, loop: SimulatedLoop, chance: random.Random, path: Path, is_full: Callable[[], bool]) -> None:
        self.path = path
        self.counts: Counter[str] = Counter()
        """What happened to changes, by kind."""
        self.on_step: Callable[[], object] | None = None
        """Called before each statement of a change."""
        self._loop = loop
        self._chance = chance
        self._is_full = is_full
        self.connections: list[_Connection] = []
        """Those that are open."""
        self._before = b""
        """The file before the change under way."""
        self._unsynced: bytes | None = None
        """The file before the first change that a power cut may take."""
        self._outside: SqliteCatalog | None = None

    # -- what happens to it --------------------------------------------------------------------------------------------

    def process_died(self) -> None:
        """What was not committed is gone."""
        for connection in list(self.connections):
            self.counts["catalog changes cut off"] += connection.in_transaction
            connection.is_gone = True
            connection.close()

    def power_cut(self) -> None:
        self.process_died()
        if self._unsynced is not None and self._chance.random() < _LOST:
            self.counts["catalog changes lost"] += 1
            for each in _BESIDE:
                self.path.with_name(self.path.name + each).unlink(missing_ok=True)
            self.path.write_bytes(self._unsynced)
        self._unsynced = None

    # -- statements ----------------------------------------------------------------------------------------------------

    def carry_out(self, connection: _Connection, sql: str, work: Callable[[], T]) -> T:
        """Let SQLite carry out a statement, in its time."""
        verb, _, rest = sql.strip().partition(" ")
        if connection.is_gone and verb == "ROLLBACK":
            return cast("T", None)  # the world is over, and tidies up what was killed
        if verb in ("SELECT", "ROLLBACK") or (
            verb == "PRAGMA" and not rest.startswith(("user_version =", "application"))
        ):
            if rest.startswith("synchronous ="):
                connection.syncs = rest.endswith("FULL")
            return work()
        if self._is_full():
            self.counts["catalog changes refused"] += 1
            raise sqlite3.OperationalError("database or disk is full")
        is_alone = verb != "BEGIN" and not connection.in_transaction
        if verb == "BEGIN" or is_alone:
            self._before = connection.serialize()
        if self.on_step is not None:
            self.on_step()
        self._wait(_STEP_SECONDS)
        result = work()
        if verb == "COMMIT" or is_alone:
            self._committed(connection)
        return result

    def _committed(self, connection: _Connection) -> None:
        if self._unsynced is None:
            self._unsynced = self._before
        self._wait(_SYNC_SECONDS)
        self.counts["catalog changes"] += 1
        if connection.syncs:
            self._unsynced = None

    def _wait(self, seconds: tuple[float, float]) -> None:
        """Let time pass for the broker; whoever looks from outside has no time."""
        try:
            wait = Wait(self._loop.strands)
        except CannotWait:
            return
        wait.until_ended(self._chance.uniform(*seconds))

    # -- connections ---------------------------------------------------------------------------------------------------

    @property
    def outside(self) -> SqliteCatalog:
        """For whoever looks, or changes something, from outside, while no broker runs."""
        if self._outside is None:
            self._outside = SqliteCatalog.open(self.path)
        return self._outside

    def leave(self) -> None:
        """Nobody looks from outside any more."""
        if self._outside is not None:
            self._outside.close()
            self._outside = None

    @contextmanager
    def installed(self) -> Iterator[None]:
        """While it is, whoever opens the file waits as the world does."""
        connect = sqlite3.connect

        def connect_here(path: str | Path, **options: Any) -> sqlite3.Connection:
            connection: sqlite3.Connection
            if Path(path) != self.path:
                connection = connect(path, **options)
                return connection
            connection = connect(path, factory=_Connection, **options)
            assert isinstance(connection, _Connection)
            connection.file = self
            self.connections.append(connection)
            return connection

        sqlite3.connect = connect_here  # type: ignore[assignment]
        try:
            yield
        finally:
            sqlite3.connect = connect


class NamelessCatalog(SqliteCatalog):
    """Its folder has another name in each run, and errors are to be the same."""

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        super().__init__(connection, Path(path).name)


class _Connection(sqlite3.Connection):
    file: CatalogFile
    is_gone = False
    syncs = False

    @property
    def in_transaction(self) -> bool:
        return not self.is_gone and super().in_transaction

    def close(self) -> None:
        super().close()
        if self in self.file.connections:
            self.file.connections.remove(self)

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        return self.file.carry_out(self, sql, partial(super().execute, sql, parameters))

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
        return self.file.carry_out(self, sql, partial(super().executemany, sql, parameters))
