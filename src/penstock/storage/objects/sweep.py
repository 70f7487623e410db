"""Removes objects that nothing names: in two steps those that were named once, after a while those that never were.

An object is *marked* when the last extent or segment that named it is gone, and removed when that is longer ago than
any reader's knowledge of it. An upload whose commit never came is known by its key, which tells its writer: only those
of writers that are fenced, or of this process itself, are removed, and only when they are old. They are looked for
again and again, because an upload that was given up may still arrive.

Only what is the cluster's own is removed: objects of the cluster whose backup this one was made from are forgotten
when nothing names them any more, and stay where they are.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from penstock.storage.objects.commit_log import CommitLog
from penstock.storage.objects.key_space import KeySpace
from penstock.storage.objects.store import ObjectStore

logger = logging.getLogger("penstock.storage")


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
    """How often they are looked for."""


class Sweep:
    def __init__(
        self,
        commits: CommitLog,
        store: ObjectStore,
        writer: Writer,
        in_flight: Callable[[], Collection[str]],
        settings: SweepSettings,
        keys: KeySpace | None = None,
    ) -> None:
        """`keys` are those of the writer's cluster; without them it has no others than the writer's."""
        self._keys = keys if keys is not None else KeySpace(writer.prefix)
        self._commits = commits
        self._store = store
        self.writer = writer
        self._in_flight = in_flight
        self._settings = settings
        self._list_at = 0.0
        self.removed = 0
        self.orphans = 0

    def run(self) -> None:
        """One round. Raises StorageError; the next round goes on where this one ended."""
        self._commits.forget_deleted()
        self._commits.mark_unreferenced()
        due = self._commits.marked(self._settings.grace_seconds)
        if due:
            owned = [key for key in due if self._keys.owns(key)]
            self._store.delete(owned)
            self._commits.forget_objects(due)
            self.removed += len(owned)
        if time.monotonic() >= self._list_at:
            self._list_at = time.monotonic() + self._settings.list_seconds
            self._remove_orphans()

    def _remove_orphans(self) -> None:
        found = {
            each.key
            for prefix in self._keys.prefixes
            for each in self._store.list(prefix + "/")
            if each.age_seconds >= self._settings.orphan_seconds and self._keys.owns(each.key)
        }
        if not found:
            return
        in_flight = self._in_flight()  # before the commit log is read: what is committed leaves it afterwards
        known = self._commits.known_objects()
        epochs = self._commits.broker_epochs()
        orphans = [
            key
            for key in sorted(found)
            if key not in known
            and key not in in_flight
            and (self._keys.is_of_earlier(key) or may_be_removed(key, self.writer, epochs))
        ]
        if orphans:
            logger.info("removing %d objects whose commit never came", len(orphans))
            self._store.delete(orphans)
            self.orphans += len(orphans)


def may_be_removed(key: str, writer: Writer, broker_epochs: object) -> bool:
    """Whether no commit of this key can come any more, but for one of this process."""
    parts = key.removeprefix(writer.prefix + "/").split("/")
    if len(parts) < 3:
        return False
    node, _, rest = parts[1].partition("-")
    epoch, _, incarnation = rest.partition("-")
    if not node.isdigit() or not epoch.isdigit():
        return False
    if int(node) == writer.node_id:
        return incarnation == writer.incarnation or int(epoch) <= writer.broker_epoch
    assert isinstance(broker_epochs, dict)
    current = broker_epochs.get(int(node))
    return current is None or current > int(epoch)
