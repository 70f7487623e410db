"""Removes objects that nothing names: in two steps those that were named once, after a while those that never were.

An object is *marked* when the last extent or segment that named it is gone, and removed when that is longer ago than
any reader's knowledge of it. One broker at a time does it for the cluster: whoever takes the next turn, which ends by
itself, so that a broker that is stopped holds nobody up.

**Orphans** are uploads whose commit never came. A broker knows its own: it dooms them, and removes them when they are
so old that no repeated request can bring them back. Those of a broker that died are known by their keys, which begin
with the name of their writer. Below a writer's name the store is listed once that writer is fenced, again and again for
a day, because an upload that was given up may still arrive, and then never more. So a cluster in which no broker has
died lists nothing but the names of the writers.

Only what is the cluster's own is removed: objects of the cluster whose backup this one was made from are forgotten
when nothing names them any more, and stay where they are.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from penstock.log.errors import StorageError
from penstock.storage.objects.commit_log import CommitLog, FencedWriter
from penstock.storage.objects.key_space import KINDS, KeySpace
from penstock.storage.objects.store import ObjectStore
from penstock.threads import THREADS, Thread, Threads

logger = logging.getLogger("penstock.storage")

_TURN = "sweep"
_KEYS_AT_A_TIME = 1000
_NAMES_SECONDS = 3600.0
"""How often writers are looked for although no broker has come or gone."""


@dataclass(frozen=True, slots=True)
class Writer:
    """Who makes objects: keys of two writers never meet, not even after a restored backup."""

    prefix: str
    """Of the cluster."""
    node_id: int
    broker_epoch: int
    incarnation: str

    @property
    def name(self) -> str:
        return f"{self.node_id}-{self.broker_epoch}-{self.incarnation}"

    def key(self, kind: str, name: str) -> str:
        return f"{self.prefix}/{kind}/{self.name}/{name}"


@dataclass(frozen=True, slots=True)
class SweepSettings:
    grace_seconds: float = 120.0
    """Between marking an object and removing it."""
    orphan_seconds: float = 300.0
    """How old an object that was never named must be."""
    list_seconds: float = 120.0
    """How often the objects of a fenced writer are listed at first; more and more rarely as time goes by."""
    watch_seconds: float = 24 * 3600.0
    """For how long they are."""
    round_seconds: float = 30.0
    """Between two rounds, while there is something to do, or to wait for."""
    idle_seconds: float = 300.0
    """The same while there is not."""


class Sweep:
    """`doom` and `note_work` may be called by any thread."""

    def __init__(
        self,
        commits: CommitLog,
        store: ObjectStore,
        writer: Writer,
        settings: SweepSettings,
        keys: KeySpace | None = None,
        threads: Threads = THREADS,
    ) -> None:
        """`keys` are those of the writer's cluster; without them it has no others than the writer's."""
        self._keys = keys if keys is not None else KeySpace(writer.prefix)
        self._commits = commits
        self._store = store
        self.writer = writer
        self._settings = settings
        self._doomed: deque[tuple[str, float]] = deque()
        self._epochs: Mapping[int, int] | None = None
        self._named_at = 0.0
        self._threads = threads
        self._changed = threads.condition()
        self._has_work = self._closing = False
        self._thread: Thread | None = None
        self.removed = 0
        self.orphans = 0

    def start(self) -> None:
        self._thread = self._threads.start("penstock-sweep", self._run)

    def doom(self, key: str) -> None:
        """An object that this broker may have stored, and will not commit."""
        self._doomed.append((key, time.monotonic()))
        with self._changed:
            self._changed.notify_all()

    def note_work(self) -> None:
        """Something has been committed after which objects may be without a name."""
        if not self._has_work:
            with self._changed:
                self._has_work = True
                self._changed.notify_all()

    def close(self, timeout_seconds: float) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout_seconds)

    def _run(self) -> None:
        settings = self._settings
        pause = settings.round_seconds
        while True:
            began = time.monotonic()
            with self._changed:
                while not self._closing:
                    is_awaited = self._has_work or self._doomed
                    left = began + (settings.round_seconds if is_awaited else pause) - time.monotonic()
                    if left <= 0:
                        break
                    self._changed.wait(left)
                if self._closing:
                    return
            pause = settings.round_seconds
            try:
                pause = self.run()
            except StorageError as error:
                logger.warning("cannot search for orphaned objects: %s", error)
            except Exception:
                logger.exception("the search for orphaned objects failed")

    def run(self) -> float:
        """One round. Returns after how many seconds the next one has something to do, as far as is known.

        Raises StorageError; the next round goes on where this one ended.
        """
        settings = self._settings
        self._remove_doomed()
        if not self._commits.take_turn(_TURN, 0.9 * settings.round_seconds):
            return settings.idle_seconds  # unless work was noted, perhaps too late for whoever has the turn
        self._has_work = False
        self._commits.forget_deleted()
        self._commits.mark_unreferenced()
        while due := self._commits.marked(settings.grace_seconds):
            owned = [key for key in due if self._keys.owns(key)]
            self._store.delete(owned)
            self._commits.forget_objects(due)
            self.removed += len(owned)
        pause = self._sweep_writers()
        if self._commits.marked(0.0):
            pause = settings.round_seconds
        return min(max(pause, settings.round_seconds), settings.idle_seconds)

    # Orphans

    def _remove_doomed(self) -> None:
        until = time.monotonic() - self._settings.orphan_seconds
        due = []
        while self._doomed and self._doomed[0][1] <= until:
            due.append(self._doomed.popleft())
        try:
            self._remove([key for key, _ in due])
        except StorageError:
            self._doomed.extendleft(reversed(due))
            raise

    def _sweep_writers(self) -> float:
        """List what fenced writers have left, if it is due. Returns how long nothing of it is due."""
        writers = self._fenced_writers()
        pauses = [self._settings.idle_seconds]
        for folder, writer in writers.items():
            if writer.is_done:
                continue
            pause = self._pause(writer)
            if pause <= 0:
                is_clean = self._sweep_folder(folder)
                self._commits.note_listed(folder, is_clean and writer.age_seconds >= self._settings.watch_seconds)
                pause = self._settings.list_seconds
            pauses.append(pause)
        return min(pauses)

    def _pause(self, writer: FencedWriter) -> float:
        """How long a writer's objects need not be listed."""
        if writer.listed_seconds_ago is None:
            return 0.0
        return max(self._settings.list_seconds, writer.age_seconds / 4) - writer.listed_seconds_ago

    def _fenced_writers(self) -> Mapping[str, FencedWriter]:
        """By the folders of their objects."""
        epochs = self._commits.broker_epochs()
        known = self._commits.fenced_writers()
        if epochs == self._epochs and time.monotonic() - self._named_at < _NAMES_SECONDS:
            return known
        folders = {
            f"{prefix}/{kind}/{name}/": name
            for prefix in self._keys.prefixes
            for kind in KINDS
            for name in self._store.folders(f"{prefix}/{kind}/")
        }
        fenced = [
            folder
            for folder, name in folders.items()
            if not folder.startswith(self.writer.prefix + "/") or is_fenced(name, self.writer, epochs)
        ]
        self._commits.note_fenced([folder for folder in fenced if folder not in known])
        gone = [folder for folder, writer in known.items() if writer.is_done and folder not in folders]
        self._commits.forget_writers(gone)
        self._epochs, self._named_at = epochs, time.monotonic()
        return self._commits.fenced_writers()

    def _sweep_folder(self, folder: str) -> bool:
        """Remove the orphans below it. Returns whether no object is left there whose commit never came."""
        listed = self._store.list(folder)
        is_clean = True
        while some := list(islice(listed, _KEYS_AT_A_TIME)):
            unknown = self._unknown(each.key for each in some)
            orphans = [
                each.key for each in some if each.key in unknown and each.age_seconds >= self._settings.orphan_seconds
            ]
            is_clean = is_clean and len(orphans) == len(unknown)
            self._remove(orphans)
        return is_clean

    def _remove(self, keys: Collection[str]) -> None:
        waiting = iter(keys)
        while some := list(islice(waiting, _KEYS_AT_A_TIME)):
            orphans = sorted(self._unknown(some))
            if orphans:
                logger.info("removing %d orphaned objects", len(orphans))
                self._store.delete(orphans)
                self.orphans += len(orphans)

    def _unknown(self, keys: Iterable[str]) -> set[str]:
        wanted = set(keys)
        return wanted - self._commits.known_among(wanted)


def is_fenced(name: str, writer: Writer, broker_epochs: Mapping[int, int]) -> bool:
    """Whether no commit of a writer with this name can come any more."""
    node, _, rest = name.partition("-")
    epoch, _, _ = rest.partition("-")
    if not node.isdigit() or not epoch.isdigit() or name == writer.name:
        return False
    if int(node) == writer.node_id:
        return int(epoch) <= writer.broker_epoch
    current = broker_epochs.get(int(node))
    return current is None or current > int(epoch)
