"""Brings the tails of many logs here at once, as whoever takes over from a broker needs them.

Extents of several logs lie in one object, since a commit gathers what all of them had appended: each object is read
once, in runs of neighboring extents, and each extent is written to its place in the file of its log. Extents that are
in the commit log are read page by page. Several reads are under way at a time, those for the first logs first, and a
log is opened and handed over as soon as its own tail is whole, whatever the others still wait for.

In memory there is one run for each thread, however long the tails are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from penstock.log.errors import StorageError
from penstock.log.files import SegmentFile, pwrite_all
from penstock.storage.objects.commit_log import CommitLog, Extent, Layout
from penstock.storage.objects.loading import (
    batches_from,
    check_dense,
    pages,
    prepare_folder,
    read_extents,
    read_page,
    straddling,
    tail_base,
    write_snapshot,
)
from penstock.storage.objects.log import ObjectLog
from penstock.storage.objects.store import ObjectStore
from penstock.threads import Threads

_READING_THREADS = 16
_OPENING_THREADS = 2
RUN_BYTES = 8 << 20
"""How much of an object is read at once, unless an extent is larger."""
_GAP_BYTES = 256 << 10
"""What lies between two extents is read with them if it is no more."""


class Loaded(NamedTuple):
    wanted: ObjectLog
    """The log that is to be led."""
    log: ObjectLog
    """What is committed of it."""
    extents: Sequence[Extent]
    """From which its tail was made."""


OnLoaded = Callable[[Loaded], None]
OnFailed = Callable[[ObjectLog, Exception], None]


@dataclass(slots=True, eq=False)
class _Tail:
    log: ObjectLog
    layout: Layout
    folder: Path
    done: OnLoaded
    failed: OnFailed
    path: str = ""
    outstanding: int = 0
    """Reads, and one for as long as they are not all known."""
    failure: Exception | None = None


@dataclass(slots=True)
class _Place:
    """Where an extent goes."""

    tail: _Tail
    extent: Extent
    position: int


@dataclass(slots=True)
class _Run:
    """Neighbouring extents of an object."""

    key: str
    start: int
    end: int
    places: list[_Place] = field(default_factory=list)


class TakeOver:
    """`open_log` makes a log of its folder; it and the other callbacks are called by threads."""

    def __init__(
        self,
        folder: Path,
        commits: CommitLog,
        store: ObjectStore,
        open_log: Callable[[ObjectLog, Layout], ObjectLog],
        threads: Threads,
    ) -> None:
        self._folder = folder
        self._commits = commits
        self._store = store
        self._open_log = open_log
        self._reading = threads.pool("penstock-load", _READING_THREADS)
        self._opening = threads.pool("penstock-open", _OPENING_THREADS)
        self._changed = threads.condition()
        self._is_closed = False

    def begin(self, logs: Sequence[tuple[ObjectLog, Layout]], done: OnLoaded, failed: OnFailed) -> None:
        """Have them loaded, the first ones first. `done` or `failed` is called for each."""
        tails = [
            _Tail(log, layout, self._folder / f"{log.topic}-{log.partition}", done, failed) for log, layout in logs
        ]
        places: dict[str, list[_Place]] = {}
        inline: list[tuple[_Tail, list[_Place]]] = []
        for tail, prepared in [(tail, self._reading.submit(self._prepare, tail)) for tail in tails]:
            position = prepared.result()
            for page in pages(_after_straddling(tail.layout)):
                placed = []
                for extent in page:
                    placed.append(_Place(tail, extent, position))
                    position += extent.size
                key = page[0].object_key
                if key is None:
                    inline.append((tail, placed))
                else:
                    places.setdefault(key, []).extend(placed)
        runs = [run for key, placed in places.items() for run in _runs(key, placed)]
        work: list[tuple[Collection[_Tail], Callable[[], None]]] = []
        work += [((tail,), partial(self._read_snapshot, tail)) for tail in tails if tail.layout.segments]
        work += [((tail,), partial(self._read_page, tail, placed)) for tail, placed in inline]
        work += [({place.tail: None for place in run.places}, partial(self._read_run, run)) for run in runs]
        order = {tail: number for number, tail in enumerate(tails)}
        work.sort(key=lambda each: min(order[tail] for tail in each[0]))
        with self._changed:
            for tails_of_it, _ in work:
                for tail in tails_of_it:
                    tail.outstanding += 1
        for tails_of_it, read in work:
            self._reading.submit(self._attempt, tails_of_it, read)
        for tail in tails:
            self._is_read(tail)

    def clear(self, free: Callable[[], None]) -> None:
        """Have the files of a log removed that is not led any more."""
        self._opening.submit(free)

    def give_up(self) -> None:
        """Read nothing more."""
        self._is_closed = True

    def close(self) -> None:
        """Wait for what is being read. `begin` is not called any more."""
        self.give_up()
        self._reading.shutdown(wait=True)
        self._opening.shutdown(wait=True)

    # In the threads that read

    def _prepare(self, tail: _Tail) -> int:
        """Make the folder. Returns where in the file the first extent goes that is not written yet."""
        tail.outstanding = 1
        layout = tail.layout
        try:
            if self._is_closed:
                raise StorageError("the broker stops")
            tail.path = prepare_folder(tail.folder, tail.log.topic_id, layout)
            check_dense(layout)
            first = straddling(layout)
            if first is None:
                return 0
            ((_, data),) = read_extents(tail.log.key, [first], self._commits, self._store)
            data = batches_from(data, tail_base(layout))
            _write(tail, data, 0)
            return len(data)
        except Exception as error:
            tail.failure = error
            return 0

    def _attempt(self, tails: Collection[_Tail], read: Callable[[], None]) -> None:
        failure: Exception | None = None
        try:
            if self._is_closed:
                raise StorageError("the broker stops")
            if not all(tail.failure for tail in tails):
                read()
        except Exception as error:
            failure = error
        for tail in tails:
            self._is_read(tail, failure)

    def _read_snapshot(self, tail: _Tail) -> None:
        write_snapshot(tail.folder, tail.layout.segments[-1], self._store)

    def _read_page(self, tail: _Tail, placed: Sequence[_Place]) -> None:
        page = [place.extent for place in placed]
        data = b"".join(data for _, data in read_page(tail.log.key, page, self._commits))
        _write(tail, data, placed[0].position)

    def _read_run(self, run: _Run) -> None:
        data = memoryview(self._store.get(run.key, run.start, run.end - run.start))
        for place in run.places:
            start = place.extent.position - run.start
            if place.tail.failure is None:
                _write(place.tail, data[start : start + place.extent.size], place.position)

    def _is_read(self, tail: _Tail, failure: Exception | None = None) -> None:
        with self._changed:
            tail.failure = tail.failure or failure
            tail.outstanding -= 1
            if tail.outstanding:
                return
        self._opening.submit(self._finish, tail)

    # In the threads that open logs

    def _finish(self, tail: _Tail) -> None:
        try:
            if tail.failure is not None:
                raise tail.failure
            loaded = self._open_log(tail.log, tail.layout)
        except Exception as error:
            tail.failed(tail.log, error)
        else:
            tail.done(Loaded(tail.log, loaded, tail.layout.extents))


def _after_straddling(layout: Layout) -> list[Extent]:
    return layout.extents[1:] if straddling(layout) is not None else layout.extents


def _runs(key: str, places: list[_Place]) -> list[_Run]:
    runs: list[_Run] = []
    for place in sorted(places, key=lambda each: each.extent.position):
        start, end = place.extent.position, place.extent.position + place.extent.size
        run = runs[-1] if runs else None
        if run is None or start - run.end > _GAP_BYTES or end - run.start > RUN_BYTES:
            run = _Run(key, start, end)
            runs.append(run)
        run.places.append(place)
        run.end = max(run.end, end)
    return runs


def _write(tail: _Tail, data: bytes | memoryview, position: int) -> None:
    file = SegmentFile(tail.path)  # held until the bytes are written
    pwrite_all(file.fd, data, position)
